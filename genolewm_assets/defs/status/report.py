"""The status of a root, put together from its files and from Dagster's history."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from genolewm_assets.defs.runtime import (
    BY_CORPUS_PIECE,
    BY_RUN_FOLDER,
    Currency,
    PublishingAsset,
    Workspace,
    survey_root,
)
from genolewm_assets.defs.status.changes import Moved, find_moved
from genolewm_assets.defs.status.costs import Cost, Hours, Past, count_hours, estimate, with_followers
from genolewm_assets.defs.status.disk import Disk, is_empty, measure_disk, read_contents
from genolewm_assets.defs.status.pieces import SourcePieces, count_pieces_by_source
from genolewm_assets.defs.status.release_table import ReleaseRow, read_release_table
from genolewm_assets.defs.status.releases import CURRENT, Releases, read_releases
from genolewm_assets.defs.status.troubles import (
    ALARMING,
    KINDS,
    Trouble,
    failed_checks,
    failed_runs,
    missing_partitions,
    open_attempts,
    outdated_partitions,
    unfinished_runs,
    waiting_sensors,
)
from genolewm_assets.packages import CURRENT_FILE, PACKAGES
from genolewm_assets.store.artefacts import ArtefactId
from genolewm_assets.verification import find_record_faults

#: Seconds back from now from which changes and growth count.
SINCE_S = 86_400.0

#: Partitions of each asset that are there or should be.
Expected = Mapping[str, Sequence[str | None]]


@dataclass(frozen=True, slots=True)
class Status:
    """What a person wants to know of a root in the morning.

    Attributes
    ----------
    time, since
        Now, and the time from which changes and growth count, in seconds since 1970.
    note
        Why something cannot be told: the root is empty, or has no history of runs; empty otherwise.
    published
        Number of partitions that consumers can open: artefacts, and ``packages/current``, which points to one.
    latest
        The newest ten releases, and what became of each.
    troubles
        Alarming kinds first.
    pieces
        Pieces of each corpus source by state, for each asset that has them; empty for an empty root.
    partitions
        Each partition beside what a build of now would be made from, in dependency order; empty for an empty root.
    hours
        None without a history of runs.
    """

    root: str
    catalog: str
    time: float
    since: float
    note: str
    published: int
    releases: Releases
    latest: tuple[ReleaseRow, ...]
    troubles: tuple[Trouble, ...]
    pieces: tuple[SourcePieces, ...]
    partitions: tuple[Currency, ...]
    moved: tuple[Moved, ...]
    disk: Disk
    hours: Hours | None
    costs: tuple[Cost, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Number of troubles by kind, in the order of the page."""
        found = Counter(trouble.kind for trouble in self.troubles)
        return {kind: found[kind] for kind in KINDS if kind in found}

    @property
    def is_well(self) -> bool:
        """Whether nothing is alarming: what is missing, waits or runs is well."""
        return not ALARMING & self.counts.keys()

    def as_json(self) -> dict[str, Any]:
        """Return the status as a JSON object; times are ISO 8601 texts in UTC."""
        facts = asdict(self)
        for record in (facts, facts["releases"], *facts["troubles"]):
            for name in {"time", "since", "served_since"} & record.keys():
                moment = record[name]
                record[name] = None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat("T", "seconds")
        partitions = [each.as_json() for each in self.partitions]
        facts["latest"] = [each.as_json() for each in self.latest]
        return {**facts, "partitions": partitions, "counts": self.counts, "well": self.is_well}


def read_status(
    workspace: Workspace,
    instance: dg.DagsterInstance | None,
    assets: Mapping[str, PublishingAsset],
    *,
    now: float | None = None,
    ignored_run: str | None = None,
) -> Status:
    """Read the status of a root. Nothing is built or downloaded; see ``Workspace.surveyed``.

    Parameters
    ----------
    instance
        Dagster's history of the root; None if there is none.
    assets
        All assets that publish something, by key, in dependency order.
    now
        Time of the page in seconds since 1970; None for the time now.
    ignored_run
        Id of the run that asks, which is not told as running.
    """
    now, root = time.time() if now is None else now, workspace.root.path
    since, contents = now - SINCE_S, read_contents(root)
    releases = read_releases(workspace, instance, assets, now)
    pointers = {CURRENT: f"{PACKAGES}/{CURRENT_FILE}"} if releases.served else {}
    published = contents.published() | {(name, None) for name in pointers}
    empty = is_empty(root)
    expected = _expected(workspace, instance, assets, releases, published)
    troubles = [Trouble("unreadable", "files", problem) for problem in contents.unreadable]
    if not empty:
        troubles += [Trouble("unreadable", each.location, str(each)) for each in find_record_faults(workspace.root)]
        troubles += [Trouble("late", CURRENT, releases.late)] if releases.late else []
    troubles += [] if instance is None else _told_by_history(instance, assets, expected, now, ignored_run)
    partitions = () if empty else tuple(survey_root(workspace, assets.values()))
    tried = {artefact for each in troubles for artefact in each.artefacts}
    failed = {artefact for each in troubles if each.kind == "failed" for artefact in each.artefacts}
    missing = [] if empty else missing_partitions(assets.values(), expected, published, tried)
    of_pieces = {key for key, asset in assets.items() if asset.partitions is BY_CORPUS_PIECE}
    outdated = outdated_partitions(partitions, failed, of_pieces)
    troubles = sorted([*troubles, *outdated, *missing], key=lambda each: KINDS.index(each.kind))
    past = None if instance is None else Past(instance, now)
    return Status(
        root=str(root),
        catalog=workspace.catalog.name,
        time=now,
        since=since,
        note=_note(root, instance, empty=empty),
        published=len(published),
        releases=releases,
        latest=tuple(read_release_table(workspace, instance)),
        troubles=tuple(troubles),
        pieces=tuple(() if empty else count_pieces_by_source(assets.values(), expected, partitions, published, failed)),
        partitions=partitions,
        moved=tuple(find_moved(instance, assets.values(), since)) if instance else (),
        disk=measure_disk(root, contents.versions, since, pointers=pointers),
        hours=count_hours(past, assets.values()) if past else None,
        costs=tuple(_costs(past, assets, troubles, expected)) if past else (),
    )


def _note(root: object, instance: dg.DagsterInstance | None, *, empty: bool) -> str:
    if empty:
        return f"{root} is empty: nothing was built here yet. Start genolewm ui and launch build_everything"
    if instance is None:
        return "no history of runs (dagster/history): what failed, waits or moved, and hours, cannot be told"
    return ""


def _told_by_history(
    instance: dg.DagsterInstance,
    assets: Mapping[str, PublishingAsset],
    expected: Expected,
    now: float,
    ignored_run: str | None,
) -> list[Trouble]:
    attempts = open_attempts(instance, assets.values())
    failed = list(failed_runs(instance, attempts, expected))
    reported = {trouble.run_id for trouble in failed if trouble.run_id}
    return [
        *failed,
        *failed_checks(instance, assets.values(), expected, reported),
        *waiting_sensors(instance, now),
        *unfinished_runs(instance, attempts, ignored=ignored_run),
    ]


def _expected(
    workspace: Workspace,
    instance: dg.DagsterInstance | None,
    assets: Mapping[str, PublishingAsset],
    releases: Releases,
    published: set[tuple[str, str | None]],
) -> Expected:
    """Return the partitions that are there or should be: every contig, source and piece, and the newest release."""
    expected: dict[str, Sequence[str | None]] = {}
    for key, asset in assets.items():
        if asset.partitions.by == "clinvar_release":
            wanted = {each for name, each in published if name == key}
            newest = releases.newest
            if newest is not None and (not asset.of_packages or workspace.is_packaged(newest)):
                wanted.add(newest)
            expected[key] = sorted(wanted, key=str)
        elif asset.partitions is BY_RUN_FOLDER and instance is None:
            expected[key] = workspace.published_runs()
        elif asset.partitions is BY_CORPUS_PIECE and instance is None:
            expected[key] = workspace.divided_pieces()
        else:
            expected[key] = asset.partitions.keys(instance)
    return expected


def _costs(
    past: Past, assets: Mapping[str, PublishingAsset], troubles: Iterable[Trouble], expected: Expected
) -> Iterable[Cost]:
    begun = [
        artefact
        for trouble in troubles
        if trouble.kind in ("failed", "stale", "missing")
        for artefact in trouble.artefacts
        if artefact.asset in assets
    ]
    due = with_followers(assets, begun, expected)
    yield estimate(past, assets, "what is due, and what reads it", due)
    new = [ArtefactId(key, "new") for key, asset in assets.items() if asset.partitions.by == "clinvar_release"]
    yield estimate(past, assets, "a new release", [*new, ArtefactId(CURRENT)])
    states = [ArtefactId(key, each) for key, asset in assets.items() if asset.h100 for each in expected[key]]
    yield estimate(past, assets, "all states again", states)
