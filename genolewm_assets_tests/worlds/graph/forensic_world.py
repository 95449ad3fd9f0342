"""A tiny world with the simulated forensic run, and the sensor of run folders as the daemon drives it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import dagster as dg

from genolewm_assets.defs.operations.run_folder_sensor import run_folder_sensor
from genolewm_assets.defs.runtime.settings import WorkspaceResource
from genolewm_assets_tests.worlds.forensic.run_folders import NAME
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld

PROFILES, PARTITIONS = "forensic/profiles", "forensic_run"


class ForensicWorld(BuiltWorld):
    """A world whose run folder nobody has registered; it has its marker."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.instance.delete_dynamic_partition(PARTITIONS, NAME)

    @property
    def panels(self) -> list[Path]:
        return [self.folder / "kit" / name for name in ("SimPlex_12_panel.txt", "SimPlex_12_bins.txt")]

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def run(self) -> Path:
        return self.runs / NAME

    def register(self, *keys: str) -> None:
        self.instance.add_dynamic_partitions(PARTITIONS, list(keys or [NAME]))

    def build(self) -> None:
        self.register()
        self.make(PROFILES, NAME)

    def age(self, seconds: float) -> None:
        """Let the latest change of everything in the run folder be some seconds ago."""
        then = time.time() - seconds
        for path in (*self.run.rglob("*"), self.run):
            os.utime(path, (then, then))


class FolderTicks:
    """The sensor as the daemon drives it: partitions are added, events recorded, the cursor kept."""

    def __init__(self, world: ForensicWorld) -> None:
        self.world, self.cursor = world, None
        self.said = ""

    def tick(self) -> tuple[list[str], list[str]]:
        """Evaluate once; returns the keys that were registered and those that were observed."""
        resources = {"workspace": WorkspaceResource(root=str(self.world.root), catalog=str(self.world.catalog))}
        with dg.build_sensor_context(instance=self.world.instance, cursor=self.cursor, resources=resources) as context:
            result = run_folder_sensor(context)
        if isinstance(result, dg.SkipReason):
            self.said = str(result.skip_message)
            return [], []
        assert isinstance(result, dg.SensorResult)
        self.cursor, self.said = result.cursor, str(result.skip_reason.skip_message if result.skip_reason else "")
        added: list[str] = []
        for request in result.dynamic_partitions_requests or ():
            added += request.partition_keys
            self.world.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        for event in result.asset_events:
            self.world.instance.report_runless_asset_event(event)
        return added, [str(event.partition) for event in result.asset_events]
