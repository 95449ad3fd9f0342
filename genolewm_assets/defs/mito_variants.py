"""``mito/variants``: gnomAD's and ClinVar's mitochondrial alleles in one table, one partition per ClinVar release."""

from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq

from genolewm_assets.defs.automation import AUTOMATED
from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.gates import GatedAsset, GatedEvents
from genolewm_assets.defs.metadata import OWNERS, asset_tags, definition_metadata, describe_published, plotted
from genolewm_assets.defs.mito import read_circle
from genolewm_assets.defs.partitions import (
    clinvar_release_partitions,
    on_circular_contigs,
    on_every_partition,
    on_same_key,
)
from genolewm_assets.defs.resources import WorkspaceResource
from genolewm_assets.defs.workspace import NO_SOURCE, Workspace
from genolewm_assets.lewm.schema import CLINVAR_VARIANTS, GNOMAD_VARIANTS
from genolewm_assets.lewm.shard import VARIANTS_FILE
from genolewm_assets.mito.variant_checks import VARIANT_CHECKS, check_variants
from genolewm_assets.mito.variant_schema import MITO_SITES, MITO_VARIANTS
from genolewm_assets.mito.variants import join_variants, tabulate_sites
from genolewm_assets.store import ArtefactId, BuildPlan, BuildReport, Progress, Published
from genolewm_assets.store.parquet import write_table

CODE_VERSION = "1"
SITES_FILE = "sites.parquet"


def plan_variants(workspace: Workspace, release: str | None, progress: Progress) -> BuildPlan:
    """Plan the joined variants of one ClinVar release; of a genome without a mitochondrion they are declared empty."""
    contig, genome = workspace.mitochondrion, workspace.open_input("reference/genome")
    chrom = NO_SOURCE if contig is None else contig.name
    clinvar = workspace.open_input("clinvar/shard", release, progress=progress)
    gnomad = None if contig is None else workspace.open_input("gnomad/shard", chrom, progress=progress)

    def write(work: Path) -> BuildReport:
        reference = read_circle(workspace, genome, contig)
        common, clinical = GNOMAD_VARIANTS.empty(), CLINVAR_VARIANTS.empty()
        if gnomad is not None:
            common = pq.read_table(gnomad.file(VARIANTS_FILE))
            clinical = pq.read_table(clinvar.file(f"{chrom}.parquet"))
        bases = reference.encode("ascii")
        variants, counts = join_variants(common, clinical, bases, chrom=chrom)
        sites = tabulate_sites(variants, bases, chrom=chrom)
        rows = {
            VARIANTS_FILE: write_table([variants], work / VARIANTS_FILE, MITO_VARIANTS),
            SITES_FILE: write_table([sites], work / SITES_FILE, MITO_SITES),
        }
        checks = check_variants(
            pq.read_table(work / VARIANTS_FILE),
            pq.read_table(work / SITES_FILE),
            gnomad=common,
            clinvar=clinical,
            counts=counts,
            reference=reference,
        )
        return BuildReport(counts, rows, checks)

    artefact = ArtefactId("mito/variants", release)
    return BuildPlan(
        artefact=artefact,
        location=workspace.location(artefact),
        code_version=CODE_VERSION,
        recipe={"contig": chrom},
        inputs=tuple(each.ref for each in (gnomad, clinvar, genome) if each is not None),
        write=write,
    )


def describe_variants(published: Published) -> dict[str, dg.MetadataValue]:
    """Show rows, how the sources meet, and the population's heteroplasmy along the circle."""
    from genolewm_assets.defs.mito_pictures import draw_on_circle

    counts = published.manifest.counts
    pop_hl = pq.read_table(published.file(SITES_FILE), columns=["pop_hl"])["pop_hl"].to_numpy()
    return {
        **describe_published(published, rows=counts["alleles"]),
        **plotted(
            alleles_gnomad=counts["gnomad.alleles"],
            alleles_clinvar=counts["clinvar.alleles"],
            alleles_in_both=counts["in_both"],
            sites_with_heteroplasmy=int((pop_hl > 0).sum()),
        ),
        "heteroplasmy_along_circle": draw_on_circle(
            pop_hl.astype(float), title="The population's highest level of heteroplasmy", unit="on average"
        ),
    }


VARIANTS = GatedAsset(key="mito/variants", checks=VARIANT_CHECKS, plan=plan_variants, describe=describe_variants)


@dg.asset(
    key=["mito", "variants"],
    deps=[
        on_same_key("clinvar/shard"),
        on_circular_contigs("gnomad/shard"),
        on_every_partition("reference/genome"),
    ],
    partitions_def=clinvar_release_partitions,
    automation_condition=AUTOMATED,
    group_name="mito",
    code_version=CODE_VERSION,
    check_specs=VARIANTS.check_specs(clinvar_release_partitions),
    metadata=definition_metadata("mito/variants", MITO_VARIANTS, sites=MITO_SITES),
    owners=OWNERS,
    tags=asset_tags("clinvar_release"),
    hooks={report_failure},
    kinds={"parquet"},
)
def mito_variants(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> GatedEvents:
    """One row per mitochondrial allele of gnomAD or ClinVar, with its heteroplasmy in the population and its class.

    Alleles are joined on their normal form on the circle, across the origin too; a second table has the population's
    level at every site, which never stands for one genome's own.
    """
    yield from VARIANTS.run(context, workspace.open())
