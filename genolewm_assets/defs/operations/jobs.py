"""The list of all jobs, and the definition of ``rebuild_embeddings``."""

import time

import dagster as dg
from pydantic import Field

from genolewm_assets.defs.assets import embeddings_cache, embeddings_corpus
from genolewm_assets.defs.operations.build_everything import build_everything_job
from genolewm_assets.defs.operations.currency_job import check_current_job
from genolewm_assets.defs.operations.daily_jobs import observe_sources_job, report_status_job
from genolewm_assets.defs.operations.old_runs import purge_old_runs_job
from genolewm_assets.defs.operations.refusals import dismiss_release_job
from genolewm_assets.defs.operations.release_job import refresh_release_job
from genolewm_assets.defs.operations.verify_job import verify_all_job
from genolewm_assets.defs.runtime import BUILD_AGAIN_TAG, NO_PARTITION, STATES_OFF, report_failure


class RebuildConfig(dg.Config):
    """Configuration of ``rebuild_embeddings``."""

    force: bool = Field(
        default=False,
        description=(
            "Compute intact states again too, and fail if their bytes differ from the published ones. Uses H100 hours; "
            "publishes nothing."
        ),
    )


@dg.op
def request_backfill(context: dg.OpExecutionContext, config: RebuildConfig) -> dg.Output[None]:
    """Request a backfill of every partition of states.

    They are those that packages read; frozen epochs, which read a package, are not among them.
    """
    # An asset job takes one kind of partitions, but these assets have two, contigs and corpus sources; a backfill takes
    # both. Dagster has no public function that requests a backfill. These imports take 0.4 s.
    from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
    from dagster._core.execution.backfill import PartitionBackfill
    from dagster._core.utils import make_new_backfill_id

    if embeddings_cache.partitions is NO_PARTITION:
        raise dg.Failure(STATES_OFF, allow_retries=False)
    wanted = AssetGraphSubset(  # type: ignore[call-arg]  # mypy takes its __hash__ for a field
        {
            dg.AssetKey(asset.path): partitions.subset_with_partition_keys(
                partitions.get_partition_keys(dynamic_partitions_store=context.instance)
            )
            for asset in (embeddings_cache, embeddings_corpus)
            if (partitions := asset.partitions.definition) is not None
        },
        set(),
    )
    backfill = PartitionBackfill.from_asset_graph_subset(
        backfill_id=make_new_backfill_id(),
        backfill_timestamp=time.time(),
        tags={BUILD_AGAIN_TAG: "true"} if config.force else {},
        dynamic_partitions_store=context.instance,
        asset_graph_subset=wanted,
        title="rebuild_embeddings",
        description=f"Requested by run {context.run_id}.",
        run_config=None,
    )
    context.instance.add_backfill(backfill)
    count = wanted.num_partitions_and_non_partitioned_assets
    context.log.info(f"backfill {backfill.backfill_id} of {count} partitions was requested; the daemon runs it")
    return dg.Output(None, metadata={"backfill": backfill.backfill_id, "partitions": count})


@dg.job(
    name="rebuild_embeddings",
    hooks={report_failure},
    description=(
        "Bring the states of every window up to date on H100s, by one backfill of embeddings/cache and "
        "embeddings/corpus. Intact states are kept; with `force: true` they are computed again and compared."
    ),
)
def rebuild_embeddings_job() -> None:
    """Run ``request_backfill``."""
    request_backfill()


#: All jobs. Dagster resolves the asset jobs when it loads the definitions.
JOBS = (
    build_everything_job,
    refresh_release_job,
    rebuild_embeddings_job,
    verify_all_job,
    check_current_job,
    purge_old_runs_job,
    observe_sources_job,
    report_status_job,
    dismiss_release_job,
)
