"""Every allele of the real files, as published and in other spellings, against bcftools norm."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.store.tables import spool as batch_spool
from genolewm_assets.variants.ledger import RAW_FIELDS, AlleleLedger
from genolewm_assets.variants.normal_form import AlleleNormaliser
from genolewm_assets.variants.settle import settle_alleles
from genolewm_assets_tests.referees.bcftools import Allele, bcftools_norm, read_alleles
from genolewm_assets_tests.referees.plain_alleles import settle_plainly

Reference = Callable[[Contig], bytes]

FILES = (
    "clinvar/vcf_GRCh38/clinvar_20260226.vcf.gz",
    "clinvar/vcf_GRCh38/clinvar_20220525.chrM.vcf.gz",
    "gnomad/**/*v4.1*chr17.vcf.bgz",
    "gnomad/**/*r2.0.1*chr21.vcf.bgz",
    "gnomad/**/*r3.0*chr17.vcf.bgz",
    "gnomad/**/*chrM.vcf.bgz",
    "thousand_genomes/*chr21*.vcf.gz",
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
    assert ledger.accounted
    expected = {allele[1:] for allele in bcftools_norm(sliced_fasta, published, tmp_path) if allele is not None}
    assert [(row["pos"], row["ref"], row["alt"]) for row in rows] == sorted(expected)
    plain = [row for batch in source for row in batch.to_pylist()]
    assert (rows, ledger.rejects().to_pylist()) == settle_plainly(plain, contig, normaliser, lambda _: (), file="x")
