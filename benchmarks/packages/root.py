"""A root with all inputs of ``packages/split``: the genome, windows, alleles, corpus, states and holdouts.

Windows, alleles, corpus and states are simulated and published under the names of their assets; the genome and the
holdouts are built by their assets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml

from benchmarks.packages.simulated_rows import clinvar_rows, corpus_rows, gnomad_rows, window_rows
from benchmarks.vcf.memory_tables import write_fasta
from benchmarks.vcf.simulated_genome import simulate_contig
from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.genome import GRCH38, Contig
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.store.arrays import ArraySpec, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.artefacts import ArtefactId, BuildPlan, BuildReport, Published, build
from genolewm_assets.store.tables import TableSchema, write_table
from genolewm_assets.variants import CLINVAR_VARIANTS, GNOMAD_VARIANTS
from genolewm_assets.windows.bases import write_bases
from genolewm_assets.windows.corpus.windows import CORPUS_WINDOWS
from genolewm_assets.windows.reference.schema import WINDOWS

#: A tenth of the genome, 313 Mbp. Its longest contig is the longest of all; the second one is held out.
TENTH = tuple(Contig(name, GRCH38[name].length) for name in ("chr1", "chr20"))
RELEASES = ("2024-01-07", "2025-01-05")
#: Windows of every corpus source.
CORPUS = {"eukaryote_generator": 4_000, "mrna_evo2": 6_000, "mrna_splice_evo2": 2_500, "prokaryote_evo2": 4_000}
_STATES_ROWS = 256


def make_root(folder: Path, *, shrink: int = 1, states: bool = True) -> Workspace:
    """Write a catalogue into a new folder, and publish all inputs of the package of the newer release in its ``root``.

    ``shrink`` divides the lengths of the contigs and the numbers of corpus windows. ``states``: whether the windows
    have states.
    """
    folder.mkdir(parents=True)
    contigs = [Contig(each.name, each.length // shrink) for each in TENTH]
    bases = {contig.name: simulate_contig(contig) for contig in contigs}
    write_fasta(folder / "genome.fa.gz", bases.items())
    (folder / "catalog.yaml").write_text(
        yaml.safe_dump(_catalog(contigs, bases) | ({} if states else {"encoder": "off"}))
    )
    workspace = open_root(folder)
    genome = _build(workspace, "reference/genome")
    for contig in contigs:
        sequence = bases[contig.name]
        windows = {"windows.parquet": (WINDOWS, window_rows(contig, sequence))}
        published = _publish_tables(workspace, "windows/index", contig.name, windows, genome)
        if states:
            _publish_states(workspace, published)
        alleles = {"variants.parquet": (GNOMAD_VARIANTS, [gnomad_rows(contig, sequence)])}
        _publish_tables(workspace, "gnomad/shard", contig.name, alleles, genome)
    for number, release in enumerate(RELEASES):
        shard = {
            f"{each.name}.parquet": (CLINVAR_VARIANTS, [clinvar_rows(each, bases[each.name], number)])
            for each in contigs
        }
        _publish_tables(workspace, "clinvar/shard", release, shard, genome)
    for name, n in CORPUS.items():
        windows = {"windows.parquet": (CORPUS_WINDOWS, corpus_rows(name, n // shrink))}
        published = _publish_tables(workspace, "corpus/windows", name, windows, genome)
        if states:
            _publish_states(workspace, published)
    _build(workspace, "holdouts/manifest", RELEASES[-1])
    return workspace


def open_root(folder: Path) -> Workspace:
    """Open the root that :func:`make_root` wrote into a folder."""
    return Workspace.open(folder / "root", str(folder / "catalog.yaml"))


def _catalog(contigs: Sequence[Contig], bases: Mapping[str, bytes]) -> dict[str, object]:
    pinned = [
        {"name": each.name, "length": each.length, "md5": hashlib.md5(bases[each.name]).hexdigest()} for each in contigs
    ]
    return {
        "name": "packages",
        "genome": {"name": "simulated", "fasta": "genome.fa.gz", "contigs": pinned},
        "gnomad": {"sources": {each.name: {"url": f"{each.name}.vcf.bgz", "release": "4.1"} for each in contigs}},
        "clinvar": {"listing": "clinvar", "predecessors": {RELEASES[1]: RELEASES[0]}, "freshness": "off"},
        "corpus": {"short_windows": True, "sources": {name: {"url": f"corpus/{name}"} for name in CORPUS}},
        "encoder": {"model": "tiny-llama-random", "dtype": "float32"},
        "holdouts": {"contigs_validation": [], "contigs_test": [contigs[-1].name], "temporal": RELEASES[0]},
        "packages": {"mix_declared": True, "max_visits": 8},
    }


def _build(workspace: Workspace, key: str, partition: str | None = None) -> Published:
    return build(workspace.root, GATED[key].build_plan(workspace, partition, NO_PROGRESS))


def _publish_tables(
    workspace: Workspace,
    key: str,
    partition: str,
    tables: Mapping[str, tuple[TableSchema, Iterable[pa.Table]]],
    genome: Published,
) -> Published:
    def write(work: Path) -> BuildReport:
        rows = {name: write_table(rows, work / name, schema) for name, (schema, rows) in tables.items()}
        if (windows := work / "windows.parquet").exists():
            write_bases(windows)
        return BuildReport({"windows": sum(rows.values())}, rows)

    return publish(workspace, key, partition, write, genome)


def _publish_states(workspace: Workspace, windows: Published) -> None:
    """Publish states of a window table: random numbers of the encoder's shape."""
    config = workspace.cache_config(windows.manifest)
    shape = workspace.encoder_identity.row_shape(workspace.catalog.window_profile.window_bp)
    n, rng = windows.manifest.counts["windows"], np.random.default_rng(3)

    def write(work: Path) -> BuildReport:
        with ArrayStoreWriter(work, [ArraySpec("states", shape, "float32")], key_config=config) as writer:
            for first in range(0, n, _STATES_ROWS):
                keys = [str(row) for row in range(first, min(n, first + _STATES_ROWS))]
                states = rng.standard_normal((len(keys), *shape), dtype=np.float32)
                writer.write_batch({"states": states}, keys=keys)
            writer.finalize(compute_fingerprint(config, {}))
        return BuildReport({"windows": n})

    key = {"windows/index": "embeddings/cache", "corpus/windows": "embeddings/corpus"}[windows.artefact.asset]
    publish(workspace, key, str(windows.artefact.partition), write, windows)


def publish(
    workspace: Workspace, key: str, partition: str, write: Callable[[Path], BuildReport], made_from: Published
) -> Published:
    """Publish what ``write`` writes as a partition of an asset."""
    asset = GATED[key]
    location, recipe = asset.location(workspace, partition), {"simulated": True}
    inputs = (made_from.ref,)
    return build(
        workspace.root, BuildPlan(ArtefactId(key, partition), location, asset.code_version, recipe, inputs, write)
    )
