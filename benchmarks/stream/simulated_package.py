"""Packages of any size: simulated genome, alleles, corpus and states, written by the package's own writer.

::

    <folder>/genome.fa.gz, contigs.json, caches.json
    <folder>/{windows,gnomad,clinvar,held,corpus}/<contig or source>.parquet
    <folder>/root/{embeddings,packages}/...

Not here: the rows of the tables (``benchmarks.packages.simulated_rows``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.packages.simulated_rows import clinvar_rows, corpus_rows, gnomad_rows, held_rows, window_rows
from benchmarks.stream.jobs import RELEASE
from benchmarks.stream.simulated_encoder import SimulatedEncoder
from benchmarks.vcf.memory_tables import write_fasta
from benchmarks.vcf.simulated_genome import simulate_contig
from genolewm_assets.encoders import state_config, write_states
from genolewm_assets.encoders.identity import StateEncoder
from genolewm_assets.genome import GRCH38, PROFILES, Contig, ContigSet, genome_digest
from genolewm_assets.holdouts import HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_INTERVALS, HoldoutPolicy
from genolewm_assets.package_build import SHARD_COLUMNS, PackageSources, write_package
from genolewm_assets.packages import POSSIBLE, CacheRef, PackageMix, VariantSource, window_shares
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.store.arrays import ArraySpec, ArrayStoreWriter, compute_fingerprint, compute_key
from genolewm_assets.store.artefacts import ArtefactId, BuildPlan, BuildReport, Root, build
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import write_table
from genolewm_assets.variants import CLINVAR_VARIANTS, GNOMAD_VARIANTS
from genolewm_assets.windows.corpus import CorpusSource
from genolewm_assets.windows.corpus.windows import CORPUS_WINDOWS
from genolewm_assets.windows.reference.schema import WINDOWS
from genolewm_assets_tests.worlds.lewm.cache_world import listed_windows

PROFILE = PROFILES["default"]
#: A contig without a window index, on which held-out intervals exclude no window.
APART = Contig("chr21", GRCH38["chr21"].length)
_SOURCES = tuple(CorpusSource)
_STATES_ROWS = 1_024
#: Most visits of a window in an epoch; few windows hold a pathogenic allele, and one edit in eight is one.
_MAX_VISITS = 8
#: Held-out intervals on ``APART``: bases of each, and from one start to the next.
_INTERVAL_BP, _STEP_BP = 300, 450


@dataclass(frozen=True, slots=True)
class PackageShape:
    """Sizes of the simulated tables.

    Attributes
    ----------
    contigs
        Contigs with a window index, and their lengths.
    corpus_windows
        Windows of all corpus sources together, in the shares of the mix; no window has a placement.
    gnomad_per_mbp
        Common alleles per million bases.
    hidden
        Values of a random block state; 0: no random states are cached.
    held_alleles
        Alleles on all contigs that a package may hold out.
    """

    contigs: tuple[Contig, ...]
    corpus_windows: int
    gnomad_per_mbp: int
    hidden: int
    held_alleles: int = 0


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What a package holds out.

    Attributes
    ----------
    alleles
        Whether it holds out the alleles that were simulated for it.
    intervals
        Intervals on a contig without windows.
    validation, test
        Contigs held out whole, with their common alleles.
    """

    alleles: bool = False
    intervals: int = 0
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()


class TablesOnDemand(Mapping[str, pa.Table]):
    """Some columns of the Parquet files of a folder by name; a table is read whenever it is asked for."""

    def __init__(self, folder: Path, columns: Sequence[str] | None = None) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.parquet"))}
        self._columns = None if columns is None else list(columns)

    def __getitem__(self, name: str) -> pa.Table:
        return pq.read_table(self._files[name], columns=self._columns)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def write_inputs(folder: Path, shape: PackageShape, encoder: StateEncoder | None = None) -> None:
    """Write genome and tables into a new folder, contig by contig, and publish states of all windows in its root.

    The states are those of ``encoder``; without one they are random, of the length that the shape states.
    """
    for name in ("windows", "gnomad", "clinvar", "held", "corpus"):
        (folder / name).mkdir(parents=True)
    known: list[Contig] = []
    write_fasta(folder / "genome.fa.gz", _written_contigs(folder, shape, known))
    (folder / "contigs.json").write_text(json.dumps([[each.name, each.length, each.md5] for each in known]))
    shares = window_shares()
    of_corpus = sum(shares[source] for source in _SOURCES)
    for source in _SOURCES:
        n = round(shape.corpus_windows * shares[source] / of_corpus)
        write_table(corpus_rows(source, n), folder / "corpus" / f"{source}.parquet", CORPUS_WINDOWS)
    root = _root(folder)
    root.claim("simulated", genome_digest(_contigs(folder)))
    tables = [folder / "windows" / f"{each.name}.parquet" for each in known]
    tables += [folder / "corpus" / f"{source}.parquet" for source in _SOURCES]
    states = SimulatedEncoder(shape.hidden) if encoder is None and shape.hidden else encoder
    caches = [] if states is None else [_publish_states(folder, table, states) for table in tables]
    (folder / "caches.json").write_text(json.dumps([asdict(cache) for cache in caches]))


def publish_package(folder: Path, name: str, held_out: HeldOut) -> Path:
    """Build a package from the tables of a folder as ``packages/split`` does, and return its folder.

    Raises
    ------
    BuildRejectedError
        If a check of the package fails.
    """
    sources = package_sources(folder, held_out)

    def write(work: Path) -> BuildReport:
        return write_package(work, sources)

    recipe: dict[str, JsonValue] = {"simulated": True, "name": name}
    plan = BuildPlan(ArtefactId("packages/split", RELEASE), f"packages/{RELEASE}/{name}", "1", recipe, (), write)
    return build(_root(folder), plan).directory


def package_sources(folder: Path, held_out: HeldOut) -> PackageSources:
    """Return what a package is written from; the alleles and the bases of contigs are read on demand."""
    contigs = _contigs(folder)
    reader = FastaReader(folder / "genome.fa.gz", contigs)
    return PackageSources(
        release=RELEASE,
        genome_digest=genome_digest(contigs),
        contigs=ContigSet([*contigs, *([APART] if held_out.intervals else [])]),
        windows={each.name: pq.read_table(folder / "windows" / f"{each.name}.parquet") for each in contigs},
        corpus={source: folder / "corpus" / f"{source}.parquet" for source in _SOURCES},
        gnomad=TablesOnDemand(folder / "gnomad", SHARD_COLUMNS[VariantSource.GNOMAD]),
        clinvar=TablesOnDemand(folder / "clinvar", SHARD_COLUMNS[VariantSource.CLINVAR]),
        intervals=_intervals(contigs, held_out),
        alleles=_held_alleles(folder, held_out),
        corpus_rows=HOLDOUT_CORPUS.empty(),
        policy=HoldoutPolicy(held_out.validation, held_out.test, clinvar_genes=()),
        reference=lambda name: reader.open_contig(contigs[name]),
        caches=[CacheRef(**each) for each in json.loads((folder / "caches.json").read_text())],
        margin_bp=PROFILE.margin_bp,
        mix=PackageMix(declared=POSSIBLE, max_visits=_MAX_VISITS),
    )


def _written_contigs(folder: Path, shape: PackageShape, known: list[Contig]) -> Iterator[tuple[str, bytes]]:
    """Yield names and bases of the contigs, write the tables of each, and append each, with its MD5, to ``known``."""
    total = sum(each.length for each in shape.contigs)
    for contig in shape.contigs:
        bases, name = simulate_contig(contig), f"{contig.name}.parquet"
        write_table(window_rows(contig, bases), folder / "windows" / name, WINDOWS)
        gnomad = gnomad_rows(contig, bases, per_mbp=shape.gnomad_per_mbp)
        write_table([gnomad], folder / "gnomad" / name, GNOMAD_VARIANTS)
        write_table([clinvar_rows(contig, bases, 1)], folder / "clinvar" / name, CLINVAR_VARIANTS)
        held = held_rows(contig, bases, shape.held_alleles * contig.length // total)
        write_table([held], folder / "held" / name, HOLDOUT_ALLELES)
        known.append(Contig(contig.name, contig.length, md5=hashlib.md5(bases).hexdigest()))
        yield contig.name, bases


def _contigs(folder: Path) -> ContigSet:
    listed = json.loads((folder / "contigs.json").read_text())
    return ContigSet([Contig(name, length, md5=md5) for name, length, md5 in listed])


def _root(folder: Path) -> Root:
    return Root(folder / "root")


def _intervals(contigs: ContigSet, held_out: HeldOut) -> pa.Table:
    """Return the held-out intervals, schema ``HOLDOUT_INTERVALS``: whole contigs, and pieces of ``APART``."""
    rows = [
        ("holdout-chr", role, name, 0, contigs[name].length, name)
        for role, names in (("validation", held_out.validation), ("test", held_out.test))
        for name in names
    ]
    starts = (PROFILE.margin_bp + _STEP_BP * number for number in range(held_out.intervals))
    rows += [
        ("holdout-haplotypes", "test", APART.name, start, start + _INTERVAL_BP, f"block{start}") for start in starts
    ]
    reasons = {"holdout-chr": "contig", "holdout-haplotypes": "proximity_block"}
    filled = [(*row, row[-1], reasons[row[0]]) for row in rows]
    schema = HOLDOUT_INTERVALS.arrow
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in filled], schema=schema)


def _held_alleles(folder: Path, held_out: HeldOut) -> pa.Table:
    """Return the held-out alleles: those simulated for it, and the common ones of the contigs held out whole."""
    tables = [HOLDOUT_ALLELES.empty(), *(TablesOnDemand(folder / "held").values() if held_out.alleles else ())]
    common = TablesOnDemand(folder / "gnomad", ["chrom", "pos", "ref", "alt"])
    for role, names in (("validation", held_out.validation), ("test", held_out.test)):
        tables += [_in_span(common[name], role) for name in names]
    return pa.concat_tables(tables)


def _in_span(alleles: pa.Table, role: str) -> pa.Table:
    n = alleles.num_rows
    columns = {"holdout": "holdout-chr", "role": role, "source": "gnomad", "unit": role, "reason": "in_span"}
    arrays = {name: pa.array([value] * n) for name, value in columns.items()} | {"gene_ids": pa.array([[]] * n)}
    arrays |= {name: alleles[name] for name in alleles.column_names}
    schema = HOLDOUT_ALLELES.arrow
    return pa.table({each.name: arrays.get(each.name, pa.nulls(n, each.type)) for each in schema}).cast(schema)


def _publish_states(folder: Path, table: Path, encoder: StateEncoder | SimulatedEncoder) -> CacheRef:
    """Publish an array store of the block states of the windows of a table, float16."""
    n, digest = pq.ParquetFile(table).metadata.num_rows, hashlib.sha256(table.read_bytes()).hexdigest()
    config = state_config(encoder.identity, windows_sha256=digest, window_bp=PROFILE.window_bp)
    key = compute_key(config)

    def write(work: Path) -> BuildReport:
        if isinstance(encoder, SimulatedEncoder):
            return _write_random(work, shape=encoder.identity.row_shape(PROFILE.window_bp), n=n, config=config)
        windows = listed_windows(_bases_of(folder, table))
        return write_states(work, config, encoder, windows, window_bp=PROFILE.window_bp, sources={"windows": digest})

    asset = "embeddings/cache" if table.parent.name == "windows" else "embeddings/corpus"
    location = f"embeddings/{key}"
    published = build(_root(folder), BuildPlan(ArtefactId(asset, table.stem), location, "1", config, (), write))
    return CacheRef(table.stem, key, n, digest, published.manifest.sha256, location)


def _bases_of(folder: Path, table: Path) -> list[str]:
    """Return the bases of the windows of a table of a folder, in row order."""
    if table.parent.name == "corpus":
        return pq.read_table(table, columns=["sequence"])["sequence"].to_pylist()
    bases = simulate_contig(_contigs(folder)[table.stem])
    rows = pq.read_table(table, columns=["start", "end"])
    return [bases[start:end].decode() for start, end in zip(*(each.to_pylist() for each in rows), strict=True)]


def _write_random(work: Path, *, shape: tuple[int, int], n: int, config: Mapping[str, JsonValue]) -> BuildReport:
    rng = np.random.default_rng(3)
    with ArrayStoreWriter(work, [ArraySpec("states", shape, "float16")], key_config=config) as writer:
        for first in range(0, n, _STATES_ROWS):
            keys = [str(row) for row in range(first, min(n, first + _STATES_ROWS))]
            states = rng.standard_normal((len(keys), *shape), dtype=np.float32).astype(np.float16)
            writer.write_batch({"states": states}, keys=keys)
        writer.finalize(compute_fingerprint(config, {}))
    return BuildReport({"windows": n})
