"""Every step of the graph at a 400th of the genome, and what its growth is judged by."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pysam
import pytest

from benchmarks.genome.bases import open_genome
from benchmarks.genome.budget import broken, read_budget
from benchmarks.genome.command import measure
from benchmarks.genome.inputs import write_inputs
from benchmarks.genome.report import Build, tables
from benchmarks.genome.shapes import KINDS, one_contig, scaled
from benchmarks.genome.steps import FIRST, SECOND, StepFigures
from benchmarks.genome.variants import read_real
from genolewm_assets.defs.assets.graph import PUBLISHING
from genolewm_assets_tests.places import SHARED_DATA

SHAPE = scaled(0.0025)
#: Assets that have no partition here: no instrument made a run, and no epoch is frozen.
NO_PARTITION = {"forensic/profiles", "tuples/frozen", "packages/evaluation"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("inputs"), SHAPE, SHARED_DATA, print).parent


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return measure(tmp_path_factory.mktemp("grown"), SHAPE, shared=SHARED_DATA)


def test_every_asset_is_built_and_what_follows_a_release_is_built_again(build: Build) -> None:
    built = {release: {each.asset for each in build.figures if each.release == release} for release in (FIRST, SECOND)}
    assert built[FIRST] >= PUBLISHING.keys() - NO_PARTITION
    assert built[SECOND] >= {"clinvar/shard", "holdouts/manifest", "packages/split", "packages/audit"}
    assert not built[SECOND] & {"reference/genome", "corpus/windows", "embeddings/corpus"}


def test_figures_are_positive(build: Build, inputs: Path) -> None:
    for each in build.figures:
        assert min(each.cpu_s, each.wall_s, each.anonymous, each.read, each.written) > 0, each
    # The source of the genome is, at the least.
    assert build.total(FIRST).hashed > (inputs / "genome.fa.gz").stat().st_size


def test_a_second_release_stays_within_its_budget_of_bytes(build: Build) -> None:
    assert [line for line in broken([build], read_budget()) if line.startswith("second_release")] == []


def test_reference_bases_of_all_records_are_those_of_the_genome(inputs: Path) -> None:
    files = [*(inputs / "gnomad").glob("*.bgz"), *(inputs / "clinvar").glob("*.gz"), *(inputs / "next").glob("*.gz")]
    assert len(files) == len(SHAPE.contigs) + 2
    with pysam.FastaFile(str(inputs / "genome.fa.gz")) as fasta:
        for file in files:
            with pysam.VariantFile(str(file)) as vcf:
                for record in vcf:
                    name = f"chr{record.chrom.removeprefix('chr')}"
                    assert fasta.fetch(name, record.start, record.stop).upper() == record.ref


def test_a_release_adds_changes_and_drops_a_few_per_cent(inputs: Path) -> None:
    files = [next((inputs / place).glob("*.gz")) for place in ("clinvar", "next")]
    first, second = (
        {(r.chrom, r.pos, r.ref, r.alts): r.info["CLNSIG"] for r in pysam.VariantFile(str(file))} for file in files
    )
    n = len(first)
    assert 0.9 * 10_000 < n < 1.1 * 10_000
    assert 0.005 * n < len(first.keys() - second.keys()) < 0.02 * n
    assert 0.02 * n < len(second.keys() - first.keys()) < 0.04 * n
    assert 0.01 * n < sum(first[key] != second[key] for key in first.keys() & second.keys()) < 0.04 * n


def test_records_with_coordinates_are_cut_at_them(inputs: Path) -> None:
    genome, complement = open_genome(inputs, SHAPE), str.maketrans("ACGT", "TGCA")
    rows = pq.read_table(inputs / "corpus/eukaryote_generator").to_pylist()
    placed = [row for row in rows if row["chrom"]]
    assert {row["record_id"].rstrip("0123456789") for row in rows} == {"placed", "unplaced", "exempt"}
    for row in placed[:200]:
        bases = genome.bases[row["chrom"]][row["start"] : row["end"]].tobytes().decode().upper()
        assert row["sequence"] == (bases.translate(complement)[::-1] if row["strand"] == "-" else bases)
        assert set(bases) <= set("ACGT")


def test_equal_shapes_give_equal_files(inputs: Path, tmp_path: Path) -> None:
    write_inputs(tmp_path, SHAPE, SHARED_DATA, print)
    for file in (path for path in tmp_path.rglob("*") if path.is_file() and path.name != "catalog.yaml"):
        other = inputs / file.relative_to(tmp_path)
        digests = {hashlib.sha256(path.read_bytes()).digest() for path in (file, other)}
        assert len(digests) == 1, file


def test_shares_of_the_corpus_are_those_of_the_issue() -> None:
    assert sum(KINDS.values()) == pytest.approx(1)
    assert KINDS["unplaced"] + KINDS["spliced"] + KINDS["mrna"] == pytest.approx(0.25)
    assert scaled(0.1).corpus_windows == 400_000


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="no shared data")
def test_chr21_has_the_gaps_of_the_shared_reference_and_the_shared_alleles() -> None:
    shape = one_contig("chr21")
    real = read_real(SHARED_DATA, shape)
    assert real is not None
    assert real.pos.size > 29_000
    with pysam.FastaFile(str(SHARED_DATA / "reference/GRCh38.slices.fa.gz")) as fasta:
        bases = fasta.fetch("chr21", 0, 10_000_000)
    ours = bytearray(b"A" * 10_000_000)
    for start, end in shape.gaps["chr21"][:-1]:
        ours[start:end] = b"N" * (end - start)
    assert [base == "N" for base in bases] == [base == ord("N") for base in ours]


def figures(
    asset: str, *, cpu_s: float = 1, mib: int = 100, release: int = FIRST, moved: int = 1_000, hashed: int = 0
) -> StepFigures:
    return StepFigures(release, asset, None, cpu_s, cpu_s, mib << 20, 0, moved, hashed, 0)


def test_broken_budgets_are_named() -> None:
    idle, second = (
        figures("platform/status", cpu_s=1, mib=1, moved=10),
        figures("packages/split", release=SECOND, moved=100, hashed=5),
    )
    small = [figures("corpus/windows", cpu_s=10), figures("holdouts/manifest", cpu_s=10), idle, second]
    large = [figures("corpus/windows", cpu_s=40), figures("holdouts/manifest", cpu_s=80, mib=700), idle, second]
    builds = [Build(scaled(0.025), small), Build(scaled(0.1), large)]
    names = sorted(line.split(",")[0] for line in broken(builds, read_budget()))
    assert names == [
        "exponent.cpu: 0.025 -> 0.1",
        "exponent.memory: 0.025 -> 0.1",
        "peak_mib.scale: 0.1",
    ]
    worse = [*small[:-1], replace(second, read=900, hashed=600)]
    assert [line.split(":")[0] for line in broken([Build(scaled(0.025), worse)], read_budget())] == [
        "second_release.bytes",
        "second_release.hashed",
    ]
    assert any("| holdouts/manifest | 1 | 10.0 -> 80.0 | 1.50 | 100 -> 700 | 1.40 |" in line for line in tables(builds))
    assert list(broken([Build(scaled(0.1), [replace(large[0], cpu_s=26 * 60 - 1), idle, second])], read_budget())) == [
        "cpu_minutes.all: 0.1: 26, at most 25"
    ]
