from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import Bases, Contig
from genolewm_assets.sources.reference.contig_pieces import ContigPieces
from genolewm_assets.store.tables import spool as batch_spool
from genolewm_assets.variants.ledger import AlleleLedger
from genolewm_assets.variants.normal_form import AlleleNormaliser
from genolewm_assets.variants.schema import REJECTS
from genolewm_assets.variants.settle import settle_alleles
from genolewm_assets_tests.referees.plain_alleles import Row, settle_plainly
from genolewm_assets_tests.worlds.sources.spelled_alleles import (
    LONG,
    REPETITIVE,
    SCHEMA,
    SEQUENCE,
    TOY,
    Spelling,
    batches_of,
    best_score,
    rows_of,
    spellings,
)

IN_PIECES = ContigPieces(len(REPETITIVE), lambda start, end: REPETITIVE[start:end], piece_bp=7)


@contextmanager
def gathered(rows: int, memory_bytes: int) -> Iterator[None]:
    """Make batches and what is compared at a time small, and spools go to disk early."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_spool, "_GATHER_ROWS", rows)
        patch.setattr(batch_spool, "_MEMORY_BYTES", memory_bytes)
        patch.setattr("genolewm_assets.genome.sequence._BIN_BP", rows)
        yield


def settle(
    spellings: Sequence[Spelling],
    *,
    contig: Contig = TOY,
    reference: Callable[[Contig], Bases] | None = lambda _: SEQUENCE,
    cuts: Sequence[int] = (),
) -> tuple[list[Row], AlleleLedger]:
    """Settle alleles; every table must go on where the one before it ended."""
    ledger = AlleleLedger("a.vcf")
    ledger.read(len(spellings))
    batches = batches_of(rows_of(spellings), cuts) if spellings else iter(())
    with TemporaryDirectory() as folder:
        normaliser = AlleleNormaliser(reference, max_allele_bp=20)
        tables = list(settle_alleles(batches, contig, normaliser, ledger, best_score, folder=Path(folder)))
        assert not list(Path(folder).iterdir())
    assert ledger.accounted
    for table in tables:
        assert table.column_names == [*SCHEMA.names, "chrom", "pos", "ref", "alt"]
    return [row for table in tables for row in table.to_pylist()], ledger


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
    assert [(row["pos"], row["ref"], row["alt"], row["score"]) for row in rows] == [
        (3, "G", "C", 5),
        (4, "A", "AT", 9),
        (9, "TCA", "T", 2),
    ]
    assert ledger.counts() == {
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


@given(st.permutations(ROWS), st.integers(1, 4))
def test_the_order_of_the_file_never_shows(rows: list[Spelling], together: int) -> None:
    expected, ledger = settle(ROWS)
    with gathered(together, 600):
        found, other = settle(rows, cuts=range(len(rows)))
    assert [{**row, "raw_line": 0} for row in found] == [{**row, "raw_line": 0} for row in expected]
    unordered = [
        sorted((row["pos"], row["ref"], row["alt"], row["reason"]) for row in each.rejects().to_pylist())
        for each in (ledger, other)
    ]
    assert unordered[0] == unordered[1]


def test_no_alleles_at_all() -> None:
    rows, ledger = settle([])
    assert rows == []
    assert ledger.rejects().num_rows == 0


def test_contig_names_may_be_dictionary_encoded(tmp_path: Path) -> None:
    ledgers = [AlleleLedger("a.vcf"), AlleleLedger("a.vcf")]
    for ledger in ledgers:
        batches = list(batches_of(rows_of(ROWS), [4]))
        if ledger is ledgers[1]:
            encoded = [batch["raw_chrom"].dictionary_encode() for batch in batches]
            batches = [batch.set_column(1, "raw_chrom", each) for batch, each in zip(batches, encoded, strict=True)]
        with gathered(1, 0):
            normaliser = AlleleNormaliser(lambda _: SEQUENCE)
            assert list(settle_alleles(batches, TOY, normaliser, ledger, best_score, folder=tmp_path))
    assert ledgers[0].rejects().num_rows == 6
    assert ledgers[1].rejects().equals(ledgers[0].rejects())


@pytest.mark.parametrize("spelling", [(3, "G", "N", 1), (3, "T", "C", 1)])
def test_nothing_but_rejects(spelling: Spelling) -> None:
    rows, ledger = settle([spelling] * 3, cuts=[1])
    assert rows == []
    assert ledger.counts()["rejected"] == 3


@given(
    drawn=st.lists(spellings(), max_size=40),
    sort=st.booleans(),
    cuts=st.lists(st.integers(0, 40), max_size=8),
    together=st.sampled_from([1, 2, 5, 1_000]),
    memory=st.sampled_from([0, 2_000, 1 << 20]),
    reference=st.sampled_from([None, lambda _: REPETITIVE, lambda _: IN_PIECES]),
)
def test_equal_to_the_plain_way(
    *,
    drawn: list[Spelling],
    sort: bool,
    cuts: list[int],
    together: int,
    memory: int,
    reference: Callable[[Contig], Bases] | None,
) -> None:
    if sort:
        drawn.sort(key=lambda spelling: spelling[0])
    normaliser = AlleleNormaliser(None if reference is None else lambda _: REPETITIVE, max_allele_bp=20)
    expected, rejects = settle_plainly(rows_of(drawn), LONG, normaliser, best_score, file="a.vcf")
    with gathered(together, memory):
        found, ledger = settle(drawn, contig=LONG, reference=reference, cuts=[cut for cut in cuts if cut <= len(drawn)])
    assert found == expected
    assert ledger.rejects().to_pylist() == rejects
