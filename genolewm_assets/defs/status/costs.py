"""Hours of the steps that need an H100, and what the next builds would take, by the durations of past steps."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg

from genolewm_assets.defs.runtime import PublishingAsset, configured_device
from genolewm_assets.errors import MissingResourceError
from genolewm_assets.store.artefacts import ArtefactId

#: Steps of an H100 asset that are looked at; and of any other asset, for its usual duration.
_STEPS, _RECENT = 150, 6
_DAY_S = 86_400.0
#: Where a machine with a driver for NVIDIA's GPUs states its version.
_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class Step:
    """One run of the step of an asset; ``built`` is False if what was there was kept, or the step failed."""

    started: float
    seconds: float
    built: bool


@dataclass(frozen=True, slots=True)
class Hours:
    """Hours that the steps of states took, failed ones included."""

    #: ``GPU`` or ``CPU``: where this machine computes states now.
    device: str
    day: float
    week: float
    total: float
    #: Number of steps that were counted.
    steps: int
    #: Whether these are all steps that the history holds.
    is_all: bool


@dataclass(frozen=True, slots=True)
class Cost:
    """What a build would take."""

    what: str
    partitions: int
    #: ``seconds``, ``h100_seconds``: sum of the usual durations of the partitions, and of those that need an H100.
    seconds: float
    h100_seconds: float
    #: Partitions of assets that no past step has built; they are not in the sums.
    unknown: int


@dataclass(slots=True)
class Past:
    """Durations of past steps, read when they are asked for."""

    instance: dg.DagsterInstance
    now: float
    #: Keys of the assets that have more past steps than were read.
    cut: set[str] = field(default_factory=set, init=False, repr=False)
    _steps: dict[str, list[Step]] = field(default_factory=dict, init=False, repr=False)

    def steps(self, asset: PublishingAsset, limit: int) -> list[Step]:
        """Return the latest steps of an asset, newest first."""
        storage, key = self.instance.event_log_storage, dg.AssetKey(asset.path)
        if asset.key not in self._steps:
            planned = dg.EventRecordsFilter(dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED, asset_key=key)
            records = storage.get_event_records(planned, limit=limit)
            runs = dict.fromkeys(each.run_id for each in records)
            self.cut |= {asset.key} if len(records) == limit else set()
            found = [self._step(asset, run_id) for run_id in runs]
            self._steps[asset.key] = [each for each in found if each is not None]
        return self._steps[asset.key]

    def _step(self, asset: PublishingAsset, run_id: str) -> Step | None:
        name = "__".join(asset.path)
        try:
            found = self.instance.event_log_storage.get_step_stats_for_run(run_id, [name])
        except MissingResourceError:  # the run was purged meanwhile, or its history was removed
            return None
        for stats in found:
            if stats.start_time is None:
                return None
            events = [each.asset_materialization for each in stats.materialization_events]
            kept = any(event and event.metadata.get("reused") == dg.MetadataValue.bool(True) for event in events)
            end = stats.end_time or self._ended(run_id)
            return Step(stats.start_time, max(0.0, end - stats.start_time), bool(events) and not kept)
        return None

    def _ended(self, run_id: str) -> float:
        """Return the end of a run, which is that of a step that was cut off; now, if it is running."""
        record = self.instance.get_run_record_by_id(run_id)
        if record is None or not record.dagster_run.is_finished:
            return self.now
        return record.end_time or record.update_timestamp.timestamp()

    def usual_seconds(self, asset: PublishingAsset) -> float | None:
        """Return the median duration of the latest steps that built a partition; None if there is none."""
        steps = self.steps(asset, _STEPS if asset.h100 else _RECENT)
        built = [step.seconds for step in steps if step.built][:_RECENT]
        return statistics.median(built) if built else None


def count_hours(past: Past, assets: Iterable[PublishingAsset]) -> Hours:
    """Return the hours of the steps of the assets that need an H100."""
    counted = [asset for asset in assets if asset.h100]
    steps = [step for asset in counted for step in past.steps(asset, _STEPS)]

    def hours(since: float) -> float:
        return sum(step.seconds for step in steps if step.started >= since) / 3_600

    day, week = hours(past.now - _DAY_S), hours(past.now - 7 * _DAY_S)
    return Hours(_device(), day, week, hours(0), len(steps), past.cut.isdisjoint(asset.key for asset in counted))


def _device() -> str:
    device = configured_device()
    return "CPU" if device == "cpu" or (device == "auto" and not _DRIVER.exists()) else "GPU"


def estimate(past: Past, assets: Mapping[str, PublishingAsset], what: str, artefacts: Iterable[ArtefactId]) -> Cost:
    """Return what building some partitions would take, one after the other."""
    partitions = unknown = 0
    seconds = h100_seconds = 0.0
    for artefact in artefacts:
        asset, partitions = assets[artefact.asset], partitions + 1
        usual = past.usual_seconds(asset)
        unknown += usual is None
        seconds += usual or 0.0
        h100_seconds += usual or 0.0 if asset.h100 else 0.0
    return Cost(what, partitions, seconds, h100_seconds, unknown)


def with_followers(
    assets: Mapping[str, PublishingAsset], begun: Iterable[ArtefactId], expected: Mapping[str, Sequence[str | None]]
) -> list[ArtefactId]:
    """Return some partitions and all expected ones downstream, in dependency order."""
    touched: dict[str, set[str | None]] = {key: set() for key in assets}
    for artefact in begun:
        touched[artefact.asset].add(artefact.partition)
    for asset in assets.values():
        for dep in asset.deps:
            changed = touched.get(dep.asset_key.to_user_string(), set())
            touched[asset.key] |= _reached(dep, changed, expected[asset.key])
    return [ArtefactId(key, each) for key in assets for each in sorted(touched[key], key=lambda name: name or "")]


def _reached(dep: dg.AssetDep, changed: set[str | None], own: Sequence[str | None]) -> set[str | None]:
    """Return the partitions of an asset that read one of the changed partitions of a dependency."""
    match dep.partition_mapping:
        case dg.IdentityPartitionMapping():
            return changed & set(own)
        case dg.SpecificPartitionsPartitionMapping(partition_keys=keys):
            return set(own) if changed & set(keys) else set()
        case _:
            return set(own) if changed else set()
