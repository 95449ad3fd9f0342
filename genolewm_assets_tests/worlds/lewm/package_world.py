"""A small set of sources for packages: three simulated contigs, alleles, corpus windows, hand-made holdouts, caches."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from genolewm_assets.genome import Contig, WindowProfile, genome_digest, reverse_complement
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.schema import HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_HAPLOTYPES, HOLDOUT_INTERVALS
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.mix import POSSIBLE, SOURCE_MIX, PackageMix
from genolewm_assets.packages.schema import CacheRef
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.store.artefacts.manifest import FileEntry, Manifest
from genolewm_assets.store.artefacts.published import ArtefactId, Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files.generations import publish_generation
from genolewm_assets.variants.schema import CLINVAR_VARIANTS, GNOMAD_VARIANTS
from genolewm_assets.windows.bases import write_bases, write_window_table
from genolewm_assets.windows.corpus.windows import CORPUS_WINDOWS
from genolewm_assets.windows.reference import WINDOWS, with_bases
from genolewm_assets.windows.reference.table import build_window_table
from genolewm_assets_tests.worlds.lewm.recorded_audits import record_audit

PROFILE = WindowProfile("tiny", window_bp=1_200, stride_bp=800, margin_bp=96)
LENGTHS = {"chr17": 30_000, "chr20": 12_000, "chr21": 12_000}
RELEASE = "2025-01-05"
#: A held-out stretch of chr17 in each role, and the contigs that are held out whole.
BLOCK_VALIDATION, BLOCK_TEST = (6_000, 6_400), (20_000, 20_300)
POLICY = HoldoutPolicy(validation_windows=10)
#: Trains on what lies beside held-out intervals, to its last base.
UNBUFFERED = replace(POLICY, buffer="none")


def simulate(seed: int, length: int) -> bytes:
    return np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(seed).integers(0, 4, length)].tobytes()


def contigs() -> dict[str, Contig]:
    return {
        name: Contig(name, length, md5=hashlib.md5(simulate(seed, length)).hexdigest())
        for seed, (name, length) in enumerate(LENGTHS.items())
    }


SEQUENCES = {name: simulate(seed, length) for seed, (name, length) in enumerate(LENGTHS.items())}
GENOME_DIGEST = genome_digest(contigs().values())


def other_base(base: str, step: int = 1) -> str:
    return "ACGT"[("ACGT".index(base) + step) % 4]


def alleles(contig: str, starts: Sequence[int], *, step: int = 1) -> list[dict[str, object]]:
    bases = [chr(SEQUENCES[contig][start]) for start in starts]
    return [
        {"chrom": contig, "pos": start + 1, "ref": base, "alt": other_base(base, step)}
        for start, base in zip(starts, bases, strict=True)
    ]


def table(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    return pa.table({name: [row.get(name) for row in rows] for name in schema.names}, schema=schema)


def gnomad(contig: str) -> pa.Table:
    rows = [row | {"filter": "PASS", "af": 0.25} for row in alleles(contig, range(150, LENGTHS[contig], 400))]
    return table(rows, GNOMAD_VARIANTS.arrow)


def clinvar(contig: str, labels: str = "P LP B LB VUS OTHER") -> pa.Table:
    choices = labels.split()
    rows = [
        row
        | {"clinvar_id": i + 1, "label": choices[i % len(choices)], "stars": i % 5, "gene_symbols": ["SIM"]}
        | {"gene_ids": [7]}
        for i, row in enumerate(alleles(contig, range(350, LENGTHS[contig], 500), step=2))
    ]
    return table(rows, CLINVAR_VARIANTS.arrow)


def corpus(source: str, sequences: Sequence[str], **columns: object) -> pa.Table:
    """Return corpus windows, each a record of its own, with random flanks; unplaced unless ``columns`` say so."""
    rows = []
    for i, sequence in enumerate(sequences):
        digest = hashlib.sha256(sequence.encode())
        rows.append(
            {
                "source": source,
                "record_id": f"{source}.{i}",
                "window_index": 0,
                "start": 96,
                "end": 96 + len(sequence),
                "window_bp": len(sequence),
                "sequence": sequence,
                "left_flank": "A" * 96,
                "right_flank": "C" * 96,
                "window_hash": digest.digest(),
                "window_id": digest.hexdigest()[:32],
                "gc": 0.5,
                "maybe_human": False,
                "spliced": False,
                "placement_how": "none",
                "placement_exact": False,
            }
            | columns
        )
    return table(rows, CORPUS_WINDOWS.arrow)


def corpora() -> dict[str, pa.Table]:
    """Return six windows of every source; sequences that occur nowhere else."""
    return {
        source: corpus(source, [simulate(1_000 + 10 * n + i, 600).decode() for i in range(6)])
        for n, source in enumerate(SOURCE_MIX)
    }


def intervals(*rows: tuple[str, str, str, int, int]) -> pa.Table:
    names = ("holdout", "role", "contig", "start", "end")
    filled = [
        dict(zip(names, row, strict=True)) | {"unit": f"u{i}", "name": f"u{i}", "reason": "contig"}
        for i, row in enumerate(rows)
    ]
    return table(filled, HOLDOUT_INTERVALS.arrow)


def held_alleles(*rows: tuple[str, str, Mapping[str, object]]) -> pa.Table:
    filled = [
        {"source": "clinvar", "gene_ids": [], "unit": "u", "reason": "new"}
        | allele
        | {"holdout": holdout, "role": role}
        for holdout, role, allele in rows
    ]
    return table(filled, HOLDOUT_ALLELES.arrow)


def held_corpus(*keys: tuple[str, str]) -> pa.Table:
    rows = [
        {"source": source, "record_id": record, "window_index": 0, "holdout": "holdout-chr", "reason": "placed"}
        for source, record in keys
    ]
    return table(rows, HOLDOUT_CORPUS.arrow)


def haplotypes(*rows: tuple[str, str, int | None, Sequence[int]]) -> pa.Table:
    """Return haplotypes of chr17 from (role, unit, number of carriers or None, 0-based starts of SNVs)."""
    filled = [
        {"role": role, "contig": "chr17", "unit": unit, "number": number, "phased": n is not None, "n_carriers": n}
        | {"alleles": [{name: row[name] for name in ("pos", "ref", "alt")} for row in alleles("chr17", starts)]}
        for number, (role, unit, n, starts) in enumerate(rows)
    ]
    return table(filled, HOLDOUT_HAPLOTYPES.arrow)


def default_haplotypes() -> pa.Table:
    """Return two phased haplotypes of the block in validation, and one unphased of the block in test."""
    return haplotypes(
        ("validation", "u2", 7, (6_110, 6_150, 6_250, 6_350)),
        ("validation", "u2", 1, (6_110, 6_350)),
        ("test", "u3", None, (20_150, 20_200, 20_250)),
    )


def default_intervals() -> pa.Table:
    return intervals(
        ("holdout-chr", "validation", "chr20", 0, LENGTHS["chr20"]),
        ("holdout-chr", "test", "chr21", 0, LENGTHS["chr21"]),
        ("holdout-haplotypes", "validation", "chr17", *BLOCK_VALIDATION),
        ("holdout-haplotypes", "test", "chr17", *BLOCK_TEST),
    )


def temporal_alleles() -> pa.Table:
    """Return two ClinVar alleles of chr17 that the temporal holdout keeps from training, one in each role."""
    rows = clinvar("chr17").to_pylist()
    return held_alleles(("holdout-temporal", "validation", rows[3]), ("holdout-temporal", "test", rows[30]))


def make_sources(**changes: object) -> PackageSources:
    """Return the sources of the default package, with some of them exchanged."""
    genome = contigs()
    windows = {name: build_window_table(genome[name], SEQUENCES[name], PROFILE, {}) for name in genome}
    sources = PackageSources(
        release=RELEASE,
        genome_digest=GENOME_DIGEST,
        windows=windows,
        corpus=corpora(),
        gnomad={name: gnomad(name) for name in ("chr17", "chr20")},
        clinvar={name: clinvar(name) for name in genome},
        intervals=default_intervals(),
        alleles=temporal_alleles(),
        corpus_rows=held_corpus(("mrna_evo2", "mrna_evo2.2")),
        haplotypes=default_haplotypes(),
        policy=POLICY,
        reference=SEQUENCES.__getitem__,
        margin_bp=PROFILE.margin_bp,
        mix=PackageMix(declared=POSSIBLE, max_visits=40),
        versions={"gnomad[chr17]": "4.1"},
    )
    return replace(sources, **changes)  # type: ignore[arg-type]


def make_cache(root: Root, source: str, rows: int, *, key: str = "", content: bytes = b"states") -> CacheRef:
    """Publish something that looks like a cache to a package: a directory with a manifest."""
    key = key or hashlib.sha256(source.encode()).hexdigest()[:16]
    work = root.path / "scratch"
    work.mkdir(parents=True)
    (work / "states.bin").write_bytes(content * 100)
    entry = FileEntry("states.bin", len(content) * 100, hashlib.sha256(content * 100).hexdigest())
    manifest = Manifest("embeddings/cache", source, "1", {}, (), (entry,), {"windows": rows}, ())
    (work / "manifest.json").write_bytes(manifest.to_bytes())
    (root.path / "embeddings").mkdir(exist_ok=True)
    publish_generation(work, root.path / "embeddings" / key, manifest.sha256[:12])
    return CacheRef(source, key, rows, "0" * 64, manifest.sha256, f"embeddings/{key}")


def make_caches(root: Root, sources: PackageSources) -> tuple[CacheRef, ...]:
    sizes = {name: t.num_rows for name, t in {**sources.windows, **sources.corpus}.items()}
    return tuple(make_cache(root, name, rows) for name, rows in sizes.items())


def with_pieces(root: Root, sources: PackageSources) -> PackageSources:
    """Publish the tables of windows as the asset graph does, and caches of them; return sources that refer to both."""
    found = dict[str, Published]()
    for name, table in {**sources.windows, **sources.corpus}.items():

        def write(work: Path, name: str = name, table: pa.Table = table) -> BuildReport:
            of_reference, path = name in sources.windows, work / "windows.parquet"
            tables = with_bases(table, SEQUENCES[name], margin_bp=PROFILE.margin_bp) if of_reference else [table]
            rows = write_window_table(path, WINDOWS if of_reference else CORPUS_WINDOWS, tables)
            write_bases(path)
            return BuildReport(rows={path.name: rows})

        asset, place = ("windows/index", "windows/tiny") if name in sources.windows else ("corpus/windows", "corpus")
        found[name] = build(root, BuildPlan(ArtefactId(asset, name), f"{place}/{name}", "1", {}, (), write))
    tables = {name: piece.manifest.files for name, piece in found.items()}
    sha256 = {name: next(each.sha256 for each in files if each.rows) for name, files in tables.items()}
    caches = [replace(ref, windows_sha256=sha256[ref.source]) for ref in make_caches(root, sources)]
    return replace(sources, pieces=found, caches=caches)


def publish(root: Root, sources: PackageSources) -> Published:
    """Build a package as the asset graph does, and record that it passed its audit."""

    def write(work: Path) -> BuildReport:
        return write_package(work, sources)

    location = f"packages/{sources.release}/sample"
    artefact = ArtefactId("packages/split", sources.release)
    published = build(root, BuildPlan(artefact, location, "1", {"sources": "tiny"}, (), write))
    record_audit(root.path, sources.release, published.manifest.sha256)
    return published


def failed(checks: Sequence[CheckResult]) -> set[str]:
    return {check.name for check in checks if not check.passed}


def reverse(sequence: bytes) -> str:
    return reverse_complement(sequence).decode()
