from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from genolewm_assets.errors import BusyError
from genolewm_assets.store.artefacts.work import leftovers, sweep, work_directory
from genolewm_assets.store.locks import record as lock_record
from genolewm_assets.store.locks.lease import WriterLease
from genolewm_assets.store.locks.record import RECORD, LeaseOwner
from genolewm_assets_tests.worlds.store.leases import foreign_owner, silence, write_record

NAME = "resume.0123456789ab"
DAY_S = 24 * 3600
HERE = LeaseOwner.of_this_process()


def lease_of(folder: Path) -> WriterLease:
    return WriterLease(folder, "here").acquire(0)


def work_of(folder: Path, owner: LeaseOwner, name: str = NAME) -> Path:
    """Leave a work directory of an owner, with a file in it."""
    path = folder / f"{name}.{owner.mark}"
    path.mkdir()
    (path / "rows").write_bytes(owner.token.encode())
    return path


def continued(folder: Path) -> str | None:
    """Token of the owner whose work directory the next builder goes on with; None if it begins anew."""
    with lease_of(folder) as lease:
        sweep(folder, lease, keep=NAME)
        rows = work_directory(folder, lease, NAME) / "rows"
        return rows.read_text() if rows.exists() else None


CERTAINLY_DEAD: dict[str, tuple[LeaseOwner, float]] = {
    "process gone": (replace(HERE, started_ticks=1), 0),
    "machine started anew": (foreign_owner(host=HERE.host), 61),
}


@pytest.mark.parametrize(("owner", "silent_s"), CERTAINLY_DEAD.values(), ids=CERTAINLY_DEAD)
def test_what_a_dead_builder_left_is_continued(folder: Path, owner: LeaseOwner, silent_s: float) -> None:
    work_of(folder, owner)
    write_record(folder, owner, silent_s=silent_s)
    assert continued(folder) == owner.token
    assert continued(folder) == owner.token, "and again, when the next one gave up"


def test_what_one_that_may_be_alive_works_on_is_neither_continued_nor_swept_until_it_is_silent_for_a_day(
    folder: Path,
) -> None:
    owner = foreign_owner()
    works = [work_of(folder, owner), work_of(folder, owner, "build.01234567")]
    record = write_record(folder, owner, silent_s=61)
    assert leftovers(folder) == [], "nor while nobody has taken its lock yet"
    assert continued(folder) is None
    displaced = folder / f"displaced.{owner.mark}.json"
    assert not record.exists()
    with lease_of(folder) as lease:
        sweep(folder, lease)
        assert [path.exists() for path in (*works, displaced)] == [True] * 3
        assert len(leftovers(folder)) == 0
        silence(displaced, DAY_S + 60)
        assert leftovers(folder) == sorted([*works, displaced])
        sweep(folder, lease)
        assert leftovers(folder) == []


def test_one_that_lost_its_lock_and_is_known_to_be_dead_protects_nothing(folder: Path) -> None:
    owner = replace(HERE, started_ticks=1)
    work_of(folder, owner)
    (folder / f"displaced.{owner.mark}.json").write_bytes(owner.to_bytes())
    assert continued(folder) == owner.token


def test_one_that_lost_its_lock_and_lives_here_is_protected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_record, "HELD", {HERE.token})
    work_of(folder, HERE)
    (folder / f"displaced.{HERE.mark}.json").write_bytes(HERE.to_bytes())
    assert continued(folder) is None


def test_of_an_unknown_owner_every_work_directory_may_be(folder: Path) -> None:
    work = work_of(folder, foreign_owner())
    write_record(folder, b"?", silent_s=61)
    assert continued(folder) is None
    assert work.exists()


def test_of_several_the_latest_is_continued_and_the_others_go(folder: Path) -> None:
    owners = [replace(HERE, token=digit * 32) for digit in "abc"]
    for owner, age_s in zip(owners, (300, 100, 200), strict=True):
        silence(work_of(folder, owner), age_s)
    assert continued(folder) == "b" * 32
    with lease_of(folder) as lease:
        sweep(folder, lease)
    assert leftovers(folder) == []


IMPOSTORS: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, elsewhere: path.symlink_to(elsewhere),
    "file": lambda path, _: path.touch(),
    "other name": lambda path, _: path.with_name(f"resume.ffffffffffff.{HERE.mark}").mkdir(),
    "longer name": lambda path, _: path.with_name(f"{NAME}.x.{HERE.mark}").mkdir(),
}


@pytest.mark.parametrize("what", IMPOSTORS)
def test_what_is_no_work_directory_of_the_name_is_not_continued(folder: Path, tmp_path: Path, what: str) -> None:
    (tmp_path / "rows").write_text("stranger")
    IMPOSTORS[what](folder / f"{NAME}.{HERE.mark}", tmp_path)
    assert continued(folder) is None
    assert (tmp_path / "rows").exists()


def test_who_lost_the_lock_neither_sweeps_nor_takes_what_the_next_one_works_on(folder: Path) -> None:
    lease, taker = lease_of(folder), foreign_owner()
    write_record(folder, taker)
    works = [work_of(folder, taker), work_of(folder, taker, "build.01234567")]
    for act in (lambda: sweep(folder, lease), lambda: work_directory(folder, lease, NAME)):
        with pytest.raises(BusyError, match="lost the lock"):
            act()
    assert [path.exists() for path in works] == [True] * 2
    lease.release()
    assert (folder / RECORD).exists()


def test_records_that_were_being_written_are_leftovers(folder: Path) -> None:
    (folder / f".{RECORD}.01234567.tmp").touch()
    with lease_of(folder) as lease:
        sweep(folder, lease)
    assert [path.name for path in folder.iterdir()] == ["lock"]
