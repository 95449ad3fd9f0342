"""``report_status``: writes the page of the morning, ``platform/status``, once a day."""

from __future__ import annotations

import dagster as dg

from genolewm_assets.defs.assets import platform_status
from genolewm_assets.defs.runtime import report_failure

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
