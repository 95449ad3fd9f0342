"""A disk that refuses, a directory that vanishes under a writer: a clear error of the house, committed rows kept."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from genolewm_assets.errors import GenoLeWMError, ResourceError
from genolewm_assets.store import is_complete
from genolewm_assets.store.artefacts.build import BuildReport, build
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.faults import file_layer
from genolewm_assets_tests.faults.file_layer import SYNC_CALLS, Call
from genolewm_assets_tests.faults.small_disk import SmallDisk, on_small_disk
from genolewm_assets_tests.worlds.store.array_stores import FINGERPRINT, contents, open_writer, write_rows
from genolewm_assets_tests.worlds.store.interrupted_store import ROWS, check_prefix, write_store
from genolewm_assets_tests.worlds.store.plans import LOCATION, make_plan, new_root

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("no_syncs")]


def error_of(action: Callable[[], object], at_call: file_layer.AtCall) -> Exception | None:
    """Run an action under a fault-injecting file layer; return its error."""
    with pytest.MonkeyPatch.context() as patch:
        file_layer.install(patch, at_call)
        try:
            action()
        except Exception as err:  # noqa: BLE001 - what came is what the tests look at
            return err
    return None


def failing(
    action: Callable[[], object], *, at: int, code: int, lasting: bool, spared: frozenset[str] = frozenset()
) -> BaseException | None:
    """Run an action whose call number ``at`` fails, and all after it if that lasts; return its error.

    Of a write that fails, a part is done. None if the action had fewer calls, and succeeded.
    """
    draw, calls, failed = random.Random(at), 0, []

    def at_call(call: Call) -> bool:
        nonlocal calls
        # To make a folder that is there is refused anyhow, and taken for done.
        idle = call.name == "mkdir" and Path(call.target).is_dir()
        if idle or call.name in spared or (code == errno.ENOSPC and not call.needs_room):
            return False
        calls += 1
        if calls - 1 < at or (calls - 1 > at and not lasting):
            return False
        failed.append(call)
        if call.write_part is not None:
            call.write_part(draw.choice([0, draw.randint(0, call.size_bytes)]))
        raise call.refusal(code)

    if (err := error_of(action, at_call)) is not None:
        return err
    assert calls <= at, f"the failure of {failed[0]} was passed over in silence"
    return None


FAULTS = {
    "full": (errno.ENOSPC, True),
    "full for a moment": (errno.ENOSPC, False),
    "failing": (errno.EIO, False),
    "read-only": (errno.EROFS, True),
}
# Those that are not but a part of another.
REFUSALS = ("full", "failing", "read-only")


@pytest.mark.parametrize(("code", "lasting"), FAULTS.values(), ids=FAULTS)
def test_a_disk_that_refuses_any_call(
    tmp_path: Path, undisturbed: dict[str, bytes], code: int, *, lasting: bool
) -> None:
    for number in range(200):
        directory, committed = tmp_path / str(number), [0]

        def write() -> None:
            with open_writer(directory) as writer:  # noqa: B023 - runs at once
                for first in range(0, ROWS, 3):
                    write_rows(writer, first, min(first + 3, ROWS))
                    committed[0] = writer.n_rows // 8 * 8  # noqa: B023
                writer.finalize(FINGERPRINT)

        err = failing(write, at=number, code=code, lasting=lasting)
        if err is None:
            break
        assert isinstance(err, ResourceError), repr(err)
        assert os.strerror(code) in str(err)
        rows = check_prefix(directory)
        assert rows >= committed[0]
        write_store(directory)
        assert contents(directory) == undisturbed, f"after the failure of call {number}"
    assert 60 < number < 199


def test_a_record_whose_sync_failed_does_not_count(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """After EIO the cache may show what the disk does not hold, and the next sync says nothing of it (fsync(2))."""
    for number in range(40):
        directory, synced = tmp_path / str(number), b""
        calls = 0

        def at_call(call: Call) -> bool:
            nonlocal calls, synced
            if call.name in SYNC_CALLS and Path(os.readlink(f"/proc/self/fd/{call.target}")).name == "manifest.jsonl":  # noqa: PTH115
                calls += 1
                if calls == number + 1:  # noqa: B023
                    raise call.refusal(errno.EIO)
                synced = (directory / "manifest.jsonl").read_bytes()  # noqa: B023
            return False

        with pytest.MonkeyPatch.context() as patch:
            file_layer.install(patch, at_call)
            try:
                write_store(directory)
            except ResourceError as err:
                assert os.strerror(errno.EIO) in str(err)
            else:
                break
        left = (directory / "manifest.jsonl").read_bytes() if (directory / "manifest.jsonl").exists() else b""
        assert synced.startswith(left) or left.count(b'"rows":') == 0
        write_store(directory)
        assert contents(directory) == undisturbed
    assert number >= 3


@pytest.mark.parametrize(("code", "lasting"), [FAULTS[name] for name in REFUSALS], ids=REFUSALS)
def test_a_build_on_a_disk_that_refuses_any_call_goes_on(tmp_path: Path, code: int, *, lasting: bool) -> None:
    resumed: list[int] = []
    committed = [0]

    def write(directory: Path) -> BuildReport:
        with open_writer(directory) as writer:
            resumed.append(writer.n_rows)
            if not is_complete(directory):
                for first in range(writer.n_rows, ROWS, 3):
                    write_rows(writer, first, min(first + 3, ROWS))
                    committed[0] = writer.n_rows // 8 * 8
                writer.commit()
            committed[0] = ROWS
            writer.finalize(FINGERPRINT)
        return BuildReport({"rows": ROWS}, {"index.parquet": ROWS})

    old, new = (replace(make_plan(code_version=v), write=write, resumable=True) for v in ("old", "new"))
    undisturbed = new_root(tmp_path / "undisturbed")
    build(undisturbed, old)
    shutil.copytree(undisturbed.path, tmp_path / "old", symlinks=True)
    build(undisturbed, new)
    for number in range(400):
        root = Root(Path(shutil.copytree(tmp_path / "old", tmp_path / str(number), symlinks=True)), lock_wait_s=0)
        committed[0] = 0
        err = failing(lambda: build(root, new), at=number, code=code, lasting=lasting)  # noqa: B023
        if err is None:
            break
        assert isinstance(err, ResourceError), repr(err)
        assert os.strerror(code) in str(err)
        assert not root.is_rejected(LOCATION)
        assert not any(finding.is_fault for finding in verify_root(root))
        kept, resumed[:] = committed[0], []
        build(root, new)
        assert (resumed or [ROWS])[0] >= kept, f"the failure of call {number} cost committed rows"
        shutil.rmtree(root.path)
    assert 100 < number < 399


@pytest.mark.parametrize(("code", "lasting"), FAULTS.values(), ids=FAULTS)
def test_a_new_root_on_a_disk_that_refuses_any_call(tmp_path: Path, code: int, *, lasting: bool) -> None:
    for number in range(200):
        root = Root(tmp_path / str(number) / "root", lock_wait_s=0)
        err = failing(lambda: root.claim("sample", "a" * 64), at=number, code=code, lasting=lasting)  # noqa: B023
        if err is None:
            break
        assert isinstance(err, ResourceError), repr(err)
        assert os.strerror(code) in str(err)
        root.claim("sample", "a" * 64)
    assert 30 < number < 199


def test_a_small_disk_that_is_full_or_read_only(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """The real thing: what the kernel refuses, wherever a page is needed."""

    def fill(disk: SmallDisk) -> str:
        directory, refused, seen = disk.folder / "s", 0, set()
        # A size of nothing at all means no limit.
        (disk.folder / "ballast").write_bytes(bytes(4096))
        for pages in range(100):
            shutil.rmtree(directory, ignore_errors=True)
            disk.leave(pages * 4096)
            try:
                write_store(directory)
            except ResourceError as err:
                assert "No space left on device" in str(err)
            else:
                break
            disk.leave(1 << 20)
            seen.add(check_prefix(directory) if directory.exists() else 0)
            disk.set_read_only(read_only=True)
            with pytest.raises(ResourceError, match="Read-only file system"):
                write_store(directory)
            disk.set_read_only(read_only=False)
            write_store(directory)
            assert contents(directory) == undisturbed
            refused += 1
        assert contents(directory) == undisturbed
        return f"{refused > 5} {sorted(seen)}"

    assert on_small_disk(tmp_path / "disk", fill) == f"True {[0, ROWS]}"


def vanishing(folder: Path, action: Callable[[], object], *, at: int) -> BaseException | None:
    """Run an action that goes on regardless when a folder is moved away at call number ``at``; return its error.

    Raises StopIteration if it had fewer calls.
    """
    calls = 0

    def at_call(_: Call) -> bool:
        nonlocal calls
        calls += 1
        if calls == at + 1 and folder.exists():
            folder.rename(folder.with_name(f"{folder.name}.away"))
        return False

    if (err := error_of(action, at_call)) is not None:
        return err
    if calls <= at:
        raise StopIteration
    return None


def test_a_directory_that_vanishes(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """No success is reported, and nothing is left half."""
    for number in range(200):
        directory = tmp_path / str(number) / "s"
        try:
            error = vanishing(directory, lambda: write_store(directory), at=number)  # noqa: B023
        except StopIteration:
            break
        away = is_complete(directory.with_name("s.away"))
        assert isinstance(error, GenoLeWMError) or is_complete(directory) or away
        assert error is None or isinstance(error, ResourceError), repr(error)
        write_store(directory)
        assert contents(directory) == undisturbed
    assert number > 60


def test_a_root_that_vanishes(tmp_path: Path) -> None:
    for number in range(200):
        root = new_root(tmp_path / str(number), lock_wait_s=0)
        try:
            error = vanishing(root.path, lambda: build(root, make_plan()), at=number)  # noqa: B023
        except StopIteration:
            break
        assert error is None or isinstance(error, ResourceError), repr(error)
        assert not root.is_rejected(LOCATION)
        left = Root(root.path.with_name(f"{number}.away"))
        if error is None and left.path.exists():
            assert root.link_of(LOCATION).exists() or left.link_of(LOCATION).exists()
        build(root, make_plan())
    assert number > 60


def test_a_work_directory_that_vanishes(tmp_path: Path) -> None:
    root = new_root(tmp_path / "root")
    lost = replace(make_plan(), write=lambda directory: shutil.rmtree(directory) or BuildReport())
    with pytest.raises(ResourceError, match=r"build\..*: was removed during the build\. Do not touch it"):
        build(root, lost)
    assert not root.is_rejected(LOCATION)
    assert not build(root, make_plan()).reused
