"""``clinvar/release`` and ``clinvar/shard``: VCF and normalised alleles of ClinVar, one partition per release."""

from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.display import clinvar_vcf_schema, describe_published, of, plotted
from genolewm_assets.defs.runtime import (
    AUTOMATED_OF_EVERY_RELEASE,
    BY_RELEASE,
    GatedAsset,
    Plan,
    Workspace,
    on_every_partition,
    on_same_key,
    reference_opener,
)
from genolewm_assets.defs.status import RELEASE_ENTRIES, read_release_table, release_metadata
from genolewm_assets.errors import InputError
from genolewm_assets.progress import Progress
from genolewm_assets.sources.clinvar import (
    RegisteredRelease,
    build_clinvar_shard,
    check_offered,
    find_release,
    read_release_date,
    stated_release,
)
from genolewm_assets.sources.files import CHECKSUM_MATCHES, SourceFile
from genolewm_assets.sources.vcf import count_records
from genolewm_assets.store.artefacts import BuildReport, Check, CheckResult, Published
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import read_table
from genolewm_assets.variants import (
    CLINVAR_CHECKS,
    CLINVAR_VARIANTS,
    CONTIGS_KNOWN,
    ReleaseKey,
    audit_shard,
    check_clinvar_table,
    check_contigs_known,
    state_origin,
)

_KEY_IS_DATE = Check(
    "release_key_equals_header_date",
    "The date in the header of the VCF is the date of the release's key.",
    "The server offers a file under the name of another release. Wait until the listing is right, or remove the file "
    "from a listing of your own; the former release stays in use.",
)


def plan_release(workspace: Workspace, key: str, progress: Progress) -> Plan:
    """Plan the download of one release's VCF; only the bytes for which the key was registered are accepted."""
    root, settings = workspace.root.path, workspace.catalog.clinvar
    place, begins = workspace.url(settings.listing), {"newest_first": settings.newest_first}
    release = stated_release(root, place, key) if workspace.surveyed else find_release(root, place, key, **begins)
    source = workspace.source(release.url_at(place), md5=release.md5, progress=progress)

    def write(work: Path) -> BuildReport:
        local = source.copy_to(work)
        if release.md5 is None:  # without an MD5, only the listing shows whether the file was replaced
            check_offered(root, place, release, **begins)
        header_date = read_release_date(local.path, label=source.url)
        # A re-issued file of the same date has a key with a suffix, such as "2026-02-26.2".
        dated = CheckResult(
            _KEY_IS_DATE,
            passed=header_date == ReleaseKey.parse(key).day,
            figures={"release": key, "header_date": str(header_date)},
            rows=[
                {
                    "file": source.name,
                    "expected": f"##fileDate={ReleaseKey.parse(key).day}",
                    "got": f"##fileDate={header_date}",
                }
            ],
        )
        counts = {"size_bytes": local.path.stat().st_size, "records": count_records(local.path)}
        return BuildReport(counts=counts, rows={}, checks=(local.checksum_check(), dated))

    identity = _surveyed_identity(source, release) if workspace.surveyed else source.identity()
    return Plan(recipe={"source": identity}, write=write)


def _surveyed_identity(source: SourceFile, release: RegisteredRelease) -> dict[str, str | int]:
    """Return the identity of a release's file; the published MD5 stands for a local file that is gone."""
    try:
        return source.identity()
    except InputError:
        if source.is_remote or release.md5 is None:
            raise
    return {"file": source.name, "md5": release.md5, "expected_md5": release.md5}


def plan_clinvar_shard(workspace: Workspace, key: str, progress: Progress) -> Plan:
    """Plan the normalised, labelled alleles of one release, one Parquet file per contig."""
    genome, release = reference_genome.open(workspace), clinvar_release.open(workspace, key)
    settings = workspace.catalog.clinvar
    recipe: dict[str, JsonValue] = {"max_ref_mismatch_fraction": settings.max_ref_mismatch_fraction}
    inputs = (genome, release)

    def write(work: Path) -> BuildReport:
        reference = reference_opener(genome, workspace.contigs)
        report = build_clinvar_shard(
            vcf_of(release),
            release=key,
            contigs=workspace.contigs,
            reference=reference,
            out_dir=work,
            origin=state_origin(clinvar_shard.code_version, recipe, [each.ref for each in inputs]),
            progress=progress,
        )
        checks = audit_shard(
            work,
            report,
            check_clinvar_table,
            contigs=workspace.contigs,
            reference=reference,
            max_ref_mismatch_fraction=settings.max_ref_mismatch_fraction,
        )
        return BuildReport(counts=report.counts, rows=report.rows, checks=checks)

    return Plan(recipe=recipe, inputs=inputs, write=write)


def vcf_of(release: Published) -> Path:
    """Return the VCF of a published release."""
    (entry,) = release.manifest.files
    return release.file(entry.path)


def describe_release(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of a release: number of records, size and place of the VCF."""
    counts = published.manifest.counts
    return describe_published(published, rows=counts["records"], stated=counts)


def describe_clinvar_shard(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of a shard: rows, counts, alleles by class, and classes by review stars."""
    from genolewm_assets.defs.display import LABEL_COLOURS, draw_class_balance, draw_classes_by_stars

    tables = [
        read_table(published.file(entry.path), columns=["label", "stars"])
        for entry in published.manifest.files
        if entry.path.endswith(".parquet") and entry.path != "rejects.parquet"
    ]
    table = pa.concat_tables(tables)
    stars = table["stars"].to_numpy()
    of_class = {label: pc.equal(table["label"], label).to_numpy() for label in LABEL_COLOURS}
    by_class = {label: np.bincount(stars[rows], minlength=5) for label, rows in of_class.items()}
    sizes = {label: int(by_stars.sum()) for label, by_stars in by_class.items()}
    return {
        **describe_published(published, rows=table.num_rows, stated=("kept", "rejected")),
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


clinvar_release = GatedAsset(
    key="clinvar/release",
    description="""
    One row per record of a ClinVar release: the published VCF, byte for byte.

    NCBI replaces its weekly files. This copy keeps the exact file that a training set was built from.
    """,
    kinds={"vcf"},
    code_version="3",
    place=lambda _, release: f"clinvar/{release}/vcf",
    after=lambda workspace, *_: release_metadata(read_release_table(workspace, None)),
    partitions=BY_RELEASE,
    follows_releases=True,
    columns=clinvar_vcf_schema(),
    checks=(CHECKSUM_MATCHES, _KEY_IS_DATE),
    plan=plan_release,
    entries=RELEASE_ENTRIES,
    describe=describe_release,
    pictured=False,
)

#: VCF field that each column of the shard comes from; ``pos``, ``ref`` and ``alt`` come from several fields.
_FIELDS = {
    "chrom": "CHROM",
    "clinvar_id": "ID",
    "allele_id": "INFO/ALLELEID",
    "label": "INFO/CLNSIG",
    "clnsig": "INFO/CLNSIG",
    "clnsig_conf": "INFO/CLNSIGCONF",
    "clnsig_incl": "INFO/CLNSIGINCL",
    "stars": "INFO/CLNREVSTAT",
    "clnrevstat": "INFO/CLNREVSTAT",
    "oncogenicity": "INFO/ONC",
    "somatic_impact": "INFO/SCI",
    "gene_symbols": "INFO/GENEINFO",
    "gene_ids": "INFO/GENEINFO",
    "variant_type": "INFO/CLNVC",
    "consequence": "INFO/MC",
    "conditions": "INFO/CLNDN",
    "hgvs": "INFO/CLNHGVS",
    "rsid": "INFO/RS",
}

clinvar_shard = GatedAsset(
    key="clinvar/shard",
    description="""
    One row per normalised allele of a ClinVar release, with its class and review stars.

    The labelled evaluation sets and the hard negatives of training are drawn from these rows. Labels come from a closed
    table of CLNSIG terms. Alleles that are not usable, for example because REF differs from the reference, are listed
    in `rejects.parquet` with the reason.
    """,
    kinds={"parquet", "vcf"},
    code_version="5",
    place=lambda _, release: f"clinvar/{release}/shard",
    deps=(on_same_key(clinvar_release), on_every_partition(reference_genome)),
    partitions=BY_RELEASE,
    automation=AUTOMATED_OF_EVERY_RELEASE,
    follows_releases=True,
    table=CLINVAR_VARIANTS,
    sources={
        **{column: of(clinvar_release, name) for column, name in _FIELDS.items()},
        **dict.fromkeys(("pos", "ref", "alt"), of(clinvar_release, "POS", "REF", "ALT")),
    },
    checks=CLINVAR_CHECKS,
    advisories=(CONTIGS_KNOWN,),
    advise=lambda _, published: (check_contigs_known(published.manifest.counts),),
    plan=plan_clinvar_shard,
    entries={
        "alleles_pathogenic, alleles_benign, alleles_uncertain": "alleles of the classes P and LP, B and LB, VUS",
        "alleles_with_two_stars": "alleles with at least two review stars",
        "alleles_rejected": "alleles that are not usable, as `rejects.parquet` lists them",
        "class_balance, classes_by_review_stars": "alleles by class, and by class and stars",
    },
    describe=describe_clinvar_shard,
    surface=True,
)
