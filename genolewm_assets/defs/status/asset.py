"""``platform/status``: the page of the morning, as Markdown in the UI."""

from collections.abc import Iterator, Mapping

import dagster as dg

from genolewm_assets.defs.runtime import Declaration, PublishingAsset, WorkspaceResource
from genolewm_assets.defs.status.page import as_markdown
from genolewm_assets.defs.status.report import read_status

#: Fields of a line of the page.
_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn(
            "kind", "string", description="failed, late, stale, not compared, unreadable, missing, waiting or running"
        ),
        dg.TableColumn("subject", "string", description="partition, job, sensor or check that the line is of"),
        dg.TableColumn("reason", "string", description="why it is so, in one line"),
    ]
)


def status_asset(assets: Mapping[str, PublishingAsset]) -> Declaration:
    """Return the declaration of ``platform/status``, which tells the status of some assets, in dependency order."""

    def write_page(
        context: dg.AssetExecutionContext, workspace: dg.ResourceParam[WorkspaceResource]
    ) -> Iterator[dg.MaterializeResult[None]]:
        opened = workspace.open().survey()
        status = read_status(opened, context.instance, assets, ignored_run=context.run.run_id)
        yield dg.MaterializeResult(
            metadata={
                "status": dg.MetadataValue.md(as_markdown(status)),
                "well": status.is_well,
                **status.counts,
                "dagster/row_count": len(status.troubles),
                "published_partitions": status.published,
                "size_bytes": sum(size.total_bytes for size in status.disk.sizes),
                "free_bytes": status.disk.free_bytes,
                **({"hours_of_states": round(status.hours.total, 4)} if status.hours else {}),
            }
        )

    return Declaration(
        key="platform/status",
        description="""
        One row per thing that is failed, late, stale, missing, waiting or running, and why: the page of the morning.

        It also says which release is the newest and which one trainers read, what moved since yesterday, sizes and
        growth, hours of the steps that need an H100, and what the next builds would take. Written daily; materialise it
        by hand at any time. Nothing depends on it, and it builds nothing. `genolewm status` prints the same page.
        """,
        kinds={"markdown"},
        columns=_COLUMNS,
        entries={
            "status": "the page of the morning",
            "well": "whether nothing is failed, late, stale or unreadable",
            "failed, late, stale, unreadable, missing, waiting, running": "how many of each kind there are, if any",
            "published_partitions": "partitions that consumers can open",
            "size_bytes, free_bytes": "size of what is published and superseded, and space left on its disk",
            "hours_of_states": "hours of all past steps that need an H100",
        },
        body=write_page,
    )
