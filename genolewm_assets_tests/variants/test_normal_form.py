from __future__ import annotations

import pyarrow as pa

from genolewm_assets.genome import Contig
from genolewm_assets.variants.normal_form import AlleleNormaliser, NormalAllele, Rejection, alt_problem
from genolewm_assets.variants.schema import RejectReason
from genolewm_assets.variants.spans import allele_keys, allele_spans, as_bools
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import gnomad

SEQUENCE = b"NNGATTTTTCACACACGTN"
TOY = Contig("chr1", len(SEQUENCE), aliases=("1",))


@each_row(
    ("alt", "reason"),
    [
        ("A", None),
        ("ACGT", None),
        (".", RejectReason.MISSING_ALT),
        ("", RejectReason.MISSING_ALT),
        ("*", RejectReason.SPANNING_DELETION),
        ("<DEL>", RejectReason.SYMBOLIC),
        ("<*>", RejectReason.SYMBOLIC),
        ("G]17:198982]", RejectReason.SYMBOLIC),
        ("[13:123457[C", RejectReason.SYMBOLIC),
        ("G.", RejectReason.SYMBOLIC),
        (".A", RejectReason.SYMBOLIC),
        ("R", RejectReason.IUPAC),
        ("ANNT", RejectReason.IUPAC),
        ("U", RejectReason.NOT_A_SEQUENCE),
        ("A-", RejectReason.NOT_A_SEQUENCE),
        ("17", RejectReason.NOT_A_SEQUENCE),
    ],
)
def test_alt_problem(alt: str, reason: RejectReason | None) -> None:
    assert alt_problem(alt) is reason


@each_row(
    ("pos", "ref", "alt", "expected"),
    [
        (3, "G", "C", (3, "G", "C")),
        (3, "g", "c", (3, "G", "C")),
        (9, "T", "TT", (4, "A", "AT")),
        (8, "TT", "T", (4, "AT", "A")),
        (14, "ACA", "A", RejectReason.REF_MISMATCH),
        (11, "ACACAC", "ACAC", (9, "TCA", "T")),
        (3, "GAT", "GCT", (4, "A", "C")),
        (5, "TT", "AT", (5, "T", "A")),
        (3, "G", ".", RejectReason.MISSING_ALT),
        (3, "G", "N", RejectReason.IUPAC),
        (3, "G", "G", RejectReason.NO_CHANGE),
        (3, "G", "g", RejectReason.NO_CHANGE),
        (3, "T", "C", RejectReason.REF_MISMATCH),
        (2, "NG", "N", RejectReason.IUPAC),
        (2, "NG", "A", RejectReason.REF_NOT_ACGT),
        (3, "GG", "G", RejectReason.REF_MISMATCH),
        (0, "G", "C", RejectReason.OUT_OF_RANGE),
        (19, "TA", "T", RejectReason.OUT_OF_RANGE),
        (20, "T", "A", RejectReason.OUT_OF_RANGE),
        (3, "G", "C" * 21, RejectReason.TOO_LONG),
        (3, "R", "C", RejectReason.REF_NOT_ACGT),
    ],
)
def test_normal_form(pos: int, ref: str, alt: str, expected: tuple[int, str, str] | RejectReason) -> None:
    outcome = AlleleNormaliser(lambda _: SEQUENCE, max_allele_bp=20).normalise(TOY, pos, ref, alt)
    assert (outcome.reason if isinstance(outcome, Rejection) else tuple(outcome)) == expected


def test_normal_form_anchored_on_n_is_rejected() -> None:
    sequence = b"NNTTTTG"
    outcome = AlleleNormaliser(lambda _: sequence).normalise(Contig("chr1", 7), 6, "T", "TT")
    assert isinstance(outcome, Rejection)
    assert outcome.reason is RejectReason.REF_NOT_ACGT
    assert outcome.detail == "the normal form is 2:N:NT"


def test_without_a_reference_alleles_are_trimmed_only() -> None:
    normaliser = AlleleNormaliser(None)
    assert normaliser.normalise(TOY, 8, "TT", "T") == NormalAllele(8, "TT", "T")
    assert normaliser.normalise(TOY, 3, "GATT", "GCTT") == NormalAllele(4, "A", "C")
    assert normaliser.normalise(TOY, 3, "T", "C") == NormalAllele(3, "T", "C")


def test_a_contig_is_read_once_per_run_of_alleles() -> None:
    asked: list[str] = []

    def reference(contig: Contig) -> bytes:
        asked.append(contig.name)
        return SEQUENCE

    normaliser = AlleleNormaliser(reference)
    for _ in range(3):
        normaliser.normalise(TOY, 3, "G", "C")
    assert asked == ["chr1"]


def test_spans_and_keys_of_alleles() -> None:
    table = gnomad([(1, "ACG", "A"), (2, "C", "CTT")])
    start, end = allele_spans(table)
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == [(0, 3), (1, 2)]
    assert allele_keys(table).to_pylist() == ["chr17\t1\tACG\tA", "chr17\t2\tC\tCTT"]
    assert allele_keys(pa.concat_tables([table, table])).to_pylist() == allele_keys(table).to_pylist() * 2


def test_null_is_false() -> None:
    assert as_bools(pa.array([True, None, False])).tolist() == [True, False, False]
