"""``clinvar/changes``: alleles that a ClinVar release added, removed or changed, compared with an earlier release."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import dagster as dg
import pyarrow as pa
from pydantic import Field

from genolewm_assets.defs.assets.clinvar import clinvar_shard
from genolewm_assets.defs.display import describe_published, of, plotted, same
from genolewm_assets.defs.runtime import (
    AUTOMATED,
    BY_RELEASE,
    GatedAsset,
    GatedEvents,
    Plan,
    Workspace,
    WorkspaceResource,
    on_same_key,
)
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError, RejectedResourceError
from genolewm_assets.genome import CLASSES
from genolewm_assets.progress import Progress
from genolewm_assets.store.artefacts import BuildReport, Published, read_manifest
from genolewm_assets.store.files import resolve_generation
from genolewm_assets.store.tables import read_table, write_table
from genolewm_assets.variants import (
    ALLELE_KEY,
    CHANGE_CHECKS,
    CHANGE_COLUMNS,
    CLINVAR_CHANGES,
    COMPARED,
    ReleaseKey,
    check_changes,
    check_nothing_to_compare,
    find_changes,
    is_before,
    transitions,
)

CHANGES_FILE = "changes.parquet"

#: Columns of the shard that the table has twice, with the suffixes ``_from`` and ``_to``.
_PAIRED = ("clnsig", "label", "clinvar_id", "stars")

_FIGURES = ("added", "removed", *COMPARED.values())


class ChangesConfig(dg.Config):
    """Run config of ``clinvar/changes``."""

    predecessor: str | None = Field(
        default=None,
        description=(
            "Release to compare with; a release that the catalogue names has precedence. Default: the release that the "
            "published changes were compared with, else the newest earlier release whose shard is published."
        ),
    )


def predecessor_of(workspace: Workspace, release: str, named: str | None = None) -> str | None:
    """Return the release that a release is compared with, or None if there is none.

    The order of precedence is: the release that the catalogue names; ``named``; the predecessor of the published
    changes; the newest earlier release with a published shard.
    """
    known = workspace.catalog.clinvar.predecessors.get(release)
    if known is None and named is not None and not is_before(named, release):
        raise ConfigurationError(
            f"clinvar/changes[{release}] (config: predecessor)",
            "the predecessor is not an earlier release",
            expected=f"a release before {release!r}",
            got=repr(named),
            remedy="Name an earlier release, or leave predecessor out",
        )
    return known or named or _compared_before(workspace, release) or _newest_before(workspace, release)


def _compared_before(workspace: Workspace, release: str) -> str | None:
    """Return the predecessor in the recipe of the published changes; None without one."""
    link = workspace.root.link_of(clinvar_changes.location(workspace, release))
    try:
        predecessor = read_manifest(resolve_generation(link)).recipe.get("predecessor")
    except (MissingResourceError, CorruptResourceError):
        return None
    return predecessor if isinstance(predecessor, str) and is_before(predecessor, release) else None


def _newest_before(workspace: Workspace, release: str) -> str | None:
    """Return the newest earlier release whose shard is published and whose latest shard build did not fail."""
    root = workspace.root
    found = [
        link.parent.name
        for link in root.link_of("clinvar").glob("*/shard")
        if is_before(link.parent.name, release)
        and link.exists()
        and not root.is_rejected(clinvar_shard.location(workspace, link.parent.name))
    ]
    return max(found, key=ReleaseKey.parse, default=None)


def plan_changes(workspace: Workspace, release: str, progress: Progress, *, named: str | None = None) -> Plan:
    """Plan the table of changes of one release; ``named`` as in :func:`predecessor_of`."""
    predecessor = predecessor_of(workspace, release, named)
    open_shard = partial(clinvar_shard.open, workspace, progress=progress)
    later, earlier = open_shard(release), None if predecessor is None else open_shard(predecessor)

    def write(work: Path) -> BuildReport:
        written = work / CHANGES_FILE
        if earlier is None:
            rows = write_table([], written, CLINVAR_CHANGES)
            return BuildReport(rows={CHANGES_FILE: rows}, checks=check_nothing_to_compare(read_table(written)))
        counts: Counter[str] = Counter()
        rows = write_table(_compare(workspace, earlier, later, counts, progress), written, CLINVAR_CHANGES)
        checks = check_changes(
            workspace.contigs.names,
            changes=lambda contig: read_table(written, filters=[("chrom", "==", contig)]),
            earlier=partial(_read_alleles, earlier),
            later=partial(_read_alleles, later),
            counts=counts,
            classes=(_count_labels(earlier), _count_labels(later)),
            rows=rows,
        )
        return BuildReport(counts=counts, rows={CHANGES_FILE: rows}, checks=checks)

    return Plan(
        recipe={"predecessor": predecessor},
        inputs=(later,) if earlier is None else (earlier, later),
        write=write,
        note=f"compared with {predecessor}" if predecessor else "no earlier release is published to compare with",
    )


def _compare(
    workspace: Workspace, earlier: Published, later: Published, counts: Counter[str], progress: Progress
) -> Iterator[pa.Table]:
    """Yield the table of changes of each contig, and add its counts to ``counts``."""
    total = sum(_count_labels(later).values())
    for contig in workspace.contigs.names:
        table, found = find_changes(_read_alleles(earlier, contig), _read_alleles(later, contig))
        counts.update(found)
        progress.advance(counts["alleles.later"], total, "alleles")
        yield table


def _read_alleles(shard: Published, contig: str) -> pa.Table:
    return read_table(shard.file(f"{contig}.parquet"), columns=list(CHANGE_COLUMNS))


def count_changes(workspace: Workspace, before: str, after: str, progress: Progress) -> Mapping[str, int]:
    """Return the counts of ``find_changes`` from one release to another, which may be an earlier one.

    They are those of the published changes of ``after`` where these were compared with ``before``; otherwise both
    shards are compared here.

    Raises
    ------
    MissingResourceError, CorruptResourceError, RejectedResourceError
        If a shard is not published, damaged, or failed its latest build.
    """
    with suppress(MissingResourceError, CorruptResourceError, RejectedResourceError):
        manifest = clinvar_changes.open(workspace, after, contents="sizes").manifest
        if manifest.recipe.get("predecessor") == before:
            return manifest.counts
    earlier, later = (clinvar_shard.open(workspace, release, contents="sizes") for release in (before, after))
    counts: Counter[str] = Counter()
    for _ in _compare(workspace, earlier, later, counts, progress):
        pass
    return counts


def _count_labels(shard: Published) -> dict[str, int]:
    """Return the number of alleles of each class, from the manifest of a shard."""
    return {name: shard.manifest.counts[f"label.{name}"] for name in CLASSES}


def describe_changes(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of changes: predecessor, figures, and the matrix of classes."""
    from genolewm_assets.defs.display import draw_transitions

    manifest = published.manifest
    predecessor = manifest.recipe["predecessor"]
    rows = sum(entry.rows or 0 for entry in manifest.files)
    shown = describe_published(published, rows=rows, stated=("changed", *_FIGURES))
    if predecessor is None:
        return {**shown, "predecessor": dg.MetadataValue.text("none: no earlier release was published")}
    matrix = transitions(manifest.counts)
    return {
        **shown,
        "predecessor": dg.MetadataValue.text(str(predecessor)),
        **plotted(**{name: manifest.counts[name] for name in _FIGURES}),
        "classes_from_to": draw_transitions(matrix, earlier=str(predecessor), later=str(manifest.partition)),
    }


def _count_changes(
    context: dg.AssetExecutionContext, config: ChangesConfig, workspace: dg.ResourceParam[WorkspaceResource]
) -> GatedEvents:
    plan = partial(plan_changes, named=config.predecessor)
    yield from replace(clinvar_changes, plan=plan).run(context, workspace.open())


_GENES = of(clinvar_shard, "gene_ids")

clinvar_changes = GatedAsset(
    key="clinvar/changes",
    description="""
    One row per normalised allele that a ClinVar release added, removed or changed, compared with its predecessor.

    It shows what a new release changes before a model is trained on it. The predecessor is the release that the
    catalogue or the run config names, else the one compared with before, else the newest earlier release whose shard is
    published.
    """,
    kinds={"parquet"},
    code_version="3",
    place=lambda _, release: f"clinvar/{release}/changes",
    # The predecessor's shard is an input too, but differs from release to release; the manifest names it.
    deps=(on_same_key(clinvar_shard),),
    partitions=BY_RELEASE,
    automation=AUTOMATED,
    follows_releases=True,
    table=CLINVAR_CHANGES,
    sources={
        **same(ALLELE_KEY, clinvar_shard),
        "change": of(clinvar_shard, *ALLELE_KEY, *_PAIRED, "gene_ids"),
        **same(_PAIRED, clinvar_shard, suffixes=("_from", "_to")),
        **same(("gene_symbols", "gene_ids"), clinvar_shard),
        "text_changed": of(clinvar_shard, "clnsig"),
        "class_changed": of(clinvar_shard, "label"),
        "id_changed": of(clinvar_shard, "clinvar_id"),
        "stars_changed": of(clinvar_shard, "stars"),
        **dict.fromkeys(("genes_from", "genes_to", "genes_changed"), _GENES),
    },
    checks=CHANGE_CHECKS,
    plan=plan_changes,
    entries={
        "predecessor": "release that this one is compared with",
        "added, removed": "alleles of one of the two releases only",
        "text_changed, class_changed, id_changed, stars_changed, genes_changed": (
            "alleles of both whose CLNSIG text, class, VariationID or review stars differ"
        ),
        "classes_from_to": "alleles by class before and now",
    },
    describe=describe_changes,
    body=_count_changes,
)
