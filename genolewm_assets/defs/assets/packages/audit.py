"""``packages/audit``: what of a holdout reaches training in the package of one release, by code that no filter uses."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from genolewm_assets.audit import (
    AUDIT_VERSION,
    AuditReport,
    Verdict,
    audit_package,
    earlier_release,
    measure_power,
    open_files,
)
from genolewm_assets.defs.assets import clinvar_release, reference_genome, vcf_of
from genolewm_assets.defs.assets.packages.audit_table import (
    AUDIT_FINDINGS,
    PACKAGE_AUDIT,
    tabulate_audit,
    tabulate_findings,
)
from genolewm_assets.defs.assets.packages.split import packages_split
from genolewm_assets.defs.display import HEADLINE, describe_published, made_here, of, plotted, share
from genolewm_assets.defs.runtime import (
    BY_PACKAGED_RELEASE,
    RECOMPUTED,
    GatedAsset,
    Plan,
    Workspace,
    on_every_partition,
    on_same_key,
)
from genolewm_assets.lewm.packages import (
    AUDIT_ASSET,
    NO_LEAK_FOUND,
    PLANTED_LEAKS_FOUND,
    Knowledge,
    audit_location,
)
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import CAUSE, BuildReport, Check, CheckResult, Published, stating_compared
from genolewm_assets.store.files import JsonValue, canonical_json, read_document, write_atomic
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, TableSchema, check_schema, read_table, write_table

#: Blocks nothing.
IS_CONCLUSIVE = Check(
    "audit_is_conclusive",
    "Every search of the audit had all that it needs, such as whole held-out contigs in the FASTA. Blocks nothing: a "
    "search that is not certain found no leak in what it could search.",
    "Give the audit what the rows name: a FASTA with whole contigs, the ClinVar VCF of the release, or more tuples "
    "(packages.audit_tuples). Nothing needs doing if the genome is meant to be partial.",
)
_TABLE, _FINDINGS, _REPORT = "audit.parquet", "findings.parquet", "report.json"


def plan_audit(workspace: Workspace, key: str, progress: Progress) -> Plan:
    """Plan the audit of a release's latest package: every search, then the same searches on planted leaks."""
    split, genome = packages_split.open(workspace, key), reference_genome.open(workspace)
    clinvar = {key: clinvar_release.open(workspace, key)}
    files = open_files(split.directory)
    t0 = earlier_release(files) if files.knowledge == Knowledge.T0 else None
    if t0 is not None:
        clinvar[t0] = clinvar_release.open(workspace, t0)
    settings, place = workspace.catalog.packages, packages_split.location(workspace, key)
    recipe: dict[str, JsonValue] = {
        "audit_version": AUDIT_VERSION,
        "tuples": settings.audit_tuples,
        "planted_of_each_kind": settings.audit_planted,
    }

    def write(work: Path) -> BuildReport:
        package, fasta = split.directory, genome.file("genome.fa.gz")
        vcfs = {release: vcf_of(published) for release, published in clinvar.items()}
        report = audit_package(
            package,
            fasta,
            clinvar=vcfs[key],
            clinvar_t0=None if t0 is None else vcfs[t0],
            least_tuples=settings.audit_tuples,
            progress=progress,
        )
        power = measure_power(
            package,
            fasta,
            number=settings.audit_planted,
            clinvar=vcfs[key],
            clinvar_t0=None if t0 is None else vcfs[t0],
            least_tuples=settings.audit_tuples,
            before=report,
            folder=work,
            progress=progress,
        )
        # Where the root lies is no part of what is published.
        return write_audit(work, replace(report.with_power(power), package=place))

    return Plan(recipe=recipe, inputs=(split, genome, *clinvar.values()), write=write)


def write_audit(work: Path, report: AuditReport) -> BuildReport:
    """Write a report as tables and as JSON, and check what it says."""
    tables = {_TABLE: (tabulate_audit(report), PACKAGE_AUDIT), _FINDINGS: (tabulate_findings(report), AUDIT_FINDINGS)}
    rows = {name: write_table([table], work / name, schema) for name, (table, schema) in tables.items()}
    write_atomic(work / _REPORT, canonical_json(report.as_dict(), _REPORT))
    return BuildReport(
        counts={
            "training_windows": report.n_windows,
            "tuples_drawn": report.n_tuples,
            "findings": rows[_FINDINGS],
            "planted": report.planted,
            "planted_found": report.found_planted,
        },
        rows=rows,
        checks=(_check_schemas(tables.values()), check_no_leak(report), check_power(report)),
    )


def _check_schemas(tables: Iterable[tuple[pa.Table, TableSchema]]) -> CheckResult:
    checks = [check_schema(table, schema) for table, schema in tables]
    return next((check for check in checks if not check.passed), checks[0])


def check_no_leak(report: AuditReport) -> CheckResult:
    """Check that no search found a leak; the rows are findings of all kinds in turn."""
    found = {result.kind: result.found for result in report if result.verdict is Verdict.LEAK}
    rows = [[{"kind": str(kind), **row} for row in each.rows] for kind, each in found.items()]
    check = CheckResult(
        NO_LEAK_FOUND,
        passed=not found,
        figures={
            "leaks": sum(len(each.keys) for each in found.values()),
            "tuples": report.n_tuples,
            **({CAUSE: report.headline.removesuffix(".")} if found else {}),
        },
        rows=[row for row in chain.from_iterable(zip_longest(*rows)) if row is not None],
    )
    return stating_compared(check, report.n_windows, "the package has no training window")


def check_power(report: AuditReport) -> CheckResult:
    """Check that of each kind of planted leak at least the stated share was found."""
    tried = [(result.kind, one) for result in report for one in result.power]
    missed = [(kind, one) for kind, one in tried if not one.is_enough]
    check = CheckResult(
        PLANTED_LEAKS_FOUND,
        passed=not missed,
        figures={
            "planted": report.planted,
            "found": report.found_planted,
            "not_planted": ", ".join(one.plant for _, one in tried if not one.planted) or "none",
        },
        rows=[
            {
                "plant": one.plant,
                "kind": str(kind),
                "planted": one.planted,
                "found": one.found,
                "least": one.least_share,
            }
            for kind, one in missed
        ],
    )
    return stating_compared(check, report.planted, "no leak could be planted in the package")


def advise_on_audit(_: Workspace, published: Published) -> Iterator[CheckResult]:
    """Yield ``audit_is_conclusive``: whether every search had all that it needs."""
    searches = _read_report(published)["results"]
    rows = [{"kind": one["kind"], "gap": one["reason"]} for one in searches if one["verdict"] == Verdict.INCONCLUSIVE]
    for one in searches:
        rows += [
            {"kind": one["kind"], "gap": f"{power['found']} of {power['planted']} planted leaks {power['plant']} found"}
            for power in one["power"]
            if power["planted"] and not power["least_share"] and 2 * power["found"] < power["planted"]
        ]
    yield CheckResult(IS_CONCLUSIVE, passed=not rows, figures={"searches": len(searches)}, rows=rows)


def describe_audit(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of an audit: what is guaranteed, picture, a table of the searches, measured figures."""
    from genolewm_assets.defs.display import draw_audit, list_measured, list_methods, list_plants, list_searches

    report, counts = _read_report(published), published.manifest.counts
    searches = read_table(published.file(_TABLE)).to_pylist()
    return {
        HEADLINE: dg.MetadataValue.text(report["headline"]),
        **describe_published(published, rows=len(searches), stated=("tuples_drawn", "training_windows")),
        **plotted(
            power=share(counts["planted_found"], counts["planted"]),
            tuples_drawn=counts["tuples_drawn"],
            training_windows=counts["training_windows"],
        ),
        "power_and_findings": draw_audit(searches),
        "searches": list_searches(searches),
        "planted_leaks": list_plants(report),
        "measured": list_measured(report),
        "methods": list_methods(searches),
        "package": dg.MetadataValue.text(report["package"]),
    }


def _read_report(published: Published) -> dict[str, Any]:
    report = read_document(published.file(_REPORT), remedy=f"Materialise {AUDIT_ASSET} again")
    assert isinstance(report, dict)
    return report


_WINDOWS = of(packages_split, "sequence", "right_flank", "contig", "start", "end", "record_id", "window_index")
_ALLELES = of(packages_split, "variants.chrom", "variants.pos", "variants.ref", "variants.alt", "variants.label")

packages_audit: GatedAsset = GatedAsset(
    key="packages/audit",
    description="""
    One row per kind of leak looked for in the package of a release: how, in how much, with which power, what was found.

    A filter that is wrong is not noticed by a check that trusts its tables. The audit reads the package and the FASTA
    as a stranger does, draws the training stream, and says how many planted leaks of each kind it finds.
    `packages/current` moves only to a package whose audit found nothing.
    """,
    kinds={"parquet", "bcftools"},
    code_version="1",
    place=lambda _, release: audit_location(release),
    deps=(on_same_key(packages_split), on_every_partition(reference_genome), on_same_key(clinvar_release)),
    partitions=BY_PACKAGED_RELEASE,
    automation=RECOMPUTED,
    follows_releases=True,
    table=PACKAGE_AUDIT,
    tables={"findings": AUDIT_FINDINGS},
    sources={
        **made_here(
            "kind", "method", "n_searched", "searched", "planted", "found_planted", "power", "verdict", "result"
        ),
        **dict.fromkeys(("findings", "findings.what"), _WINDOWS + _ALLELES),
        **made_here("findings.kind"),
    },
    checks=(SCHEMA_AS_DECLARED, NO_LEAK_FOUND, PLANTED_LEAKS_FOUND),
    advisories=(IS_CONCLUSIVE,),
    plan=plan_audit,
    entries={
        "headline": "what is guaranteed, and how sure that is",
        "power": "share of the planted leaks that the audit finds, 0 to 1",
        "tuples_drawn": "tuples of the training stream that were searched",
        "training_windows": "windows of training; all were searched, and each was drawn",
        "power_and_findings": "planted leaks and findings by kind of leak, as a picture",
        "searches": "by kind of leak: the verdict, in how much was searched, planted leaks found",
        "planted_leaks": "planted leaks by kind of plant, and how many of them were found",
        "measured": "what the package shares with its holdouts by design",
        "methods": "how each kind of leak was looked for",
        "package": "the package that was audited",
    },
    describe=describe_audit,
    pictured=True,
    advise=advise_on_audit,
)
