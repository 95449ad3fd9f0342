"""New and changed run folders: a sensor registers complete ones as partitions and observes what is in them.

Automation builds and rebuilds them. A folder that is still being written is left for a later tick.
"""

import time
from pathlib import Path

import dagster as dg
from pydantic import BaseModel, Field, ValidationError

from genolewm_assets.defs.assets import forensic_source, settling
from genolewm_assets.defs.runtime import Workspace, WorkspaceResource, configured_catalog, forensic_run_partitions
from genolewm_assets.errors import GenoLeWMError, ResourceError, counted
from genolewm_assets.sources.catalog import load_catalog
from genolewm_assets.sources.run_folders import list_run_files, why_unfinished

_PARTITIONS = str(forensic_run_partitions.name)
#: Waiting folders that a tick names one by one.
_NAMED = 3


class _Cursor(BaseModel):
    """State that one tick of the sensor passes to the next."""

    #: Data version of the latest observation of each folder, by partition key.
    observed: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> "_Cursor":
        """Parse a cursor; a missing or unreadable cursor gives an empty one."""
        try:
            return cls.model_validate_json(text or "{}")
        except ValidationError:
            return cls()


def find_complete(workspace: Workspace) -> tuple[list[str], dict[str, str]]:
    """Return the keys of the complete run folders, and why each of the others is not complete."""
    complete, waiting = [], dict[str, str]()
    for key, folder in workspace.run_folders().items():
        reason = _why_unfinished(workspace, folder)
        if reason is None:
            complete.append(key)
        else:
            waiting[key] = reason
    return complete, waiting


def _why_unfinished(workspace: Workspace, folder: Path) -> str | None:
    try:
        return why_unfinished(folder, list_run_files(folder), settling(workspace), time.time())
    except (GenoLeWMError, OSError) as err:  # a file that is moved away while it is looked at
        return str(err)


def register_runs(workspace: Workspace, instance: dg.DagsterInstance) -> list[str]:
    """Register every complete run folder of the catalogue as a partition; return their keys."""
    complete, _ = find_complete(workspace)
    instance.add_dynamic_partitions(_PARTITIONS, complete)
    return complete


@dg.sensor(
    minimum_interval_seconds=load_catalog(configured_catalog()).forensic.look_every_s,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Looks for run folders that are new or have changed, registers each once it is complete, and observes its "
        "files; automation then builds forensic/profiles of it. A tick that waits says for which folder, and why."
    ),
)
def run_folder_sensor(
    context: dg.SensorEvaluationContext, workspace: dg.ResourceParam[WorkspaceResource]
) -> dg.SensorResult | dg.SkipReason:
    """Register every new complete run folder, and observe the new ones and those that have changed."""
    opened, cursor = workspace.open(), _Cursor.parse(context.cursor)
    if opened.catalog.forensic.runs is None:
        return dg.SkipReason("the catalogue names no folder of runs (forensic.runs)")
    registered = set(context.instance.get_dynamic_partitions(_PARTITIONS))
    try:
        folders = opened.run_folders()
    except ResourceError as err:
        context.log.warning(str(err))
        return dg.SkipReason(str(err))
    observed, events, waiting = dict[str, str](), list[dg.AssetObservation](), dict[str, str]()
    for key, folder in folders.items():
        before = cursor.observed.get(key)
        try:
            (event,) = forensic_source.observe(opened, [key])
        except dg.Failure as err:
            waiting[key] = str(err.description)
        else:
            version = event.tags["dagster/data_version"]
            reason = None if key in registered and version == before else _why_unfinished(opened, folder)
            if reason is None:
                observed[key] = version
                events += [event] if version != before else []
                continue
            waiting[key] = reason
        # What was seen last stays, so that the folder is observed once it is complete again.
        observed |= {} if before is None else {key: before}
    new = [key for key in observed if key not in registered]
    for key in new:
        context.log.info(f"new run folder {key}: {counted(len(list_run_files(folders[key])), 'file')}")
    said = "; ".join(f"{key} {why}" for key, why in list(waiting.items())[:_NAMED])
    more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
    told = (
        f"waits for {len(waiting)}: {said}{more}"
        if waiting
        else f"nothing new in {counted(len(folders), 'run folder')}"
    )
    return dg.SensorResult(
        dynamic_partitions_requests=[forensic_run_partitions.build_add_request(new)] if new else [],
        asset_events=events,
        skip_reason=None if events else told,
        cursor=_Cursor(observed=observed).model_dump_json(),
    )
