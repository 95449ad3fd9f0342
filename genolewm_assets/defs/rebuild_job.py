"""``rebuild_embeddings``: the states of every window again, as one backfill of everything that needs an H100."""

import time

import dagster as dg

from genolewm_assets.defs.failure_hook import report_failure
from genolewm_assets.defs.graph import asset_specs
from genolewm_assets.defs.op_tags import H100_ASSET_TAGS


@dg.op
def request_backfill(context: dg.OpExecutionContext) -> dg.Output[None]:
    """Request a backfill of every partition of every asset that carries the H100 tag."""
    # A job over assets takes one kind of partitions, and these have two, contigs and corpus sources; a backfill takes
    # both. Dagster lets people and sensors request one, by these (0.4 s to import).
    from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
    from dagster._core.execution.backfill import PartitionBackfill
    from dagster._core.utils import make_new_backfill_id

    wanted = AssetGraphSubset(  # type: ignore[call-arg]  # its __hash__ is taken for a field
        {
            spec.key: spec.partitions_def.subset_with_partition_keys(
                spec.partitions_def.get_partition_keys(dynamic_partitions_store=context.instance)
            )
            for spec in asset_specs()
            if H100_ASSET_TAGS.items() <= spec.tags.items() and spec.partitions_def is not None
        },
        set(),
    )
    backfill = PartitionBackfill.from_asset_graph_subset(
        backfill_id=make_new_backfill_id(),
        backfill_timestamp=time.time(),
        tags={},
        dynamic_partitions_store=context.instance,
        asset_graph_subset=wanted,
        title="rebuild_embeddings",
        description=f"Requested by run {context.run_id}.",
        run_config=None,
    )
    context.instance.add_backfill(backfill)
    partitions = wanted.num_partitions_and_non_partitioned_assets
    context.log.info(f"backfill {backfill.backfill_id} of {partitions} partitions is requested; the daemon runs it")
    return dg.Output(None, metadata={"backfill": backfill.backfill_id, "partitions": partitions})


@dg.job(
    name="rebuild_embeddings",
    hooks={report_failure},
    description="Encode every window again, on H100s: one backfill of embeddings/cache and embeddings/corpus.",
)
def rebuild_embeddings_job() -> None:
    """Run the one step."""
    request_backfill()
