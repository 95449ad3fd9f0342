"""What people see of holdouts, and of a package with planted leaks: its run fails and shows what leaked."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.defs.assets.holdouts import describe_holdouts
from genolewm_assets.genome import EVALUATION, Split
from genolewm_assets.holdouts.build import build_holdouts
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.package_build import WINDOWS_SUFFICE, writer
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.packages.info import PackageInfo
from genolewm_assets.packages.reader import open_tables
from genolewm_assets.packages.schema import PieceRef
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.manifest import FileEntry
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, check_of
from genolewm_assets_tests.worlds.lewm.holdout_world import simulated_inputs

PACKAGE = "packages/split"

world = copied


def with_held_out_piece(directory: Path, info: PackageInfo, sources: PackageSources) -> PackageInfo:
    """Let a package refer to two windows of a contig that is held out."""
    contig = next(name for name in sources.pieces if name not in {ref.source for ref in info.pieces})
    piece, folder = sources.pieces[contig], directory / "pieces" / contig
    folder.mkdir()
    for name in ("windows.parquet", "bases.npy"):
        shutil.copy(piece.directory / name, folder)
    rows = pq.read_metadata(folder / "windows.parquet").num_rows
    np.save(folder / "trains.npy", np.arange(rows) < 2)
    sha256 = {entry.path: entry.sha256 for entry in piece.manifest.files}
    files = [
        FileEntry(f"pieces/{contig}/{name}", (folder / name).stat().st_size, sha256.get(name, "0" * 64), None)
        for name in ("windows.parquet", "bases.npy", "trains.npy")
    ]
    ref = PieceRef(contig, "reference", rows, 2, piece.manifest.sha256)
    return replace(info, pieces=(*info.pieces, ref), files=(*info.files, *files))


def planting(check: Callable[..., tuple[CheckResult, ...]]) -> Callable[..., tuple[CheckResult, ...]]:
    """Return the checks of a package, run after a window and an allele of an evaluation were added to training."""

    def check_planted(
        directory: Path, info: PackageInfo, sources: PackageSources, **options: object
    ) -> tuple[CheckResult, ...]:
        info = with_held_out_piece(directory, info, sources)
        path = directory / "variants/train.parquet"
        train = pq.read_table(path, partitioning=None)
        held = [pq.read_table(directory / f"variants/{split}.parquet", partitioning=None) for split in EVALUATION]
        rows = (row for table in held for row in table.to_pylist())
        leaked = next(row for row in rows if row["holdout"] != "holdout-temporal") | {"holdout": None, "role": "train"}
        pq.write_table(pa.concat_tables([train, pa.Table.from_pylist([leaked], schema=train.schema)]), path)
        return check(directory, info, sources, **options)

    return check_planted


def rows_of(result: dg.ExecuteInProcessResult, name: str) -> list[dict[str, object]]:
    check = check_of(result, name)
    assert (check.passed, check.blocking) == (False, True)
    assert "materialise holdouts/manifest" in check.metadata["remedy"].value.lower()
    return [dict(record.data) for record in check.metadata["offending"].records]


def test_splits_that_share_rows_are_shown(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(world.root / "packages")
    monkeypatch.setattr(writer, "check_package", planting(writer.check_package))
    result = world.materialize(PACKAGE, partition=RELEASES[-1])
    assert not result.success
    rows = rows_of(result, "splits_disjoint")
    window = next(row for row in rows if row["fault"] == "train windows in a held-out interval")
    assert {"origin", "window_id", "contig", "start", "end"} <= set(window)
    faults = {str(row["fault"]) for row in rows}
    assert "train windows equal to evaluation" in faults
    assert faults & {"alleles in train and test", "alleles in train and validation"}
    assert not list((world.root / "packages").glob("*/*"))


def test_holdouts_foretell_the_windows_that_a_mix_lacks(world: BuiltWorld) -> None:
    """The windows are those of the package; a smaller bound is told without a build, and blocks nothing."""
    published, tables = world.open("holdouts/manifest", RELEASES[-1]), world.open(PACKAGE, RELEASES[-1])
    package = open_tables(tables.directory, allow_unaudited=True)
    origins = package.windows(Split.TRAIN, ["origin"])["origin"].to_pylist()
    counts = {f"training_windows.{name}": n for name, n in Counter(origins).items()}
    assert counts == {name: n for name, n in published.manifest.counts.items() if name in counts}
    for most, passed in ((40, True), (2, False)):
        world.edit_catalog(packages={"max_visits": most})
        result = world.materialize("holdouts/manifest", partition=RELEASES[-1])
        check = check_of(result, WINDOWS_SUFFICE)
        assert result.success
        assert (check.passed, check.severity) == (passed, dg.AssetCheckSeverity.WARN)
    assert "set packages.max_visits: " in str(check.metadata["offending"].records[0].data["remedy"])


def test_a_catalogue_without_a_corpus_is_described(tmp_path: Path) -> None:
    held = build_holdouts(replace(simulated_inputs(), corpus=[]), HoldoutPolicy())

    def write(work: Path) -> BuildReport:
        pq.write_table(held.alleles, work / "alleles.parquet")
        return BuildReport(counts=held.counts, rows={"alleles.parquet": held.alleles.num_rows})

    artefact = ArtefactId("holdouts/manifest", "2025-01-05")
    plan = BuildPlan(artefact, "holdouts/2025-01-05", "1", {}, (), write)
    shown = describe_holdouts(build(Root(tmp_path / "root"), plan))
    assert shown["alleles_held_out"] == dg.MetadataValue.int(held.alleles.num_rows)
    assert "corpus_share_held_out" not in shown
    assert "composition" in shown
