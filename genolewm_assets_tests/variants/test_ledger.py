from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from genolewm_assets.errors import InputError
from genolewm_assets.store.tables.schema import TableSchema
from genolewm_assets.variants import ledger as allele_ledger
from genolewm_assets.variants.ledger import RAW_FIELDS, AlleleLedger, FilterReason
from genolewm_assets.variants.release_key import ReleaseKey, in_order, is_before, is_release_key
from genolewm_assets.variants.schema import REJECTS, TABLES, RejectReason
from genolewm_assets.windows.reference.schema import TABLES as WINDOW_TABLES
from genolewm_assets_tests.rows import each_row


def raw(*rows: tuple[object, ...]) -> pa.Table:
    schema = pa.schema(RAW_FIELDS)
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def test_ledger_adds_up_and_lists() -> None:
    ledger = AlleleLedger("a.vcf")
    ledger.read(5)
    ledger.filter(FilterReason.LOW_AF, 2)
    ledger.filter(FilterReason.FILTER)
    ledger.reject(raw((7, "1", 3, "G", "*", None)), [RejectReason.SPANNING_DELETION], [None])
    ledger.keep(1)
    ledger.note("an_unknown", 1)
    ledger.note("an_unknown", 2)
    expected = {"alleles_in": 5, "kept": 1, "rejected": 1, "filtered": 3, "rejected.spanning_deletion": 1}
    assert ledger.counts() == expected | {"filtered.filter": 1, "filtered.low_af": 2, "an_unknown": 3}
    (row,) = ledger.rejects().to_pylist()
    stated = {"file": "a.vcf", "line": 7, "chrom": "1", "pos": 3, "ref": "G", "alt": "*", "reason": "spanning_deletion"}
    assert row == dict.fromkeys(REJECTS.columns) | stated


@each_row("together", [1, 3, 4_096])
@each_row("encoded", [False, True])
def test_rejects_are_in_order_of_spelling(*, encoded: bool, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
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


KEYS = ["2026-02-25.3", "2026-02-26", *(f"2026-02-26.{number}" for number in range(2, 13)), "2026-03-05"]


@each_row(
    "text",
    [
        *("", "20260226", "2026-W09-4", "2026-02-30", "2026-02-26.", "2026-02-26.0", "2026-02-26.1"),
        *("2026-02-26.02", "2026-02-26.2.2", "2026-02-26.1000000", "2026-02-26.x", "2026-02-26\n", " 2026-02-26"),
        *("२०२६-०२-२६", "../2026-02-26"),
    ],
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(InputError, match="not a release key: expected an ISO date such as"):
        ReleaseKey.parse(text)
    assert not is_release_key(text)
    assert not is_before(text, "2027-01-01")
    assert not is_before("2020-01-01", text)


def test_order_is_by_day_and_number() -> None:
    assert in_order(random.Random(0).sample([*KEYS, "bin", "2026-02-26.old"], len(KEYS) + 2)) == KEYS
    assert all(is_before(key, later) and not is_before(later, key) for key, later in pairwise(KEYS))
    assert not is_before(KEYS[0], KEYS[0])


EVERY_TABLE = (*TABLES, *WINDOW_TABLES)


@each_row("table", EVERY_TABLE)
def test_columns_are_described_keys_are_columns_and_the_empty_table_fits(table: TableSchema) -> None:
    assert table.one_row_per
    for name in table.columns:
        text = table.describe(name)
        assert text == text.strip()
        assert len(text) > 3
        assert not text.endswith(".")
    assert set(table.key) <= set(table.columns)
    assert not any(table.arrow.field(name).nullable for name in table.key)
    assert len(set(table.columns)) == len(table.columns)
    assert table.empty().num_rows == 0
    table.check(table.empty().schema, where="here")
