"""Materialise the whole graph of a catalogue in this process, one partition per run, and say what stands.

The runs are ordinary Dagster runs on the root's instance: the UI shows them. Import this module only after
``launch.enter_environment``, because the definitions read the catalogue's contigs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Literal, Self

import dagster as dg

from genolewm_assets.definitions import defs
from genolewm_assets.defs import clinvar, gnomad, reference, windows
from genolewm_assets.defs.gates import GatedAsset
from genolewm_assets.defs.partitions import clinvar_release_partitions, contig_partitions, linear_contig_partitions
from genolewm_assets.defs.resources import configured_catalog, configured_root
from genolewm_assets.defs.workspace import Workspace
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.sources.clinvar_listing import list_releases
from genolewm_assets.store import NO_PROGRESS, ArtefactId, Manifest, is_current

Outcome = Literal["built", "current", "failed"]

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

    workspace: Workspace = field(default_factory=lambda: Workspace.open(configured_root(), configured_catalog()))
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.get)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.instance.dispose()

    def register_releases(self) -> list[str]:
        """Add every ClinVar release of the catalogue's listing as a partition; returns their keys in order."""
        settings = self.workspace.catalog.clinvar
        releases = list_releases(self.workspace.url(settings.listing), allowed=settings.releases)
        keys = [release.key for release in releases]
        self.instance.add_dynamic_partitions(str(clinvar_release_partitions.name), keys)
        return keys

    def steps(self) -> list[tuple[GatedAsset, str | None]]:
        """Return every (asset, partition) in dependency order."""
        releases = self.register_releases()
        order: list[tuple[GatedAsset, Iterable[str | None]]] = [
            (reference.GENOME, [None]),
            (windows.INDEX, linear_contig_partitions.get_partition_keys()),
            (gnomad.SHARD, contig_partitions.get_partition_keys()),
            (clinvar.RELEASE, releases),
            (clinvar.SHARD, releases),
        ]
        return [(asset, partition) for asset, partitions in order for partition in partitions]

    def run(self, steps: Iterable[tuple[GatedAsset, str | None]]) -> Iterator[PartitionResult]:
        """Materialise what is not current, one partition after the other."""
        for asset, partition in steps:
            started = time.monotonic()
            manifest = self._current(asset, partition)
            if manifest is not None:
                yield _standing(asset, partition, "current", manifest, time.monotonic() - started)
                continue
            yield self._materialise(asset, partition, started)

    def _current(self, asset: GatedAsset, partition: str | None) -> Manifest | None:
        """Return the published manifest when a build would keep it and the instance knows of it."""
        try:
            plan = asset.plan(self.workspace, partition, NO_PROGRESS)
            if not is_current(self.workspace.root, plan):
                return None
            manifest = self.workspace.open_input(asset.key, partition).manifest
        except GenoLeWMError:
            return None  # the run says what is wrong, and records it
        event = self.instance.get_latest_data_version_record(dg.AssetKey(asset.key.split("/")), partition_key=partition)
        known = event and event.asset_materialization and (event.asset_materialization.tags or {})
        return manifest if known and known.get("dagster/data_version") == f"sha256:{manifest.sha256}" else None

    def _materialise(self, asset: GatedAsset, partition: str | None, started: float) -> PartitionResult:
        result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            partition_key=partition,
            asset_selection=[dg.AssetKey(asset.key.split("/"))],
            run_config=_QUIET,
            raise_on_error=False,
        )
        seconds = time.monotonic() - started
        if result.success:
            manifest = self.workspace.open_input(asset.key, partition).manifest
            return _standing(asset, partition, "built", manifest, seconds)
        evaluations = result.get_asset_check_evaluations()
        return PartitionResult(
            ArtefactId(asset.key, partition),
            "failed",
            seconds,
            checks_passed=sum(check.passed for check in evaluations),
            checks=len(asset.checks) + 1,
            error="; ".join(_reason(event) for event in result.all_events if event.is_step_failure),
        )


def _reason(event: dg.DagsterEvent) -> str:
    """Return the line a step failed with: the house error it raised, or what Dagster says of another exception."""
    failure = event.step_failure_data
    if failure.user_failure_data and failure.user_failure_data.description:
        return failure.user_failure_data.description
    return failure.error.message.strip() if failure.error else "the step ended without an error"


def _standing(
    asset: GatedAsset, partition: str | None, outcome: Outcome, manifest: Manifest, seconds: float
) -> PartitionResult:
    tables = [entry.rows for entry in manifest.files if entry.rows is not None and entry.path != "rejects.parquet"]
    rows = sum(tables) if tables else None
    checks = len(manifest.checks) + 1
    return PartitionResult(ArtefactId(asset.key, partition), outcome, seconds, rows, checks, checks)
