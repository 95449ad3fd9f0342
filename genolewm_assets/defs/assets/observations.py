"""``reference/source``, ``gnomad/source`` and the like: versions of files outside the root, observed daily.

Nothing is downloaded: the data version is a digest of what the server or file system states of each file. Sources of
which each partition of the graph reads its own file are observed by partition.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import dagster as dg

from genolewm_assets.defs.display import FACTS, StatedFile, describe_files, for_readers
from genolewm_assets.defs.runtime import (
    BY_CONTIG,
    BY_RUN_FOLDER,
    CORPUS_PIECES,
    Declaration,
    Workspace,
    WorkspaceResource,
)
from genolewm_assets.encoders import TINY_LLAMA, locate_model
from genolewm_assets.errors import GenoLeWMError, InputError, printable
from genolewm_assets.hub import HubFile, HubFiles
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.catalog import CorpusSourceEntry
from genolewm_assets.sources.corpus import count_records, list_corpus_files
from genolewm_assets.sources.files import SourceFile
from genolewm_assets.sources.run_folders import list_run_files
from genolewm_assets.store.files import canonical_json
from genolewm_assets.windows.corpus import count_pieces, parse_piece, piece_keys

#: Source files by their names in the catalogue.
Sources: TypeAlias = Mapping[str, SourceFile]
#: What is stated of each file, by its name.
Stated: TypeAlias = Mapping[str, StatedFile]
#: Returns what is stated of the files of a partition of a workspace; the key is empty for an asset without partitions.
State: TypeAlias = Callable[[Workspace, str], Stated]

_NO_FILE = StatedFile("", {"file": "none: the catalogue names no file of this contig"})


def genome_sources(workspace: Workspace) -> Sources:
    """Return the FASTA of the catalogue's genome."""
    genome = workspace.catalog.genome
    return {genome.name: workspace.source(genome.fasta, md5=genome.md5)}


def state_gnomad(workspace: Workspace, contig: str) -> Stated:
    """Return what is stated of the gnomAD VCF of a contig; that there is none if the catalogue names none."""
    entry = workspace.catalog.gnomad.sources.get(contig)
    return {contig: _NO_FILE if entry is None else _state_file(workspace.source(entry.url, md5=entry.md5))}


def haplotype_sources(workspace: Workspace, progress: Progress = NO_PROGRESS) -> dict[str, SourceFile]:
    """Return the VCFs of phased genotypes of the catalogue, by contig."""
    entries = workspace.catalog.haplotypes.sources
    return {contig: workspace.source(entry.url, md5=entry.md5, progress=progress) for contig, entry in entries.items()}


def mito_sources(workspace: Workspace) -> Sources:
    """Return the collections of mitochondrial genomes and the heteroplasmy VCFs of the catalogue, by file name."""
    mito = workspace.catalog.mito
    sources = [workspace.source(entry.url, md5=entry.md5) for entry in (*mito.genomes, *mito.heteroplasmy)]
    return {source.name: source for source in sources}


def corpus_files(
    workspace: Workspace, source: str, progress: Progress = NO_PROGRESS
) -> Sequence[SourceFile] | Sequence[HubFile]:
    """Return the files of one corpus source, sorted; raises as ``list_corpus_files`` and ``HubFiles.find``."""
    entry = workspace.catalog.corpus.sources[source]
    return _listed(workspace, entry, progress) if entry.hub is None else entry.hub.find(entry.files)


def _listed(workspace: Workspace, entry: CorpusSourceEntry, progress: Progress = NO_PROGRESS) -> Sequence[SourceFile]:
    urls = list_corpus_files(workspace.url(entry.url))[: entry.files]
    return [workspace.source(url, progress=progress) for url in urls]


def state_corpus(workspace: Workspace, _: str) -> Stated:
    """Return what is stated of each file of the corpus, by source and name; a source without files is absent.

    Of a source at the hub its commit is, which says all: the hub is not asked.
    """
    stated: dict[str, StatedFile] = {}
    for name, entry in workspace.catalog.corpus.sources.items():
        pinned = entry.pinned
        if entry.hub is not None:
            used = "all files" if entry.files is None else f"first {entry.files:,} files"
            stated[name] = StatedFile(entry.url, {"file": entry.url, "version": used, **pinned})
            continue
        try:
            files = _listed(workspace, entry)
        except InputError:
            stated[name] = StatedFile(entry.url, {"file": printable(entry.url), "version": "absent", **pinned})
            continue
        for file in files:
            stated[f"{name}/{file.name}"] = _state_file(file, **pinned)
    return stated


def register_pieces(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Register the pieces of every corpus source as partitions, by the rows of its files; remove all others.

    Of a source whose files cannot be read now, the registered pieces stay.
    """
    registered, wanted = instance.get_dynamic_partitions(CORPUS_PIECES), list[str]()
    for source in workspace.catalog.corpus.sources:
        try:
            rows = _count_rows(workspace, workspace.catalog.corpus.sources[source])
            wanted += piece_keys(source, count_pieces(rows, workspace.catalog.corpus.records_per_piece))
        except GenoLeWMError:
            wanted += [key for key in registered if parse_piece(key)[0] == source]
    instance.add_dynamic_partitions(CORPUS_PIECES, [key for key in wanted if key not in registered])
    for key in set(registered) - set(wanted):
        instance.delete_dynamic_partition(CORPUS_PIECES, key)


def _count_rows(workspace: Workspace, entry: CorpusSourceEntry) -> int:
    if entry.hub is not None:
        return _count_hub_rows(entry.hub, entry.files)
    return count_records([file.url for file in _listed(workspace, entry)])


@lru_cache(maxsize=64)
def _count_hub_rows(files: HubFiles, first: int | None) -> int:
    """Count the rows of files of a commit, which never changes: once in a process, so that sensors ask no more."""
    return count_records([file.place for file in files.find(first)])


def state_encoder(workspace: Workspace, _: str) -> Stated:
    """Return what is stated of each file of the encoder's identity, or of a hub model; empty if there is no encoder."""
    encoder = workspace.catalog.encoder
    if encoder is None or encoder.source is None:
        return {}
    pinned = {} if encoder.revision is None else {"revision": encoder.revision}
    if encoder.source == TINY_LLAMA:
        return {TINY_LLAMA: StatedFile("", {"file": TINY_LLAMA, "version": "built-in"})}
    if not isinstance(workspace.model, Path):
        return {encoder.source: StatedFile("", {"file": encoder.source, **pinned})}
    files = locate_model(workspace.model, revision=encoder.revision, trusted_code=encoder.trusted_source)
    return {
        name: _state_file(workspace.source(str((files.folder / name).absolute())), **pinned)
        for name in (*files.settings(), *files.weights())
    }


def state_run_folder(workspace: Workspace, key: str) -> Stated:
    """Return what is stated of each file of a run folder and of the kit's panel files; a missing folder is absent."""
    panels = {
        f"panels/{file.name}": _state_file(file) for file in map(workspace.source, workspace.catalog.forensic.panels)
    }
    folder = workspace.run_folders().get(key)
    if folder is None:
        return {key: StatedFile("", {"file": key, "version": "absent"}), **panels}
    found = {
        file.name: StatedFile(
            str(file.path), {"file": file.name, "size_bytes": file.size_bytes, "modified_ns": file.modified_ns}
        )
        for file in list_run_files(folder)
    }
    return {**found, **panels}


def _state_file(source: SourceFile, **pinned: str) -> StatedFile:
    return StatedFile(source.url, {**source.stated_identity(), **pinned})


def _stating(find: Callable[[Workspace], Sources]) -> State:
    """Return a function that states the identity of each source file that ``find`` returns."""
    return lambda workspace, _: {name: _state_file(source) for name, source in find(workspace).items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedSource(Declaration):
    """Declaration of an observable asset: files outside the root, of which ``state`` returns what is stated."""

    state: State
    columns: dg.TableSchema | None = FACTS
    entries: Mapping[str, str] = field(
        default_factory=lambda: {
            "number_of_files, files": "the files, where the catalogue names none or several",
            "modified": "latest change of the file, or of all files",
            "size_bytes": "size of the file, or of all files",
            "file, md5, version, expected_md5, revision": "as the columns of the same names",
        }
    )

    def definition(self) -> dg.AssetsDefinition:
        """Return the Dagster definition of the asset."""

        def observe_files(
            context: dg.AssetExecutionContext, workspace: dg.ResourceParam[WorkspaceResource]
        ) -> Iterator[dg.AssetObservation]:
            chosen = context.partition_keys if context.has_partition_key or context.has_partition_key_range else None
            opened = workspace.open()
            self.registers(opened, context.instance)
            yield from self.observe(opened, chosen or self.partitions.keys(context.instance))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # the stable decorator takes neither owners nor kinds
            # ``ObserveResult`` has no partition, so the step yields observations, and no result that Dagster waits for.
            spec, name = dg.AssetSpec(**self.attributes(), skippable=True), "__".join(self.path)
            make = dg.multi_observable_source_asset(name=name, specs=[spec], description=spec.description)
            asset: dg.AssetsDefinition = make(observe_files)
        return asset

    def observe(self, workspace: Workspace, keys: Sequence[str | None]) -> Iterator[dg.AssetObservation]:
        """Yield an observation of the current version of each of some partitions.

        Raises
        ------
        dg.Failure
            If a file is missing or its server does not answer, after all others were observed.
        """
        failures: list[GenoLeWMError] = []
        for partition in keys:
            try:
                stated = self.state(workspace, partition or "")
            except GenoLeWMError as err:
                failures.append(err)
                continue
            digest = hashlib.sha256(canonical_json({n: dict(f.facts) for n, f in stated.items()}, self.key)).hexdigest()
            yield dg.AssetObservation(
                self.path,
                partition=partition,
                metadata=for_readers(describe_files(stated), workspace.root.path),
                tags={"dagster/data_version": f"sha256:{digest}"},
            )
        if failures:
            lines = "\n".join(map(str, failures))
            said = lines if len(keys) == 1 else f"{len(failures)} of {len(keys)} files were not observed:\n{lines}"
            facts = {"exit_code": failures[0].exit_code}
            raise dg.Failure(said, metadata=facts, allow_retries=False) from failures[0]


reference_source = ObservedSource(
    key="reference/source",
    description="""
    One row per FASTA outside the root: the file that the catalogue names.

    A change of its version (MD5, ETag, or size and time) triggers a rebuild of `reference/genome`.
    """,
    kinds={"fasta"},
    state=_stating(genome_sources),
)

gnomad_source = ObservedSource(
    key="gnomad/source",
    description="""
    One row per gnomAD VCF outside the root: the file of each contig that the catalogue names.

    A change of the file's version (MD5, ETag, or size and time) triggers a rebuild of the contig's `gnomad/shard` and
    of no other. A contig without a file has one row that says so.
    """,
    kinds={"vcf"},
    partitions=BY_CONTIG,
    state=state_gnomad,
)

haplotype_source = ObservedSource(
    key="haplotypes/source",
    description="""
    One row per VCF of phased genotypes outside the root: the files that the catalogue names.

    A change of any file's version (MD5, ETag, or size and time) triggers a rebuild of `holdouts/manifest`.
    """,
    kinds={"vcf"},
    state=_stating(haplotype_sources),
)

mito_source = ObservedSource(
    key="mito/source",
    description="""
    One row per file of mitochondrial genomes or heteroplasmy outside the root: the files that the catalogue names.

    A change of any file's version (MD5, ETag, or size and time) triggers a rebuild of `mito/genomes` and `mito/tokens`.
    """,
    kinds={"fasta"},
    state=_stating(mito_sources),
)

corpus_source = ObservedSource(
    key="corpus/source",
    description="""
    One row per Parquet file of the pretraining corpus outside the root: the files that the catalogue names.

    A change of any file's version (ETag, or size and time), of the set of files or of the pinned revision triggers a
    rebuild of `corpus/records`; sources whose files are unchanged are reused. Their rows are counted, and the pieces
    that they are divided into become partitions of `corpus/windows` and `embeddings/corpus`.
    """,
    kinds={"parquet"},
    state=state_corpus,
    registers=register_pieces,
)

encoder_source = ObservedSource(
    key="encoder/source",
    description="""
    One row per file of the encoder outside the root: weights, configuration and vocabulary of the catalogue's model.

    A change of any file's version (size and time, or the commit of a hub model) triggers a rebuild of
    `embeddings/cache` and `embeddings/corpus` where `gpu_automation_sensor` runs.
    """,
    kinds={"huggingface"},
    state=state_encoder,
)

forensic_source = ObservedSource(
    key="forensic/source",
    description="""
    One row per file outside the root that profiles are made from: those of a run folder, and the kit's panel files.

    A change of any file's size or time, or of the set of files, triggers a rebuild of the run's `forensic/profiles`
    once the folder is complete again. `run_folder_sensor` observes new and changed folders.
    """,
    kinds={"abif"},
    partitions=BY_RUN_FOLDER,
    state=state_run_folder,
)
