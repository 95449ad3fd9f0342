"""``observe_sources``: records the current version of each file outside the root, once a day."""

from __future__ import annotations

import dagster as dg

from genolewm_assets.defs.runtime import SOURCES, report_failure

observe_sources_job = dg.define_asset_job(
    "observe_sources",
    selection=SOURCES,
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
