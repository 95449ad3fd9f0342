"""Jobs of every day: ``observe_sources``, and ``report_status``, which writes the page of the morning.

Sources are observed before the first build too (:func:`observe_new_sources`): automation takes the first version that
it meets for a change, and would request every build again.
"""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg

from genolewm_assets.defs.assets import DECLARATIONS, ObservedSource, forensic_source, platform_status
from genolewm_assets.defs.runtime import SOURCES, Workspace, report_failure

observe_sources_job = dg.define_asset_job(
    "observe_sources",
    # A job takes partitions of one kind. `run_folder_sensor` observes run folders, more often than daily.
    selection=SOURCES - dg.AssetSelection.assets(forensic_source.path),
    hooks={report_failure},
    description="Record the current version (MD5, ETag, or size and time) of each source file, without downloading it.",
)

observe_sources_schedule = dg.ScheduleDefinition(
    name="observe_sources_schedule",
    job=observe_sources_job,
    cron_schedule="17 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Observe the source files daily, at the cost of a few small requests.",
)


def observe_new_sources(workspace: Workspace, instance: dg.DagsterInstance, say: Callable[[str], object]) -> None:
    """Record the current version of each source that was never observed."""
    for source in DECLARATIONS:
        if not isinstance(source, ObservedSource):
            continue
        if instance.fetch_observations(dg.AssetKey(source.path), limit=1).records:
            continue
        try:
            for observation in source.observe(workspace, source.partitions.keys(instance)):
                instance.report_runless_asset_event(observation)
        except dg.Failure as err:
            say(f"{source.key} was not observed: {' '.join(str(err.description).split())}")


report_status_job = dg.define_asset_job(
    "report_status",
    selection=dg.AssetSelection.assets(dg.AssetKey(platform_status.path)),
    hooks={report_failure},
    description="Write the page of the morning: releases, what is failed, late or waiting, changes, sizes, costs.",
)

report_status_schedule = dg.ScheduleDefinition(
    name="report_status_schedule",
    job=report_status_job,
    # After observe_sources and check_current.
    cron_schedule="17 5 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Write the page of the morning daily. Nothing is built or downloaded.",
)
