"""What people see of holdouts, and of a package with planted leaks: its run fails and shows what leaked."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.defs.assets.holdouts import describe_holdouts
from genolewm_assets.genome import Split
from genolewm_assets.holdouts.build import build_holdouts
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.package_build import WINDOWS_SUFFICE, writer
from genolewm_assets.packages.reader import open_tables
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, check_of
from genolewm_assets_tests.worlds.lewm.holdout_world import simulated_inputs

PACKAGE = "packages/split"

world = copied


def evaluated(directory: Path, folder: str, names: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of validation and test, but those of the holdout of alleles."""
    for split in ("validation", "test"):
        for file in (directory / folder).glob(names.format(split)):
            rows = pq.read_table(file, partitioning=None).to_pylist()
            yield from (row for row in rows if row["holdout"] != "holdout-temporal")


def let_train(directory: Path, held: set[bytes]) -> None:
    """Let one of some windows train in place of another one of its piece."""
    for path in sorted((directory / "pieces").glob("*/trains.npy")):
        trains = np.load(path)
        hashes = pq.read_table(path.with_name("windows.parquet"), columns=["window_hash"])["window_hash"].to_pylist()
        leaked = next((row for row in np.flatnonzero(~trains) if hashes[row] in held), None)
        if leaked is not None:
            trains[[leaked, np.flatnonzero(trains)[0]]] = True, False
            np.save(path, trains)
            return
    raise AssertionError("no piece has an evaluated window")


def planting(check: Callable[..., tuple[CheckResult, ...]]) -> Callable[..., tuple[CheckResult, ...]]:
    """Return the checks of a package, run after a window and an allele of an evaluation were added to training."""

    def check_planted(directory: Path, *args: object, **options: object) -> tuple[CheckResult, ...]:
        let_train(directory, {row["window_hash"] for row in evaluated(directory, "data", "{}-*.parquet")})
        path = directory / "variants/train.parquet"
        train = pq.read_table(path, partitioning=None)
        leaked = next(evaluated(directory, "variants", "{}.parquet")) | {"holdout": None, "role": "train"}
        pq.write_table(pa.concat_tables([train, pa.Table.from_pylist([leaked], schema=train.schema)]), path)
        return check(directory, *args, **options)

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
