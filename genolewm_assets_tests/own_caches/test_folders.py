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
    assert not own_cache("c").is_relative_to(cache)


def test_without_a_cache_folder_a_temporary_one_of_the_user_is_taken_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GENOLEWM_CACHE", "/proc/nowhere/cache")
    monkeypatch.setattr(folders_module.tempfile, "gettempdir", lambda: str(tmp_path))
    # Neither beside the module nor in the user's cache folder can numba write.
    caching: Any = numba.core.caching
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [caching.UserProvidedCacheLocator])
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    folders_module._say_once.cache_clear()
    kept: list[Any] = [compiled(nogil=True)(function_of(tmp_path / f"{name}.py")) for name in ("one", "two")]
    assert [function(4) for function in kept] == [8, 8]
    place = own_cache("kernels")
    assert place.parent.parent == tmp_path
    assert all(Path(function.stats.cache_path).is_relative_to(place) for function in kept)
    assert {path.stat().st_mode & 0o777 for path in (place, place.parent)} == {0o700}
    assert [record.message.startswith("/proc/nowhere/cache cannot be written") for record in caplog.records] == [True]
    place.parent.chmod(0o777)
    with pytest.raises(PermissionError, match="others can write it"):
        own_cache("kernels")
    nowhere: Any = compiled(nogil=True)(function_of(tmp_path / "three.py"))
    assert (nowhere.stats.cache_path, nowhere(4)) == (None, 8)


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


def test_deployments_name_no_folder_below_the_temporary_one() -> None:
    texts = {path: path.read_text() for path in (REPOSITORY / "deploy").rglob("*") if path.is_file()}
    assert [
        path.name for path, text in texts.items() if re.search(r"/tmp/\w|: /tmp$|HOME, value: /tmp\b", text, re.M)
    ] == []
