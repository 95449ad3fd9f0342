"""States of runs: which have ended, and tags of runs that the queue keeps."""

from __future__ import annotations

import dagster as dg

ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
UNFINISHED = tuple(status for status in dg.DagsterRunStatus if status not in ENDED)
#: Not launched yet.
WAITING = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.QUEUED)

#: Tag of a queued run that waits to be released. A limit of 0 in ``dagster.yaml`` keeps it; a run that was created but
#: not queued would fail after the start timeout.
HELD_TAG = "genolewm/held"
#: Values of the tag: kept in the queue, let go, cancelled while it was kept.
HELD, RELEASED, NEVER_BEGAN = "true", "false", "never began"


def is_held(run: dg.DagsterRun) -> bool:
    """Tell whether the queue keeps a run."""
    return run.tags.get(HELD_TAG) == HELD
