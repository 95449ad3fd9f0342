"""The Dagster code location: ``dagster dev -m genolewm_assets.definitions``.

The import reads the catalogue's YAML, which names the contig partitions; settings come from the environment.
"""

import dagster as dg

from genolewm_assets.defs.assets import ASSETS
from genolewm_assets.defs.operations import (
    JOBS,
    check_current_schedule,
    clinvar_release_schedule,
    clinvar_release_sensor,
    corpus_piece_sensor,
    observe_sources_schedule,
    purge_old_runs_schedule,
    refused_release_sensor,
    report_status_schedule,
    run_folder_sensor,
    verify_all_schedule,
)
from genolewm_assets.defs.runtime import (
    configured_executor,
    configured_resources,
    cpu_automation_sensor,
    gpu_automation_sensor,
)

defs = dg.Definitions(
    assets=ASSETS,
    jobs=JOBS,
    sensors=[
        clinvar_release_sensor,
        refused_release_sensor,
        corpus_piece_sensor,
        run_folder_sensor,
        cpu_automation_sensor,
        gpu_automation_sensor,
    ],
    schedules=[
        clinvar_release_schedule,
        observe_sources_schedule,
        check_current_schedule,
        purge_old_runs_schedule,
        report_status_schedule,
        verify_all_schedule,
    ],
    resources=configured_resources(),
    executor=configured_executor(),
)
