"""One step of the graph in this process: ``python -m benchmarks.steps.step_job CATALOG ROOT ASSET [PARTITION]``."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

from benchmarks.stopwatch import serve


def main() -> None:
    catalog, root, asset, *partition = sys.argv[1:]
    os.environ["GENOLEWM_CATALOG"] = catalog  # Partitions are read from the catalogue at import.
    import dagster as dg
    import mappy  # noqa: F401 - imports are not part of what a step takes
    import matplotlib.figure  # noqa: F401
    import pyarrow.dataset  # noqa: F401
    import pysam  # noqa: F401

    from genolewm_assets.definitions import defs
    from genolewm_assets.defs.runtime.settings import WorkspaceResource

    def run() -> None:
        shutil.rmtree(Path(root) / asset.partition("/")[0], ignore_errors=True)
        result = dg.materialize(
            list(defs.assets or []),
            instance=dg.DagsterInstance.ephemeral(),
            partition_key=next(iter(partition), None),
            selection=dg.AssetSelection.assets(dg.AssetKey(asset.split("/"))),
            resources={"workspace": WorkspaceResource(root=root, catalog=catalog)},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
        assert result.success

    serve(run, version=metadata.version("genolewm-assets"), out=Path(root) / "nothing")


if __name__ == "__main__":
    main()
