"""Program of a Slurm job: builds one partition as its step would, and tells through Dagster Pipes how it went.

It needs root, catalogue and code, and no connection to Dagster's database.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from dagster_pipes import DAGSTER_PIPES_CONTEXT_ENV_VAR, PipesContext, open_dagster_pipes

from genolewm_assets.defs.assets import GATED
from genolewm_assets.defs.engines.slurm import as_failure
from genolewm_assets.defs.runtime import LogProgress, WorkspaceResource
from genolewm_assets.errors import ConfigurationError, GenoLeWMError
from genolewm_assets.store.artefacts import build, build_again


def main() -> int:
    """Build, tell the outcome, and return the exit status: that of the command line for the error, if there is one."""
    if DAGSTER_PIPES_CONTEXT_ENV_VAR not in os.environ:
        raise ConfigurationError(__name__, "was not started by a step")
    with open_dagster_pipes() as pipes:
        try:
            outcome, status = _build(pipes), 0
        except GenoLeWMError as err:
            outcome, status = as_failure(err), err.exit_code
            _say(pipes, str(err))
        pipes.report_custom_message(outcome)
    return status


def _build(pipes: PipesContext) -> dict[str, Any]:
    asset, partition = GATED[pipes.get_extra("asset")], pipes.get_extra("partition")
    _say(pipes, f"{asset.key}{f'[{partition}]' if partition else ''} is built on {platform.node()}")
    workspace = WorkspaceResource.configured().open()
    with LogProgress(lambda line: _say(pipes, line)) as progress:
        plan = asset.build_plan(workspace, partition, progress)
        if pipes.get_extra("task") == "build again":
            published = asset.open(workspace, partition)
            differences = build_again(workspace.root, plan, published, progress=progress)
            told = [[each.file, each.problem, each.expected, each.got] for each in differences]
            return {"outcome": "built", "differences": told}
        published = build(workspace.root, plan, run_id=pipes.run_id, progress=progress)
        if asset.after is not None:
            asset.after(workspace, plan, published)
    return {"outcome": "built", "reused": published.reused}


def _say(pipes: PipesContext, line: str) -> None:
    """Say a line in the log of the run and in the output of the job."""
    pipes.log.info(line)
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
