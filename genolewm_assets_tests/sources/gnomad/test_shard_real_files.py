"""Shards of the real gnomAD files against bcftools; and enough genotypes, of one assay and of joint records."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from itertools import compress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam.bcftools
import pytest

from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.gnomad.shard import GnomadParams, build_gnomad_shard
from genolewm_assets.variants import check_filters_spare
from genolewm_assets.variants.schema import ANCESTRY_GROUPS
from genolewm_assets.variants.shard import VARIANTS_FILE
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.gnomad_headers import HEADERS
from genolewm_assets_tests.worlds.sources.gnomad_world import Reference, build, snv
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


EVERY = {"min_af": 0.0, "min_an_fraction": 0.0}
UNFILTERED = {**EVERY, "accept_unfiltered": True}
_REASONS = {"filtered.filter": 50, "filtered.low_af": 5718, "filtered.low_an": 6, "an_unknown": 0}
#: Half of the largest AN of the file.
JOINT_PASSES = f'FILTER="PASS" && AF>=0.01 && AN>={1_614_272 // 2}'
READ_PASSES = '(FILTER="PASS" || FILTER=".") && AF>=0'
#: Unsorted records, multi-allelic ones, indels in repeats, sample columns, two contigs in one file.
FILES: dict[str, tuple[str | None, dict[str, float | bool], str, dict[str, int]]] = {
    "*v4.1*chr17.vcf.bgz": ("chr17", {}, JOINT_PASSES, {"alleles_in": 5795, "kept": 21, "rejected": 0, **_REASONS}),
    "*r2.0.1*.bgz": ("chr21", {"accept_unfiltered": True}, "AF>=0.01", {"alleles_in": 1722, "an_unknown": 20}),
    "*r3.0*.bgz": ("chr17", EVERY, 'FILTER="PASS"', {"alleles_in": 178, "filtered.filter": 11}),
    "*v3.1.sites.chrM*.bgz": ("chrM", {}, "AN>=0", {"alleles_in": 18_164, "filtered": 0}),
    "1000G_phase3.af.*.gz": (None, UNFILTERED, READ_PASSES, {"alleles_in": 27_828, "filtered": 782, "rejected": 0}),
    "1000G_phase3.phased.*.gz": (None, UNFILTERED, READ_PASSES, {"alleles_in": 60, "filtered": 0, "rejected": 0}),
    "1000G_cohort.af.*.gz": (None, UNFILTERED, READ_PASSES, {"alleles_in": 1_473, "filtered": 6, "rejected": 0}),
}


@pytest.mark.parametrize("pattern", FILES)
def test_real_files_are_filtered_and_normalised_as_by_bcftools(
    pattern: str, shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path
) -> None:
    contig, params, passing, figures = FILES[pattern]
    counts, table = real(pattern, contig, tmp_path, **params)
    assert figures.items() <= counts.items()
    theirs = norm_keys(next(shared_data.rglob(pattern)), sliced_fasta, passing, tmp_path)
    assert keys(table) == theirs
    assert len(set(theirs)) == len(theirs) == counts["kept"]


def test_genuine_chr_m_records(real: RealBuild, tmp_path: Path) -> None:
    counts, table = real("*genuine_header_excerpt.vcf", "chrM", tmp_path)
    assert counts["kept"] == 4
    row = table.to_pylist()[0]
    names = ("pos", "ac", "an", "af", "ac_het", "max_hl")
    assert [row[name] for name in names] == [3, 19, 56_434, 0.000336676, 1, 0.997]
    assert all(row[f"af_{group}"] is not None for group in ANCESTRY_GROUPS)


JOINT = HEADERS["v4.1 joint"]
ALONE = ["AF_joint:A:Float", "AC_joint:A:Integer", "AN_joint:1:Integer"]
#: The largest AN of both assays of v4.1.
EXOMES, GENOMES = 1_461_890, 152_430


def joint(exomes: int | None, genomes: int | None, *, af: float = 0.2) -> str:
    """Return the INFO of a joint record; an assay that did not call the site has no AN, or 0."""
    an = (exomes or 0) + (genomes or 0)
    fields = {"AF_joint": af, "AC_joint": int(an * af), "AN_joint": an, "AN_exomes": exomes, "AN_genomes": genomes}
    flags = ["not_called_in_exomes"] * (not exomes) + ["not_called_in_genomes"] * (not genomes)
    return ";".join([*(f"{name}={value}" for name, value in fields.items() if value is not None), *flags])


FULL = snv(joint(EXOMES, GENOMES), pos=19, ref="A", alt="T")


@each_row(
    ("exomes", "genomes", "kept"),
    [
        *((None, GENOMES, True), (0, GENOMES, True), (EXOMES, None, True), (EXOMES, 0, True)),
        *((None, GENOMES // 2, True), (None, GENOMES // 2 - 2, False), (EXOMES // 2, 4, True)),
        *((EXOMES // 2 - 2, GENOMES // 2 - 2, False), (EXOMES // 2 - 2, GENOMES // 2, True), (0, 0, False)),
    ],
)
def test_enough_genotypes_of_one_assay_do(exomes: int | None, genomes: int | None, kept: bool, tmp_path: Path) -> None:
    rows, counts, _ = build(tmp_path, [snv(joint(exomes, genomes)), FULL], info=JOINT)
    assert (len(rows), counts.get("filtered.low_an", 0)) == (1 + kept, 1 - kept)
    if kept:
        called = (rows[0]["not_called_in_exomes"], rows[0]["not_called_in_genomes"])
        assert called == (not exomes, not genomes)
        assert rows[0]["an"] == (exomes or 0) + (genomes or 0)


@each_row(
    ("contig", "an", "kept"),
    [
        ("chr17", GENOMES // 2, True),
        ("chr17", GENOMES // 2 - 1, False),
        ("chrY", GENOMES // 8 + 1, True),
        ("chrY", GENOMES // 8 - 1, False),
    ],
)
def test_an_joint_alone_is_compared_with_what_genomes_give(contig: str, an: int, kept: bool, tmp_path: Path) -> None:
    records = [(contig, pos, ".", ref, "T", "PASS", f"AF_joint=0.2;AC_joint=1;AN_joint={n}")
               for pos, ref, n in ((3, "G", an), (19, "A", EXOMES + GENOMES))]  # fmt: skip
    rows, _, _ = build(tmp_path, records, info=ALONE, contig=contig)
    assert len(rows) == 1 + kept
    assert rows[0]["not_called_in_exomes"] is None


def test_assays_without_a_genotype_on_the_contig_do_not_count(tmp_path: Path) -> None:
    # Exomes of no record: their largest AN is 0, and 0 is no half of it.
    rows, _, _ = build(tmp_path, [snv(joint(0, 10)), snv(joint(0, GENOMES), pos=19, ref="A", alt="T")], info=JOINT)
    assert [row["pos"] for row in rows] == [19]


@each_row(
    ("kept", "rejected", "low_an", "passed"),
    [(9, 1, 10, True), (9, 0, 11, False), (0, 0, 20, False), (0, 0, 19, True), (10, 0, 10, True), (0, 0, 0, True)],
)
def test_a_filter_that_takes_over_half_past_af_is_named(kept: int, rejected: int, low_an: int, passed: bool) -> None:
    counts: Mapping[str, int] = {"kept": kept, "rejected": rejected, "filtered.low_an": low_an}
    result = check_filters_spare(counts)
    assert result.passed == passed
    assert [row["filter"] for row in result.rows] == ([] if passed else ["low_an"])


@pytest.mark.nightly
def test_200_000_joint_records_agree_with_bcftools_and_awk(tmp_path: Path) -> None:
    n, rng = 200_000, np.random.default_rng(33)
    flagged = [item.split(":")[0] for item in JOINT if item.endswith(":0:Flag")]
    others = [name for name in flagged if not name.startswith("not_called")]
    pos = np.sort(rng.choice(np.arange(2, 4_000_000, 3), n, replace=False))
    genome_only = rng.random(n) < 0.6
    genomes = np.where(
        rng.random(n) < 0.1, rng.integers(0, GENOMES // 2, n), rng.integers(GENOMES // 2, GENOMES + 1, n)
    )
    exomes = np.where(rng.random(n) < 0.1, rng.integers(0, EXOMES // 2, n), rng.integers(EXOMES // 2, EXOMES + 1, n))
    af = rng.choice([0.0001, 0.009, 0.01, 0.2], n)
    filters = rng.choice(["PASS", "EXOMES_FILTERED", "GENOMES_FILTERED", "BOTH_FILTERED"], n, p=[0.9, 0.04, 0.04, 0.02])
    flags = rng.random((n, len(others))) < 0.1
    columns = (pos.tolist(), filters.tolist(), genome_only, exomes.tolist(), genomes.tolist(), af.tolist(), flags)
    records = [
        ("chr17", at, ".", "A", "G", fate, ";".join([joint(None if alone else e, g, af=share), *compress(others, row)]))
        for at, fate, alone, e, g, share, row in zip(*columns, strict=True)
    ]
    contig = Contig("chr17", 4_000_000)
    vcf = write_text(tmp_path / "joint.vcf.bgz", vcf_text(records, info=JOINT, meta=("##contig=<ID=chr17>",)), "bgzip")
    report = build_gnomad_shard(
        vcf, contig=contig, contigs=ContigSet([contig]), reference=None, params=GnomadParams(), out_dir=tmp_path / "out"
    )
    read = "bcftools query -f '%POS %FILTER %AF_joint %AN_exomes %AN_genomes\\n' " + str(vcf)
    rule = (
        '{ pos[NR]=$1; pass[NR]=($2 == "PASS" && $3 >= 0.01); e[NR]=$4; g[NR]=$5; if ($4 > E) E=$4; if ($5 > G) G=$5 }'
        ' END { for (i=1; i<=NR; i++) if (pass[i] && ((e[i] != "." && e[i] >= E/2) || g[i] >= G/2)) print pos[i] }'
    )
    done = subprocess.run(["bash", "-c", f"{read} | awk '{rule}'"], capture_output=True, text=True, check=True)
    expected = [int(line) for line in done.stdout.split()]
    table = pq.read_table(tmp_path / "out/variants.parquet")
    assert table["pos"].to_pylist() == expected
    assert len(expected) > 60_000
    assert table["not_called_in_exomes"].to_pylist() == genome_only[np.searchsorted(pos, expected)].tolist()
    assert check_filters_spare(report.counts).passed
