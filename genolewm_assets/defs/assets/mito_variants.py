"""``mito/variants``: gnomAD's and ClinVar's mitochondrial alleles in one table, one partition per ClinVar release."""

from pathlib import Path

import dagster as dg

from genolewm_assets.defs.assets.clinvar import clinvar_shard
from genolewm_assets.defs.assets.gnomad import gnomad_shard
from genolewm_assets.defs.assets.mito import read_circle
from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.display import describe_published, made_here, of, plotted, same
from genolewm_assets.defs.runtime import (
    AUTOMATED,
    BY_RELEASE,
    NO_SOURCE,
    GatedAsset,
    Plan,
    Workspace,
    on_circular_contigs,
    on_every_partition,
    on_same_key,
)
from genolewm_assets.genome import Contig
from genolewm_assets.mito.variants import (
    FROM_CLINVAR,
    FROM_GNOMAD,
    MITO_SITES,
    MITO_VARIANTS,
    VARIANT_CHECKS,
    check_variants,
    join_variants,
    tabulate_sites,
)
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import BuildReport, Published
from genolewm_assets.store.tables import read_table, write_table
from genolewm_assets.variants import ALLELE_KEY, CLINVAR_VARIANTS, GNOMAD_VARIANTS, VARIANTS_FILE

SITES_FILE = "sites.parquet"


def plan_variants(workspace: Workspace, release: str, progress: Progress) -> Plan:
    """Plan the joined variants of one ClinVar release; they are empty if the genome has no circular contig."""
    contig, genome = workspace.mitochondrion, reference_genome.open(workspace)
    chrom = NO_SOURCE if contig is None else contig.name
    clinvar = clinvar_shard.open(workspace, release, progress=progress)
    gnomad = None if contig is None else gnomad_shard.open(workspace, chrom, progress=progress)

    def write(work: Path) -> BuildReport:
        reference = read_circle(workspace, genome, contig)
        common, clinical = GNOMAD_VARIANTS.empty(), CLINVAR_VARIANTS.empty()
        if gnomad is not None:
            common = read_table(gnomad.file(VARIANTS_FILE))
            clinical = read_table(clinvar.file(f"{chrom}.parquet"))
        bases = reference.encode("ascii")
        variants, counts = join_variants(common, clinical, bases, chrom=chrom)
        sites = tabulate_sites(variants, bases, chrom=chrom)
        rows = {
            VARIANTS_FILE: write_table([variants], work / VARIANTS_FILE, MITO_VARIANTS),
            SITES_FILE: write_table([sites], work / SITES_FILE, MITO_SITES),
        }
        checks = check_variants(
            read_table(work / VARIANTS_FILE),
            read_table(work / SITES_FILE),
            gnomad=common,
            clinvar=clinical,
            counts=counts,
            reference=reference,
            no_gnomad=_no_gnomad(workspace, contig),
        )
        return BuildReport(counts, rows, checks)

    return Plan(
        recipe={"contig": chrom},
        inputs=tuple(each for each in (gnomad, clinvar, genome) if each is not None),
        write=write,
    )


def _no_gnomad(workspace: Workspace, contig: Contig | None) -> str | None:
    """Return why no gnomAD allele is joined, if the catalogue says so; None if it names a source."""
    if contig is None:
        return f"{NO_SOURCE}: the genome has no circular contig"
    named = workspace.gnomad_release(contig.name) != NO_SOURCE
    return None if named else f"{NO_SOURCE}: the catalogue names no gnomAD file of {contig.name}"


def describe_variants(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of variants: rows, alleles by source, and population heteroplasmy by position."""
    from genolewm_assets.defs.display import draw_on_circle

    counts = published.manifest.counts
    pop_hl = read_table(published.file(SITES_FILE), columns=["pop_hl"])["pop_hl"].to_numpy()
    return {
        **describe_published(
            published, rows=counts["alleles"], stated=("alleles", "gnomad.alleles", "clinvar.alleles", "in_both")
        ),
        **plotted(
            alleles_gnomad=counts["gnomad.alleles"],
            alleles_clinvar=counts["clinvar.alleles"],
            alleles_in_both=counts["in_both"],
            sites_with_heteroplasmy=int((pop_hl > 0).sum()),
        ),
        "heteroplasmy_along_circle": draw_on_circle(
            pop_hl.astype(float), title="Highest heteroplasmy level in the population", unit="on average"
        ),
    }


_SPELT = ("pos", "ref", "alt")
_GNOMAD_AT_SITE = of(gnomad_shard, *_SPELT, "filter")
_CLINVAR_AT_SITE = of(clinvar_shard, *_SPELT)

mito_variants = GatedAsset(
    key="mito/variants",
    description="""
    One row per mitochondrial allele of gnomAD or ClinVar, with its heteroplasmy in the population and its class.

    Alleles of both sources are joined by their normal form on the circular sequence, also across the origin. A second
    table has the highest level in the population at every site; it is not the level of any single genome.
    """,
    kinds={"parquet"},
    code_version="3",
    place=lambda _, release: f"mito/variants/{release}",
    deps=(on_same_key(clinvar_shard), on_circular_contigs(gnomad_shard), on_every_partition(reference_genome)),
    partitions=BY_RELEASE,
    automation=AUTOMATED,
    follows_releases=True,
    table=MITO_VARIANTS,
    tables={"sites": MITO_SITES},
    sources={
        **same(ALLELE_KEY, clinvar_shard, gnomad_shard),
        "kind": of(clinvar_shard, "ref", "alt") + of(gnomad_shard, "ref", "alt"),
        "in_gnomad": of(gnomad_shard, *ALLELE_KEY),
        "in_clinvar": of(clinvar_shard, *ALLELE_KEY),
        **{name: of(gnomad_shard, column) for name, column in FROM_GNOMAD.items()},
        **same(FROM_CLINVAR, clinvar_shard),
        **made_here("sites.chrom", "sites.pos", "sites.ref"),
        "sites.pop_hl": _GNOMAD_AT_SITE + of(gnomad_shard, "max_hl"),
        "sites.af_hom": _GNOMAD_AT_SITE + of(gnomad_shard, "af"),
        "sites.af_het": _GNOMAD_AT_SITE + of(gnomad_shard, "af_het"),
        "sites.gnomad_alleles": _GNOMAD_AT_SITE,
        "sites.clinvar_alleles": _CLINVAR_AT_SITE,
        "sites.pathogenic": _CLINVAR_AT_SITE + of(clinvar_shard, "label"),
    },
    checks=VARIANT_CHECKS,
    plan=plan_variants,
    entries={
        "alleles_gnomad, alleles_clinvar, alleles_in_both": "alleles by source",
        "sites_with_heteroplasmy": "positions with a heteroplasmy level above 0 in the population",
        "heteroplasmy_along_circle": "highest level by position",
    },
    describe=describe_variants,
)
