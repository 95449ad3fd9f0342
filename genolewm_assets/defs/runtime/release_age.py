"""Age of the newest ClinVar release that an asset has, by the date of its key: the check ``newest_release_built``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal, Protocol, TypeAlias

import dagster as dg

from genolewm_assets.defs.display import failure_entries
from genolewm_assets.defs.runtime.failures import WAITING, WILL_RETRY_TAG, failure_of
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.sources.clinvar import LEDGER, listed_releases, read_ledger, read_listing
from genolewm_assets.store.artefacts import REMEDY, Check, CheckResult
from genolewm_assets.variants import ReleaseKey, in_order, is_release_key

#: The newest release that the listing offers is built, and is not older than the catalogue allows. Reported by each
#: build, from the recorded releases and the newest one that the latest evaluation names, and by each ``check_current``,
#: from the listing.
NEWEST_RELEASE_BUILT = Check(
    "newest_release_built",
    "The newest ClinVar release that the listing offers is built, and its date is not further back than the catalogue "
    "allows. Building an older release again changes nothing here. Blocks nothing.",
    "Materialise clinvar/release for the newest release, or run refresh_release for it, and see why the sensor "
    "clinvar_release_sensor did not: it must be running, and the listing within reach. An age limit is changed with "
    "clinvar.freshness in the catalogue.",
)

#: Greatest number of runs of some releases that are looked at, newest first.
_RUNS = 500

RunState: TypeAlias = Literal["refused", "running", "waiting"]

#: What to do, by what became of the newest release; if nothing was asked for, the check's own remedy.
_REMEDIES: Mapping[str, str] = {
    "none newer": (
        "Nothing newer is offered: check that clinvar.listing of the catalogue is the place where releases appear. The "
        "limit is clinvar.freshness."
    ),
    "refused": (
        "Open the run: its failed check has the rows at fault and what to do. What is served stays, and nothing builds "
        "the release again by itself: mend what is named, then launch refresh_release for it, or wait for the next one."
    ),
    "running": "Nothing, unless the run does not end: open it to see how far it is.",
    "waiting": "Nothing, unless it lasts: the page of the run says what the queue waits for.",
}

#: Greatest number of planned evaluations, of runs that are queued or failed, before the latest finished one.
_LOOK_BACK = 200


@dataclass(frozen=True, slots=True)
class Releases:
    """The releases that a root can have.

    Attributes
    ----------
    keys
        Keys of the releases that the catalogue admits, oldest first; empty if they are not known.
    known_from
        Where the keys were read: the listing, or the record of the releases that were seen in it.
    problem
        Why the keys could not be read; empty if they were.
    """

    keys: tuple[str, ...]
    known_from: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseRun:
    """The latest run for a release that has not succeeded, and why it failed; empty while it waits or runs."""

    state: RunState
    run_id: str
    reason: str = ""

    def in_words(self, release: str) -> str:
        """Return one sentence about a release, without a full stop."""
        run = f"(run {self.run_id[:8]})"
        if self.state == "refused":
            return f"{release} was refused: {self.reason} {run}"
        return f"{release} is being built {run}" if self.state == "running" else f"{release} waits in the queue {run}"


@dataclass(frozen=True, slots=True)
class ReleaseAge:
    """Result of the check for one asset; ``age_days`` is None if no release is built or the age is not judged."""

    passed: bool
    severity: dg.AssetCheckSeverity
    reason: str
    newest_built: str | None
    newest_offered: str | None
    known_from: str
    age_days: int | None
    run: ReleaseRun | None = None

    def metadata(self) -> dict[str, str | int | dg.MetadataValue]:
        """Return the result as metadata of the check."""
        facts = {"newest_built": self.newest_built, "newest_offered": self.newest_offered, "age_days": self.age_days}
        stated = {name: value for name, value in facts.items() if value is not None}
        row = {**facts, "offered_according_to": self.known_from, "reason": self.reason}
        newest = self.newest_built is not None and self.newest_built == self.newest_offered
        became = self.run.state if self.run else "none newer" if newest else ""
        remedy = {REMEDY: _REMEDIES[became]} if became else {}
        check = CheckResult(NEWEST_RELEASE_BUILT, self.passed, remedy, [row])
        entries = failure_entries(check, NEWEST_RELEASE_BUILT.remedy)
        run = {"run": dg.MetadataValue.dagster_run(self.run.run_id)} if self.run else {}
        return {**entries, **run, "reason": self.reason, **stated, "offered_according_to": self.known_from}


class Following(Protocol):
    """An asset that every new ClinVar release brings new data for."""

    @property
    def of_packages(self) -> bool:
        """Whether the asset is only expected to have the releases that the catalogue packages."""
        ...

    def newest_release(self, workspace: Workspace, keys: Sequence[str]) -> str | None:
        """Return the newest release, of the given keys, that the asset has; None if it has none."""
        ...

    def release_shown(self, workspace: Workspace, release: str) -> str:
        """Return words for the newest release that the asset has."""
        ...


def recorded_releases(workspace: Workspace) -> Releases:
    """Return the releases in the record of a root, without asking the listing."""
    try:
        return _admitted(workspace, [each.key for each in read_ledger(workspace.root.path)], LEDGER)
    except GenoLeWMError as err:
        return Releases((), LEDGER, str(err))


def seen_releases(workspace: Workspace, instance: dg.DagsterInstance, asset: Sequence[str]) -> Releases:
    """Return the recorded releases, and the newest one that the latest check of an asset names, without the listing.

    A release may be listed and not recorded yet; without it, a build would replace a failure of the check with a pass.
    """
    recorded, key = recorded_releases(workspace), _latest_named(instance, asset)
    if recorded.problem or not key or not is_release_key(key) or key in recorded.keys:
        return recorded
    return _admitted(workspace, [*recorded.keys, key], f"{LEDGER} and the latest check")


def _latest_named(instance: dg.DagsterInstance, asset: Sequence[str]) -> str | None:
    """Return the newest release that the latest evaluation of the check names; None if it names none."""
    check = dg.AssetCheckKey(dg.AssetKey(asset), str(NEWEST_RELEASE_BUILT))
    # The latest record is usually that of the run that asks: planned, and not evaluated.
    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=_LOOK_BACK)
    for record in history:
        event = record.event and record.event.dagster_event
        if event is not None and event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            named = event.asset_check_evaluation_data.metadata.get("newest_offered")
            return named.value if isinstance(named, dg.TextMetadataValue) else None
    return None


def latest_runs(instance: dg.DagsterInstance, keys: Sequence[str]) -> dict[str, ReleaseRun]:
    """Return what became of releases whose latest run has not succeeded, by key; cancelled runs do not count."""
    statuses = [status for status in dg.DagsterRunStatus if status is not dg.DagsterRunStatus.CANCELED]
    wanted = dg.RunsFilter(tags={"dagster/partition": list(keys)}, statuses=statuses)
    found: dict[str, dg.DagsterRun] = {}
    for run in instance.get_runs(wanted, limit=_RUNS) if keys else ():
        found.setdefault(run.tags["dagster/partition"], run)
    return {key: told for key, run in found.items() if (told := _release_run(instance, run)) is not None}


def _release_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> ReleaseRun | None:
    if run.status is dg.DagsterRunStatus.SUCCESS:
        return None
    if run.tags.get(WILL_RETRY_TAG) == "true":
        return ReleaseRun("waiting", run.run_id)
    if run.status is dg.DagsterRunStatus.FAILURE:
        return ReleaseRun("refused", run.run_id, failure_of(instance, run).line)
    return ReleaseRun("waiting" if run.status in WAITING else "running", run.run_id)


def offered_by_listing(workspace: Workspace) -> Releases:
    """Return the releases that the listing offers now, by the keys that they have or would get; writes nothing."""
    place = workspace.catalog.clinvar.listing
    try:
        place = workspace.url(place)
        newest_first = workspace.catalog.clinvar.newest_first
        found = listed_releases(workspace.root.path, read_listing(place), newest_first=newest_first)
        return _admitted(workspace, [release.key for release in found], place)
    except GenoLeWMError as err:
        return Releases((), place, str(err))


def _admitted(workspace: Workspace, keys: Sequence[str], known_from: str) -> Releases:
    used = workspace.catalog.clinvar.releases
    return Releases(tuple(in_order(key for key in keys if used is None or key in used)), known_from)


def judge_age(
    workspace: Workspace,
    asset: Following,
    releases: Releases,
    runs: Callable[[Sequence[str]], Mapping[str, ReleaseRun]] = lambda _: {},
    *,
    today: date | None = None,
) -> ReleaseAge:
    """Compare the newest release that an asset has with those that it could have.

    The check passes if the newest of ``releases`` is built and its date is at most ``clinvar.freshness.warn_days`` ago.
    The severity is ERROR if it is more than ``fail_days`` ago, else WARN. If the catalogue packages none of
    ``releases``, only the age of what a package asset has is judged.

    Parameters
    ----------
    runs
        Returns what became of releases that are not built; asked for the newest one only.
    today
        Date from which the age is counted; None: the date now (UTC).
    """
    expected = [key for key in releases.keys if not asset.of_packages or workspace.is_packaged(key)]
    known = {*releases.keys, *recorded_releases(workspace).keys}
    built, offered = asset.newest_release(workspace.survey(), in_order(known)), expected[-1] if expected else None
    limits, age = workspace.catalog.clinvar.freshness, None
    if limits is not None and built is not None:
        age = ((today or datetime.now(UTC).date()) - ReleaseKey.parse(built).day).days
    problems, met, run = [], f"the newest release, {built}, is built", None
    if releases.problem:
        problems.append(f"not compared: {releases.problem}")
    elif not releases.keys:
        problems.append(f"not compared: {releases.known_from} has no release")
    elif offered is None:
        met = "the catalogue packages none of the releases offered"
    elif built is None or ReleaseKey.parse(built) < ReleaseKey.parse(offered):
        shown = "no release is built; the newest is" if built is None else None
        shown = shown or f"{asset.release_shown(workspace, built or '')}, is not the newest one offered,"
        problems.append(f"{shown} {offered}")
        if run := runs([offered]).get(offered):
            problems.append(run.in_words(offered))
    too_old = limits is not None and age is not None and age > limits.fail_days
    if limits is not None and age is not None and built is not None and age > limits.warn_days:
        limit = f"{limits.fail_days:g} (fail_days)" if too_old else f"{limits.warn_days:g} (warn_days)"
        problems.append(f"{asset.release_shown(workspace, built)}, is {age} days old: expected at most {limit}")
    return ReleaseAge(
        passed=not problems,
        severity=dg.AssetCheckSeverity.ERROR if too_old else dg.AssetCheckSeverity.WARN,
        reason="; ".join(problems) or met,
        newest_built=built,
        newest_offered=offered,
        known_from=releases.known_from,
        age_days=age,
        run=run,
    )
