"""``gnomad/shard``: common alleles of gnomAD, one partition per contig."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import dagster as dg
import numpy as np
import numpy.typing as npt

from genolewm_assets.defs.assets.observations import gnomad_source
from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.display import describe_published, plotted
from genolewm_assets.defs.runtime import (
    AUTOMATED,
    BY_CONTIG,
    NO_SOURCE,
    GatedAsset,
    Plan,
    Workspace,
    on_every_partition,
    on_same_key,
    reference_opener,
)
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.progress import Progress
from genolewm_assets.sources.files import CHECKSUM_MATCHES, LocalCopy, SourceFile
from genolewm_assets.sources.gnomad import GnomadParams, build_gnomad_shard, check_filters_applied, write_empty_shard
from genolewm_assets.sources.vcf import LocalVcf, RemoteVcf, StreamedVcf, VcfSource
from genolewm_assets.store.artefacts import BuildPlan, BuildReport, CheckResult, Published, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import read_table
from genolewm_assets.variants import (
    CONTIGS_KNOWN,
    GNOMAD_CHECKS,
    GNOMAD_VARIANTS,
    ShardReport,
    audit_shard,
    check_contigs_known,
    check_filters_spare,
    state_origin,
)

_NO_SOURCE = f"{NO_SOURCE}: the catalogue names no gnomAD file of the contig"
_ACCEPT = "If the file is published unfiltered, write gnomad.sources.{}.accept_unfiltered: true in the catalogue"
_CHECKSUM = CheckResult(CHECKSUM_MATCHES, passed=True)
_NO_CHECKSUM = stating_compared(_CHECKSUM, 0, _NO_SOURCE, declared=True)
_NOT_DOWNLOADED = stating_compared(
    _CHECKSUM, 0, "the catalogue has the file read in ranges, so it is never whole", declared=True
)


def plan_gnomad_shard(workspace: Workspace, contig_name: str, progress: Progress) -> Plan:
    """Plan the shard of one contig; the shard of a contig without a source is empty."""
    contig, settings = workspace.contigs[contig_name], workspace.catalog.gnomad
    genome = reference_genome.open(workspace)
    entry = settings.sources.get(contig.name)
    source = workspace.source(entry.url, md5=entry.md5, progress=progress) if entry else None
    params = GnomadParams(
        min_af=settings.min_af,
        min_an_fraction=settings.min_an_fraction,
        accept_unfiltered=bool(entry and entry.accept_unfiltered),
        joint_rescue=bool(entry and entry.joint_rescue),
    )

    recipe: dict[str, JsonValue] = {
        "source": dict(source.identity()) if source else NO_SOURCE,
        "params": asdict(params),
        "max_ref_mismatch_fraction": settings.max_ref_mismatch_fraction,
    }
    origin = state_origin(gnomad_shard.code_version, recipe, [genome.ref])

    def write(work: Path) -> BuildReport:
        reference = reference_opener(genome, workspace.contigs)
        if source is None:
            report, checksum = write_empty_shard(work, origin=origin), _NO_CHECKSUM
        else:
            with _opened(source, entry.read if entry else "download") as (vcf, check):
                report = build_gnomad_shard(
                    vcf,
                    contig=contig,
                    contigs=workspace.contigs,
                    reference=reference,
                    params=params,
                    out_dir=work,
                    release=entry.release if entry else None,
                    origin=origin,
                    progress=progress,
                )
                checksum = check(report)
                check_filters_applied(report, where=vcf.label, remedy=_ACCEPT.format(contig.name))
        checks = audit_shard(
            work,
            report,
            params.check_table,
            contigs=workspace.contigs,
            reference=reference,
            max_ref_mismatch_fraction=settings.max_ref_mismatch_fraction,
            no_source=_NO_SOURCE if source is None else None,
        )
        spared = check_filters_spare(report.counts)
        return BuildReport(counts=report.counts, rows=report.rows, checks=(checksum, *checks, spared))

    return Plan(recipe=recipe, inputs=(genome,), write=write)


@contextmanager
def _opened(source: SourceFile, how: str) -> Iterator[tuple[VcfSource, Callable[[ShardReport], CheckResult]]]:
    """Yield a source and what checks its checksum once it was read; a file that is here is a local one however read."""
    if how == "ranges" and source.is_remote:
        yield RemoteVcf(source.url), lambda _: _NOT_DOWNLOADED
    elif how == "stream" and source.is_remote:
        expected = source.expected_md5()
        vcf = StreamedVcf(source.url, expected, source.download_folder)
        yield vcf, lambda report: LocalCopy(Path(source.name), report.source_md5 or "", expected).checksum_check()
    else:
        with source.local() as local:
            yield LocalVcf(local.path), lambda _: local.checksum_check()


def describe_gnomad_shard(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of a shard: rows, counts, allele frequency spectrum, density along the contig."""
    from genolewm_assets.defs.display import draw_af_spectrum, draw_density

    table = read_table(published.file("variants.parquet"), columns=["pos", "af"])
    contig, counts = str(published.artefact.partition), published.manifest.counts
    return {
        **describe_published(published, rows=table.num_rows, stated=("kept", "filtered", "rejected")),
        **plotted(**{f"alleles_{fate}": counts[fate] for fate in ("filtered", "rejected")}),
        "af_spectrum": draw_af_spectrum(table["af"].to_numpy(), contig=contig),
        "alleles_along_contig": draw_density(table["pos"].to_numpy() - 1, unit="alleles", contig=contig),
    }


def compare_contigs(workspace: Workspace, _plan: BuildPlan, published: Published) -> dict[str, dg.MetadataValue]:
    """Return a picture of the allele frequencies of all contigs that are published; forget how the file was scanned."""
    from genolewm_assets.defs.display import draw_by_contig

    entry = workspace.catalog.gnomad.sources.get(str(published.artefact.partition))
    if entry is not None and entry.read == "stream":
        source = workspace.source(entry.url)
        StreamedVcf(source.url, None, source.download_folder).forget()
    found: dict[str, npt.NDArray[np.float64] | None] = dict.fromkeys(workspace.contigs.names)
    for contig in found:
        with suppress(GenoLeWMError):
            shard = gnomad_shard.open(workspace, contig, contents="sizes")
            found[contig] = read_table(shard.file("variants.parquet"), columns=["af"])["af"].to_numpy()
    return {"af_by_contig": draw_by_contig(found, title="Allele frequencies", log=True)}


gnomad_shard = GatedAsset(
    key="gnomad/shard",
    description="""
    One row per normalised gnomAD allele of a contig with AF >= 1 % (chrM: every allele).

    Training takes its edits with common alleles from these rows. Alleles removed by FILTER, AF or AN are counted by
    reason; alleles that are not usable sequence variants are listed in `rejects.parquet` with the reason.
    """,
    kinds={"parquet", "vcf"},
    code_version="6",
    place=lambda workspace, contig: f"gnomad/{workspace.gnomad_release(contig)}/{contig}",
    deps=(on_every_partition(reference_genome), on_same_key(gnomad_source)),
    partitions=BY_CONTIG,
    automation=AUTOMATED,
    table=GNOMAD_VARIANTS,
    checks=(CHECKSUM_MATCHES, *GNOMAD_CHECKS),
    advisories=(CONTIGS_KNOWN,),
    advise=lambda _, published: (check_contigs_known(published.manifest.counts),),
    plan=plan_gnomad_shard,
    entries={
        "alleles_filtered": "alleles left out by FILTER, AF or AN",
        "alleles_rejected": "alleles that are not usable, as `rejects.parquet` lists them",
        "af_by_contig": "how many alleles of each published contig have which frequency",
        "af_spectrum": "the same of this contig",
        "alleles_along_contig": "how many alleles lie where",
    },
    describe=describe_gnomad_shard,
    after=compare_contigs,
)
