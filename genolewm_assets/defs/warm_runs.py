"""Starts runs as copies of one process that has loaded the code location, instead of loading it again for each run.

A run is a process of its own as before: what kills it fails no other run, and its memory ends with it.
"""

from __future__ import annotations

import multiprocessing
import sys
from functools import cache
from typing import Any

#: Module that the process loads before it is copied.
_LOADED = "genolewm_assets.defs.loaded_before_runs"


@cache
def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_LOADED])
    return context


def start_runs_warm() -> None:
    """Let the code server start its runs so, if this process is one; call it before the server answers."""
    # Only a process that serves code has the module.
    if (server := sys.modules.get("dagster._grpc.server")) is not None:
        # A property takes the place of the attribute of the same name that each server sets.
        server.DagsterApiServer._mp_ctx = property(lambda _: _context(), lambda *_: None)
