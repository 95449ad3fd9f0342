"""Labels and stars that training has, and packages that have no allele to train on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import Split
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.schema import variants_path
from genolewm_assets.store.artefacts.build import BuildRejectedError
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.variants.schema import CLINVAR_VARIANTS
from genolewm_assets_tests.worlds.lewm.package_world import (
    GENOME_DIGEST,
    LENGTHS,
    RELEASE,
    clinvar,
    default_intervals,
    failed,
    gnomad,
    held_alleles,
    intervals,
    make_sources,
    publish,
)

T0 = "2024-01-07"
AT_T0 = {name: clinvar(name, "VUS B LP") for name in LENGTHS}
POLICY = HoldoutPolicy(validation_windows=10, temporal=(T0, RELEASE))


def test_the_card_says_what_training_knows_and_why(tmp_path: Path) -> None:
    write_package(tmp_path / "newest", make_sources(policy=POLICY))
    assert "Knowledge `newest`: training has the labels of 2025-01-05" in (tmp_path / "newest/README.md").read_text()
    write_package(tmp_path / "T0", make_sources(policy=POLICY, clinvar_t0=AT_T0))
    assert "Knowledge `T0`: training has the alleles and labels of T0" in (tmp_path / "T0/README.md").read_text()
    none = HoldoutPolicy(validation_windows=10, temporal_setting="12 months", temporal_rule="none_old_enough")
    write_package(tmp_path / "none", make_sources(policy=none))
    text = (tmp_path / "none/README.md").read_text()
    assert "Time: no temporal holdout for 2025-01-05: no release is 12 months older." in text


@pytest.fixture
def written(tmp_path: Path) -> Path:
    assert failed(write_package(tmp_path, make_sources()).checks) == set()
    return tmp_path


@pytest.fixture
def only_gene_held_out() -> dict[str, object]:
    """Return sources whose ClinVar alleles are of one gene, which is held out, as when it was drawn by hash."""
    rows = [("holdout-clinvar", "validation", row) for row in clinvar("chr17").to_pylist()]
    interval = intervals(("holdout-clinvar", "validation", "chr17", 350, 6_000))
    named = pa.Table.from_pylist([row | {"name": "BRCA1"} for row in interval.to_pylist()], schema=interval.schema)
    return {
        "alleles": held_alleles(*rows),
        "intervals": pa.concat_tables([default_intervals(), named]),
        "clinvar": {"chr17": clinvar("chr17")},
    }


def test_a_package_whose_only_gene_is_held_out_is_refused_with_what_to_write(tmp_path, only_gene_held_out):
    root = Root(tmp_path / "root")
    root.claim("tiny", GENOME_DIGEST)
    with pytest.raises(BuildRejectedError) as caught:
        publish(root, make_sources(**only_gene_held_out))
    text = str(caught.value)
    assert "['training_alleles_present']" in text
    assert "no P or LP ClinVar allele is left for training" in text
    assert "held out by holdout-clinvar (its only unit is BRCA1)" in text
    assert "holdouts.clinvar_genes (an empty list holds out none), or lower holdouts.clinvar_gene_fraction" in text
    assert "packages.without_alleles: true" in text


def test_a_declared_package_without_training_alleles_says_so(tmp_path, only_gene_held_out):
    report = write_package(tmp_path, make_sources(**only_gene_held_out, without_alleles=True))
    assert failed(report.checks) == set()
    text = (tmp_path / "README.md").read_text()
    assert "no P or LP ClinVar allele was accepted when the package was made" in text


def test_common_alleles_are_needed_too(tmp_path):
    held = {name: gnomad(name) for name in ("chr20", "chr21")}
    report = write_package(tmp_path / "held", make_sources(gnomad=held))
    assert failed(report.checks) == {"training_alleles_present"}
    figures = report.checks[-1].figures
    assert "held out by holdout-chr" in figures["cause"]
    assert "holdouts.contigs_validation" in figures["remedy"]
    assert failed(write_package(tmp_path / "none", make_sources(gnomad={})).checks) == set()
    assert "The inputs have no allele of gnomad." in (tmp_path / "none/README.md").read_text()


def labelled_null(table: pa.Table) -> pa.Table:
    """Return ClinVar alleles in which those labelled VUS have null stars."""
    stars = [None if row["label"] == "VUS" else row["stars"] for row in table.to_pylist()]
    at = table.schema.get_field_index("stars")
    return table.set_column(at, pa.field("stars", pa.int8()), pa.array(stars, pa.int8()))


def stars_of(directory: Path) -> list[int | None]:
    rows = pq.read_table(directory / variants_path(Split.TRAIN)).to_pylist()
    return [row["stars"] for row in rows if row["source"] == "clinvar"]


@pytest.mark.parametrize("at_t0", [None, {name: labelled_null(table) for name, table in AT_T0.items()}])
@pytest.mark.parametrize("least", [1, 4])
def test_alleles_with_fewer_stars_do_not_train_and_are_counted(tmp_path: Path, at_t0: object, least: int) -> None:
    newest = {name: labelled_null(clinvar(name)) for name in LENGTHS}
    sources = make_sources(policy=POLICY, clinvar=newest, clinvar_t0=at_t0)
    assert failed(write_package(tmp_path / "all", sources).checks) == set()
    some = replace(sources, mix=replace(sources.mix, min_training_stars=least))
    assert failed(write_package(tmp_path / "some", some).checks) == set()
    before, after = ((stars_of(tmp_path / name)) for name in ("all", "some"))
    assert None in before
    assert after == [stars for stars in before if (stars or 0) >= least]
    for split in (Split.VALIDATION, Split.TEST):
        assert (tmp_path / "all" / variants_path(split)).read_bytes() == (
            tmp_path / "some" / variants_path(split)
        ).read_bytes()
    was, now = (read_package_info(tmp_path / name).counts for name in ("all", "some"))
    out = len(before) - len(after)
    assert (was["alleles.clinvar.under_min_stars"], now["alleles.clinvar.under_min_stars"]) == (0, out)
    assert now["alleles.clinvar.held_out"] == was["alleles.clinvar.held_out"]
    train = pq.read_table(tmp_path / "all" / variants_path(Split.TRAIN)).to_pylist()
    harmful = sum(row["label"] in {"P", "LP"} and row["stars"] < least for row in train if row["source"] == "clinvar")
    assert now["alleles.clinvar.under_min_stars.harmful"] == harmful > 0


def test_a_package_whose_alleles_have_too_few_stars_is_refused_with_what_to_write(tmp_path: Path) -> None:
    sources = make_sources()
    none = clinvar("chr17").set_column(
        clinvar("chr17").schema.get_field_index("stars"),
        CLINVAR_VARIANTS.arrow.field("stars"),
        pa.array([0] * clinvar("chr17").num_rows, pa.int8()),
    )
    some = replace(sources, clinvar={"chr17": none}, mix=replace(sources.mix, min_training_stars=1))
    report = write_package(tmp_path, some)
    assert failed(report.checks) == {"training_alleles_present"}
    figures = report.checks[-1].figures
    assert "have fewer than 1 review stars" in str(figures["cause"])
    assert "Lower packages.min_training_stars" in str(figures["remedy"])
