"""Builds of partitions that were begun and have materialised nothing since: failed, running or waiting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import dagster as dg

from genolewm_assets.defs.runtime import PublishingAsset
from genolewm_assets.store.artefacts import ArtefactId

#: Runs that are asked for at once.
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run, and the partitions that it was to build and has not.

    Attributes
    ----------
    artefacts
        In dependency order.
    """

    record: dg.RunRecord
    artefacts: tuple[ArtefactId, ...]

    @property
    def run(self) -> dg.DagsterRun:
        """The run."""
        return self.record.dagster_run

    def among(self, expected: Mapping[str, Sequence[str | None]]) -> Attempt:
        """Return the attempt with those partitions alone that are expected, by asset."""
        return replace(self, artefacts=tuple(each for each in self.artefacts if each.partition in expected[each.asset]))

    @property
    def subject(self) -> str:
        """Name of the partition, or of the first of several."""
        more = len(self.artefacts) - 1
        return f"{self.artefacts[0]}{f' and {more} more' if more else ''}"


def open_attempts(instance: dg.DagsterInstance, assets: Iterable[PublishingAsset]) -> list[Attempt]:
    """Return the latest run of each partition whose latest run has not materialised it, newest run first."""
    planned: dict[str, list[ArtefactId]] = {}
    for asset in assets:
        for partition, run_id in _unmade(instance, asset):
            planned.setdefault(run_id, []).append(ArtefactId(asset.key, partition))
    run_ids = list(planned)
    found = [
        Attempt(record, tuple(planned[record.dagster_run.run_id]))
        for start in range(0, len(run_ids), _AT_ONCE)
        for record in instance.get_run_records(dg.RunsFilter(run_ids=run_ids[start : start + _AT_ONCE]))
    ]
    return sorted(found, key=lambda each: each.record.create_timestamp, reverse=True)


def _unmade(instance: dg.DagsterInstance, asset: PublishingAsset) -> Iterator[tuple[str | None, str]]:
    """Yield partition and run of the latest builds that materialised nothing."""
    storage, key = instance.event_log_storage, dg.AssetKey(asset.path)
    if asset.partitions.definition is not None:
        found: Mapping[str, tuple[str, int]] = (
            storage.get_latest_asset_partition_materialization_attempts_without_materializations(key)
        )
        yield from ((partition, run_id) for partition, (run_id, _) in found.items() if partition is not None)
        return
    latest = storage.get_latest_planned_materialization_info(key)
    made = instance.fetch_materializations(key, limit=1).records
    if latest is not None and not (made and made[0].storage_id > latest.storage_id):
        yield None, latest.run_id
