from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.lewm.schema import REJECTS
from genolewm_assets.sources.alleles import (
    RAW_FIELDS,
    AlleleLedger,
    AlleleNormaliser,
    FilterReason,
    NormalAllele,
    RawAllele,
    Rejection,
    RejectReason,
    alt_problem,
    settle_alleles,
)

SEQUENCE = b"NNGATTTTTCACACACGTN"
TOY = Contig("chr1", len(SEQUENCE), aliases=("1",))
CONTIGS = ContigSet([TOY, Contig("chr2", 10)])


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


def spooled(rows: list[tuple[int, str, str, int]]) -> pa.Table:
    """Rows of (pos, ref, alt, score) on chr1; the line is the place in the list."""
    raw = [(line, "1", pos, ref, alt, f"id{score}", score) for line, (pos, ref, alt, score) in enumerate(rows, 1)]
    schema = pa.schema([*RAW_FIELDS, ("score", pa.int64())])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in raw], schema=schema)


def best_score(row: Mapping[str, object]) -> tuple[object, ...]:
    return (-int(str(row["score"])),)


def settle(rows: list[tuple[int, str, str, int]]) -> tuple[list[tuple[object, ...]], AlleleLedger]:
    ledger = AlleleLedger("a.vcf")
    ledger.read(len(rows))
    table = settle_alleles(spooled(rows), TOY, AlleleNormaliser(lambda _: SEQUENCE), ledger, best_score)
    assert ledger.accounted
    columns = [table[name].to_pylist() for name in ("pos", "ref", "alt", "score")]
    return list(zip(*columns, strict=True)), ledger


#: The same insertion of a T four times, a deletion twice, an SNV, and alleles that are none.
ROWS = [
    (9, "T", "TT", 3),
    (5, "T", "TT", 9),
    (4, "AT", "ATT", 9),
    (7, "TT", "TTT", 1),
    (11, "ACACAC", "ACAC", 2),
    (9, "TCA", "T", 2),
    (3, "G", "C", 5),
    (3, "G", "N", 5),
    (3, "T", "C", 5),
]


def test_duplicates_are_one_allele_and_named() -> None:
    rows, ledger = settle(ROWS)
    assert rows == [(3, "G", "C", 5), (4, "A", "AT", 9), (9, "TCA", "T", 2)]
    counts = ledger.counts()
    assert counts == {
        "alleles_in": 9,
        "kept": 3,
        "rejected": 6,
        "filtered": 0,
        "rejected.iupac": 1,
        "rejected.ref_mismatch": 1,
        "rejected.duplicate": 4,
    }
    rejects = ledger.rejects()
    assert rejects.schema.equals(REJECTS.arrow)
    duplicates = [row for row in rejects.to_pylist() if row["reason"] == "duplicate"]
    assert [row["pos"] for row in duplicates] == [9, 5, 7, 9]
    assert duplicates[0]["detail"] == "kept is chr1:4 as 4:AT:ATT"


@given(st.permutations(ROWS))
def test_the_order_of_the_file_never_shows(rows: list[tuple[int, str, str, int]]) -> None:
    expected, ledger = settle(ROWS)
    found, other = settle(rows)
    assert found == expected
    unordered = [
        sorted((row["pos"], row["ref"], row["alt"], row["reason"]) for row in each.rejects().to_pylist())
        for each in (ledger, other)
    ]
    assert unordered[0] == unordered[1]


def test_ledger_adds_up_and_lists() -> None:
    ledger = AlleleLedger("a.vcf")
    ledger.read(5)
    ledger.filter(FilterReason.LOW_AF, 2)
    ledger.filter(FilterReason.FILTER)
    ledger.reject(RawAllele(7, "1", 3, "G", "*", None), Rejection(RejectReason.SPANNING_DELETION))
    assert not ledger.accounted
    ledger.keep(1)
    assert ledger.accounted
    ledger.note("an_unknown", 1)
    ledger.note("an_unknown", 2)
    assert ledger.counts() == {
        "alleles_in": 5,
        "kept": 1,
        "rejected": 1,
        "filtered": 3,
        "rejected.spanning_deletion": 1,
        "filtered.filter": 1,
        "filtered.low_af": 2,
        "an_unknown": 3,
    }
    (row,) = ledger.rejects().to_pylist()
    assert row == {
        "file": "a.vcf",
        "line": 7,
        "chrom": "1",
        "pos": 3,
        "ref": "G",
        "alt": "*",
        "record_id": None,
        "reason": "spanning_deletion",
        "detail": None,
    }


def test_no_alleles_at_all() -> None:
    rows, ledger = settle([])
    assert rows == []
    assert ledger.rejects().num_rows == 0
