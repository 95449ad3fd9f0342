from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import Contig, Variant, normalise
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.store.tables.schema import TableSchema
from genolewm_assets.variants import checks as shard_checks
from genolewm_assets.variants.checks import (
    check_account,
    check_clinvar_table,
    check_contigs_known,
    check_filters,
    check_normal_form,
    check_ref_mismatches,
)
from genolewm_assets.variants.declared_checks import CLINVAR_CHECKS, GNOMAD_CHECKS
from genolewm_assets.variants.schema import CLINVAR_VARIANTS, GNOMAD_VARIANTS, REJECTS
from genolewm_assets_tests.rows import each_row

SEQUENCE = b"NNGATTTTTCACACACGTMGGATCN"
CHR1 = Contig("chr1", len(SEQUENCE))
check_gnomad_table = partial(shard_checks.check_gnomad_table, min_af=0.01, filters={"PASS"})

Cells = dict[str, object]

ALLELES: list[Cells] = [
    {"chrom": "chr1", "pos": 3, "ref": "G", "alt": "A"},
    {"chrom": "chr1", "pos": 3, "ref": "G", "alt": "C"},
    {"chrom": "chr1", "pos": 4, "ref": "A", "alt": "AT"},
    {"chrom": "chr1", "pos": 4, "ref": "AT", "alt": "A"},
    {"chrom": "chr1", "pos": 9, "ref": "TC", "alt": "GG"},
    # The assembly has an M here, which VCF writes as A.
    {"chrom": "chr1", "pos": 19, "ref": "A", "alt": "T"},
]
GNOMAD: Cells = {"filter": "PASS", "af": 0.25, "ac": 25, "an": 100, "af_afr": 0.5, "max_hl": None}
CLINVAR: Cells = {"clinvar_id": 7, "label": "LP", "clnsig": "Pathogenic/Likely_pathogenic", "stars": 2}
CLINVAR |= {"gene_symbols": ["BRCA1"], "gene_ids": [672]}


def table(schema: TableSchema, change: Cells | None = None, *, row: int = 2) -> pa.Table:
    """Return a sound table, with one row changed."""
    payload = GNOMAD if schema is GNOMAD_VARIANTS else CLINVAR
    rows = [{**dict.fromkeys(schema.columns), **payload, **allele} for allele in ALLELES]
    rows[row].update(change or {})
    return pa.Table.from_pylist(rows, schema=schema.arrow)


def failed(results: tuple[CheckResult, ...]) -> list[str]:
    return [result.name for result in results if not result.passed]


def test_sound_tables_pass_every_check() -> None:
    gnomad = check_gnomad_table(table(GNOMAD_VARIANTS), CHR1, SEQUENCE)
    clinvar = check_clinvar_table(table(CLINVAR_VARIANTS), CHR1, SEQUENCE)
    assert failed(gnomad) == failed(clinvar) == []
    assert [result.name for result in gnomad] == list(GNOMAD_CHECKS[:6])
    assert [result.name for result in clinvar] == list(CLINVAR_CHECKS[:5])
    by_name = {result.name: result.figures for result in gnomad}
    assert by_name["ref_agrees_with_genome"]["compared_bases"] == 8
    assert by_name["frequencies_consistent"]["with_counts"] == 6


@each_row(
    ("check", "change"),
    [
        ("alleles_sorted_and_unique", {"pos": 3, "ref": "G", "alt": "C"}),
        ("alleles_sorted_and_unique", {"pos": 2}),
        ("alleles_sorted_and_unique", {"chrom": "1"}),
        *(("alleles_in_normal_form", {"ref": "AT", "alt": alt}) for alt in ("ATT", "CT", "AG")),
        *(("alleles_in_normal_form", {"ref": "A", "alt": alt}) for alt in ("A", "N", "", "g")),
        ("alleles_in_normal_form", {"pos": 5, "ref": "T", "alt": "TT"}),
        ("ref_agrees_with_genome", {"ref": "G", "alt": "GT"}),
        *(("ref_agrees_with_genome", {"pos": 0}), ("ref_agrees_with_genome", {"pos": 26})),
        *(("frequencies_consistent", {"af": af}) for af in (1.2, float("nan"), 0.26)),
        *(("frequencies_consistent", {"af_afr": -0.1}), ("frequencies_consistent", {"max_hl": 1.1})),
        ("frequencies_consistent", {"ac": 101, "af": 1.0}),
        ("kept_alleles_pass_filters", {"af": 0.0099, "ac": None}),
        *(("kept_alleles_pass_filters", {"filter": "AC0"}), ("kept_alleles_pass_filters", {"filter": "."})),
    ],
)
def test_each_planted_fault_is_found(check: str, change: Cells) -> None:
    assert check in failed(check_gnomad_table(table(GNOMAD_VARIANTS, change), CHR1, SEQUENCE))


@each_row(
    "change",
    [
        *({"label": "Pathogenic"}, {"label": "B"}, {"label": "P"}, {"stars": 5}, {"stars": -1}, {"gene_ids": []}),
        *({"label": "P", "clnsig": None}, {"label": "P", "clnsig": "Benign|Pathogenic"}),
        {"label": "P", "clnsig": "Conflicting_classifications_of_pathogenicity|Pathogenic"},
        {"label": "P", "clnsig": "Conflicting_classifications_of_pathogenicity"},
        {"label": "LP", "clnsig": "Uncertain_significance"},
        {"label": "B", "clnsig": "Benign/Likely_benign"},
        {"label": "LB", "clnsig": "Pathogenic"},
        {"label": "VUS", "clnsig": "drug_response"},
    ],
)
def test_each_planted_label_fault_is_found(change: Cells) -> None:
    assert failed(check_clinvar_table(table(CLINVAR_VARIANTS, change), CHR1, SEQUENCE)) == ["labels_follow_clnsig"]


@each_row(
    ("label", "clnsig"),
    [
        ("P", "Pathogenic,_low_penetrance"),
        ("P", "Pathogenic|risk_factor"),
        ("LB", "Benign/Likely_benign"),
        ("VUS", "Uncertain_significance|drug_response"),
        ("OTHER", "Conflicting_interpretations_of_pathogenicity"),
        ("OTHER", None),
    ],
)
def test_right_labels_pass(label: str, clnsig: str | None) -> None:
    rows = table(CLINVAR_VARIANTS, {"label": label, "clnsig": clnsig})
    assert failed(check_clinvar_table(rows, CHR1, SEQUENCE)) == []


def test_a_wrong_schema_fails_every_check() -> None:
    results = check_gnomad_table(table(GNOMAD_VARIANTS).drop_columns(["af"]), CHR1, SEQUENCE)
    assert failed(results) == list(GNOMAD_CHECKS[:6])
    assert "af" in str(results[0].figures["error"])
    nulls = table(CLINVAR_VARIANTS, {"label": None})
    assert failed(check_clinvar_table(nulls, CHR1, SEQUENCE)) == list(CLINVAR_CHECKS[:5])


def test_filters_that_were_accepted_pass_and_a_circular_contig_is_exempt() -> None:
    rows = table(GNOMAD_VARIANTS, {"filter": "EXOMES_FILTERED", "af": 0.001})
    assert not check_filters(rows, CHR1, min_af=0.0, filters={"PASS"}).passed
    assert check_filters(rows, CHR1, min_af=0.001, filters={"PASS", "EXOMES_FILTERED"}).passed
    exempt = check_filters(rows, Contig("chr1", 9, circular=True), min_af=0.5, filters=set())
    assert exempt.passed
    nothing = "every site of a circular contig is kept"
    assert exempt.figures == {"exempt_rows": 6, "compared": 0, "not_compared": nothing}


def test_what_was_not_compared_is_not_reported() -> None:
    wrong = table(GNOMAD_VARIANTS).drop_columns(["af"])
    for rows in (table(GNOMAD_VARIANTS), GNOMAD_VARIANTS.empty(), wrong):
        names = [result.name for result in check_gnomad_table(rows, CHR1, None)]
        assert names == [name for name in GNOMAD_CHECKS[:6] if name != "ref_agrees_with_genome"]


_BASES = st.text("ACGT", min_size=1, max_size=4)


@given(_BASES, _BASES, st.text("AC", min_size=6, max_size=30), st.integers(1, 5))
def test_normal_form_is_recognised_exactly(ref: str, alt: str, flank: str, pos: int) -> None:
    """The check's definition agrees with the normaliser's arithmetic on repetitive sequence."""
    reference = (flank[: pos - 1] + ref + flank[pos - 1 :]).encode()
    if ref == alt:
        return
    variant = Variant("chr1", pos, ref, alt)
    rows = pa.table({"chrom": ["chr1"], "pos": [pos], "ref": [ref], "alt": [alt]})
    assert check_normal_form(rows, left_aligned=True).passed == (normalise(variant, reference) == variant)


ACCOUNT = {"alleles_in": 10, "kept": 6, "rejected": 2, "filtered": 2, "rejected.iupac": 2, "filtered.low_af": 2}


def rejects(*reasons: str) -> pa.Table:
    row = {"file": "a.vcf", "line": 1, "chrom": "1", "pos": 3, "ref": "G", "alt": "N"}
    return pa.Table.from_pylist([{**row, "reason": reason} for reason in reasons], schema=REJECTS.arrow)


def test_account_adds_up() -> None:
    assert check_account(ACCOUNT, 6, rejects("iupac", "iupac"), alleles_in_source=10).passed
    labelled = {**ACCOUNT, "label.P": 2, "label.OTHER": 4, "label_before_rejects.P": 9}
    assert check_account(labelled, 6, rejects("iupac", "iupac"), alleles_in_source=10).passed
    missed = check_account(ACCOUNT, 6, rejects("iupac", "iupac"), alleles_in_source=20)
    assert not missed.passed
    assert missed.figures["problems"] == ["alleles_in is not the number of ALT alleles in the source"]


@each_row(
    ("counts", "rows", "reasons", "problem"),
    [
        ({**ACCOUNT, "alleles_in": 11}, 6, ("iupac", "iupac"), "alleles_in"),
        (ACCOUNT, 5, ("iupac", "iupac"), "number of rows"),
        (ACCOUNT, 6, ("iupac",), "number of rejects"),
        (ACCOUNT, 6, ("iupac", "symbolic"), "rejects by reason"),
        ({**ACCOUNT, "filtered.low_af": 1}, 6, ("iupac", "iupac"), "filtered by reason"),
        ({**ACCOUNT, "label.P": 5}, 6, ("iupac", "iupac"), "labels"),
    ],
)
def test_an_account_that_does_not_add_up_fails(
    counts: Mapping[str, int], rows: int, reasons: tuple[str, ...], problem: str
) -> None:
    result = check_account(counts, rows, rejects(*reasons), alleles_in_source=counts["alleles_in"])
    assert not result.passed
    assert problem in str(result.figures["problems"])


@each_row(("mismatches", "passed"), [(0, True), (1, True), (2, False)])
def test_share_of_ref_mismatches(mismatches: int, passed: bool) -> None:
    counts = {"kept": 1000 - mismatches, "rejected": mismatches, "rejected.ref_mismatch": mismatches}
    result = check_ref_mismatches(counts, rejects(*["ref_mismatch"] * mismatches), max_fraction=0.001)
    assert result.passed is passed
    assert result.figures["examined"] == 1000
    assert check_ref_mismatches({"kept": 0, "rejected": 0}, rejects(), max_fraction=0.0).passed


def test_the_first_ten_ref_mismatches_are_shown_with_line_and_expected_base() -> None:
    same = {"file": "a.vcf", "chrom": "21", "ref": "G", "alt": "T"}
    detail = {"detail": "the reference has A"}
    found = [
        {**same, **detail, "line": 7 + n, "pos": 100 + n, "record_id": f"rs{n}", "reason": reason}
        for n, reason in enumerate(["ref_mismatch", "iupac", *["ref_mismatch"] * 18])
    ]
    table = pa.Table.from_pylist(found, schema=REJECTS.arrow)
    result = check_ref_mismatches({"kept": 0, "rejected": 20, "rejected.ref_mismatch": 19}, table, max_fraction=0.5)
    assert [row["line"] for row in result.rows] == [7, *range(9, 18)]
    assert result.rows[0] == {**same, "pos": 100, "expected": "A", "line": 7, "record_id": "rs0"}


def test_contigs_that_a_genome_lacks_are_told_with_their_file() -> None:
    assert check_contigs_known(
        {"records": 9, "filtered.other_contig": 3, "haplotypes.chr1.records_other_contig": 2}
    ).passed
    result = check_contigs_known({"other_contig.KI270706.1": 3, "haplotypes.chr1.other_contig.HLA-A*01": 2})
    assert not result.passed
    shown = [[row.get(name) for name in ("of", "contig", "records")] for row in result.rows]
    assert shown == [[None, "KI270706.1", 3], ["haplotypes.chr1", "HLA-A*01", 2]]
