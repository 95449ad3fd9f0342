"""Shards of the real gnomAD files: known figures, and the alleles that bcftools selects and normalises."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pysam.bcftools
import pytest

from genolewm_assets.genome import GRCH38, ContigSet
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.variants.schema import ANCESTRY_GROUPS
from genolewm_assets.variants.shard import VARIANTS_FILE
from genolewm_assets_tests.worlds.sources.gnomad_world import Reference
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

RealBuild = Callable[..., tuple[Mapping[str, int], pa.Table]]


@pytest.fixture(scope="session")
def real(shared_data: Path, sliced_contigs: ContigSet, sliced_reference: Reference) -> RealBuild:
    """Return what builds a shard of a real file."""

    def run(pattern: str, contig: str | None, out: Path, **params: float | bool) -> tuple[Mapping[str, int], pa.Table]:
        report = build_gnomad_shard(
            next(shared_data.rglob(pattern)),
            contig=None if contig is None else sliced_contigs[contig],
            contigs=sliced_contigs,
            reference=sliced_reference,
            params=GnomadParams(**params),  # type: ignore[arg-type]
            out_dir=out,
        )
        return report.counts, pq.read_table(out / VARIANTS_FILE)

    return run


def keys(table: pa.Table) -> list[tuple[str, int, str, str]]:
    return list(zip(*(table[name].to_pylist() for name in ("chrom", "pos", "ref", "alt")), strict=True))


def norm_keys(path: Path, fasta: Path, expression: str, folder: Path) -> list[tuple[str, int, str, str]]:
    """Return the keys that bcftools selects, splits and normalises, sorted."""
    selected = write_text(folder / "selected.vcf", str(pysam.bcftools.view("-i", expression, str(path))))
    text = str(pysam.bcftools.norm("-f", str(fasta), "-m", "-any", str(selected)))
    columns = (line.split("\t")[:5] for line in text.splitlines() if not line.startswith("#"))
    return sorted((chrom, int(pos), ref, alt) for chrom, pos, _, ref, alt in columns)


def test_real_joint_chr17(shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path) -> None:
    counts, table = real("*v4.1*chr17.vcf.bgz", "chr17", tmp_path)
    assert counts == {
        "records": 5795,
        "alleles_in": 5795,
        "kept": 21,
        "rejected": 0,
        "filtered": 5774,
        "filtered.filter": 50,
        "filtered.low_af": 5718,
        "filtered.low_an": 6,
        "an_unknown": 0,
    }
    path = next((shared_data / "gnomad").rglob("*v4.1*chr17.vcf.bgz"))
    largest = 1_614_272
    theirs = norm_keys(path, sliced_fasta, f'FILTER="PASS" && AF>=0.01 && AN>={largest // 2}', tmp_path)
    assert keys(table) == theirs


def test_every_real_allele_equals_bcftools_norm(
    shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path
) -> None:
    pattern = "*v4.1*chr17.vcf.bgz"
    counts, table = real(pattern, "chr17", tmp_path, min_af=0.0, min_an_fraction=0.0)
    assert counts["kept"] == 5745
    path = next((shared_data / "gnomad").rglob(pattern))
    assert keys(table) == norm_keys(path, sliced_fasta, 'FILTER="PASS"', tmp_path)


def test_real_exomes_chr21(shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path) -> None:
    pattern = "*r2.0.1*.bgz"
    counts, table = real(pattern, "chr21", tmp_path, accept_unfiltered=True)
    assert counts["alleles_in"] == 1722
    assert counts["kept"] == counts["an_unknown"] == 20
    assert counts["filtered.low_af"] == 1702
    assert set(table["filter"].to_pylist()) == {"."}
    path = next((shared_data / "gnomad").rglob(pattern))
    assert keys(table) == norm_keys(path, sliced_fasta, "AF>=0.01", tmp_path)
    strict, _ = real(pattern, "chr21", tmp_path)
    assert strict["filtered.unfiltered"] == 1722


def test_real_unsorted_genomes(shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path) -> None:
    pattern = "*r3.0*.bgz"
    counts, table = real(pattern, "chr17", tmp_path, min_af=0.0, min_an_fraction=0.0)
    assert counts["alleles_in"] == 178
    assert counts["filtered.filter"] == 11
    path = next((shared_data / "gnomad").rglob(pattern))
    assert keys(table) == norm_keys(path, sliced_fasta, 'FILTER="PASS"', tmp_path)
    assert table["af_remaining"].null_count == 0
    assert table["af_mid"].null_count == table.num_rows


def test_real_chr_m(shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path) -> None:
    pattern = "*v3.1.sites.chrM*.bgz"
    counts, table = real(pattern, "chrM", tmp_path)
    assert counts["alleles_in"] == 18_164
    assert counts["kept"] + counts["rejected"] == 18_164
    rows = zip(table["filter"].to_pylist(), table["af"].to_pylist(), strict=True)
    assert sum(filters == "PASS" and af >= 0.01 for filters, af in rows) == 426
    path = next((shared_data / "gnomad").rglob(pattern))
    assert keys(table) == norm_keys(path, sliced_fasta, "AN>=0", tmp_path)


def test_genuine_chr_m_records(real: RealBuild, tmp_path: Path) -> None:
    counts, table = real("*genuine_header_excerpt.vcf", "chrM", tmp_path)
    assert counts["kept"] == 4
    row = table.to_pylist()[0]
    names = ("pos", "ac", "an", "af", "ac_het", "max_hl")
    assert [row[name] for name in names] == [3, 19, 56_434, 0.000336676, 1, 0.997]
    assert all(row[f"af_{group}"] is not None for group in ANCESTRY_GROUPS)


def test_real_alleles_come_back_from_any_spelling(
    real: RealBuild, sliced_contigs: ContigSet, sliced_reference: Reference, tmp_path: Path
) -> None:
    """Pad every common allele with flank: the keys stay the same."""
    _, table = real("*v4.1*chr17.vcf.bgz", "chr17", tmp_path)
    bases, draw = sliced_reference(GRCH38["chr17"]), random.Random(3)
    records = []
    for _, pos, ref, alt in keys(table):
        left, right = draw.randint(0, 20), draw.randint(0, 20)
        end = pos - 1 + len(ref)
        before, after = bases[pos - 1 - left : pos - 1].decode(), bases[end : end + right].decode()
        records.append(("17", pos - left, ".", f"{before}{ref}{after}", f"{before}{alt}{after}", "PASS", "AF=0.5"))
    path = write_text(tmp_path / "padded.vcf", vcf_text(records, info=["AF:A:Float"]))
    build_gnomad_shard(
        path,
        contig=sliced_contigs["chr17"],
        contigs=sliced_contigs,
        reference=sliced_reference,
        params=GnomadParams(),
        out_dir=tmp_path / "out",
    )
    assert keys(pq.read_table(tmp_path / "out" / VARIANTS_FILE)) == keys(table)


@pytest.mark.parametrize(
    "name",
    [
        "1000G_phase3.af.chr21.vcf.gz",
        "1000G_phase3.phased.chr17_BRCA1_exons.vcf.gz",
        "1000G_cohort.af.chr20_chr21_100k.vcf.gz",
    ],
)
def test_files_of_others_with_an_allele_frequency(
    name: str, shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path
) -> None:
    """Multi-allelic records, indels in repeats, sample columns, two contigs in one file."""
    counts, table = real(name, None, tmp_path, min_af=0.0, min_an_fraction=0.0, accept_unfiltered=True)
    figures = {"1000G_phase3.af": (27_828, 782), "1000G_phase3.phased": (60, 0), "1000G_cohort.af": (1_473, 6)}
    assert (counts["alleles_in"], counts["filtered"]) == figures[".".join(name.split(".")[:2])]
    assert counts["rejected"] == 0
    passing = """(FILTER="PASS" || FILTER=".") && AF>=0"""
    theirs = norm_keys(shared_data / "thousand_genomes" / name, sliced_fasta, passing, tmp_path)
    assert keys(table) == sorted(set(theirs)) == theirs
