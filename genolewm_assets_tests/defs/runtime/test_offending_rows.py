"""Failing builds in the UI: the page of a failed check shows the rows at fault, and the step says where to look."""

from __future__ import annotations

import gzip
import json

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from genolewm_assets.defs.assets import GATED, windows
from genolewm_assets.defs.assets.graph import ASSETS
from genolewm_assets.defs.operations.demo import Demo
from genolewm_assets.defs.runtime.settings import WorkspaceResource
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld, check_of, failure_of

GENOME, GNOMAD, WINDOWS, RELEASE = "reference/genome", "gnomad/shard", "windows/index", "clinvar/release"


def shown(result: dg.ExecuteInProcessResult, name: str) -> tuple[dg.AssetCheckEvaluation, list[dict[str, object]]]:
    """Return a failed check and its rows at fault."""
    check = check_of(result, name)
    assert (check.passed, check.blocking) == (False, True)
    assert list(check.metadata)[:2] == ["offending", "remedy"]
    assert check.metadata["remedy"].value
    return check, [dict(record.data) for record in check.metadata["offending"].records]


def test_wrong_reference_bases_are_shown_with_their_lines_and_the_bases_expected(world: TinyWorld) -> None:
    world.make(GENOME)
    world.write_gnomad("chr17", world.gnomad_records("chr17", wrong_ref=12))
    result = world.materialize(GNOMAD, partition="chr17")
    check, rows = shown(result, "ref_mismatches_rare")
    assert check.metadata["remedy"].value.startswith("The file is most likely of another assembly.")
    assert check.description.startswith("ref_mismatches_rare does not hold: examined 45, fraction 0.1333, ")
    lines = gzip.decompress((world.folder / "gnomad.chr17.vcf.bgz").read_bytes()).decode().splitlines()
    assert len(rows) == check.metadata["ref_mismatches"].value == 6
    assert [row["line"] for row in rows] == sorted(row["line"] for row in rows)
    for row in rows:
        contig, pos, record_id, ref, alt, *_ = lines[int(str(row["line"])) - 1].split("\t")
        assert (row["chrom"], str(row["pos"]), row["ref"], row["alt"]) == (contig, pos, ref, alt)
        assert row["record_id"] in (record_id, None)
        start = int(pos) - 1
        assert row["expected"] == world.sequences["chr17"][start : start + len(ref)].decode() != ref
    text = failure_of(result)
    assert "Assets > gnomad/shard > Checks > ref_mismatches_rare" in text
    assert "manifest.json" not in text
    (event,) = result.get_step_failure_events()
    pages = event.step_failure_data.user_failure_data.metadata
    assert pages["ref_mismatches_rare"].value == "/assets/gnomad/shard?view=checks&checkDetail=ref_mismatches_rare"
    kept = json.loads((world.root / "rejected/gnomad/4.1/chr17/rows_at_fault.json").read_text())
    assert kept == {"ref_mismatches_rare": rows}
    assert b"line" not in (world.root / "rejected/gnomad/4.1/chr17/manifest.json").read_bytes()


def test_an_input_that_is_missing_is_shown_with_what_to_do(world: TinyWorld) -> None:
    result = world.materialize(WINDOWS, partition="chr17")
    _, (row,) = shown(result, "inputs_accepted")
    assert str(row["where"]).startswith("reference/genome")
    assert "Assets >" not in failure_of(result)


def test_windows_out_of_place_or_altered_are_shown(world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make(GENOME)
    right = windows.build_window_table

    def shifted(*args: object, **options: object) -> pa.Table:
        table = right(*args, **options)  # type: ignore[arg-type]
        for name in ("start", "end"):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), pc.add(table[name], 6))
        return table

    monkeypatch.setattr(windows, "build_window_table", shifted)
    result = world.materialize(WINDOWS, partition="chr17")
    _, moved = shown(result, "windows_tile_contig")
    assert 1 <= len(moved) <= 10
    assert {row["start"] - row["expected_start"] for row in moved} == {6}  # type: ignore[operator]
    _, altered = shown(result, "window_hashes_right")
    assert [row["row"] for row in altered] == list(range(len(altered)))
    assert all(row["window_id"] != row["expected_id"] for row in altered)


def test_the_demo_prints_the_first_three_rows(world: TinyWorld) -> None:
    world.write_gnomad("chr17", world.gnomad_records("chr17", wrong_ref=12))
    resources = {"workspace": WorkspaceResource(root=str(world.root), catalog=str(world.catalog))}
    graph = dg.Definitions(assets=ASSETS, resources=resources)
    demo = Demo(graph, workspace=Workspace.open(world.root, str(world.catalog)), instance=world.instance)
    *_, failed = demo.run([(GATED[GENOME], None), (GATED[GNOMAD], "chr17")])
    assert failed.outcome == "failed"
    first, *rows = failed.text().splitlines()
    assert first == failed.line()
    assert len(rows) == 3
    assert all(row.startswith("  ref_mismatches_rare: chrom chr17, pos ") for row in rows)
    assert all(", expected " in row and ", line " in row for row in rows)
    assert failed.as_json()["offending"] == {"ref_mismatches_rare": [row.partition(": ")[2] for row in rows]}
