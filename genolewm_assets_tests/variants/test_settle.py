"""Settled alleles: equal to the plain way whatever the order, the batches and the memory.

Every allele of the real files, as published and in other spellings, against bcftools norm.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import Bases, Contig, ContigSet
from genolewm_assets.sources.reference.fasta import ContigPieces
from genolewm_assets.sources.vcf import bgzf
from genolewm_assets.store.tables import spool as batch_spool
from genolewm_assets.variants.ledger import RAW_FIELDS, AlleleLedger
from genolewm_assets.variants.normal_form import AlleleNormaliser
from genolewm_assets.variants.settle import settle_alleles
from genolewm_assets_tests.referees.bcftools import Allele, bcftools_norm, read_alleles
from genolewm_assets_tests.referees.plain_alleles import Row, settle_plainly
from genolewm_assets_tests.worlds.sources import clinvar_records
from genolewm_assets_tests.worlds.sources.index_files import bgzip
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
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

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
    spellings: Sequence[Spelling], *, contig: Contig, reference: Callable[[Contig], Bases] | None, cuts: Sequence[int]
) -> tuple[list[Row], AlleleLedger]:
    """Settle alleles; every table must go on where the one before it ended."""
    ledger = AlleleLedger("a.vcf")
    ledger.read(len(spellings))
    batches = batches_of(rows_of(spellings), cuts) if spellings else iter(())
    with TemporaryDirectory() as folder:
        normaliser = AlleleNormaliser(reference, max_allele_bp=20)
        tables = list(settle_alleles(batches, contig, normaliser, ledger, best_score, folder=Path(folder)))
        assert not list(Path(folder).iterdir())
    n = ledger.counts()
    assert n["alleles_in"] == n["kept"] + n["rejected"] + n["filtered"]
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


MANY = [
    *(clinvar_records.record(chrom="17", pos=at, name=at, ref=chr(base), alt="ACGT"["CGTA".index(chr(base))])
      for at, base in enumerate(clinvar_records.SEQUENCE, 1)),
    # Both roll to the left, to before what was read long ago.
    clinvar_records.record(chrom="17", pos=9, name=90, ref="T", alt="TT"),
    clinvar_records.record(chrom="MT", pos=16, name=91, ref="AC", alt="A"),
]  # fmt: skip


ORDERS = {
    "sorted": MANY,
    "backwards in each contig": [*MANY[-2::-1], MANY[-1]],
    "contigs swapped": [MANY[-1], *MANY[:-1]],
    "a contig twice": [*MANY[:5], MANY[-1], *MANY[5:-1]],
}


@pytest.mark.parametrize("single_file", [True, False])
@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_records_never_shows_and_a_contig_that_comes_back_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, single_file: bool
) -> None:
    for place in ("whole", "cut"):
        (tmp_path / place).mkdir()
    expected = clinvar_records.build(tmp_path / "whole", MANY, single_file=single_file)
    monkeypatch.setattr(bgzf, "BATCH_TEXT_BYTES", 1)
    text = vcf_text(ORDERS[order], info=clinvar_records.INFO).encode()
    path = write_text(tmp_path / "in.vcf", bgzip(text, block_bytes=100))
    monkeypatch.setattr(clinvar_records, "write_text", lambda *_: path)
    if order == "a contig twice" or (order == "contigs swapped" and single_file):
        with pytest.raises(VcfError, match=r"in\.vcf: records of chr17 come after those of chrM.*bcftools sort"):
            clinvar_records.build(tmp_path / "cut", ORDERS[order], single_file=single_file)
        return
    with gathered(2, 600):
        rows, counts, rejects = clinvar_records.build(tmp_path / "cut", ORDERS[order], single_file=single_file)
    assert rows == expected[0]
    assert counts == expected[1]
    assert [{**reject, "line": 0} for reject in rejects] == [{**reject, "line": 0} for reject in expected[2]]


Reference = Callable[[Contig], bytes]
FILES = (
    *("clinvar/vcf_GRCh38/clinvar_20260226.vcf.gz", "clinvar/vcf_GRCh38/clinvar_20220525.chrM.vcf.gz"),
    *("gnomad/**/*v4.1*chr17.vcf.bgz", "gnomad/**/*r2.0.1*chr21.vcf.bgz", "gnomad/**/*r3.0*chr17.vcf.bgz"),
    *("gnomad/**/*chrM.vcf.bgz", "thousand_genomes/*chr21*.vcf.gz"),
)


def padded(allele: Allele, bases: bytes, rng: random.Random) -> Allele:
    """Return another spelling: more of the contig on either side unless it is unknown, some of it in lower case."""
    chrom, pos, ref, alt = allele
    left, right = (rng.choice([0, 0, 1, 7]) for _ in range(2))
    left = min(left, pos - 1)
    before = bases[pos - 1 - left : pos - 1].decode()
    after = bases[pos - 1 + len(ref) : pos - 1 + len(ref) + right].decode()
    if "N" in before + after:
        return allele
    longer_ref, longer_alt = (rng.choice([str.upper, str.upper, str.lower])(before + x + after) for x in (ref, alt))
    return chrom, pos - left, longer_ref, longer_alt


def batches(alleles: list[Allele], size: int) -> list[pa.RecordBatch]:
    schema = pa.schema(RAW_FIELDS)
    rows = [
        dict(zip(schema.names, (line, chrom, pos, ref, alt, None), strict=True))
        for line, (chrom, pos, ref, alt) in enumerate(alleles, 1)
    ]
    found: list[pa.RecordBatch] = pa.Table.from_pylist(rows, schema=schema).to_batches(max_chunksize=size)
    return found


@pytest.mark.parametrize(
    "spelling",
    ["published", pytest.param("padded", marks=pytest.mark.slow), pytest.param("shuffled", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("pattern", FILES)
def test_settled_alleles_equal_bcftools(
    *,
    pattern: str,
    spelling: str,
    shared_data: Path,
    sliced_contigs: ContigSet,
    sliced_fasta: Path,
    sliced_reference: Reference,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_spool, "_GATHER_ROWS", 1_000)
    monkeypatch.setattr(batch_spool, "_MEMORY_BYTES", 100_000)
    rng = random.Random(3)
    published = [a for a in read_alleles(next(shared_data.glob(pattern))) if a[0] in sliced_contigs]
    contig = sliced_contigs[published[0][0]]
    bases = sliced_reference(contig)
    alleles = published if spelling == "published" else [padded(allele, bases, rng) for allele in published]
    if spelling == "shuffled":
        rng.shuffle(alleles)
    ledger = AlleleLedger("x")
    ledger.read(len(alleles))
    normaliser = AlleleNormaliser(sliced_reference)
    source = batches(alleles, 777)
    tables = settle_alleles(source, contig, normaliser, ledger, lambda _: (), folder=tmp_path)
    rows = [row for table in tables for row in table.to_pylist()]
    n = ledger.counts()
    assert n["alleles_in"] == n["kept"] + n["rejected"] + n["filtered"]
    expected = {allele[1:] for allele in bcftools_norm(sliced_fasta, published, tmp_path) if allele is not None}
    assert [(row["pos"], row["ref"], row["alt"]) for row in rows] == sorted(expected)
    plain = [row for batch in source for row in batch.to_pylist()]
    assert (rows, ledger.rejects().to_pylist()) == settle_plainly(plain, contig, normaliser, lambda _: (), file="x")
