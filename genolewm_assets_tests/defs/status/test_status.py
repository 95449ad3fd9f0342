"""The page of the morning: what was planted in a built world is said, by the command, as JSON and in the UI."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._utils.error import SerializableErrorInfo
from sqlalchemy.exc import OperationalError

from genolewm_assets.defs import read_only_instance
from genolewm_assets.defs.assets.graph import PUBLISHING
from genolewm_assets.defs.read_only_instance import open_read_only
from genolewm_assets.defs.runtime.currency import Currency
from genolewm_assets.defs.runtime.failures import HELD, HELD_TAG
from genolewm_assets.defs.status.costs import with_followers
from genolewm_assets.defs.status.page import as_markdown, sections
from genolewm_assets.defs.status.report import Status, read_status
from genolewm_assets.defs.status.troubles import outdated_partitions
from genolewm_assets.sources.clinvar.listing import read_listing
from genolewm_assets.sources.clinvar.releases import register_releases
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.windows.corpus.pieces import piece_keys
from genolewm_assets_tests.defs.conftest import CommandLine, copied
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, CORPUS, RELEASES

NEW = "2025-06-01"
HOSTILE = "[bold]x[/bold] |a| `b` <script>alert(1)</script> \x1b[31m[link=file:///etc]\n# **t** \u202e"

world = copied


def read(world: BuiltWorld, **options: float) -> Status:
    return read_status(world.workspace(), world.instance, PUBLISHING, **options)


def told(status: Status) -> dict[str, dict[str, str]]:
    """Return the reasons by kind and subject."""
    found: dict[str, dict[str, str]] = {}
    for trouble in status.troubles:
        found.setdefault(trouble.kind, {})[trouble.subject] = trouble.reason
    return found


def plant(world: BuiltWorld) -> None:
    """Let a release fail, another run wait in the queue, a job fail with a hostile text, and a partition vanish."""
    world.register_release(NEW, header_date="2025-06-08")
    register_releases(world.root, read_listing(str(world.folder / "clinvar")))
    assert not world.materialize("clinvar/release", partition=NEW).success
    tags = {"dagster/partition": NEW, HELD_TAG: HELD}
    world.instance.add_run(dg.DagsterRun(job_name="refresh_release", status=dg.DagsterRunStatus.NOT_STARTED, tags=tags))
    broken = dg.DagsterRun(job_name="verify_all", status=dg.DagsterRunStatus.STARTED)
    world.instance.add_run(broken)
    world.instance.report_run_failed(broken, HOSTILE)
    (world.root / "mito/tokens").unlink()


def command(world: BuiltWorld, *options: str) -> tuple[str, ...]:
    """Return the arguments of the command on a root that holds its history."""
    home = world.root / "dagster"
    if not home.exists():
        shutil.copytree(world.folder / "history", home)
    return ("status", "--root", str(world.root), "--catalog", str(world.catalog), *options)


def contents(root: Path) -> Mapping[str, tuple[str, int]]:
    """Return digest and time of every file below a folder."""
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_all_is_well_right_after_the_builds(world: BuiltWorld) -> None:
    status = read(world)
    assert (status.is_well, status.troubles, status.note, status.published) == (True, (), "", 40 + 1)
    assert status.releases.served == status.releases.newest == RELEASES[-1]
    assert status.releases.served_since == pytest.approx(time.time(), abs=3_600)
    assert status.hours.steps == 7
    assert 0 < status.hours.day == status.hours.week == status.hours.total < 1
    due, release, states = status.costs
    assert (due.partitions, due.seconds, release.unknown, states.unknown, states.partitions) == (0, 0, 0, 0, 7)
    assert states.seconds == states.h100_seconds > 0
    # The page, the list of partitions, and what consumers can open count the same.
    sizes = {size.what: size for size in status.disk.sizes}
    assert sum(size.partitions for size in sizes.values()) == len(status.partitions) == status.published
    (row,) = [row for section in sections(status) for row in section.rows if row[0] == "all"]
    assert row[1] == f"{status.published} partitions"
    assert sizes["packages/current"].total_bytes == (world.root / "packages/current.json").stat().st_size > 0
    assert sizes["packages/split"].partitions == 2
    assert sizes["packages/split"].grown_bytes == sizes["packages/split"].published_bytes > 0


def test_what_was_planted_is_said_with_its_reason(world: BuiltWorld) -> None:
    plant(world)
    status = read(world)
    found = told(status)
    assert not status.is_well
    assert set(found["failed"]) == {f"clinvar/release[{NEW}]", "job verify_all"}
    assert "2025-06-08" in found["failed"][f"clinvar/release[{NEW}]"]
    assert NEW in found["late"]["packages/current"]
    assert found["waiting"] == {f"job refresh_release[{NEW}]": "held in the queue until what it reads is built"}
    assert {"mito/tokens", f"packages/split[{NEW}]"} <= found["missing"].keys()
    assert f"clinvar/release[{NEW}]" not in found["missing"]
    assert status.costs[0].partitions > 0


@pytest.mark.nightly
def test_a_later_success_makes_a_failure_good(world: BuiltWorld) -> None:
    world.write_gnomad("chr17", world.gnomad_records("chr17", wrong_ref=45))
    assert not world.materialize("gnomad/shard", partition="chr17").success
    # One line for the run; the checks that it failed say nothing more. What reads it cannot be compared.
    trouble, *readers = read(world).troubles
    assert {(each.kind, each.artefacts[0].asset) for each in readers} == {
        ("not compared", name) for name in ("holdouts/manifest", "packages/split")
    }
    assert (trouble.kind, trouble.subject) == ("failed", "gnomad/shard[chr17]")
    assert trouble.artefacts == (ArtefactId("gnomad/shard", "chr17"),)
    assert read(world).costs[0].partitions > 1  # and what reads it
    world.write_gnomad("chr17", world.gnomad_records("chr17"))
    world.make("gnomad/shard", "chr17")
    assert read(world).is_well


def test_what_a_failed_run_did_not_evaluate_has_not_failed(world: BuiltWorld) -> None:
    world.register_release(NEW, header_date="2025-06-08")
    register_releases(world.root, read_listing(str(world.folder / "clinvar")))
    assert not world.materialize("clinvar/release", "clinvar/shard", "mito/variants", partition=NEW).success
    found = told(read(world))
    assert (set(found["failed"]), "stale" in found) == ({f"clinvar/release[{NEW}] and 2 more"}, False)


@pytest.mark.nightly
def test_a_failure_of_a_contig_that_left_the_catalogue_is_no_longer_said(world: BuiltWorld) -> None:
    world.write_gnomad("chr17", world.gnomad_records("chr17", wrong_ref=45))
    assert not world.materialize("gnomad/shard", partition="chr17").success
    gnomad = PUBLISHING["gnomad/shard"]
    others = dg.StaticPartitionsDefinition([name for name in CONTIGS if name != "chr17"])
    left = {**PUBLISHING, gnomad.key: replace(gnomad, partitions=replace(gnomad.partitions, definition=others))}
    assert "failed" not in told(read_status(world.workspace(), world.instance, left))
    assert "failed" in told(read(world))


def test_a_failed_tick_is_said_of_what_still_ticks(world: BuiltWorld) -> None:
    location = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("genolewm_assets.definitions"), "__repository__")
    error = SerializableErrorInfo("no listing", [], "FetchError")
    for name, status, days in (
        ("fails", InstigatorStatus.RUNNING, 1),
        ("stopped", InstigatorStatus.STOPPED, 1),
        ("failed_long_ago", InstigatorStatus.RUNNING, 9),
    ):
        origin = RemoteInstigatorOrigin(location, name)
        state = InstigatorState(origin, InstigatorType.SENSOR, status, SensorInstigatorData())
        world.instance.add_instigator_state(state)
        at, kind = time.time() - days * 86_400, InstigatorType.SENSOR
        options = {"error": error, "selector_id": state.selector_id}
        world.instance.create_tick(TickData(origin.get_id(), name, kind, TickStatus.FAILURE, at, **options))
    assert told(read(world)) == {"failed": {"sensor fails": "no listing"}}


@pytest.mark.nightly
def test_hours_of_a_run_whose_history_is_gone_are_left_out(world: BuiltWorld) -> None:
    hours = read(world).hours
    made = world.instance.fetch_materializations(dg.AssetKey(["embeddings", "cache"]), limit=1).records
    (path,) = (world.folder / "history").rglob(f"{made[0].run_id}.db")
    path.unlink()
    left = read_status(world.workspace(), open_read_only(world.folder / "history"), PUBLISHING).hours
    assert left.steps == hours.steps - 1


def test_a_stale_partition_is_said_with_the_difference(world: BuiltWorld) -> None:
    world.edit_catalog(gnomad={"min_af": 0.02})
    reason = "recipe params min_af: built from 0.01, now 0.02"
    assert told(read(world)) == {"stale": {f"gnomad/shard[{contig}]": reason for contig in CONTIGS}}


def test_pieces_are_told_by_source_and_not_one_by_one(world: BuiltWorld) -> None:
    source = CORPUS[2]
    pieces = piece_keys(source, 64)
    world.instance.delete_dynamic_partition("corpus_piece", source)
    world.instance.add_dynamic_partitions("corpus_piece", list(pieces))
    # It was built as one piece; of two pieces runs fail, because there is no such piece of what is divided.
    for piece in pieces[:2]:
        assert not world.materialize("corpus/windows", partition=piece).success
    status = read(world)
    counts = {(each.source, each.asset): each.text() for each in status.pieces}
    assert counts[source, "corpus/windows"] == "62 missing, 2 failed"
    assert counts[source, "embeddings/corpus"] == "64 missing"
    assert counts[CORPUS[0], "corpus/windows"] == "1 current"
    (section,) = [each for each in sections(status) if each.title == "Pieces of the corpus"]
    assert [row[:2] for row in section.rows] == [
        (name, "64 pieces" if name == source else "1 piece") for name in sorted(CORPUS)
    ]
    assert sum(name.startswith("corpus/windows") for name in told(status)["missing"]) == 1


def test_pieces_that_are_stale_alike_are_one_line() -> None:
    pieces = [Currency(ArtefactId("corpus/windows", key), "stale", ("code",)) for key in piece_keys(CORPUS[1], 8)]
    other = Currency(ArtefactId("corpus/windows", CORPUS[0]), "stale", ("code",))
    contigs = [Currency(ArtefactId("windows/index", name), "stale", ("code",)) for name in CONTIGS[:2]]
    found = list(outdated_partitions([*pieces, other, *contigs], set(), {"corpus/windows"}))
    assert [len(each.artefacts) for each in found] == [8, 1, 1, 1]
    assert found[0].subject == f"corpus/windows[{CORPUS[1]}-00000] and 7 more"


@pytest.mark.nightly
def test_what_moved_is_told_beside_the_version_before(world: BuiltWorld) -> None:
    begun = time.time()
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-10])
    world.register_release(NEW)
    for asset, partition in (("gnomad/shard", "chr17"), ("clinvar/release", NEW), ("clinvar/shard", NEW)):
        assert world.materialize(asset, partition=partition).success
    world.make("gnomad/shard", "chr20")  # keeps what is there
    # The page of a time at which only these were built within a day.
    status = read(world, now=begun + 86_400)
    found = {(moved.asset, moved.partition, moved.partitions): moved.figures for moved in status.moved}
    (shard,), (alleles,) = found["gnomad/shard", None, 1], found["clinvar/shard", NEW, 1]
    assert (shard.name, shard.before, shard.after) == ("alleles", 45, 40)
    assert (alleles.before, alleles.after) == (65, 65)
    grown = {size.what for size in status.disk.sizes if size.grown_bytes and size.partitions}
    assert {asset for asset, _, _ in found} == grown == {"gnomad/shard", "clinvar/release", "clinvar/shard"}
    assert {size.what: size.superseded_bytes for size in status.disk.sizes}["gnomad/shard"] > 0


def test_the_command_prints_one_screen_and_changes_nothing(world: BuiltWorld, genolewm: CommandLine) -> None:
    plant(world)
    arguments = command(world)
    before = contents(world.root)
    assert genolewm(*arguments) == 4
    lines, out = genolewm.out.splitlines(), " ".join(genolewm.out.split())
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith(str(world.root)[:20])
    for text in ("2 failed", "1 late", "1 waiting", f"clinvar/release[{NEW}]", "verify_all", "[bold]x[/bold]"):
        assert text in out
    assert f"nothing is published: clinvar/shard[{NEW}]" in out
    assert not {"\x1b", "\N{RIGHT-TO-LEFT OVERRIDE}"} & set(out)
    assert contents(world.root) == before


def test_markup_of_an_error_stays_text(world: BuiltWorld) -> None:
    plant(world)
    page = as_markdown(read(world))
    (line,) = [each for each in page.splitlines() if "alert" in each]
    assert line.count("|") == 5
    assert not set("<>`*[]") & set(line)
    assert "\x1b" not in page


def test_json_has_stable_names_and_times_as_text(world: BuiltWorld, genolewm: CommandLine) -> None:
    plant(world)
    assert genolewm(*command(world, "--json")) == 4
    found = json.loads(genolewm.out)
    names = (
        "root catalog time since note published releases troubles moved disk hours costs counts well partitions pieces"
    )
    of_releases = "newest age_days served served_path served_age_days served_since pinned late"
    for part, keys in (
        (found, f"{names} latest"),
        (found["troubles"][0], "kind subject reason since run_id artefacts"),
        (found["releases"], of_releases),
        (found["disk"], "sizes free_bytes total_bytes"),
        (found["pieces"][0], "source asset pieces current missing stale not_compared failed"),
        (found["hours"], "device day week total steps is_all"),
        (found["costs"][0], "what partitions seconds h100_seconds unknown"),
    ):
        assert set(part) == set(keys.split())
    assert found["partitions"][0] == {"asset": "reference/genome", "partition": None, "state": "current", "reasons": []}
    assert found["troubles"][0]["artefacts"] == [{"asset": "clinvar/release", "partition": NEW}]
    assert found["time"].endswith("+00:00")
    assert (found["well"], found["counts"]) == (False, {"failed": 2, "late": 1, "missing": 7, "waiting": 1})


def test_without_a_history_the_page_says_so(world: BuiltWorld, genolewm: CommandLine) -> None:
    before = contents(world.root)
    (world.root / "mito/tokens").unlink()
    assert genolewm("status", "--root", world.root, "--catalog", world.catalog) == 0
    assert "no history of runs" in genolewm.out
    assert "1 missing" in " ".join(genolewm.out.split())
    assert contents(world.root) == before
    assert not (world.root / "dagster").exists()


def test_an_empty_root_says_so(genolewm: CommandLine, tmp_path: Path) -> None:
    assert genolewm("status", "--root", tmp_path) == 0
    assert "is empty: nothing was built here yet" in " ".join(genolewm.out.split())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").touch()
    assert genolewm("status", "--root", tmp_path) == 4
    assert "not a root" in genolewm.err


def test_damage_is_told(world: BuiltWorld, genolewm: CommandLine) -> None:
    world.instance.add_run(dg.DagsterRun(job_name="verify_all", status=dg.DagsterRunStatus.FAILURE))
    arguments = command(world)
    with closing(sqlite3.connect(world.root / "dagster/history/runs.db")) as database, database:
        database.execute("UPDATE runs SET run_body = '}'")
    assert genolewm(*arguments) == 4
    assert "Dagster's database is damaged (JSONDecodeError" in genolewm.err
    (world.root / "dagster/history/runs.db").write_bytes(b"no database" * 1_000)
    assert genolewm(*arguments) == 4
    (line,) = genolewm.err.splitlines()
    assert "runs.db: Dagster's database is damaged" in line
    assert line.endswith(f"genolewm history reset --root {world.root}.")
    assert genolewm("history", "reset", "--yes", "--root", world.root) == 0
    assert genolewm(*arguments) == 0
    assert "all is well" in " ".join(genolewm.out.split())


def test_the_page_in_the_ui_is_the_same(world: BuiltWorld) -> None:
    plant(world)
    metadata = world.make("platform/status").metadata
    assert [metadata[name].value for name in ("well", "failed", "waiting")] == [False, 2, 1]
    assert "### Failed, late or waiting" in str(metadata["status"].value)
    assert "running" not in metadata  # the run that asks is none


def test_a_history_that_is_read_cannot_be_written(world: BuiltWorld) -> None:
    instance = open_read_only(world.folder / "history")
    before = contents(world.folder / "history")
    assert instance.get_runs_count() == world.instance.get_runs_count() > 0
    with pytest.raises(Exception, match="readonly database"):
        instance.add_run(dg.DagsterRun(job_name="job"))
    assert contents(world.folder / "history") == before


def test_a_history_that_changes_when_read_is_not_believed(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    home = world.folder / "history"
    monkeypatch.setattr(read_only_instance, "_WRITTEN", set())
    instance = open_read_only(home)
    runs = instance.run_storage
    changed = pytest.raises(OperationalError, match="changed while it was read")
    with changed, runs.connect(), closing(sqlite3.connect(home / "history/runs.db")) as writer:
        writer.execute("CREATE TABLE other (n INTEGER)")
        writer.commit()
    # From then on it is read as one that others write.
    with runs.connect() as connection, closing(sqlite3.connect(home / "history/runs.db")) as writer:
        writer.execute("INSERT INTO other VALUES (1)")
        writer.commit()
        assert connection.exec_driver_sql("SELECT count(*) FROM other").scalar() == 1


def test_what_reads_a_partition_follows_it() -> None:
    expected = {
        key: {"clinvar_release": [RELEASES[-1]], "corpus_piece": [*CORPUS], "forensic_run": ["run"]}.get(
            asset.partitions.by
        )
        or asset.partitions.keys(None)
        for key, asset in PUBLISHING.items()
    }
    found = with_followers(PUBLISHING, [ArtefactId("embeddings/cache", "chr17")], expected)
    packages = [ArtefactId(f"packages/{noun}", RELEASES[-1]) for noun in ("split", "audit")]
    assert found == [ArtefactId("embeddings/cache", "chr17"), *packages, ArtefactId("packages/current")]
    assert with_followers(PUBLISHING, [], expected) == []
