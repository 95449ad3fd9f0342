"""The jobs of the graph; ``refresh_release`` is here, the others beside what they do."""

from __future__ import annotations

import dagster as dg

from genolewm_assets.defs.automation import REFRESH_TAG
from genolewm_assets.defs.observations import observe_sources_job
from genolewm_assets.defs.old_runs import purge_old_runs_job
from genolewm_assets.defs.rebuild_job import rebuild_embeddings_job
from genolewm_assets.defs.verify_job import verify_all_job

#: What is made of one ClinVar release, in order.
RELEASE_ASSETS = (
    "clinvar/release",
    "clinvar/shard",
    "clinvar/changes",
    "mito/variants",
    "holdouts/manifest",
    "packages/split",
)

refresh_release_job = dg.define_asset_job(
    "refresh_release",
    selection=dg.AssetSelection.assets(*(dg.AssetKey(key.split("/")) for key in RELEASE_ASSETS)),
    tags={REFRESH_TAG: "true"},
    description=(
        "Download one ClinVar release, check and shard it, count its changes, join its mitochondrial variants, hold "
        "out and package. One release a run."
    ),
)

#: Every job. Those over assets are resolved when definitions are put together.
JOBS = (refresh_release_job, rebuild_embeddings_job, verify_all_job, purge_old_runs_job, observe_sources_job)
