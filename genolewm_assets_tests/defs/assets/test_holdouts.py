"""What people see of the holdouts where a catalogue leaves something out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq

from genolewm_assets.defs.assets.holdouts import describe_holdouts
from genolewm_assets.lewm.holdouts.build import build_holdouts
from genolewm_assets.lewm.holdouts.policy import HoldoutPolicy
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.lewm.holdout_world import simulated_inputs


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
