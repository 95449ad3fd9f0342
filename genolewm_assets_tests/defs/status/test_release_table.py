"""The table of releases as people see it."""

from __future__ import annotations

import json
import shutil

import pytest

from genolewm_assets.defs.runtime.release_age import ReleaseRun
from genolewm_assets.defs.status import release_table
from genolewm_assets.defs.status.release_table import ReleaseRow, as_markdown, release_metadata
from genolewm_assets_tests.defs.conftest import CommandLine
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

FIGURES = {"added": 1_200, "removed": 3, "reclassified": 0, "bench_alleles": 7}


def test_texts_of_errors_form_no_markup() -> None:
    pages = {"run": "/runs/0123", "failed checks and rows": "/assets/clinvar/shard?view=checks"}
    row = ReleaseRow("2025-01-05", "refused", "<script> | `x` [a](b)", "0123", FIGURES, pages)
    (line,) = as_markdown([row]).splitlines()[2:]
    assert "| [run](/runs/0123), [failed checks and rows](/assets/clinvar/shard?view=checks) |" in line
    assert "1,200" in line
    assert not set("<`") & set(line)
    assert line.count("|") == as_markdown([]).splitlines()[0].count("|")


def test_releases_without_figures_leave_gaps_in_the_picture() -> None:
    rows = [ReleaseRow("2025-01-12", "offered", "", None, {}), ReleaseRow("2025-01-05", "served", "", None, FIGURES)]
    shown = release_metadata(rows)
    assert set(shown) == {"releases", "over_releases"}
    assert "data:image/svg+xml" in str(shown["over_releases"].value)
    assert "2 releases; 2025-01-12: nothing is published" in str(shown["over_releases"].value)
    assert release_metadata([]) == {}


def test_what_is_served_stays_served_while_it_is_built_again(built: BuiltWorld) -> None:
    run, key = ReleaseRun("running", "0123"), RELEASES[1]
    row = release_table._row(built.workspace(), key, run, "", is_served=True)
    assert (row.state, row.why, row.run_id) == ("served", "a later build of it is running", "0123")
    assert release_table._row(built.workspace(), key, run, "", is_served=False).state == "running"


def test_alleles_of_genes_and_newly_labelled_are_benches(built: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"bench": 2, "of_gene": 100, "in_span": 1_000}
    found = {f"alleles.holdout-clinvar.{name}": n for name, n in counts.items()}
    found |= {"alleles.holdout-temporal.new": 3, "alleles.holdout-temporal.became_labelled": 5}
    monkeypatch.setattr(release_table, "_counts", lambda _: found)
    row = release_table._row(built.workspace(), RELEASES[1], None, "", is_served=True)
    assert row.figures["bench_alleles"] == 2 + 3 + 5


def test_the_command_lists_all_releases(copied: BuiltWorld, genolewm: CommandLine) -> None:
    shutil.copytree(copied.folder / "history", copied.root / "dagster")
    options = ("--root", copied.root, "--catalog", copied.catalog)
    assert genolewm("releases", *options, "--json") == 0
    rows = json.loads(genolewm.out)
    assert [(row["release"], row["state"]) for row in rows] == [(RELEASES[1], "served"), (RELEASES[0], "built")]
    assert rows[0]["added"] == 0
    assert rows[0]["pages"] == {
        name: f"/assets/{asset}?view=partitions&partition={RELEASES[1]}"
        for name, asset in (("changes", "clinvar/changes"), ("audit", "packages/audit"))
    }
    assert genolewm("releases", *options) == 0
    assert f"{RELEASES[1]}  served  0 added, 0 removed, 0 reclassified" in genolewm.out
