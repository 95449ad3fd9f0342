"""What every run needs, loaded by its import in the process of which runs are copies (``warm_runs``).

Nothing here may start a thread that copies need, open a file that stays open, or look for an accelerator.
"""

from __future__ import annotations

import gc
from importlib import import_module

import dagster._grpc.impl  # noqa: F401 - these are loaded for the copies
import mappy  # noqa: F401
import pyarrow.dataset  # noqa: F401
import pysam  # noqa: F401
from numba.core.registry import cpu_target

from genolewm_assets.defs.display import draw_placements
from genolewm_assets.defs.instance import CODE_LOCATION

# The graph of assets and the job of all assets are kept by the definitions; Numba keeps what compiled code may call,
# and matplotlib its fonts.
import_module(CODE_LOCATION).defs.get_repository_def().get_implicit_global_asset_job_def()
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
draw_placements({"none": 1}, source="")
# A copy of the memory would follow from the first collection of garbage.
gc.collect()
gc.freeze()
