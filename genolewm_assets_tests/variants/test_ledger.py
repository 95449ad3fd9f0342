from __future__ import annotations

import pyarrow as pa
import pytest

from genolewm_assets.variants import ledger as allele_ledger
from genolewm_assets.variants.ledger import RAW_FIELDS, AlleleLedger, FilterReason
from genolewm_assets.variants.schema import REJECTS, RejectReason


def raw(*rows: tuple[object, ...]) -> pa.Table:
    schema = pa.schema(RAW_FIELDS)
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def test_ledger_adds_up_and_lists() -> None:
    ledger = AlleleLedger("a.vcf")
    ledger.read(5)
    ledger.filter(FilterReason.LOW_AF, 2)
    ledger.filter(FilterReason.FILTER)
    ledger.reject(raw((7, "1", 3, "G", "*", None)), [RejectReason.SPANNING_DELETION], [None])
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


@pytest.mark.parametrize("together", [1, 3, 4_096])
@pytest.mark.parametrize("encoded", [False, True])
def test_rejects_are_sorted_by_line_and_spelling(
    *, encoded: bool, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allele_ledger, "_GATHER_ROWS", together)
    ledger = AlleleLedger("a.vcf")
    rows = [(9, "1", 4, "G", "R", "rs1"), (2, "17", 3, "G", "C", None), (9, "1", 4, "G", "<X>", "rs1")]
    table = raw(*rows)
    if encoded:
        table = table.set_column(1, "raw_chrom", table["raw_chrom"].dictionary_encode())
    ledger.reject(table, [RejectReason.IUPAC, RejectReason.REF_MISMATCH, RejectReason.SYMBOLIC], [None, "T", None])
    ledger.reject(raw((1, "1", 1, "A", "A", ".")), [RejectReason.NO_CHANGE], [None])
    rejects = ledger.rejects()
    assert rejects.equals(ledger.rejects())
    assert rejects.schema.equals(REJECTS.arrow)
    assert [(row["line"], row["chrom"], row["alt"], row["detail"]) for row in rejects.to_pylist()] == [
        (1, "1", "A", None),
        (2, "17", "C", "T"),
        (9, "1", "<X>", None),
        (9, "1", "R", None),
    ]
    assert ledger.counts()["rejected"] == 4


def test_no_rejects_give_an_empty_table_of_the_schema() -> None:
    rejects = AlleleLedger("a.vcf").rejects()
    assert rejects.num_rows == 0
    assert rejects.schema.equals(REJECTS.arrow)
