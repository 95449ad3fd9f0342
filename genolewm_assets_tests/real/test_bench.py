"""The bench of the real data against its VCF, read as plain text; a package that is left without a training allele."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets import lewm
from genolewm_assets.lewm import TrainingTuple
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.places import CATALOGS
from genolewm_assets_tests.real.conftest import RealRoot

torch_data = Late("torch.utils.data")

EDGE_BP, FLANK_BP = 64, 256
FILES = {"2020-11-07": "clinvar_20201107.vcf.gz", "2026-02-26": "clinvar_20260226.vcf.gz"}
CLASSES = {
    "Pathogenic": "P",
    "Likely_pathogenic": "LP",
    "Pathogenic/Likely_pathogenic": "LP",
    "Benign": "B",
    "Likely_benign": "LB",
    "Benign/Likely_benign": "LB",
}
STARS = {
    "practice_guideline": 4,
    "reviewed_by_expert_panel": 3,
    "criteria_provided,_multiple_submitters,_no_conflicts": 2,
    "criteria_provided,_multiple_submitters": 2,
    "criteria_provided,_single_submitter": 1,
}


def labelled(shared_data: Path, release: str) -> dict[int, tuple[str, int, int, int, int]]:
    """Return class, stars, start, length and change of length of every labelled BRCA1 record with a star, by ID."""
    found = {}
    text = gzip.decompress((shared_data / "clinvar/vcf_GRCh38" / FILES[release]).read_bytes()).decode()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        chrom, pos, name, ref, alt, _, _, fields = line.split("\t")[:8]
        info = dict(pair.partition("=")[::2] for pair in fields.split(";"))
        term = info.get("CLNSIG", "").split("|")[0].split(",_low_penetrance")[0]
        stars = STARS.get(info.get("CLNREVSTAT", ""), 0)
        if chrom.removeprefix("chr") == "17" and term in CLASSES and stars and not set(ref + alt) - set("ACGT"):
            longest, change = max(len(ref), len(alt)), abs(len(ref) - len(alt))
            found[int(name)] = CLASSES[term], stars, int(pos) - 1, longest, change
    return found


def shown(dataset: lewm.GenoLeWMValDataset, workers: int) -> list[TrainingTuple]:
    loader = torch_data.DataLoader(dataset, batch_size=None, num_workers=workers)
    return [one for batch in loader for one in batch.tuples]


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("release", list(FILES))
def test_every_labelled_allele_of_the_held_gene_is_shown_once(real: RealRoot, shared_data: Path, release: str) -> None:
    package = real.without_brca1[release]
    wanted = labelled(shared_data, release)
    windows = pq.read_table(real.path / "windows/default/chr17/windows.parquet", columns=["start", "end"]).to_pylist()
    fitting = {
        name
        for name, (_, _, start, longest, change) in wanted.items()
        if change <= FLANK_BP
        and any(w["start"] + EDGE_BP <= start and start + longest <= w["end"] - EDGE_BP for w in windows)
    }
    assert len(fitting) > 4_000
    assert len(wanted) - len(fitting) < 0.01 * len(wanted)
    for seed, workers, holdout in ((0, 0, "holdout-clinvar"), (3, 3, "holdout-clinvar")):
        options = {"seed": seed, "coverage": "alleles", "contents": "sizes"}
        made = shown(lewm.GenoLeWMValDataset(package, holdout, **options), workers)
        assert len(made) == len(fitting)
        assert {one.clinvar_id for one in made} == fitting
        assert {one.clinvar_id: (one.label, one.stars) for one in made} == {name: wanted[name][:2] for name in fitting}
        assert all(672 in one.gene_ids for one in made if one.stars > 1)
    for one in made:
        edit = one.rel_edit
        spliced = one.source_window[: edit.rel_pos] + edit.alt + one.source_window[edit.rel_end :]
        assert one.target_window.startswith(spliced[: len(one.target_window)])
        assert one.window_start + edit.rel_pos == one.alleles[0].pos - 1


def test_no_label_without_a_star_is_in_any_evaluation(real: RealRoot, shared_data: Path) -> None:
    release = "2026-02-26"
    starred = labelled(shared_data, release)
    for holdout in ("holdout-clinvar", "holdout-temporal"):
        dataset = lewm.GenoLeWMValDataset(
            real.without_brca1[release], holdout, n_edits=32, multi_edit_share=0, contents="sizes"
        )
        offered = [one for batch in dataset for one in batch.tuples if one.edit_source == "clinvar"]
        assert len(offered) > 20
        assert {one.clinvar_id for one in offered} <= set(starred)


def test_a_gene_drawn_by_hash_that_leaves_training_without_labels_is_refused(real: RealRoot, tmp_path: Path) -> None:
    # Every ClinVar record of the data is BRCA1's, so the draw holds out all labels.
    text = (CATALOGS / "shared_data_all_genes.yaml").read_text()
    assert "  clinvar_genes: []\n" in text
    base = (CATALOGS / "../../../shared/data").resolve()
    text = text.replace("  clinvar_genes: []\n", "").replace("base: ../../../shared/data", f"base: {base}")
    (tmp_path / "catalog.yaml").write_text(text)
    subprocess.run(["cp", "-al", str(real.path), str(tmp_path / "root")], check=True, timeout=600)
    module = "genolewm_assets_tests.worlds.graph.quick_dagster"
    command = [sys.executable, "-m", module, "demo", "--root", str(tmp_path / "root"), "--json"]
    done = subprocess.run(
        [*command, "--catalog", str(tmp_path / "catalog.yaml")],
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode != 0
    report = done.stdout + done.stderr
    assert "training_alleles_present" in report
    assert "no P or LP ClinVar allele is left for training" in report
    assert "its only unit is BRCA1" in report
    assert "holdouts.clinvar_genes (an empty list holds out none)" in report
    published = {record.read_bytes() for record in (real.path / "packages").glob("*/latest.json")}
    assert {record.read_bytes() for record in (tmp_path / "root/packages").glob("*/latest.json")} == published
