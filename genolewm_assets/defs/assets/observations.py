"""``reference/source``, ``gnomad/source`` and the like: versions of files outside the root, observed daily.

Nothing is downloaded. The data version is a digest of what the server or file system states of each file: the published
MD5, the ETag, or size and modification time; of files at a pinned revision also that revision.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import dagster as dg

from genolewm_assets.defs.runtime import Declaration, Workspace, WorkspaceResource
from genolewm_assets.encoders import TINY_LLAMA, locate_model
from genolewm_assets.errors import GenoLeWMError, InputError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.corpus import list_corpus_files
from genolewm_assets.sources.files import SourceFile
from genolewm_assets.store.files import canonical_json

#: Source files by their names in the catalogue.
Sources: TypeAlias = Mapping[str, SourceFile]
#: What is stated of each file, by its name.
Stated: TypeAlias = Mapping[str, Mapping[str, str | int]]


#: Facts that an observation states of each file, as far as they are known.
_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("file", "string", description="name of the file"),
        dg.TableColumn("md5", "string", description="MD5 published with the file, or pinned by the catalogue"),
        dg.TableColumn(
            "size_bytes", "int", description="size of a local file or of a remote one without published MD5"
        ),
        dg.TableColumn("version", "string", description="ETag, else modification time, of a remote file without MD5"),
        dg.TableColumn("modified_ns", "int", description="modification time of a local file, ns since 1970"),
        dg.TableColumn("expected_md5", "string", description="MD5 that a local file must have when it is read"),
        dg.TableColumn("revision", "string", description="commit or tag that the catalogue pins for the file"),
    ]
)


def genome_sources(workspace: Workspace) -> Sources:
    """Return the FASTA of the catalogue's genome."""
    genome = workspace.catalog.genome
    return {genome.name: workspace.source(genome.fasta, md5=genome.md5)}


def gnomad_sources(workspace: Workspace) -> Sources:
    """Return the gnomAD VCFs of the catalogue, by contig."""
    entries = workspace.catalog.gnomad.sources
    return {contig: workspace.source(entry.url, md5=entry.md5) for contig, entry in entries.items()}


def haplotype_sources(workspace: Workspace, progress: Progress = NO_PROGRESS) -> dict[str, SourceFile]:
    """Return the VCFs of phased genotypes of the catalogue, by contig."""
    entries = workspace.catalog.haplotypes.sources
    return {contig: workspace.source(entry.url, md5=entry.md5, progress=progress) for contig, entry in entries.items()}


def mito_sources(workspace: Workspace) -> Sources:
    """Return the collections of mitochondrial genomes and the heteroplasmy VCFs of the catalogue, by file name."""
    mito = workspace.catalog.mito
    sources = [workspace.source(entry.url, md5=entry.md5) for entry in (*mito.genomes, *mito.heteroplasmy)]
    return {source.name: source for source in sources}


def corpus_files(workspace: Workspace, source: str, progress: Progress = NO_PROGRESS) -> list[SourceFile]:
    """Return the files of one corpus source, sorted; raises as ``sources.corpus.list_corpus_files``."""
    urls = list_corpus_files(workspace.url(workspace.catalog.corpus.sources[source].url))
    return [workspace.source(url, progress=progress) for url in urls]


def state_corpus(workspace: Workspace) -> Stated:
    """Return what is stated of each file of the corpus, by source and file name, with the pinned revision.

    A source without files is stated as absent: the catalogue may name a folder before its files are copied there.
    """
    stated: dict[str, Mapping[str, str | int]] = {}
    for name, entry in workspace.catalog.corpus.sources.items():
        pinned = {} if entry.revision is None else {"revision": entry.revision}
        try:
            files = corpus_files(workspace, name)
        except InputError:
            stated[name] = {"file": entry.url, "version": "absent", **pinned}
            continue
        for file in files:
            stated[f"{name}/{file.name}"] = {**file.stated_identity(), **pinned}
    return stated


def state_encoder(workspace: Workspace) -> Stated:
    """Return what is stated of the files of the encoder's identity: weights, configuration, vocabulary, trusted code.

    A hub model is told by its commit. The built-in model is part of this package. A catalogue may name no encoder.
    """
    encoder = workspace.catalog.encoder
    pinned = {} if encoder.revision is None else {"revision": encoder.revision}
    if encoder.source is None:
        return {}
    if encoder.source == TINY_LLAMA:
        return {TINY_LLAMA: {"file": TINY_LLAMA, "version": "built-in"}}
    if not isinstance(workspace.model, Path):
        return {encoder.source: {"file": encoder.source, **pinned}}
    files = locate_model(workspace.model, revision=encoder.revision, trusted_code=encoder.trusted_source)
    return {
        name: {**workspace.source(str((files.folder / name).absolute())).stated_identity(), **pinned}
        for name in (*files.settings(), *files.weights())
    }


def _stating(find: Callable[[Workspace], Sources]) -> Callable[[Workspace], Stated]:
    """Return a function that states the identity of each source file that ``find`` returns."""
    return lambda workspace: {name: source.stated_identity() for name, source in find(workspace).items()}


def observe(key: str, state: Callable[[], Stated]) -> dg.ObserveResult:
    """Return an observation of the current version of each file.

    Raises
    ------
    dg.Failure
        If a file is missing or its server does not answer.
    """
    try:
        stated = state()
    except GenoLeWMError as err:
        raise dg.Failure(str(err), metadata={"exit_code": err.exit_code}) from err
    digest = hashlib.sha256(canonical_json(stated, key)).hexdigest()
    return dg.ObserveResult(
        asset_key=key.split("/"),
        data_version=dg.DataVersion(f"sha256:{digest}"),
        metadata={"files": dg.MetadataValue.json(stated)},
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedSource(Declaration):
    """Declaration of an observable asset: files outside the root, which runs observe but never write.

    Attributes
    ----------
    state
        Returns what is stated of the files of a workspace.
    """

    state: Callable[[Workspace], Stated]
    columns: dg.TableSchema | None = _COLUMNS

    def definition(self) -> dg.AssetsDefinition:
        """Return the Dagster definition of the asset."""

        def observe_files(workspace: dg.ResourceParam[WorkspaceResource]) -> Iterator[dg.ObserveResult]:
            opened = workspace.open()
            yield observe(self.key, lambda: self.state(opened))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # the stable decorator takes neither owners nor kinds
            spec, name = dg.AssetSpec(**self.attributes()), "__".join(self.path)
            asset: dg.AssetsDefinition = dg.multi_observable_source_asset(name=name, specs=[spec])(observe_files)
        return asset


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
    One row per gnomAD VCF outside the root: the files that the catalogue names.

    A change of any file's version (MD5, ETag, or size and time) triggers a rebuild of `gnomad/shard`; shards whose file
    is unchanged are reused.
    """,
    kinds={"vcf"},
    state=_stating(gnomad_sources),
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
    rebuild of `corpus/windows`; sources whose files are unchanged are reused.
    """,
    kinds={"parquet"},
    state=state_corpus,
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
