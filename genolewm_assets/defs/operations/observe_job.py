"""``observe_sources``: ask once a day what the files outside the root are."""

from __future__ import annotations

import dagster as dg

from genolewm_assets.defs.runtime import SOURCES, report_failure

observe_sources_job = dg.define_asset_job(
    "observe_sources",
    selection=SOURCES,
    hooks={report_failure},
    description="Ask what the files outside the root are now, without downloading them.",
)

observe_sources_schedule = dg.ScheduleDefinition(
    name="observe_sources_schedule",
    job=observe_sources_job,
    cron_schedule="17 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Daily: it costs a few small requests.",
)
