from __future__ import annotations

import gc
import mmap
import os
import weakref
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.store.files import count_read, limit_resident, resident
from genolewm_assets_tests.referees.resident_pages import resident_bytes

FILE_BYTES, FILES = 32 << 20, 3
KEPT_BYTES, UNSEEN_BYTES = 4 << 20, 1 << 20
#: The count of a process is exact but for the pages that its processors have not reported yet.
UNREPORTED_BYTES = 1 << 20

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident pages are known on Linux only"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write three files of 32 MiB, whose pages are in the page cache."""
    folder = tmp_path_factory.mktemp("mapped")
    paths = [folder / str(number) for number in range(FILES)]
    for path in paths:
        path.write_bytes(os.urandom(1 << 20) * (FILE_BYTES >> 20))
    return paths


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let maps keep 4 MiB, whatever else is resident."""
    monkeypatch.setattr(resident, "LEAST_BYTES", KEPT_BYTES)
    monkeypatch.setattr(resident, "_UNSEEN_BYTES", UNSEEN_BYTES)
    monkeypatch.setenv(resident.SETTING, "0")
    gc.collect()
    monkeypatch.setattr(resident._Maps, "in_use", weakref.WeakKeyDictionary())


def mapped_file(path: Path, *, again: bool = True) -> mmap.mmap:
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    limit_resident(mapped, again=again)
    return mapped


def largest_while_reading(files: list[Path], maps: list[mmap.mmap]) -> int:
    """Read and count a byte of each map at 4,096 places, and return the most that was resident."""
    expected, found = [path.read_bytes() for path in files], []
    for number, place in enumerate(np.random.default_rng(1).integers(FILE_BYTES, size=4_096).tolist()):
        count_read(len(maps), len(maps))
        assert [mapped[place] for mapped in maps] == [data[place] for data in expected]
        if number % 64 == 0:
            found.append(resident_bytes(files))
    return max(found)


@pytest.mark.usefixtures("small_limit")
def test_all_maps_together_stay_below_the_limit(files: list[Path]) -> None:
    maps = [mapped_file(path) for path in files]
    assert KEPT_BYTES / 2 < largest_while_reading(files, maps) <= KEPT_BYTES + UNSEEN_BYTES + UNREPORTED_BYTES


@pytest.mark.usefixtures("small_limit")
def test_a_forked_process_keeps_to_the_limit_of_its_own(files: list[Path]) -> None:
    maps = [mapped_file(path) for path in files]
    largest_while_reading(files, maps)
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        os.write(send, str(largest_while_reading(files, maps)).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    # What the child has mapped of its libraries since the fork counts too.
    assert KEPT_BYTES / 4 < int(os.read(receive, 100)) <= KEPT_BYTES + UNSEEN_BYTES + UNREPORTED_BYTES


@pytest.mark.usefixtures("small_limit")
def test_a_process_may_be_allowed_more(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resident.SETTING, f"{4 << 30}")
    assert largest_while_reading(files, [mapped_file(path) for path in files]) > 4 * KEPT_BYTES


@pytest.mark.usefixtures("small_limit")
def test_a_limit_that_is_no_number_is_refused(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resident.SETTING, "300M")
    with pytest.raises(ConfigurationError, match=r"GENOLEWM_RESIDENT_BYTES: not a size: expected bytes.*got '300M'"):
        mapped_file(files[0])


@pytest.mark.usefixtures("small_limit")
def test_what_is_read_again_is_given_back_last(files: list[Path]) -> None:
    last, first = mapped_file(files[0], again=True), mapped_file(files[1], again=False)
    read = [last[: KEPT_BYTES // 2 : 4_096], first[:KEPT_BYTES:4_096]]
    assert resident_bytes(files[:1]) >= KEPT_BYTES // 2
    assert resident_bytes(files[1:2]) >= KEPT_BYTES
    assert [len(part) for part in read] == [KEPT_BYTES >> 13, KEPT_BYTES >> 12]
    count_read(UNSEEN_BYTES, 0)
    assert resident_bytes(files[:1]) >= KEPT_BYTES // 2
    assert resident_bytes(files[1:2]) == 0


@pytest.mark.usefixtures("small_limit")
def test_a_system_that_does_not_say_what_is_resident(
    files: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resident, "_STATM", tmp_path / "statm")
    assert largest_while_reading(files, [mapped_file(path) for path in files]) > 4 * KEPT_BYTES


@pytest.mark.usefixtures("small_limit")
def test_maps_that_are_dropped_are_forgotten(files: list[Path]) -> None:
    maps = [mapped_file(path) for path in files]
    assert len(resident._Maps.in_use) == FILES
    maps.clear()
    assert len(resident._Maps.in_use) == 0
