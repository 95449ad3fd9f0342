"""``packages/audit``: what of a holdout reaches training in the package of one release, by code that no filter uses."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
import pyarrow as pa

from genolewm_assets.audit import (
    AUDIT_VERSION,
    AuditReport,
    LeakKind,
    Verdict,
    audit_package,
    earlier_release,
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
from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RejectedResourceError
from genolewm_assets.packages import (
    AUDIT_ASSET,
    IS_CONCLUSIVE,
    NO_LEAK_FOUND,
    PLANTED_LEAKS_FOUND,
    Knowledge,
    audit_location,
    released,
)
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import CAUSE, BuildReport, Check, CheckResult, Published, stating_compared
from genolewm_assets.store.files import JsonValue, canonical_json, read_document, write_atomic
from genolewm_assets.store.tables import (
    SCHEMA_AS_DECLARED,
    TableSchema,
    check_schema,
    memory_given_back,
    read_table,
    write_table,
)
from genolewm_assets.variants import is_before

_LEAK = (
    "Do not train on this package: packages/current does not move to it. Materialise holdouts/manifest and then "
    "packages/split of the release; if the same rows come back, report them."
)

#: Checks of single kinds of fault; :data:`NO_LEAK_FOUND` fails with each of them.
KINDS_OF: Mapping[Check, tuple[LeakKind, ...]] = MappingProxyType(
    {
        Check(
            "no_holdout_window_in_train",
            "No window of the training split, its right flank included, overlaps a held-out interval or may, shares "
            "31-mers with held-out sequence, or equals an evaluation window on either strand.",
            _LEAK,
        ): (LeakKind.HELD_INTERVAL, LeakKind.HELD_SEQUENCE, LeakKind.DUPLICATE),
        Check(
            "no_holdout_allele_in_train",
            "No allele of the training split, and none that the training stream makes, is in normal form one that is "
            "held out or evaluated, or overlaps a held-out interval.",
            _LEAK,
        ): (LeakKind.HELD_ALLELE, LeakKind.RECREATED_ALLELE),
        Check(
            "no_holdout_corpus_row_in_train",
            "The training split contains no corpus window that is listed as held out.",
            _LEAK,
        ): (LeakKind.HELD_RECORD,),
        Check(
            "placed_bases_right",
            "Every window with an exact place has the bases of the FASTA there, flanks included.",
            "Materialise windows/index and corpus/windows of the contigs and sources of the rows, then packages/split; "
            "report rows that come back.",
        ): (LeakKind.FALSE_PLACE,),
        Check(
            "held_out_contexts_right",
            "Every held-out allele has one row with the 30 bases of the genome before and behind it, by which training "
            "refuses edits that make it in windows without an exact place.",
        ): (LeakKind.WRONG_CONTEXT,),
        Check(
            "labels_as_declared",
            "Every ClinVar allele in training has the class, stars and bases that the VCF of the release that "
            "`knowledge` declares has for its VariationID, and every one in validation and test those of the package's "
            "release.",
            "Materialise clinvar/shard of the release and of T0, then packages/split. If the fault is that there is no "
            "T0, set packages.knowledge: newest in the catalogue, or name a release for the temporal holdout.",
        ): (LeakKind.WRONG_LABEL, LeakKind.LATE_LABEL),
        Check(
            "training_stars_sufficient",
            "No ClinVar allele of the training split has fewer review stars than the catalogue asks for "
            "(`packages.min_training_stars`).",
            "Materialise packages/split and packages/audit; report rows that come back.",
        ): (LeakKind.FEW_STARS,),
        Check(
            "bench_alleles_scored",
            "Drawn as trainers draw it, every ClinVar allele of an evaluation labelled P, LP, B or LB with the review "
            "stars of the policy is shown exactly once, or stated with the reason why no window shows it, and none of "
            "the release's VCF is left out.",
            "The bench would miss or repeat the alleles of the rows. Materialise holdouts/manifest, then "
            "packages/split; report rows that come back.",
        ): (LeakKind.UNSHOWN_ALLELE,),
        Check(
            "mix_emitted",
            "The tuples that the audit drew with default options have the declared shares of origins of windows and of "
            "sources of edits, each within 2 percentage points and chance.",
            "What is emitted differs from the plan, which is a fault of the code: report the rows.",
        ): (LeakKind.WRONG_MIX,),
    }
)

_TABLE, _FINDINGS, _REPORT = "audit.parquet", "findings.parquet", "report.json"


def _open_earlier(workspace: Workspace, key: str, genome: Published) -> Published | None:
    """Open the newest earlier package in which this code found nothing and lacked nothing; None if there is none."""
    for release in released(workspace.root.path):
        if not is_before(release, key):
            continue
        with suppress(MissingResourceError, CorruptResourceError, RejectedResourceError):
            split, audit = packages_split.open(workspace, release), packages_audit.open(workspace, release)
            made = audit.manifest
            is_same = made.code_version == packages_audit.code_version and made.recipe["audit_version"] == AUDIT_VERSION
            if (
                is_same
                and {split.ref, genome.ref} <= {*made.inputs}
                and _read_report(audit)["verdict"] == Verdict.CLEAN
            ):
                return split
    return None


def plan_audit(workspace: Workspace, key: str, progress: Progress) -> Plan:
    """Plan the audit of a release's latest package: every search, then the same searches on planted leaks."""
    split, genome = packages_split.open(workspace, key), reference_genome.open(workspace)
    clinvar = {key: clinvar_release.open(workspace, key)}
    files = open_files(split.directory)
    t0 = earlier_release(files) if files.knowledge == Knowledge.T0 else None
    if t0 is not None:
        clinvar[t0] = clinvar_release.open(workspace, t0)
    settings, place = workspace.catalog.packages, packages_split.location(workspace, key)
    earlier = _open_earlier(workspace, key, genome)
    recipe: dict[str, JsonValue] = {
        "audit_version": AUDIT_VERSION,
        "tuples": settings.audit_tuples,
        "planted_of_each_kind": settings.audit_planted,
        "may_lack": [*settings.audit_may_lack],
    }

    @memory_given_back()
    def write(work: Path) -> BuildReport:
        package, fasta = split.directory, genome.file("genome.fa.gz")
        vcfs = {release: vcf_of(published) for release, published in clinvar.items()}
        report = audit_package(
            package,
            fasta,
            clinvar=vcfs[key],
            clinvar_t0=None if t0 is None else vcfs[t0],
            least_tuples=settings.audit_tuples,
            contents="sizes",
            progress=progress,
            planted=settings.audit_planted,
            folder=work,
            earlier=None if earlier is None else earlier.directory,
        )
        # Where the root lies is no part of what is published.
        return write_audit(work, replace(report, package=place), settings.audit_may_lack)

    return Plan(recipe=recipe, inputs=(split, genome, *clinvar.values()), write=write)


def write_audit(work: Path, report: AuditReport, may_lack: Collection[str]) -> BuildReport:
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
        checks=(
            _check_schemas(tables.values()),
            check_no_leak(report),
            check_power(report, may_lack),
            check_conclusive(report, may_lack),
            *(check_kinds(report, name) for name in KINDS_OF),
        ),
    )


def _check_schemas(tables: Iterable[tuple[pa.Table, TableSchema]]) -> CheckResult:
    checks = [check_schema(table, schema) for table, schema in tables]
    return next((check for check in checks if not check.passed), checks[0])


def check_no_leak(report: AuditReport) -> CheckResult:
    """Check that no search found a leak; the rows are findings of all kinds in turn."""
    check = _check_found(NO_LEAK_FOUND, report, tuple(LeakKind))
    if not check.passed:
        check = replace(check, figures={**check.figures, CAUSE: report.headline.removesuffix(".")})
    return stating_compared(check, report.n_windows, "the package has no training window")


def check_kinds(report: AuditReport, name: Check) -> CheckResult:
    """Check that the searches of :data:`KINDS_OF` found nothing; one that searched nothing is for another check."""
    return _check_found(name, report, KINDS_OF[name])


def _check_found(name: str, report: AuditReport, kinds: tuple[LeakKind, ...]) -> CheckResult:
    ours = [result for result in report if result.kind in kinds]
    rows = [[{"kind": str(result.kind), **row} for row in result.found.rows] for result in ours if result.found.keys]
    figures: dict[str, JsonValue] = {"leaks": sum(len(result.found.keys) for result in ours)}
    if name == NO_LEAK_FOUND:
        figures["tuples"] = report.n_tuples
    else:
        figures |= {unit: n for result in reversed(ours) for unit, n in result.searched.items()}
    in_turn = [row for row in chain.from_iterable(zip_longest(*rows)) if row is not None]
    return CheckResult(name, passed=not rows, figures=figures, rows=in_turn)


def check_conclusive(report: AuditReport, may_lack: Collection[str]) -> CheckResult:
    """Check that every search had all that it needs, except those that the catalogue lets lack something."""
    lacking = {str(result.kind): result for result in report if result.verdict is Verdict.INCONCLUSIVE}
    return CheckResult(
        IS_CONCLUSIVE,
        passed=not lacking.keys() - set(may_lack),
        figures={
            "searches": len(report.results),
            "not_certain": ", ".join(lacking) or "none",
            "declared": ", ".join(may_lack) or "none",
        },
        rows=[{"kind": kind, "gap": one.reason} for kind, one in lacking.items() if kind not in may_lack],
    )


def check_power(report: AuditReport, may_lack: Collection[str] = ()) -> CheckResult:
    """Check that of each kind of planted leak, but those that may lack something, the stated share was found."""
    tried = [(result.kind, one) for result in report for one in result.power]
    missed = [(kind, one) for kind, one in tried if not one.is_enough and str(kind) not in may_lack]
    check = CheckResult(
        PLANTED_LEAKS_FOUND,
        passed=not missed,
        figures={
            "planted": report.planted,
            "found": report.found_planted,
            "not_planted": ", ".join(one.plant for _, one in tried if not one.planted) or "none",
            "declared": ", ".join(may_lack) or "none",
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
    `packages/current` moves only to a package whose audit found nothing and could search everything.
    """,
    kinds={"parquet", "bcftools"},
    code_version="2",
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
    checks=(SCHEMA_AS_DECLARED, NO_LEAK_FOUND, PLANTED_LEAKS_FOUND, IS_CONCLUSIVE, *KINDS_OF),
    plan=plan_audit,
    entries={
        "headline": "what is guaranteed, and how sure that is",
        "power": "share of the planted leaks that the audit finds, 0 to 1",
        "tuples_drawn": "tuples of the training stream that were searched",
        "training_windows": "windows of training; all were searched",
        "power_and_findings": "planted leaks and findings by kind of leak, as a picture",
        "searches": "by kind of leak: the verdict, in how much was searched, planted leaks found",
        "planted_leaks": "planted leaks by kind of plant, and how many of them were found",
        "measured": "what the package shares with its holdouts by design",
        "methods": "how each kind of leak was looked for",
        "package": "the package that was audited",
    },
    describe=describe_audit,
)
