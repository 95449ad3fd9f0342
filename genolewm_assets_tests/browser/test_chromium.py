"""Without a browser its tests are skipped with a reason, and fail where it is required."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets_tests.servers.chromium import require_chromium


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CHROMIUM", "CI", "GENOLEWM_REQUIRE_BROWSER"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_browser_the_test_is_skipped_with_the_reason() -> None:
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium"):
        require_chromium()


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("GENOLEWM_REQUIRE_BROWSER", "1")])
def test_where_a_browser_is_required_its_absence_fails(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        require_chromium()


def test_the_browser_may_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "my-chromium"
    program.touch(mode=0o755)
    monkeypatch.setenv("CHROMIUM", str(program))
    assert require_chromium() == str(program)
