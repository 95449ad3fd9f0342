"""What counts as the user's own, and where it lies if others can write the cache folder; compiled loops among it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest

from genolewm_assets.own_caches import compiled, is_own, own_cache
from genolewm_assets.own_caches import folders as folders_module
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.rows import each_row


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GENOLEWM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@each_row(("mode", "own"), [(0o700, True), (0o755, True), (0o775, False), (0o757, False), (0o1777, False)])
def test_who_can_write(tmp_path: Path, mode: int, own: bool) -> None:
    tmp_path.chmod(mode)
    assert is_own(tmp_path) is own


def test_a_link_a_missing_file_and_what_is_anothers_are_not_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert [is_own(tmp_path / name) for name in ("", "link", "none")] == [True, False, False]
    monkeypatch.setattr(folders_module.os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert not is_own(tmp_path)


def test_a_cache_folder_that_others_can_write_has_one_of_each_user(cache: Path) -> None:
    assert own_cache("a", "b") == cache / "a/b"
    assert {path.stat().st_mode & 0o777 for path in (cache, cache / "a", cache / "a/b")} == {0o700}
    (cache / "a").chmod(0o707)
    own = own_cache("a", "b")
    assert own.is_relative_to(cache)
    assert own != cache / "a/b"
    assert own_cache("c") == cache / "c"
    cache.chmod(0o1777)
    assert own_cache("c") == own.parents[1] / "c"
    own.parents[1].chmod(0o777)
    with pytest.raises(PermissionError, match="others can write it"):
        own_cache("c")


def function_of(module: Path) -> Callable[..., Any]:
    """Return a function of a module in a file, which is imported anew."""
    module.write_text("def double(number):\n    return 2 * number\n")
    spec = importlib.util.spec_from_file_location("double", module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    found: Callable[..., Any] = loaded.double
    return found


@pytest.mark.parametrize("place", ["numba", "__pycache__"])
def test_compiled_loops_lie_where_nobody_else_can_write(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    function: Any = function_of(tmp_path / "double.py")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "" if place == "__pycache__" else str(tmp_path / place))

    def kept_in() -> Path:
        return Path(compiled(nogil=True)(function).stats.cache_path)

    usual = kept_in()
    assert usual.is_relative_to(tmp_path / place)
    (usual / "double.nbi").touch(0o644)
    assert kept_in() == usual
    usual.chmod(0o777)
    assert kept_in().is_relative_to(cache / "kernels")
    usual.chmod(0o755)
    assert kept_in() == usual
    if place == "numba":
        (usual / "double.nbi").chmod(0o666)
        assert kept_in().is_relative_to(cache / "kernels")
    usual.chmod(0o777)
    monkeypatch.setenv("GENOLEWM_CACHE", str(tmp_path / "double.py"))
    kept: Any = compiled(nogil=True)(function)
    assert (kept.stats.cache_path, kept(21)) == (None, 42)


def test_deployments_name_no_folder_below_the_temporary_one() -> None:
    texts = {path: path.read_text() for path in (REPOSITORY / "deploy").rglob("*") if path.is_file()}
    assert [
        path.name for path, text in texts.items() if re.search(r"/tmp/\w|: /tmp$|HOME, value: /tmp\b", text, re.M)
    ] == []
