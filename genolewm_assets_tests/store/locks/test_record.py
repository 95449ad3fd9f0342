"""Records of locks that nobody writes, and what stands in their place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import ResourceError
from genolewm_assets.store.locks.lease import GUARD, WriterLease, is_held
from genolewm_assets.store.locks.record import RECORD, LeaseOwner, read_owner
from genolewm_assets_tests.worlds.store.leases import (
    check_busy,
    check_free,
    lease_of,
    write_record,
)

HERE = LeaseOwner.of_this_process()

_GOOD = json.loads(HERE.to_bytes())
BAD_RECORDS: dict[str, bytes] = {
    "no JSON": b"{",
    "no object": b"[1]",
    "deep": b"[" * 60_000,
    "not UTF-8": b"\xff\xfe{}",
    "other schema": json.dumps({**_GOOD, "schema": "other"}).encode(),
    "later version": json.dumps({**_GOOD, "schema_version": "2.0"}).encode(),
    "no token": json.dumps({name: value for name, value in _GOOD.items() if name != "token"}).encode(),
    "token with a path": json.dumps({**_GOOD, "token": "../../../../etc/passwd/aaaaaaaaaa"}).encode(),
    "every process": json.dumps({**_GOOD, "pid": -1}).encode(),
    "own group": json.dumps({**_GOOD, "pid": 0}).encode(),
    "huge number": json.dumps({**_GOOD, "pid": 1 << 80}).encode(),
    "true": json.dumps({**_GOOD, "pid": True}).encode(),
    "text for a number": json.dumps({**_GOOD, "started_ticks": "1"}).encode(),
    "control characters": json.dumps({**_GOOD, "host": "a\nb\x1b[2J"}).encode(),
    "note of two lines": json.dumps({**_GOOD, "note": "a\nb"}).encode(),
    "note without text": json.dumps({**_GOOD, "note": ["a"]}).encode(),
    "too long": json.dumps({**_GOOD, "host": "h" * 100_000}).encode(),
}


@pytest.mark.parametrize("raw", BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_a_record_that_cannot_be_understood_is_somebody_elsewhere(folder: Path, raw: bytes) -> None:
    write_record(folder, raw, silent_s=50)
    check_busy(folder)
    write_record(folder, raw, silent_s=61)
    with lease_of(folder).acquire(0):
        (displaced,) = folder.glob("displaced.*.json")
        assert displaced.read_bytes() == raw


@pytest.mark.parametrize("raw", [b"", b"\0" * 300])
def test_a_record_without_content_is_what_a_power_cut_left(folder: Path, raw: bytes) -> None:
    write_record(folder, raw)
    check_free(folder)


def test_a_record_keeps_its_note_and_needs_none(folder: Path) -> None:
    with WriterLease(folder, "here", note="serves people").acquire(0) as lease:
        owner = read_owner(folder / RECORD)
        assert owner == lease.owner
        assert owner is not None
        assert owner.note == "serves people"
        lease.check_held()
    older = {name: value for name, value in _GOOD.items() if name != "note"}
    assert read_owner(write_record(folder, json.dumps(older).encode())) == HERE


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_what_is_in_the_way_of_a_record_is_named(folder: Path, what: str) -> None:
    IN_THE_WAY[what](folder / RECORD)
    (folder / GUARD).touch()
    with pytest.raises(ResourceError, match=f"{folder / RECORD}: is in the place of a lock file"):
        lease_of(folder).acquire(0)
    assert is_held(folder)
    assert os.path.lexists(folder / RECORD)
