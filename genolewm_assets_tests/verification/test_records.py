"""What a trainer would refuse is a fault of ``verify`` and of the status, and every file that is read is known."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from genolewm_assets.defs.assets.graph import PUBLISHING
from genolewm_assets.defs.status.report import read_status
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.packages.pointer import pin_release
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.training.dataset import GenoLeWMDataset
from genolewm_assets.verification.records import RECORDS, find_record_faults, verify_whole_root
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

OLD, NEW = RELEASES
CURRENT, LATEST, LEDGER = "packages/current.json", f"packages/{NEW}/latest.json", "clinvar/releases.json"


@pytest.fixture(scope="module")
def world(built: BuiltWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltWorld]:
    with built.copied_to(tmp_path_factory.mktemp("records") / "world") as copied:
        pin_release(copied.root, NEW)
        yield copied


def _changed(**fields: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return change


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


_NOTHING, _ELSEWHERE = "0" * 64, "../../elsewhere"
_AGAIN, _SPLIT = "Materialise packages/current", f"Materialise packages/split for {NEW}"
_PIN = "genolewm package pin --newest"


@each_row(
    ("record", "damage", "opens", "told"),
    [
        (CURRENT, cut, False, _PIN),
        (CURRENT, Path.unlink, False, _PIN),
        (CURRENT, become_a_pipe, False, _PIN),
        (CURRENT, _changed(manifest_sha256=_NOTHING), False, _AGAIN),
        (CURRENT, _changed(path=_ELSEWHERE), False, _PIN),
        (CURRENT, _changed(release=OLD), True, _AGAIN),
        (CURRENT, _changed(pin="2019-01-01"), True, "no package of release '2019-01-01'"),
        (CURRENT, _changed(pin="newest"), False, _PIN),
        (CURRENT, _changed(code_version=3), False, _PIN),
        (CURRENT, _changed(earlier=[{"release": OLD}]), False, _PIN),
        (LATEST, cut, True, _SPLIT),
        (LATEST, Path.unlink, True, _SPLIT),
        (LATEST, _changed(path=_ELSEWHERE), True, _SPLIT),
        (LATEST, _changed(manifest_sha256=_NOTHING), True, _SPLIT),
        (LATEST, _changed(release=OLD), True, _SPLIT),
        (LEDGER, cut, True, "Restore it from a backup, or remove it"),
        (LEDGER, Path.unlink, True, "clinvar_release_sensor writes it again"),
        (LEDGER, _changed(releases=[]), True, "clinvar_release_sensor writes it again"),
        ("holdouts/temporal.json", lambda path: path.write_text("{}"), True, "genolewm holdouts t0 --clear"),
        ("root.json", _changed(genome_digest=_NOTHING), False, "Restore root.json"),
    ],
)
def test_what_a_reader_refuses_is_a_fault(
    world: BuiltWorld, record: str, damage: Callable[[Path], None], opens: bool, told: str
) -> None:
    path = world.root / record
    before = path.read_bytes() if path.exists() else None
    damage(path)
    try:
        faults = find_record_faults(Root(world.root))
        assert [fault.location for fault in faults] == [record]
        assert told in str(faults[0])
        assert faults[0].is_fault
        assert _opens(world.root) is opens
    finally:
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)
    assert find_record_faults(Root(world.root)) == []


def test_a_plain_file_with_the_name_of_a_release_is_no_package(world: BuiltWorld) -> None:
    stray = world.root / "packages/2019-01-01"
    stray.write_text("")
    try:
        assert find_record_faults(Root(world.root)) == []
    finally:
        stray.unlink()


def _opens(root: Path) -> bool:
    try:
        GenoLeWMDataset.current(root, seed=0)
    except GenoLeWMError:
        return False
    return True


def test_the_commands_say_what_the_trainer_refuses(
    world: BuiltWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pointer = world.root / CURRENT
    kept = pointer.read_bytes()
    assert run(monkeypatch, "verify", "--root", world.root) == 0
    cut(pointer)
    try:
        assert run(monkeypatch, "verify", "--root", world.root) == 4
        status = read_status(world.workspace(), world.instance, PUBLISHING)
    finally:
        pointer.write_bytes(kept)
    (fault,) = [each for each in status.troubles if each.kind == "unreadable"]
    assert not status.is_well
    assert fault.subject == CURRENT
    assert fault.reason in capsys.readouterr().out


#: Folders of a root whose files are no records, and why.
_OTHER = {
    "work": "locks, downloads and notes that are made again",
    "rejected": "failed builds, which nothing publishes",
    "models": "files of the built-in model: written again from the code if one differs",
    "packages/reports": "reports of moves, made again if they differ from their digest",
    "dagster": "the history of runs, which `run_databases` examines",
}


@pytest.mark.nightly
def test_every_file_that_is_read_is_a_record_or_published(world: BuiltWorld) -> None:
    opened = set[str]()

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and watching and isinstance(arguments[0], str | bytes):
            opened.add(os.fsdecode(arguments[0]))

    watching = True
    sys.addaudithook(note)
    try:
        next(iter(GenoLeWMDataset.current(world.root, seed=0)))
        read_status(world.workspace(), world.instance, PUBLISHING)
        verify_whole_root(Root(world.root))
        for job in ("check_current", "verify_all"):
            assert world.run_job(job).success
        assert world.materialize("packages/current").success
        assert world.materialize("packages/split", partition=NEW).success
    finally:
        watching = False
    inside = {Path(path).relative_to(world.root) for path in opened if Path(path).is_relative_to(world.root)}
    files = {path for path in inside if ".gen" not in path.parts and (world.root / path).resolve().is_file()}
    own = {path for path in files if (world.root / path).resolve() == world.root / path}
    unlisted = {
        str(path)
        for path in own
        if not any(path.match(record.pattern) for record in RECORDS)
        and not any(path.is_relative_to(other) for other in _OTHER)
    }
    assert unlisted == set()
    assert {CURRENT, LATEST, LEDGER, "root.json"} <= {str(path) for path in own}
