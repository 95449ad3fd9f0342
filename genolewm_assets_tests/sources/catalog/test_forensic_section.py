"""Section ``forensic`` of the catalogue: what it means, and what is refused with the key at fault."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from genolewm_assets.errors import CatalogError
from genolewm_assets.forensic.runs import RunRules
from genolewm_assets.sources.catalog.catalog import Catalog, load_catalog
from genolewm_assets.sources.catalog.forensic import ForensicSection
from genolewm_assets.sources.examination.forensic import look_at_panels, look_at_runs
from genolewm_assets_tests.worlds.forensic.run_folders import write_run


def load(folder: Path, **forensic: object) -> Catalog:
    contig = {"name": "chr21", "length": 46_709_983, "md5": "a" * 32}
    document = {"name": "x", "genome": {"name": "g", "fasta": "g.fa", "contigs": [contig]}, "clinvar": {"listing": "c"}}
    (folder / "x.yaml").write_text(yaml.safe_dump({**document, "forensic": forensic}))
    return load_catalog(folder / "x.yaml")


def test_without_the_section_there_are_no_runs_and_the_rules_are_the_usual_ones(tmp_path: Path) -> None:
    section = load(tmp_path).forensic
    assert section.runs is None
    assert section.policy == RunRules()


def test_keys_become_rules(tmp_path: Path) -> None:
    keys = {"runs": "runs", "panels": ["p.txt", "b.txt"], "n_scanpoints": 4_096, "negative_control": "optional"}
    section = load(tmp_path, **keys, ladder_names=["L*"]).forensic
    assert section.policy == RunRules(n_scanpoints=4_096, negative_required=False, ladder_names=("L*",))
    assert set(RunRules.__dataclass_fields__) - {"negative_required"} <= set(ForensicSection.model_fields)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"runs": "runs"}, r"\(forensic\.panels\): runs have no panel"),
        ({"runs": "s3://lab/runs", "panels": ["p"]}, r"\(forensic\.runs\): is on a server"),
        ({"panels": ["https://lab/p"]}, r"\(forensic\.panels\): is on a server"),
        ({"complete_marker": "../x"}, r"\(forensic\.complete_marker\): cannot name a file"),
        ({"n_scanpoints": 5}, r"\(forensic\.n_scanpoints\): is out of range: expected 256 to 131072, got 5"),
        ({"size_standard_bp": [1.0, 2.0]}, "its fragments are unusable"),
        ({"panel_file": "x"}, "unknown key"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, keys: dict[str, object], message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        load(tmp_path, **keys)


def test_the_examination_looks_at_folder_and_panel(tmp_path: Path) -> None:
    run, panels = write_run(tmp_path)
    assert list(look_at_runs(str(run.parent))) == []
    (tmp_path / "empty").mkdir()
    assert list(look_at_runs(str(tmp_path / "empty"))) == ["has no run folder yet"]
    assert list(look_at_panels(str, tuple(map(str, panels)), None)("")) == []
