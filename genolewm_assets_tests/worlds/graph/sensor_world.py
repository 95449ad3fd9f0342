"""A tiny world whose ClinVar releases nobody has registered, and the sensor as the daemon drives it."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from genolewm_assets.defs.operations.clinvar_sensor import clinvar_release_sensor
from genolewm_assets.defs.runtime.settings import WorkspaceResource
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, TinyWorld
from genolewm_assets_tests.worlds.sources.release_files import directory_page

OLD, NEW = RELEASES
LATER, LATEST = "2025-03-02", "2025-04-06"
NAME = "clinvar_release"


def unregistered_world(folder: Path) -> TinyWorld:
    """Return a world whose releases nobody has registered, and whose catalogue names neither predecessors nor T0."""
    world = TinyWorld(folder)
    for release in RELEASES:
        world.instance.delete_dynamic_partition(NAME, release)
    world.edit_catalog(clinvar={"predecessors": None}, holdouts={"temporal": False})
    return world


class Ticks:
    """The sensor as the daemon drives it: partitions are added, the cursor kept, requested runs recorded."""

    def __init__(self, world: TinyWorld) -> None:
        self.world, self.cursor = world, None
        self.launched: list[dg.RunRequest] = []

    def evaluate(self, *, cursor: str | None) -> dg.SensorResult | dg.SkipReason:
        resources = {"workspace": resource(self.world)}
        with dg.build_sensor_context(instance=self.world.instance, cursor=cursor, resources=resources) as context:
            result = clinvar_release_sensor(context)
        assert isinstance(result, dg.SensorResult | dg.SkipReason)
        return result

    def tick(self, *, crash_before_runs: bool = False) -> list[str]:
        """Evaluate once; returns the keys that a run was launched for."""
        result = self.evaluate(cursor=self.cursor)
        if isinstance(result, dg.SkipReason):
            return []
        for request in result.dynamic_partitions_requests or ():
            self.world.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        if crash_before_runs:
            return []
        self.cursor = result.cursor
        known = {request.run_key for request in self.launched}
        fresh = [request for request in result.run_requests or () if request.run_key not in known]
        self.launched += fresh
        return [str(request.partition_key) for request in fresh]

    @property
    def partitions(self) -> list[str]:
        return list(self.world.instance.get_dynamic_partitions(NAME))

    def reason(self) -> str:
        result = self.evaluate(cursor=self.cursor)
        reason = result if isinstance(result, dg.SkipReason) else result.skip_reason
        return str(reason.skip_message) if reason else ""


def resource(world: TinyWorld) -> WorkspaceResource:
    return WorkspaceResource(root=str(world.root), catalog=str(world.catalog))


def serve(world: TinyWorld, site: WebServer) -> None:
    """Serve the world's releases under a directory page, as they are now, and let the catalogue name it."""
    files = {path.name: path.read_bytes() for path in (world.folder / "clinvar").iterdir()}
    site.files = {f"data/{name}": content for name, content in files.items()}
    site.files["data/"] = directory_page(sorted(files))
    world.edit_catalog(clinvar={"listing": site.url("data/")})


def run_of(world: TinyWorld, release: str, status: dg.DagsterRunStatus) -> None:
    run = dg.DagsterRun(job_name="refresh_release", status=status, tags={"dagster/partition": release})
    world.instance.add_run(run)
