"""Materialise the whole graph of a catalogue in this process, one partition per run, and report each result.

Import this module only after ``launch.enter_environment``, because partitions are read from the catalogue at import.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Self, TypeAlias

import dagster as dg

from genolewm_assets.defs.assets import (
    GATED,
    embeddings_cache,
    embeddings_corpus,
    leading_to,
    packages_current,
    platform_status,
    register_pieces,
)
from genolewm_assets.defs.display import OFFENDING, row_text
from genolewm_assets.defs.operations.build_inputs import is_recorded, rows_recorded
from genolewm_assets.defs.operations.daily_jobs import observe_new_sources
from genolewm_assets.defs.operations.release_job import register_offered
from genolewm_assets.defs.operations.run_folder_sensor import register_runs
from genolewm_assets.defs.run_databases import check_databases, database_errors, described
from genolewm_assets.defs.runtime import (
    BY_CORPUS_PIECE,
    BY_PACKAGED_RELEASE,
    BY_RELEASE,
    INPUTS_ACCEPTED,
    STANDING_CHECKS,
    STATES_OFF,
    UNFINISHED,
    GatedAsset,
    Partitioning,
    Reason,
    Workspace,
    WorkspaceResource,
    reason_of,
)
from genolewm_assets.errors import BusyError, GenoLeWMError, counted
from genolewm_assets.packages import choose_current, read_current, read_pin
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.store.artefacts import ArtefactId, Manifest, is_current
from genolewm_assets.store.locks import is_running, locked_folder
from genolewm_assets.windows.corpus import parse_piece

Steps: TypeAlias = Sequence[tuple[GatedAsset, str | None]]
Outcome: TypeAlias = Literal["built", "current", "failed", "waiting"]

#: Keys of the assets of states and of all assets upstream of them.
STATE_ASSETS = leading_to(embeddings_cache, embeddings_corpus)

#: Tags with the host name and process id of a demo, by which a later demo finds its runs; lists of runs leave out tags
#: that begin so.
_HOST_TAG, _PID_TAG = ".dagster/demo_host", ".dagster/demo_pid"
#: The daemon of a UI beside a demo repeats none of its runs: the next demo does.
_NOT_REPEATED = {"dagster/max_retries": "0"}
#: Rows at fault that are printed of each failed check; the UI shows more.
_ROWS_PRINTED = 3
#: Checks of which the error line says what their one row says.
_SAID_BY_THE_ERROR = {INPUTS_ACCEPTED, "package_verifies"}
#: Location whose lock a running demo holds; nothing is published there.
_LOCK = "demo"

#: Run config of jobs whose log nobody reads as they run.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """Result of building one partition.

    Attributes
    ----------
    rows
        Rows of the artefact as the UI shows them; None if it was not built or has none.
    error, exit_code
        Reason of the failure in one line, and exit code of the command line for it; empty and 0 if there is none. Of
        what waits, because something that it reads failed, the reason is what that is.
    offending
        The first rows at fault of each failed check, one line each.
    """

    artefact: ArtefactId
    outcome: Outcome
    seconds: float
    rows: int | None = None
    checks_passed: int = 0
    checks: int = 0
    error: str = ""
    exit_code: int = 0
    offending: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def line(self) -> str:
        """Return the result as one line of text."""
        if self.outcome == "waiting":
            return f"{self.artefact} waits: {self.error}"
        rows = "" if self.rows is None else f"{counted(self.rows, 'row')}, "
        facts = f"{rows}{self.checks_passed} of {self.checks} checks passed"
        return f"{self.artefact} {self.outcome} in {self.seconds:.1f} s: {self.error or facts}"

    def text(self) -> str:
        """Return the line of the result and, below it, the rows at fault under the name of their check."""
        rows = (f"  {name}: {row}" for name, shown in self.offending.items() for row in shown)
        return "\n".join([self.line(), *rows])

    def as_json(self) -> dict[str, object]:
        """Return the result as a JSON object, with ``asset`` and ``partition`` in place of ``artefact``."""
        facts = asdict(self)
        return {**facts.pop("artefact"), **facts}


def open_instance() -> dg.DagsterInstance:
    """Open the instance in ``DAGSTER_HOME``."""
    home = Path(os.environ["DAGSTER_HOME"])
    # Of two processes that create a database at once, Dagster fails one.
    with database_errors(home), locked_folder(home):
        check_databases(home)
        return dg.DagsterInstance.get()


@dataclass(slots=True)
class Demo:
    """Builds every partition of the graph in dependency order.

    Attributes
    ----------
    say
        Receives a line if another demo of the root is running: this one then waits for it to end; and what else is
        said once.
    """

    graph: dg.Definitions
    workspace: Workspace = field(default_factory=lambda: WorkspaceResource.configured().open())
    instance: dg.DagsterInstance = field(default_factory=open_instance)
    say: Callable[[str], object] = lambda _: None
    _held: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    def __enter__(self) -> Self:
        self._wait_for_others()
        with database_errors(self._home), ExitStack() as undone:
            undone.push(self._held.pop_all())
            self._fail_dead_runs()
            self._held = undone.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        with self._held:
            self.instance.dispose()
        if stated := error and described(self._home, error):
            raise stated from error

    @property
    def _home(self) -> Path:
        """Folder of Dagster's databases."""
        return self.workspace.root.path / "dagster"

    def _wait_for_others(self) -> None:
        """Take the lock of all demos of the root; two at once would run the same partitions twice, or fail some."""
        root = self.workspace.root
        try:
            self._held.enter_context(root.lock(_LOCK, wait_s=0.0))
        except BusyError:
            self.say(f"{root.path}: another demo of this root is running; waiting until it ends")
            self._held.enter_context(root.lock(_LOCK, wait_s=math.inf))

    def _fail_dead_runs(self) -> None:
        """Fail the runs of demos that were killed, and free the pool slots of all ended runs."""
        ours = dg.RunsFilter(statuses=list(UNFINISHED), tags={_HOST_TAG: socket.gethostname()})
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

    def steps(self) -> Steps:
        """Return every (asset, partition) in dependency order, except ``packages/current`` (see :meth:`follow`).

        Before that releases on offer, run folders and pieces of the corpus are registered, and sources are observed;
        where states are not built, that is said.
        """
        if not self.workspace.with_states:
            self.say(STATES_OFF)
        releases = register_offered(self.workspace, self.instance)
        register_runs(self.workspace, self.instance)
        register_pieces(self.workspace, self.instance)
        observe_new_sources(self.workspace, self.instance, self.say)
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
        """Materialise every partition that is not current, in order, and yield the result of each.

        What reads a partition that failed is not run: it waits.
        """
        lacking: dict[str, list[str | None]] = defaultdict(list)
        for asset, partition in steps:
            artefact, started = ArtefactId(asset.key, partition), time.monotonic()
            if (cause := _lacks(asset, partition, lacking)) is not None:
                lacking[asset.key].append(partition)
                yield PartitionResult(artefact, "waiting", 0.0, error=f"reads {cause}, which is not there")
                continue
            manifest = self._current(asset, partition)
            outcome: Outcome = "current"
            if manifest is None:
                failure = self._materialise(artefact, len(asset.check_names), started)
                if failure is not None:
                    lacking[asset.key].append(partition)
                    yield failure
                    continue
                manifest, outcome = asset.open(self.workspace, partition).manifest, "built"
            # All checks of what is published have passed.
            checks, rows = len(manifest.checks) + len(STANDING_CHECKS), rows_recorded(self.instance, artefact)
            yield PartitionResult(artefact, outcome, time.monotonic() - started, rows, checks, checks)

    def _current(self, asset: GatedAsset, partition: str | None) -> Manifest | None:
        """Return the published manifest if a build would reuse it and the instance has recorded it, else None."""
        try:
            plan = asset.build_plan(self.workspace, partition, NO_PROGRESS)
            if not is_current(self.workspace.root, plan) or asset.location(self.workspace, partition) != plan.location:
                return None
            manifest = asset.open(self.workspace, partition).manifest
        except GenoLeWMError:
            return None  # the run will report and record the error
        return manifest if is_recorded(self.instance, plan.artefact, manifest.sha256) else None

    def follow(self) -> PartitionResult:
        """Materialise ``packages/current`` unless it points to the right package already."""
        artefact, started, root = ArtefactId(packages_current.key), time.monotonic(), self.workspace.root.path
        with suppress(GenoLeWMError):
            ref = choose_current(root, read_pin(root))
            if ref == read_current(root) and is_recorded(self.instance, artefact, ref.manifest_sha256):
                return PartitionResult(artefact, "current", time.monotonic() - started, 1, 1, 1)
        failure = self._materialise(artefact, 1, started)
        return failure or PartitionResult(artefact, "built", time.monotonic() - started, 1, 1, 1)

    def report(self) -> None:
        """Write the page of the morning, ``platform/status``."""
        self._materialise(ArtefactId(platform_status.key), 0, time.monotonic())

    def _materialise(self, artefact: ArtefactId, checks: int, started: float) -> PartitionResult | None:
        """Run one asset for one partition; return the failure, or None on success."""
        result = self.graph.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            partition_key=artefact.partition,
            asset_selection=[dg.AssetKey(artefact.asset.split("/"))],
            run_config=QUIET,
            tags={_HOST_TAG: socket.gethostname(), _PID_TAG: str(os.getpid()), **_NOT_REPEATED},
            raise_on_error=False,
        )
        if result.success:
            return None
        evaluations = result.get_asset_check_evaluations()
        passed = sum(check.passed for check in evaluations)
        (event, *_) = [event for event in result.all_events if event.is_step_failure] or result.all_events[-1:]
        reason, seconds = _reason(event), time.monotonic() - started
        offending = {check.check_name: rows for check in evaluations if (rows := _first_rows(check))}
        return PartitionResult(
            artefact, "failed", seconds, None, passed, checks, reason.line, reason.exit_code, offending
        )


def _first_rows(check: dg.AssetCheckEvaluation) -> list[str]:
    """Return the first rows at fault of a check, one line each; none if it passed, blocks nothing or has no rows."""
    table = check.metadata.get(OFFENDING)
    blocks = check.severity is dg.AssetCheckSeverity.ERROR
    said = check.passed or not blocks or check.check_name in _SAID_BY_THE_ERROR
    if said or not isinstance(table, dg.TableMetadataValue):
        return []
    return [row_text(record.data) for record in table.records[:_ROWS_PRINTED]]


def _reason(event: dg.DagsterEvent) -> Reason:
    """Return why a step failed; raises :class:`KeyboardInterrupt` if a person interrupted the process."""
    reason = reason_of(event)
    if reason.kind in {"DagsterExecutionInterruptedError", "KeyboardInterrupt"}:
        raise KeyboardInterrupt
    return reason


def _lacks(asset: GatedAsset, partition: str | None, lacking: Mapping[str, Sequence[str | None]]) -> ArtefactId | None:
    """Return something that a partition of an asset reads and that is among what is lacking, by asset."""
    for dep in asset.deps:
        read, mapping = dep.asset_key.to_user_string(), dep.partition_mapping
        for key in lacking.get(read, ()):
            if isinstance(mapping, dg.SpecificPartitionsPartitionMapping):
                reads = key in mapping.partition_keys
            elif not isinstance(mapping, dg.AllPartitionMapping):
                reads = key == partition
            else:  # of the sources of the corpus, a piece reads its own
                reads = key is None or asset.partitions is not BY_CORPUS_PIECE or key == parse_piece(str(partition))[0]
            if reads:
                return ArtefactId(read, key)
    return None
