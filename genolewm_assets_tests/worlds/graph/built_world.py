"""The one built world, made by this module as a script: all of a tiny catalogue, and copies that tests change."""

from __future__ import annotations

import copy
import functools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Self
from unittest import mock

import dagster as dg
import pytest
import yaml

from genolewm_assets.defs.assets.graph import ASSETS
from genolewm_assets.defs.operations.jobs import JOBS
from genolewm_assets.defs.runtime.automation import cpu_automation_sensor, gpu_automation_sensor
from genolewm_assets.defs.runtime.settings import WorkspaceResource
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.forensic.run_folders import NAME, write_run
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, CORPUS, LINEAR, RELEASES, TinyWorld, simulate_genome
from genolewm_assets_tests.worlds.once import built_once

#: What one tick asks for: partitions by asset.
Requested = Mapping[str, set[str | None]]

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

STEPS: list[tuple[tuple[str, ...], tuple[str | None, ...]]] = [
    (("reference/genome",), (None,)),
    (("gnomad/shard",), CONTIGS),
    (("windows/index", "embeddings/cache"), LINEAR),
    (("corpus/records",), CORPUS),
    (("corpus/windows", "embeddings/corpus"), CORPUS),
    (("mito/genomes", "mito/tokens"), (None,)),
    (
        (
            *("clinvar/release", "clinvar/shard", "clinvar/changes", "holdouts/manifest", "packages/split"),
            *("packages/audit", "mito/variants"),
        ),
        RELEASES,
    ),
    (("packages/current",), (None,)),
    (("forensic/profiles",), (NAME,)),
]
#: Every partition of every asset, in the order in which they are built.
BUILT = [(asset, partition) for assets, partitions in STEPS for asset in assets for partition in partitions]
#: Dynamic partitions of the graph.
DYNAMIC = ("clinvar_release", "corpus_piece", "forensic_run")


def instance_in(folder: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.local_temp(str(folder), overrides={"telemetry": {"enabled": False}})


class BuiltWorld(TinyWorld):
    """A tiny world with a forensic run, on a persistent instance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        write_run(self.folder)
        self.instance.add_dynamic_partitions("forensic_run", [NAME])

    def write_catalog(self, name: str = "tiny", **encoder: object) -> None:
        super().write_catalog(name, **encoder)
        catalog = yaml.safe_load(self.catalog.read_text())
        panels = ["kit/SimPlex_12_panel.txt", "kit/SimPlex_12_bins.txt"]
        catalog["forensic"] = {"runs": "runs", "panels": panels, "n_scanpoints": 3_072}
        self.catalog.write_text(yaml.safe_dump(catalog))

    @classmethod
    def opened(cls, folder: Path) -> Self:
        """Return the world that lies in a folder, with the genome of the tiny world and a persistent instance."""
        world = cls.__new__(cls)
        world.folder, world.sequences, world.instance = folder, simulate_genome(), instance_in(folder / "history")
        return world

    def keep_history(self) -> None:
        """Replace the instance in memory by one that lies in the folder."""
        keys = {name: self.instance.get_dynamic_partitions(name) for name in DYNAMIC}
        self.instance.dispose()
        history = self.folder / "history"
        history.mkdir(exist_ok=True)
        self.instance = instance_in(history)
        for name, own in keys.items():
            self.instance.add_dynamic_partitions(name, own)

    @property
    def graph(self) -> dg.Definitions:
        resources = {"workspace": WorkspaceResource(root=str(self.root), catalog=str(self.catalog))}
        return dg.Definitions(assets=ASSETS, jobs=JOBS, resources=resources)

    def build(self) -> None:
        for keys, partitions in STEPS:
            for partition in partitions:
                result = self.materialize(*keys, partition=partition)
                assert result.success, (
                    partition,
                    [str(e.step_failure_data.error) for e in result.get_step_failure_events()],
                )

    def run_job(self, name: str, **options: object) -> dg.ExecuteInProcessResult:
        """Run a job in this process, as its page in the UI would."""
        return self.graph.resolve_job_def(name).execute_in_process(
            raise_on_error=False, **{"instance": self.instance, "run_config": QUIET, **options}
        )

    def register_release(self, release: str, *, header_date: str | None = None) -> None:
        """Let a new ClinVar release appear, as its sensor would find it."""
        self.write_clinvar(release, header_date=header_date or release)
        self.instance.add_dynamic_partitions("clinvar_release", [release])

    @contextmanager
    def copied_to(self, folder: Path) -> Iterator[BuiltWorld]:
        shutil.copytree(self.folder, folder, symlinks=True, copy_function=_copy_settled)
        other = copy.copy(self)
        other.folder = folder
        other.instance = instance_in(folder / "history")
        try:
            yield other
        finally:
            other.instance.dispose()


def _copy_settled(source: str, target: str) -> None:
    """Copy a file; the empty log of a database that another process opens to read may vanish meanwhile."""
    with suppress(FileNotFoundError) if source.endswith(("-wal", "-shm")) else nullcontext():
        shutil.copy2(source, target)


def everything_built(factory: pytest.TempPathFactory) -> BuiltWorld:
    """Return a world in which everything is built, for this run of pytest; tests work on a copy."""
    return BuiltWorld.opened(built_once(factory, "everything_built", _build_in_a_process))


def copied_world(factory: pytest.TempPathFactory, folder: Path) -> TinyWorld:
    """Return a copy of the built world without its history, in a folder that does not exist yet."""
    history = shutil.ignore_patterns("history")
    shutil.copytree(everything_built(factory).folder, folder, symlinks=True, ignore=history)
    return TinyWorld(folder)


def forget(root: Path, asset: str, partition: str) -> None:
    """Remove what is published of a partition, so that it has to be built."""
    for link in [path for path in root.rglob("*") if path.is_symlink() and (path / "manifest.json").is_file()]:
        manifest = json.loads((link / "manifest.json").read_text())
        if (manifest["asset"], manifest["partition"]) == (asset, partition):
            shutil.rmtree(link.resolve())
            link.unlink()
            return
    raise AssertionError(f"{asset}[{partition}] is not published")


def _build_in_a_process(folder: Path) -> None:
    """Build in a process of its own, because :mod:`quick_dagster` changes Dagster."""
    command = [sys.executable, "-m", __name__, str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-6_000:]}"


class Automation:
    """The daemon's two automation sensors, one tick at a time, each with its own cursor."""

    def __init__(self, world: BuiltWorld) -> None:
        self._world, self._graph = world, world.graph
        self._cursors = {sensor.name: self._evaluate(sensor, None).cursor for sensor in self._sensors}

    _sensors = (cpu_automation_sensor, gpu_automation_sensor)

    def _evaluate(self, sensor: dg.AutomationConditionSensorDefinition, cursor: object) -> object:
        # The function asks for the releases some 1,500 times; the daemon itself once a tick.
        asked = functools.cache(self._world.instance.get_dynamic_partitions)
        with mock.patch.object(self._world.instance, "get_dynamic_partitions", asked):
            return dg.evaluate_automation_conditions(
                self._graph, self._world.instance, asset_selection=sensor.asset_selection, cursor=cursor
            )

    def tick(self) -> tuple[Requested, Requested]:
        """Return what the CPU sensor asks for, and what the GPU sensor would."""
        found = []
        for sensor in self._sensors:
            result = self._evaluate(sensor, self._cursors[sensor.name])
            self._cursors[sensor.name] = result.cursor
            found.append(
                {
                    entry.key.to_user_string(): set(result.get_requested_partitions(entry.key))
                    for entry in result.results
                    if result.get_num_requested(entry.key)
                }
            )
        return found[0], found[1]

    def run(self, requested: Requested) -> list[tuple[str, str | None, bool]]:
        """Run what was asked for, each partition by itself; returns what became of it."""
        return [
            (asset, partition, self._world.materialize(asset, partition=partition).success)
            for asset, partitions in requested.items()
            for partition in sorted(partitions, key=str)
        ]

    def follow(self, *steps: Requested) -> None:
        """Tick and run what is asked for, once per step: it is as stated, not for the GPU, and succeeds."""
        for requested in steps:
            assert self.tick() == (requested, {})
            assert all(success for *_, success in self.run(requested))


if __name__ == "__main__":
    from genolewm_assets.defs.runtime import run_log
    from genolewm_assets_tests.worlds.graph.quick_dagster import install

    install()
    run_log.INTERVAL_S = 0.0  # all progress is said
    made = BuiltWorld(Path(sys.argv[1]))
    made.keep_history()
    made.build()
    made.instance.dispose()
