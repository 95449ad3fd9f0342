from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, InputError
from genolewm_assets.store import compute_fingerprint, read_stamped, validate_fingerprint
from genolewm_assets.store.arrays import stamps as stamps_module
from genolewm_assets.store.arrays.keys import FINGERPRINT, validate_sources
from genolewm_assets.store.arrays.stamps import RowStamp, changed_files, stamp_file, write_stamps
from genolewm_assets.store.artefacts.manifest import check_file_path
from genolewm_assets.store.artefacts.published import list_files
from genolewm_assets_tests.worlds.store.array_stores import CONFIG

LONG_AGO_NS = 1_500_000_000 * 10**9


def stamp_all(files: dict[str, Path]) -> dict[str, RowStamp]:
    return {name: stamp_file(path) for name, path in files.items()}


def write_old(path: Path, data: bytes, *, mtime_ns: int = LONG_AGO_NS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    return path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    names = ("samples/a.hid", "samples/b.hid", "ladder.hid", "annotations.csv", "mapping.csv", "panel.xml")
    return {name: write_old(tmp_path / "data" / name, f"content of {name}".encode()) for name in names}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that were read to be digested."""
    seen: list[Path] = []
    real = stamps_module._open_source

    def count(path: Path) -> object:
        seen.append(path)
        return real(path)

    monkeypatch.setattr(stamps_module, "_open_source", count)
    return seen


def finished(directory: Path, files: dict[str, Path]) -> Path:
    """What a finished store has about its sources."""
    directory.mkdir(exist_ok=True)
    stamps = stamp_all(files)
    (directory / FINGERPRINT).write_text(json.dumps(compute_fingerprint(CONFIG, stamps)))
    write_stamps(directory, stamps)
    return directory


def test_a_stamp_is_of_the_bytes_that_were_read(tmp_path: Path) -> None:
    path = write_old(tmp_path / "a.hid", b"trace")
    data, stamp = read_stamped(path)
    assert data == b"trace"
    assert stamp == stamp_file(path) == RowStamp(hashlib.sha256(data).hexdigest(), 5, LONG_AGO_NS)


def test_a_fingerprint_of_stamps_is_one_of_their_digests(files: dict[str, Path]) -> None:
    stamps = stamp_all(files)
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    assert compute_fingerprint(CONFIG, stamps) == compute_fingerprint(CONFIG, digests)
    with pytest.raises(ConfigurationError, match="expected a name relative to the root"):
        compute_fingerprint(CONFIG, {"/etc/passwd": stamps["panel.xml"]})


CHANGES_WHILE_READ: dict[str, Callable[[Path], object]] = {
    "grown": lambda path: path.write_bytes(b"trace and more"),
    "other bytes": lambda path: path.write_bytes(b"TRACE"),
    "replaced by a file of the same size and time": lambda path: write_old(path.with_name("new"), b"TRACE").replace(
        path
    ),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES_WHILE_READ.values(), ids=CHANGES_WHILE_READ)
@pytest.mark.parametrize("read", [read_stamped, stamp_file])
def test_a_file_that_changes_while_it_is_read_gets_no_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], read: Callable[[Path], object]
) -> None:
    path = write_old(tmp_path / "a.hid", b"trace")
    real = os.fstat
    done: list[int] = []

    def status_then_change(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if not done:
            done.append(descriptor)
            change(path)
        return status

    with monkeypatch.context() as patch, pytest.raises(InputError, match=r"a\.hid: (was changed|cannot be read)"):
        patch.setattr(stamps_module.os, "fstat", status_then_change)
        read(path)
    assert done


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo"])
def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.hid"
    if kind == "folder":
        path.mkdir()
    if kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(InputError, match=r"a\.hid: (cannot be read|is not a regular file)"):
        read_stamped(path)


def test_untouched_files_are_not_read_again_unless_strict(files: dict[str, Path], reads: list[Path]) -> None:
    known = stamp_all(files)
    assert len(reads) == len(files)
    reads.clear()
    assert list(changed_files(files, known)) == []
    assert reads == []
    assert list(changed_files(files, known, strict=True)) == []
    assert len(reads) == len(files)


def test_touched_files_are_judged_by_their_content(files: dict[str, Path], reads: list[Path], tmp_path: Path) -> None:
    directory = finished(tmp_path / "store", files)
    reads.clear()
    assert validate_sources(directory, CONFIG, files)
    assert reads == []
    os.utime(files["panel.xml"], ns=(LONG_AGO_NS + 1, LONG_AGO_NS + 1))
    assert validate_sources(directory, CONFIG, files), "same bytes, another time"
    assert reads == [files["panel.xml"]]
    write_old(files["panel.xml"], b"CONTENT OF panel.xml", mtime_ns=LONG_AGO_NS + 1)
    assert not validate_sources(directory, CONFIG, files)
    write_old(files["panel.xml"], b"content of panel.xml and more")
    assert not validate_sources(directory, CONFIG, files), "another size, same time"


def test_only_strict_finds_other_bytes_under_the_old_size_and_time(files: dict[str, Path], tmp_path: Path) -> None:
    directory = finished(tmp_path / "store", files)
    write_old(files["ladder.hid"], b"CONTENT OF ladder.hid")
    assert validate_sources(directory, CONFIG, files)
    assert not validate_sources(directory, CONFIG, files, strict=True)


def test_every_input_counts_and_so_does_the_configuration(files: dict[str, Path], tmp_path: Path) -> None:
    directory = finished(tmp_path / "store", files)
    assert validate_fingerprint(directory, compute_fingerprint(CONFIG, stamp_all(files)))
    for name, path in files.items():
        kept = path.read_bytes()
        write_old(path, kept + b"!")
        assert not validate_sources(directory, CONFIG, files), name
        path.unlink()
        assert not validate_sources(directory, CONFIG, files), name
        write_old(path, kept)
        assert not validate_sources(directory, CONFIG, {n: p for n, p in files.items() if n != name})
    assert validate_sources(directory, CONFIG, files)
    assert not validate_sources(directory, {**CONFIG, "layer": 3}, files)
    assert not validate_sources(directory, CONFIG, {**files, "new.hid": files["ladder.hid"]})


def test_a_file_written_a_moment_ago_is_not_known_by_its_time(tmp_path: Path, reads: list[Path]) -> None:
    """Two writes within the clock's grain leave the same time behind; only a stamp taken later can tell them apart."""
    path = tmp_path / "a.hid"
    path.write_bytes(b"trace")
    known = {"a.hid": stamp_file(path)}
    assert known["a.hid"].mtime_ns is None
    write_old(path, b"TRACE", mtime_ns=path.stat().st_mtime_ns)
    assert list(changed_files({"a.hid": path}, known)) == ["a.hid"]


def test_stamps_are_only_a_shortcut(files: dict[str, Path], tmp_path: Path, reads: list[Path]) -> None:
    directory = finished(tmp_path / "store", files)
    path = directory / "stamps.json"
    intact = path.read_bytes()
    for damage in (None, b"", b"[]", b"{", b'{"panel.xml": 3}', intact[:-20], json.dumps({"a": [1]}).encode()):
        path.unlink() if damage is None else path.write_bytes(damage)
        reads.clear()
        assert validate_sources(directory, CONFIG, files)
        assert len(reads) == len(files)
    # Those of another build, which say of other files that they are untouched.
    write_old(files["panel.xml"], b"another panel")
    write_stamps(directory, stamp_all(files))
    assert not validate_sources(directory, CONFIG, files)


def test_no_manifest_lists_stamps(tmp_path: Path) -> None:
    for name in ("stamps.json", "provenance.json", "manifest.json", "a.bin"):
        (tmp_path / name).write_bytes(b"{}")
    assert list_files(tmp_path) == ["a.bin"]
    with pytest.raises(CorruptResourceError, match="not allowed in a manifest"):
        check_file_path("stamps.json", "x")
