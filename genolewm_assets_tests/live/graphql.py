"""What tests ask of a live Dagster through GraphQL, and nothing that the UI could not ask."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

#: Name of the job behind the UI's "Materialize".
ASSET_JOB = "__ASSET_JOB"
LOCATION = "genolewm_assets.definitions"
REPOSITORY = "__repository__"

_SELECTOR = {"repositoryLocationName": LOCATION, "repositoryName": REPOSITORY}
_ENDED = ("SUCCESS", "FAILURE", "CANCELED")
_BACKFILL_ENDED = ("COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED")
_REQUEST_S = 60.0
_WAIT_S = 900.0

T = TypeVar("T")
Status: TypeAlias = Literal["materialized", "failed", "materializing", "missing"]


class GraphQLError(AssertionError):
    """The server refused a request or answered it with an error."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run; ``assets`` and ``partition`` are what it was launched for."""

    id: str
    status: str
    job: str
    assets: tuple[str, ...]
    tags: Mapping[str, str]

    @property
    def partition(self) -> str | None:
        return self.tags.get("dagster/partition")


@dataclass(frozen=True, slots=True)
class Materialization:
    """One recorded materialisation; ``timestamp`` in seconds."""

    partition: str | None
    run_id: str
    timestamp: float
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tick:
    """One evaluation of a sensor or schedule; ``timestamp`` in seconds."""

    id: str
    status: str
    timestamp: float
    run_ids: tuple[str, ...]
    added_partitions: tuple[str, ...]
    skip_reason: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class GraphQL:
    """A client of one web server; every method is one request, except those that wait."""

    url: str
    headers: Mapping[str, str] | None = None

    def query(self, text: str, **variables: Any) -> dict[str, Any]:
        """Send one query or mutation; return its data.

        Raises
        ------
        GraphQLError
            With what the server says is wrong with it.
        OSError
            If the server does not answer, or its database does not.
        """
        body = json.dumps({"query": text, "variables": variables}).encode()
        request = Request(f"{self.url}/graphql", body, {"Content-Type": "application/json", **(self.headers or {})})
        try:
            with urlopen(request, timeout=_REQUEST_S) as answer:
                content = json.load(answer)
        except HTTPError as err:
            err.close()
            raise
        if content.get("errors"):
            raise GraphQLError(json.dumps(content["errors"])[:4_000])
        data: dict[str, Any] = content["data"]
        return data

    # The server itself

    def is_loaded(self) -> bool:
        """Tell whether the code location is loaded; raises if it cannot be."""
        entries = self.query(
            """{ workspaceOrError { ... on Workspace { locationEntries {
                 loadStatus locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
        )["workspaceOrError"]["locationEntries"]
        for entry in entries:
            if (entry["locationOrLoadError"] or {}).get("__typename") == "PythonError":
                raise GraphQLError(entry["locationOrLoadError"]["message"])
        return bool(entries) and all(entry["loadStatus"] == "LOADED" for entry in entries)

    def daemon_is_healthy(self) -> bool:
        """Tell whether every daemon that this instance needs has reported itself lately."""
        statuses = self.query("{ instance { daemonHealth { allDaemonStatuses { required healthy } } } }")
        needed = [each for each in statuses["instance"]["daemonHealth"]["allDaemonStatuses"] if each["required"]]
        return bool(needed) and all(each["healthy"] for each in needed)

    # Runs

    def launch(self, asset: str, partition: str | None = None, *, config: Mapping[str, Any] | None = None) -> str:
        """Materialise one asset for one partition, as the UI's button does; returns the run's id."""
        selection = {"pipelineName": ASSET_JOB, "assetSelection": [_key(asset)]}
        return self._launch(selection, partition, config)

    def launch_job(self, job: str, partition: str | None = None, *, config: Mapping[str, Any] | None = None) -> str:
        """Launch a job; returns the run's id."""
        return self._launch({"pipelineName": job}, partition, config)

    def _launch(self, selection: Mapping[str, Any], partition: str | None, config: Mapping[str, Any] | None) -> str:
        tags = [] if partition is None else [{"key": "dagster/partition", "value": partition}]
        params = {
            "selector": {**_SELECTOR, **selection},
            "mode": "default",
            "runConfigData": config or {},
            "executionMetadata": {"tags": tags},
        }
        answer = self.query(
            """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
                 __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message stack }
                 ... on RunConfigValidationInvalid { errors { message } } ... on InvalidSubsetError { message } } }""",
            params=params,
        )["launchRun"]
        return str(_only(answer, "LaunchRunSuccess")["run"]["runId"])

    def run(self, run_id: str) -> Run:
        """Return one run."""
        (run,) = self.runs(ids=[run_id])
        return run

    def runs(
        self,
        *,
        ids: Sequence[str] | None = None,
        tags: Mapping[str, str] | None = None,
        statuses: Sequence[str] | None = None,
        job: str | None = None,
    ) -> list[Run]:
        """Return the runs that fit, newest first."""
        wanted: dict[str, Any] = {"runIds": ids, "statuses": statuses, "pipelineName": job}
        wanted["tags"] = [{"key": key, "value": value} for key, value in (tags or {}).items()] or None
        found = self.query(
            """query ($filter: RunsFilter!) { runsOrError(filter: $filter) { ... on Runs { results {
                 runId status jobName assetSelection { path } tags { key value } } } } }""",
            filter={key: value for key, value in wanted.items() if value is not None},
        )["runsOrError"]["results"]
        return [
            Run(
                each["runId"],
                each["status"],
                each["jobName"],
                tuple(sorted("/".join(key["path"]) for key in each["assetSelection"] or ())),
                {tag["key"]: tag["value"] for tag in each["tags"]},
            )
            for each in found
        ]

    def assets_of_run(self, run_id: str) -> list[str]:
        """Return the assets that a run is about, also where a job has selected them."""
        found = self.query(
            "query ($id: ID!) { runOrError(runId: $id) { ... on Run { assets { key { path } } } } }", id=run_id
        )["runOrError"]["assets"]
        return sorted("/".join(asset["key"]["path"]) for asset in found)

    def wait_for_run(self, run_id: str, *, timeout_s: float = _WAIT_S) -> Run:
        """Wait until a run has ended, whichever way."""
        return _wait(lambda: self.run(run_id), lambda run: run.status in _ENDED, timeout_s)

    def step_failures(self, run_id: str) -> list[str]:
        """Return what the failed steps of a run say, without Dagster's own wrapping where there is a cause."""
        events = self.query(
            """query ($id: ID!) { runOrError(runId: $id) { ... on Run { eventConnection { events {
                 __typename ... on ExecutionStepFailureEvent { error { message causes { message } }
                 failureMetadata { description } } } } } } }""",
            id=run_id,
        )["runOrError"]["eventConnection"]["events"]
        failures = [event for event in events if event["__typename"] == "ExecutionStepFailureEvent"]
        return [
            (each["failureMetadata"] or {}).get("description")
            or (each["error"]["causes"] or [each["error"]])[-1]["message"]
            for each in failures
        ]

    # Backfills

    def backfill(self, asset: str, partitions: Sequence[str]) -> str:
        """Launch a backfill of one asset; returns its id."""
        return self._backfill({"assetSelection": [_key(asset)], "partitionNames": list(partitions)})

    def backfill_several(self, partitions: Mapping[str, Sequence[str]]) -> str:
        """Launch one backfill of several assets, each with partitions of its own; returns its id."""
        chosen = {asset: [{"start": key, "end": key} for key in keys] for asset, keys in partitions.items()}
        selectors = [{"assetKey": _key(asset), "partitions": {"ranges": ranges}} for asset, ranges in chosen.items()]
        return self._backfill({"partitionsByAssets": selectors})

    def _backfill(self, what: Mapping[str, Any]) -> str:
        answer = self.query(
            """mutation ($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
                 __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }""",
            params={**what, "tags": []},
        )["launchPartitionBackfill"]
        return str(_only(answer, "LaunchBackfillSuccess")["backfillId"])

    def backfill_status(self, backfill_id: str) -> str:
        """Return ``REQUESTED``, ``COMPLETED_SUCCESS``, ``COMPLETED_FAILED``, ..."""
        answer = self.query(
            """query ($id: String!) { partitionBackfillOrError(backfillId: $id) {
                 __typename ... on PartitionBackfill { status error { message } } } }""",
            id=backfill_id,
        )["partitionBackfillOrError"]
        return str(_only(answer, "PartitionBackfill")["status"])

    def wait_for_backfill(self, backfill_id: str, *, timeout_s: float = _WAIT_S) -> str:
        """Wait until a backfill has ended, whichever way; returns its status."""
        return _wait(lambda: self.backfill_status(backfill_id), lambda status: status in _BACKFILL_ENDED, timeout_s)

    def runs_of_backfill(self, backfill_id: str) -> list[Run]:
        """Return the runs that a backfill launched, newest first."""
        return self.runs(tags={"dagster/backfill": backfill_id})

    # Assets and checks

    def partition_statuses(self, asset: str) -> dict[str, Status]:
        """Return the status of each partition of an asset."""
        node = self._asset(
            asset,
            """assetPartitionStatuses { ... on DefaultPartitionStatuses {
                 materializedPartitions failedPartitions materializingPartitions unmaterializedPartitions } }""",
        )["assetPartitionStatuses"]
        fields: tuple[tuple[str, Status], ...] = (
            ("unmaterializedPartitions", "missing"),
            ("materializedPartitions", "materialized"),
            ("failedPartitions", "failed"),
            ("materializingPartitions", "materializing"),
        )
        return {key: status for name, status in fields for key in node[name]}

    def check_statuses(self, asset: str) -> dict[str, dict[str | None, str]]:
        """Return the status of every check of an asset, by partition (None: the asset has none).

        ``succeeded``, ``failed``, ``inProgress``, ``skipped`` or ``executionFailed``; a check that never ran on a
        partition has no entry for it.
        """
        names = ("succeeded", "failed", "inProgress", "skipped", "executionFailed")
        fields = " ".join(f"{name}Partitions" for name in names)
        checks = self._asset(
            asset,
            f"""assetChecksOrError {{ ... on AssetChecks {{ checks {{ name
                 partitionStatuses {{ ... on AssetCheckDefaultPartitionStatuses {{ {fields} }} }}
                 executionForLatestMaterialization {{ status }} }} }} }}""",
        )["assetChecksOrError"]["checks"]
        return {check["name"]: _statuses(check, names) for check in checks}

    def materializations(self, asset: str, partition: str | None = None) -> list[Materialization]:
        """Return the materialisations of an asset, or of one partition of it, newest first."""
        arguments = "(limit: 1000)" if partition is None else f"(limit: 1000, partitions: [{json.dumps(partition)}])"
        found = self._asset(
            asset,
            f"""assetMaterializations{arguments} {{ partition runId timestamp metadataEntries {{ __typename label
                 ... on IntMetadataEntry {{ intValue }} ... on FloatMetadataEntry {{ floatValue }}
                 ... on TextMetadataEntry {{ text }} ... on PathMetadataEntry {{ path }}
                 ... on MarkdownMetadataEntry {{ mdStr }} ... on JsonMetadataEntry {{ jsonString }} }} }}""",
        )["assetMaterializations"]
        return [
            Materialization(
                each["partition"],
                each["runId"],
                float(each["timestamp"]) / 1_000,
                {entry["label"]: _metadata_value(entry) for entry in each["metadataEntries"]},
            )
            for each in found
        ]

    def _asset(self, asset: str, fields: str) -> dict[str, Any]:
        answer = self.query(
            f"""query ($key: AssetKeyInput!) {{ assetNodeOrError(assetKey: $key) {{
                 __typename ... on AssetNode {{ {fields} }} }} }}""",
            key=_key(asset),
        )["assetNodeOrError"]
        return _only(answer, "AssetNode")

    # Sensors, schedules and dynamic partitions

    def ticks(self, instigator: str) -> list[Tick]:
        """Return the ticks of a sensor or schedule, newest first."""
        found = self._instigator(
            instigator,
            """ticks(limit: 500) { id status timestamp runIds skipReason error { message }
                 dynamicPartitionsRequestResults { type partitionKeys } }""",
        )["ticks"]
        return [
            Tick(
                each["id"],
                each["status"],
                each["timestamp"],
                tuple(each["runIds"]),
                tuple(
                    key
                    for request in each["dynamicPartitionsRequestResults"]
                    if request["type"] == "ADD_PARTITIONS"
                    for key in request["partitionKeys"] or ()
                ),
                each["skipReason"],
                each["error"] and each["error"]["message"],
            )
            for each in found
        ]

    def instigator_status(self, instigator: str) -> str:
        """Return ``RUNNING`` or ``STOPPED`` of a sensor or schedule."""
        return str(self._instigator(instigator, "status")["status"])

    def _instigator(self, name: str, fields: str) -> dict[str, Any]:
        answer = self.query(
            f"""query ($selector: InstigationSelector!) {{ instigationStateOrError(instigationSelector: $selector) {{
                 __typename ... on InstigationState {{ {fields} }} ... on PythonError {{ message }} }} }}""",
            selector={**_SELECTOR, "name": name},
        )["instigationStateOrError"]
        return _only(answer, "InstigationState")

    def start_sensor(self, name: str) -> None:
        """Turn a sensor on."""
        answer = self.query(
            """mutation ($selector: SensorSelector!) { startSensor(sensorSelector: $selector) {
                 __typename ... on PythonError { message } } }""",
            selector={**_SELECTOR, "sensorName": name},
        )["startSensor"]
        _only(answer, "Sensor")

    def stop_sensor(self, name: str) -> None:
        """Turn a sensor off."""
        sensor = self._instigator(name, "id")["id"]
        answer = self.query(
            """mutation ($id: String!) { stopSensor(id: $id) {
                 __typename ... on PythonError { message } ... on UnauthorizedError { message } } }""",
            id=sensor,
        )["stopSensor"]
        _only(answer, "StopSensorMutationResult")

    def partition_keys(self, asset: str) -> list[str]:
        """Return the partition keys of an asset, dynamic ones included, in their order."""
        return list(self._asset(asset, "partitionKeys")["partitionKeys"])


def _key(asset: str) -> dict[str, list[str]]:
    return {"path": asset.split("/")}


def _only(answer: dict[str, Any], kind: str) -> dict[str, Any]:
    if answer["__typename"] != kind:
        raise GraphQLError(f"expected {kind}, got {json.dumps(answer)[:4_000]}")
    return answer


def _statuses(check: Mapping[str, Any], names: Sequence[str]) -> dict[str | None, str]:
    if check["partitionStatuses"] is not None:
        return {key: name for name in names for key in check["partitionStatuses"][f"{name}Partitions"]}
    latest = check["executionForLatestMaterialization"]
    return {None: str(latest["status"]).lower()} if latest else {}


def _metadata_value(entry: Mapping[str, Any]) -> Any:
    values = [value for name, value in entry.items() if name not in {"__typename", "label"}]
    return values[0] if values else None


def _wait(ask: Callable[[], T], is_done: Callable[[T], bool], timeout_s: float) -> T:
    """Ask until it is done; a server or database that is just being restarted is asked again."""
    deadline = time.monotonic() + timeout_s
    seen: T | OSError
    while True:
        try:
            seen = answer = ask()
            if is_done(answer):
                return answer
        except OSError as err:
            seen = err
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s; last seen: {seen}"
        time.sleep(1.0)
