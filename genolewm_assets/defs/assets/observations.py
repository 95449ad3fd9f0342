"""``reference/source``, ``gnomad/source`` and ``mito/source``: versions of files outside the root, observed daily.

Nothing is downloaded. The data version is a digest of what the server or file system states of each file: the published
MD5, the ETag, or size and modification time.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import dagster as dg

from genolewm_assets.defs.runtime import Declaration, Workspace, WorkspaceResource
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.sources.files import SourceFile
from genolewm_assets.store.files import canonical_json

#: Source files by their names in the catalogue.
Sources: TypeAlias = Mapping[str, SourceFile]


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


def mito_sources(workspace: Workspace) -> Sources:
    """Return the collections of mitochondrial genomes and the heteroplasmy VCFs of the catalogue, by file name."""
    mito = workspace.catalog.mito
    sources = [workspace.source(entry.url, md5=entry.md5) for entry in (*mito.genomes, *mito.heteroplasmy)]
    return {source.name: source for source in sources}


def observe(key: str, sources: Sources) -> dg.ObserveResult:
    """Return an observation of the current version of each file.

    Raises
    ------
    dg.Failure
        If a file is missing or its server does not answer.
    """
    try:
        stated = {name: source.stated_identity() for name, source in sources.items()}
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
    find
        Returns the source files of a workspace.
    """

    find: Callable[[Workspace], Sources]
    columns: dg.TableSchema | None = _COLUMNS

    def definition(self) -> dg.AssetsDefinition:
        """Return the Dagster definition of the asset."""

        def observe_files(workspace: WorkspaceResource) -> Iterator[dg.ObserveResult]:
            yield observe(self.key, self.find(workspace.open()))

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
    find=genome_sources,
)

gnomad_source = ObservedSource(
    key="gnomad/source",
    description="""
    One row per gnomAD VCF outside the root: the files that the catalogue names.

    A change of any file's version (MD5, ETag, or size and time) triggers a rebuild of `gnomad/shard`; shards whose file
    is unchanged are reused.
    """,
    kinds={"vcf"},
    find=gnomad_sources,
)

mito_source = ObservedSource(
    key="mito/source",
    description="""
    One row per file of mitochondrial genomes or heteroplasmy outside the root: the files that the catalogue names.

    A change of any file's version (MD5, ETag, or size and time) triggers a rebuild of `mito/genomes` and `mito/tokens`.
    """,
    kinds={"fasta"},
    find=mito_sources,
)
