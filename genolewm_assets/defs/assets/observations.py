"""``reference/source``, ``gnomad/source`` and ``mito/source``: what the files outside the root are, asked once a day.

Nothing is downloaded: the data version is a digest of what each file's place says of it, the published MD5, the ETag,
or size and time.
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

#: Files by what the catalogue calls them.
Sources: TypeAlias = Mapping[str, SourceFile]


#: What an observation states of each file, as far as its place says it.
_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("file", "string", description="name of the file"),
        dg.TableColumn("md5", "string", description="MD5 that is published beside it, or pinned by the catalogue"),
        dg.TableColumn("size_bytes", "int", description="size, where no MD5 of a remote file is published"),
        dg.TableColumn("version", "string", description="ETag, else time of the last change, of such a remote file"),
        dg.TableColumn("modified_ns", "int", description="time of the last change of a local file, ns since 1970"),
        dg.TableColumn("expected_md5", "string", description="MD5 that a local file is held against when it is read"),
    ]
)


def genome_sources(workspace: Workspace) -> Sources:
    """Return the FASTA."""
    genome = workspace.catalog.genome
    return {genome.name: workspace.source(genome.fasta, md5=genome.md5)}


def gnomad_sources(workspace: Workspace) -> Sources:
    """Return the VCF of every contig that has one."""
    entries = workspace.catalog.gnomad.sources
    return {contig: workspace.source(entry.url, md5=entry.md5) for contig, entry in entries.items()}


def mito_sources(workspace: Workspace) -> Sources:
    """Return the collections of mitochondrial genomes and the VCFs of their heteroplasmy."""
    mito = workspace.catalog.mito
    sources = [workspace.source(entry.url, md5=entry.md5) for entry in (*mito.genomes, *mito.heteroplasmy)]
    return {source.name: source for source in sources}


def observe(key: str, sources: Sources) -> dg.ObserveResult:
    """Ask about each file; raises ``dg.Failure`` if one is not there or does not answer."""
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
    """Files outside the root, of which runs make observations only."""

    find: Callable[[Workspace], Sources]
    columns: dg.TableSchema | None = _COLUMNS

    def definition(self) -> dg.AssetsDefinition:
        """Return the asset as Dagster loads it."""

        def ask(workspace: WorkspaceResource) -> Iterator[dg.ObserveResult]:
            yield observe(self.key, self.find(workspace.open()))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # the stable kind has neither owners nor kinds
            spec, name = dg.AssetSpec(**self.attributes()), "__".join(self.path)
            asset: dg.AssetsDefinition = dg.multi_observable_source_asset(name=name, specs=[spec])(ask)
        return asset


reference_source = ObservedSource(
    key="reference/source",
    description="""
    One row per FASTA outside the root: the one that the catalogue names.

    When what its place says of it changes, the genome is built again from it.
    """,
    kinds={"fasta"},
    find=genome_sources,
)

gnomad_source = ObservedSource(
    key="gnomad/source",
    description="""
    One row per gnomAD VCF outside the root: those that the catalogue names.

    When what its place says of one changes, the shards are built again; those whose file is the same are kept.
    """,
    kinds={"vcf"},
    find=gnomad_sources,
)

mito_source = ObservedSource(
    key="mito/source",
    description="""
    One row per file of mitochondrial genomes or their heteroplasmy outside the root: those that the catalogue names.

    When what its place says of one changes, genomes and tokens are built again.
    """,
    kinds={"fasta"},
    find=mito_sources,
)
