"""Pieces of corpus sources of which no piece is known yet: a sensor counts their rows and registers them.

Once a source is known, its daily observation and the build of ``corpus/records`` register its pieces.
"""

import dagster as dg

from genolewm_assets.defs.assets import register_pieces
from genolewm_assets.defs.runtime import CORPUS_PIECES, WorkspaceResource
from genolewm_assets.windows.corpus import parse_piece


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Registers the pieces of each corpus source of the catalogue that has none yet, as partitions of "
        "corpus/windows and embeddings/corpus; automation then builds their windows."
    ),
)
def corpus_piece_sensor(
    context: dg.SensorEvaluationContext, workspace: dg.ResourceParam[WorkspaceResource]
) -> dg.SkipReason:
    """Register the pieces of sources without any."""
    opened = workspace.open()
    known = {parse_piece(key)[0] for key in context.instance.get_dynamic_partitions(CORPUS_PIECES)}
    if not {*opened.catalog.corpus.sources} - known:
        return dg.SkipReason("the pieces of every corpus source are registered")
    register_pieces(opened, context.instance)
    registered = len(context.instance.get_dynamic_partitions(CORPUS_PIECES))
    return dg.SkipReason(f"pieces of the corpus that are registered now: {registered}")
