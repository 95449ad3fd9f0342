"""``clinvar/release`` and ``clinvar/shard``: one partition per published release."""

from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.defs.automation import AUTOMATED
from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.freshness import RELEASE_FRESHNESS
from genolewm_assets.defs.gates import GatedAsset, GatedEvents
from genolewm_assets.defs.metadata import OWNERS, asset_tags, definition_metadata, describe_published, plotted
from genolewm_assets.defs.partitions import clinvar_release_partitions, on_every_partition, on_same_key
from genolewm_assets.defs.resources import WorkspaceResource
from genolewm_assets.defs.vcf_columns import clinvar_vcf_schema
from genolewm_assets.defs.workspace import Workspace, reference_opener
from genolewm_assets.lewm.release_key import ReleaseKey
from genolewm_assets.lewm.schema import CLINVAR_VARIANTS
from genolewm_assets.lewm.shard import state_origin
from genolewm_assets.lewm.shard_checks import CLINVAR_CHECKS, check_clinvar_table
from genolewm_assets.sources.allele_count import count_records
from genolewm_assets.sources.clinvar import build_clinvar_shard, read_release_date
from genolewm_assets.sources.release_ledger import check_offered, find_release
from genolewm_assets.sources.shard_audit import audit_shard
from genolewm_assets.store import ArtefactId, BuildPlan, BuildReport, CheckResult, JsonValue, Progress, Published

RELEASE_CODE_VERSION = "1"
SHARD_CODE_VERSION = "2"


def plan_release(workspace: Workspace, key: str | None, progress: Progress) -> BuildPlan:
    """Plan the download of one release's VCF: of the bytes that its key was registered for, and no others."""
    artefact = ArtefactId("clinvar/release", key)
    root, place = workspace.root.path, workspace.url(workspace.catalog.clinvar.listing)
    release = find_release(root, place, str(key))
    source = workspace.source(release.url_at(place), md5=release.md5, progress=progress)

    def write(work: Path) -> BuildReport:
        local = source.copy_to(work)
        if release.md5 is None:  # only the place itself tells whether the file was replaced meanwhile
            check_offered(root, place, release)
        header_date = read_release_date(local.path, label=source.url)
        # A re-issued file of one date gets the key "2026-02-26.2".
        dated = CheckResult(
            "release_key_equals_header_date",
            passed=header_date == ReleaseKey.parse(str(key)).day,
            figures={"release": str(key), "header_date": str(header_date)},
        )
        return BuildReport(
            counts={"size_bytes": local.path.stat().st_size}, rows={}, checks=(local.checksum_check(), dated)
        )

    return BuildPlan(
        artefact=artefact,
        location=workspace.location(artefact),
        code_version=RELEASE_CODE_VERSION,
        recipe={"source": source.identity()},
        inputs=(),
        write=write,
    )


def plan_clinvar_shard(workspace: Workspace, key: str | None, progress: Progress) -> BuildPlan:
    """Plan the normalised, labelled alleles of one release, one Parquet file per contig."""
    genome, release = workspace.open_input("reference/genome"), workspace.open_input("clinvar/release", key)
    settings = workspace.catalog.clinvar
    artefact = ArtefactId("clinvar/shard", key)
    recipe: dict[str, JsonValue] = {"max_ref_mismatch_fraction": settings.max_ref_mismatch_fraction}
    inputs = (genome.ref, release.ref)

    def write(work: Path) -> BuildReport:
        reference = reference_opener(genome, workspace.contigs)
        report = build_clinvar_shard(
            _vcf_of(release),
            release=str(key),
            contigs=workspace.contigs,
            reference=reference,
            out_dir=work,
            origin=state_origin(SHARD_CODE_VERSION, recipe, inputs),
            progress=progress,
        )
        checks = audit_shard(
            work,
            check_clinvar_table,
            contigs=workspace.contigs,
            reference=reference,
            counts=report.counts,
            alleles_in_source=report.alleles_in_source,
            max_ref_mismatch_fraction=settings.max_ref_mismatch_fraction,
        )
        return BuildReport(counts=report.counts, rows=report.rows, checks=checks)

    return BuildPlan(
        artefact=artefact,
        location=workspace.location(artefact),
        code_version=SHARD_CODE_VERSION,
        recipe=recipe,
        inputs=inputs,
        write=write,
        surface=True,
    )


def _vcf_of(release: Published) -> Path:
    (entry,) = release.manifest.files
    return release.file(entry.path)


def describe_release(published: Published) -> dict[str, dg.MetadataValue]:
    """Show the file, its size and its records."""
    vcf = _vcf_of(published)
    return {**describe_published(published, rows=count_records(vcf)), "file": dg.MetadataValue.path(str(vcf))}


def describe_clinvar_shard(published: Published) -> dict[str, dg.MetadataValue]:
    """Show rows, counts, the balance of the classes, and the classes by review stars."""
    from genolewm_assets.defs.pictures import LABEL_COLOURS, draw_class_balance, draw_classes_by_stars

    tables = [
        pq.read_table(published.file(entry.path), columns=["label", "stars"])
        for entry in published.manifest.files
        if entry.path.endswith(".parquet") and entry.path != "rejects.parquet"
    ]
    table = pa.concat_tables(tables)
    stars = table["stars"].to_numpy()
    of_class = {label: pc.equal(table["label"], label).to_numpy() for label in LABEL_COLOURS}
    by_class = {label: np.bincount(stars[rows], minlength=5) for label, rows in of_class.items()}
    sizes = {label: int(by_stars.sum()) for label, by_stars in by_class.items()}
    return {
        **describe_published(published, rows=table.num_rows),
        **plotted(
            alleles_pathogenic=sizes["P"] + sizes["LP"],
            alleles_benign=sizes["B"] + sizes["LB"],
            alleles_uncertain=sizes["VUS"],
            alleles_with_two_stars=int(np.count_nonzero(stars >= 2)),
            alleles_rejected=published.manifest.counts["rejected"],
        ),
        "class_balance": draw_class_balance(sizes),
        "classes_by_review_stars": draw_classes_by_stars(by_class),
    }


RELEASE = GatedAsset(
    key="clinvar/release",
    checks=("checksum_matches_published", "release_key_equals_header_date"),
    plan=plan_release,
    describe=describe_release,
)
SHARD = GatedAsset(key="clinvar/shard", checks=CLINVAR_CHECKS, plan=plan_clinvar_shard, describe=describe_clinvar_shard)


@dg.asset(
    key=["clinvar", "release"],
    partitions_def=clinvar_release_partitions,
    group_name="clinvar",
    code_version=RELEASE_CODE_VERSION,
    check_specs=RELEASE.check_specs(clinvar_release_partitions),
    freshness_policy=RELEASE_FRESHNESS,
    metadata={"dagster/column_schema": clinvar_vcf_schema()},
    owners=OWNERS,
    tags=asset_tags("clinvar_release"),
    hooks={report_failure},
    kinds={"vcf"},
)
def clinvar_release(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per record of a ClinVar release: the published VCF, byte for byte.

    NCBI replaces its weekly files; a training set must be able to name the one that it was made from.
    """
    yield from RELEASE.run(context, workspace.open())


@dg.asset(
    key=["clinvar", "shard"],
    deps=[on_same_key("clinvar/release"), on_every_partition("reference/genome")],
    partitions_def=clinvar_release_partitions,
    automation_condition=AUTOMATED,
    group_name="clinvar",
    code_version=SHARD_CODE_VERSION,
    check_specs=SHARD.check_specs(clinvar_release_partitions),
    metadata=definition_metadata("clinvar/shard", CLINVAR_VARIANTS),
    owners=OWNERS,
    tags=asset_tags("clinvar_release"),
    hooks={report_failure},
    kinds={"parquet", "vcf"},
)
def clinvar_shard(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per normalised allele of a ClinVar release with its class and review stars.

    The labelled evaluation sets and the hard negatives of training are drawn from these rows, so a label comes from a
    closed table of CLNSIG terms and an allele is on the reference or in the rejects file.
    """
    yield from SHARD.run(context, workspace.open())
