"""The check of labels: a package whose training has labels of another release than it declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import Split
from genolewm_assets.lewm.holdouts.policy import HoldoutPolicy
from genolewm_assets.lewm.mapped.split import MappedSplit, open_mapped
from genolewm_assets.lewm.package_build.allele_checks import check_bench, check_training_alleles
from genolewm_assets.lewm.package_build.label_checks import check_labels, check_training_stars
from genolewm_assets.lewm.package_build.plan import PackageSources
from genolewm_assets.lewm.package_build.writer import write_package
from genolewm_assets.lewm.packages.files import write_package_table
from genolewm_assets.lewm.packages.info import read_package_info
from genolewm_assets.lewm.packages.reader import Package
from genolewm_assets.lewm.packages.schema import PACKAGE_VARIANTS, PACKAGE_WINDOWS, variants_path
from genolewm_assets.lewm.training import scoring
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


def wrong(directory: Path, sources: PackageSources) -> dict[str, int]:
    check = check_labels(directory, read_package_info(directory), sources)
    found = {name: n for name, n in check.figures.items() if name.startswith("wrong") and isinstance(n, int) and n}
    assert check.passed == (not found)
    return found


@pytest.mark.parametrize("at_t0", [None, AT_T0], ids=["newest", "T0"])
@pytest.mark.parametrize("split", list(Split))
@pytest.mark.parametrize(("column", "value"), [("label", "OTHER"), ("stars", 4)])
def test_one_label_of_nowhere_is_found(tmp_path: Path, at_t0: object, split: Split, column: str, value: object) -> None:
    sources = make_sources(policy=POLICY, clinvar_t0=at_t0)
    assert failed(write_package(tmp_path, sources).checks) == set()
    assert wrong(tmp_path, sources) == {}

    def alter(rows: list[dict[str, object]]) -> None:
        row = next(row for row in rows if row["source"] == "clinvar" and row[column] != value)
        row[column] = value

    rewrite(tmp_path / variants_path(split), alter)
    assert wrong(tmp_path, sources) == {"wrong_in_train" if split is Split.TRAIN else "wrong_in_evaluation": 1}


def rewrite(path: Path, alter: Callable[[list[dict[str, object]]], None]) -> None:
    rows = pq.read_table(path).to_pylist()
    alter(rows)
    path.unlink()
    write_package_table(path, [pa.Table.from_pylist(rows, schema=PACKAGE_VARIANTS.arrow)], PACKAGE_VARIANTS)


@pytest.mark.parametrize(("has", "declares"), [(AT_T0, "newest"), (None, "T0")])
def test_training_on_another_release_than_declared_is_found(tmp_path: Path, has: object, declares: str) -> None:
    sources = make_sources(policy=POLICY, clinvar_t0=has)
    write_package(tmp_path, sources)
    info = replace(read_package_info(tmp_path), knowledge=declares)
    checked = check_labels(tmp_path, info, replace(sources, clinvar_t0=AT_T0))
    assert not checked.passed
    assert int(str(checked.figures["wrong_in_train"])) > 10


def test_knowledge_at_t0_without_t0_is_refused(tmp_path: Path) -> None:
    report = write_package(tmp_path, make_sources(clinvar_t0=AT_T0))
    assert failed(report.checks) == {"labels_as_declared"}


def test_the_card_says_what_training_knows_and_why(tmp_path: Path) -> None:
    write_package(tmp_path / "newest", make_sources(policy=POLICY))
    assert "Knowledge `newest`: training has the labels of 2025-01-05" in (tmp_path / "newest/README.md").read_text()
    write_package(tmp_path / "T0", make_sources(policy=POLICY, clinvar_t0=AT_T0))
    assert "Knowledge `T0`: training has the alleles and labels of T0" in (tmp_path / "T0/README.md").read_text()
    none = HoldoutPolicy(validation_windows=10, temporal_setting="12 months", temporal_rule="none_old_enough")
    write_package(tmp_path / "none", make_sources(policy=none))
    text = (tmp_path / "none/README.md").read_text()
    assert "Time: no temporal holdout for 2025-01-05: no release is 12 months older." in text


VALIDATION = "data/validation-00000-of-00001.parquet"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    assert failed(write_package(tmp_path, make_sources()).checks) == set()
    return tmp_path


def change(directory: Path, path: str, edit: Callable[[list[dict[str, object]]], list[dict[str, object]]]) -> None:
    schema = PACKAGE_WINDOWS if path.startswith("data/") else PACKAGE_VARIANTS
    rows = edit(pq.read_table(directory / path).to_pylist())
    (directory / path).unlink()
    write_package_table(directory / path, [pa.Table.from_pylist(rows, schema=schema.arrow)], schema)


def first_scored(rows: list[dict[str, object]]) -> dict[str, object]:
    return next(row for row in rows if (row["holdout"], row["scoring"]) == ("holdout-chr", "scored"))


def found(directory: Path) -> dict[str, object]:
    result = check_bench(directory, read_package_info(directory), make_sources().clinvar)
    names = {"qualify", "emitted", "not_shown"}
    wrong = {name: n for name, n in result.figures.items() if name not in names and n}
    assert result.passed == (not wrong)
    return wrong


def test_an_intact_bench_is_counted(written):
    result = check_bench(written, read_package_info(written), make_sources().clinvar)
    # 24 alleles a contig, of which 4 of 6 are labelled and 4 of 5 have a star; and one temporal allele.
    assert (result.figures["qualify"], result.figures["emitted"], result.figures["not_shown"]) == (27, 27, 0)
    assert result.passed


def test_an_allele_left_out_is_found(written):
    change(written, "variants/test.parquet", lambda rows: [row for row in rows if row != first_scored(rows)])
    assert found(written) == {"missing": 1, "wrong_count": 1}


def test_an_allele_stated_as_not_shown_without_cause_is_found(written):
    def edit(rows):
        first_scored(rows)["scoring"] = "in_no_window"
        return rows

    change(written, "variants/test.parquet", edit)
    assert found(written) == {"unjustified": 1, "wrong_count": 1}


def test_an_allele_that_does_not_qualify_is_found(written):
    def edit(rows):
        extra = next(row for row in rows if row["holdout"] == "holdout-chr" and row["stars"] == 0)
        extra["scoring"] = "scored"
        return rows

    change(written, "variants/test.parquet", edit)
    assert found(written) == {"unexpected": 1, "wrong_label": 1, "under_min_stars": 1, "wrong_count": 1}


def test_another_label_is_found(written):
    def edit(rows):
        row = first_scored(rows)
        row["label"] = "B" if row["label"] != "B" else "P"
        return rows

    change(written, "variants/validation.parquet", edit)
    assert found(written) == {"wrong_label": 1}


def test_an_allele_shown_twice_is_found(written):
    change(written, "variants/validation.parquet", lambda rows: [first_scored(rows), *rows])
    assert found(written) == {"emitted_again": 1}


def test_lost_windows_are_found(written):
    change(written, VALIDATION, lambda rows: [row for row in rows if row["frozen"]])
    assert found(written)["problems"]


def test_training_needs_alleles_inside_its_windows(written):
    info = read_package_info(written)
    assert check_training_alleles(written, info).passed
    for source, lost in (("clinvar", "P or LP ClinVar allele"), ("gnomad", "gnomAD allele")):
        original = (written / "variants/train.parquet").read_bytes()
        moved = {"pos": 29_999, "ref": "A", "alt": "C"}  # behind the last window

        def edit(rows, source=source, moved=moved):
            return [row | (moved if row["source"] == source else {}) for row in rows]

        change(written, "variants/train.parquet", edit)
        result = check_training_alleles(written, info)
        assert not result.passed
        assert f"no {lost} of the" in result.figures["cause"]
        assert check_training_alleles(written, replace(info, without_alleles=True)).passed
        none = replace(info, counts={**info.counts, f"alleles.{source}.in": 0})
        assert check_training_alleles(written, none).passed  # the inputs have none
        (written / "variants/train.parquet").write_bytes(original)


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


def test_a_split_is_opened_once_for_all_its_holdouts(written, monkeypatch):
    opened: list[Split] = []

    def counted(package: Package, split: Split) -> MappedSplit:
        opened.append(split)
        return open_mapped(package, split)

    monkeypatch.setattr(scoring, "open_mapped", counted)
    assert check_bench(written, read_package_info(written), make_sources().clinvar).passed
    assert opened == [Split.VALIDATION, Split.TEST]


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


@pytest.mark.parametrize("stars", [1, None])
def test_a_training_allele_with_fewer_stars_than_the_package_states_is_found(tmp_path: Path, stars: int | None) -> None:
    sources = make_sources()
    write_package(tmp_path, replace(sources, mix=replace(sources.mix, min_training_stars=2)))
    info = read_package_info(tmp_path)
    assert check_training_stars(tmp_path, info).passed

    def alter(rows: list[dict[str, object]]) -> None:
        next(row for row in rows if row["source"] == "clinvar")["stars"] = stars

    rewrite(tmp_path / variants_path(Split.TRAIN), alter)
    check = check_training_stars(tmp_path, info)
    assert (check.passed, check.figures["under_min_stars"]) == (False, 1)
    assert check.rows[0]["expected"] == "at least 2 stars"
    assert check_training_stars(tmp_path, replace(info, mix=sources.mix)).passed


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
