"""Materialise the whole graph of a catalogue in this process, one partition per run, and say what stands.

The runs are ordinary Dagster runs on the root's instance: the UI shows them. Import this module, and the definitions
that are handed to it, only after ``launch.enter_environment``, because partitions are read from the catalogue.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Literal, Self, TypeAlias

import dagster as dg
from sqlalchemy.exc import OperationalError

from genolewm_assets.defs.assets import GATED, embeddings_cache, embeddings_corpus, leading_to, packages_current
from genolewm_assets.defs.runtime import (
    BY_PACKAGED_RELEASE,
    BY_RELEASE,
    STANDING_CHECKS,
    GatedAsset,
    Partitioning,
    Workspace,
    clinvar_release_partitions,
    configured_catalog,
    configured_root,
)
from genolewm_assets.errors import GenoLeWMError, ResourceError
from genolewm_assets.lewm.packages import choose_current, read_current, read_pin
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.sources.clinvar import choose_releases, read_listing
from genolewm_assets.store.artefacts import ArtefactId, Manifest, is_current
from genolewm_assets.store.locks import is_running

Steps: TypeAlias = Sequence[tuple[GatedAsset, str | None]]
Outcome: TypeAlias = Literal["built", "current", "failed"]

#: Assets that lead to the caches of states.
STATE_ASSETS = leading_to(embeddings_cache, embeddings_corpus)

#: Tables that list what an artefact does not hold.
_SIDE_TABLES = ("rejects.parquet", "skipped.parquet")

#: Tags by which a later demo knows the runs of this one.
_HOST_TAG, _PID_TAG = "genolewm/demo_host", "genolewm/demo_pid"
_ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What became of one partition."""

    artefact: ArtefactId
    outcome: Outcome
    seconds: float
    rows: int | None = None
    checks_passed: int = 0
    checks: int = 0
    error: str = ""
    exit_code: int = 0

    def line(self) -> str:
        """Return one line for a person."""
        rows = "" if self.rows is None else f"{self.rows:,} rows, "
        facts = f"{rows}{self.checks_passed} of {self.checks} checks passed"
        return f"{self.artefact} {self.outcome} in {self.seconds:.1f} s: {self.error or facts}"

    def as_json(self) -> dict[str, str | int | float | None]:
        """Return the same for a machine."""
        facts = asdict(self)
        del facts["artefact"]
        return {"asset": self.artefact.asset, "partition": self.artefact.partition, **facts}


@dataclass(slots=True)
class Demo:
    """A walk over every partition of the graph in the order of its dependencies."""

    graph: dg.Definitions
    workspace: Workspace = field(default_factory=lambda: Workspace.open(configured_root(), configured_catalog()))
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.get)

    def __enter__(self) -> Self:
        self._bury_dead_runs()
        return self

    def __exit__(self, *_: object) -> None:
        self.instance.dispose()

    def _bury_dead_runs(self) -> None:
        """Fail the runs of demos that were killed, and free what ended runs hold of pools.

        They would look alive, and keep their pool's slot, for ever. Slots are looked for by themselves: whoever failed
        a run may have been killed before it freed the slot.
        """
        unfinished = [status for status in dg.DagsterRunStatus if status not in _ENDED]
        ours = dg.RunsFilter(statuses=unfinished, tags={_HOST_TAG: socket.gethostname()})
        for record in self.instance.get_run_records(ours):
            run = record.dagster_run
            if not is_running(int(run.tags[_PID_TAG]), record.create_timestamp.timestamp()):
                self.instance.report_run_failed(run, "The process of this run was killed.")
        storage = self.instance.event_log_storage
        for pool in storage.get_concurrency_infos(list(storage.get_concurrency_keys())).values():
            for run_id in pool.active_run_ids | {step.run_id for step in pool.pending_steps}:
                holder = self.instance.get_run_by_id(run_id)
                if holder is None or holder.is_finished:
                    storage.free_concurrency_slots_for_run(run_id)

    def register_releases(self) -> list[str]:
        """Add every ClinVar release of the catalogue's listing as a partition; returns their keys in order."""
        settings = self.workspace.catalog.clinvar
        listing = read_listing(self.workspace.url(settings.listing))
        keys = [release.key for release in choose_releases(self.workspace.root.path, listing, settings.releases)]
        self.instance.add_dynamic_partitions(str(clinvar_release_partitions.name), keys)
        return keys

    def steps(self) -> Steps:
        """Return every (asset, partition) in dependency order; ``packages/current`` comes after them."""
        releases = self.register_releases()
        listed: Mapping[Partitioning, Sequence[str]] = {
            BY_RELEASE: releases,
            BY_PACKAGED_RELEASE: [key for key in releases if self.workspace.is_packaged(key)],
        }
        return [
            (asset, partition)
            for asset in GATED.values()
            for partition in listed.get(asset.partitions, asset.partitions.keys(self.instance))
        ]

    def run(self, steps: Steps) -> Iterator[PartitionResult]:
        """Materialise what is not current, one partition after the other."""
        for asset, partition in steps:
            artefact, started = ArtefactId(asset.key, partition), time.monotonic()
            manifest = self._current(asset, partition)
            outcome: Outcome = "current"
            if manifest is None:
                failure = self._materialise(artefact, len(asset.check_names), started)
                if failure is not None:
                    yield failure
                    continue
                manifest, outcome = asset.open(self.workspace, partition).manifest, "built"
            yield _standing(artefact, outcome, manifest, time.monotonic() - started)

    def _current(self, asset: GatedAsset, partition: str | None) -> Manifest | None:
        """Return the published manifest when a build would keep it and the instance knows of it."""
        try:
            plan = asset.build_plan(self.workspace, partition, NO_PROGRESS)
            if not is_current(self.workspace.root, plan) or asset.location(self.workspace, partition) != plan.location:
                return None
            manifest = asset.open(self.workspace, partition).manifest
        except GenoLeWMError:
            return None  # the run says what is wrong, and records it
        return manifest if self._knows(plan.artefact, manifest.sha256) else None

    def _knows(self, artefact: ArtefactId, sha256: str) -> bool:
        """Tell whether the instance's latest materialisation of a partition is this version."""
        key = dg.AssetKey(artefact.asset.split("/"))
        event = self.instance.get_latest_data_version_record(key, partition_key=artefact.partition)
        tags = event.asset_materialization.tags if event and event.asset_materialization else None
        return (tags or {}).get("dagster/data_version") == f"sha256:{sha256}"

    def follow(self) -> PartitionResult:
        """Move ``packages/current``, unless it is where it belongs."""
        artefact, started, root = ArtefactId(packages_current.key), time.monotonic(), self.workspace.root.path
        with suppress(GenoLeWMError):
            ref = choose_current(root, read_pin(root))
            if ref == read_current(root) and self._knows(artefact, ref.manifest_sha256):
                return PartitionResult(artefact, "current", time.monotonic() - started, 1, 1, 1)
        failure = self._materialise(artefact, 1, started)
        return failure or PartitionResult(artefact, "built", time.monotonic() - started, 1, 1, 1)

    def _materialise(self, artefact: ArtefactId, checks: int, started: float) -> PartitionResult | None:
        """Run one asset for one partition; returns what went wrong, if anything."""
        try:
            result = self.graph.resolve_implicit_global_asset_job_def().execute_in_process(
                instance=self.instance,
                partition_key=artefact.partition,
                asset_selection=[dg.AssetKey(artefact.asset.split("/"))],
                run_config=_QUIET,
                tags={_HOST_TAG: socket.gethostname(), _PID_TAG: str(os.getpid())},
                raise_on_error=False,
            )
        except OperationalError as err:
            raise ResourceError(
                str(self.workspace.root.path / "dagster"),
                f"the record of runs cannot be written ({err.orig})",
                remedy="Free some space, or make the root writable, and run it again",
            ) from err
        if result.success:
            return None
        passed = sum(check.passed for check in result.get_asset_check_evaluations())
        (event, *_) = [event for event in result.all_events if event.is_step_failure] or result.all_events[-1:]
        error, exit_code = _reason(event)
        seconds = time.monotonic() - started
        return PartitionResult(artefact, "failed", seconds, None, passed, checks, error, exit_code)


def _reason(event: dg.DagsterEvent) -> tuple[str, int]:
    """Return the line a step failed with, and the exit code that goes with it.

    Raises
    ------
    KeyboardInterrupt
        If a person stopped it: Dagster turns the signal into a failure of the step.
    """
    failure = event.step_failure_data if event.is_step_failure else None
    stated = failure.user_failure_data if failure else None
    if stated and stated.description:
        return stated.description, int(getattr(stated.metadata.get("exit_code"), "value", 4))
    error = failure.error if failure else None
    cause = error.cause or error if error else None
    if cause and cause.cls_name in {"DagsterExecutionInterruptedError", "KeyboardInterrupt"}:
        raise KeyboardInterrupt
    return (cause.message.strip() if cause else "the run ended without an error"), 1


def _standing(artefact: ArtefactId, outcome: Outcome, manifest: Manifest, seconds: float) -> PartitionResult:
    tables = [entry.rows for entry in manifest.files if entry.rows is not None and entry.path not in _SIDE_TABLES]
    checks = len(manifest.checks) + len(STANDING_CHECKS)
    return PartitionResult(artefact, outcome, seconds, sum(tables) if tables else None, checks, checks)
