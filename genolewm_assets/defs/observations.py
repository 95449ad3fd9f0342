"""``reference/source``, ``gnomad/source`` and ``mito/source``: what the files outside the root are, asked once a day.

Nothing is downloaded: the data version is a digest of what each file's place says of it, the published MD5, the ETag,
or size and time.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import dagster as dg

from genolewm_assets.defs.automation import SOURCES
from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.metadata import OWNERS, asset_tags
from genolewm_assets.defs.resources import WorkspaceResource
from genolewm_assets.defs.workspace import Workspace
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.sources.source_file import SourceFile
from genolewm_assets.store.canonical_json import canonical_json

CODE_VERSION = "1"

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


def _source_asset(
    domain: str, description: str, kind: str, find: Callable[[Workspace], Sources]
) -> dg.AssetsDefinition:
    """Return the asset ``<domain>/source``, of which runs make observations only."""
    key = f"{domain}/source"
    spec = dg.AssetSpec(
        key.split("/"),
        description=description,
        group_name=domain,
        code_version=CODE_VERSION,
        metadata={"dagster/column_schema": _COLUMNS},
        owners=OWNERS,
        tags=asset_tags(None),
        kinds={kind},
    )

    def ask(workspace: WorkspaceResource) -> Iterator[dg.ObserveResult]:
        yield observe(key, find(workspace.open()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # the stable kind has neither owners nor kinds
        asset: dg.AssetsDefinition = dg.multi_observable_source_asset(name=f"{domain}__source", specs=[spec])(ask)
    return asset


reference_source = _source_asset(
    "reference",
    "One row per FASTA outside the root: the one that the catalogue names.\n\n"
    "When what its place says of it changes, the genome is built again from it.",
    "fasta",
    genome_sources,
)

gnomad_source = _source_asset(
    "gnomad",
    "One row per gnomAD VCF outside the root: those that the catalogue names.\n\n"
    "When what its place says of one changes, the shards are built again; those whose file is the same are kept.",
    "vcf",
    gnomad_sources,
)

mito_source = _source_asset(
    "mito",
    "One row per file of mitochondrial genomes or their heteroplasmy outside the root: those that the catalogue names."
    "\n\nWhen what its place says of one changes, genomes and tokens are built again.",
    "fasta",
    mito_sources,
)

observe_sources_job = dg.define_asset_job(
    "observe_sources",
    selection=SOURCES,
    hooks={report_failure},
    description="Ask what the files outside the root are now, without downloading them.",
)

observe_sources_schedule = dg.ScheduleDefinition(
    name="observe_sources_schedule",
    job=observe_sources_job,
    cron_schedule="17 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Daily: it costs a few small requests.",
)
