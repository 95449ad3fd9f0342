"""The mapped form of windows, made through the writer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from genolewm_assets.genome import Split
from genolewm_assets.holdouts.schema import HOLDOUT_ALLELES
from genolewm_assets.memory_mapped.split import MappedSplit
from genolewm_assets.memory_mapped.windows import MappedWindows
from genolewm_assets.memory_mapped.writer import SplitWriter


def map_windows(
    folder: Path, batches: Sequence[pa.RecordBatch], contexts: Sequence[pa.RecordBatch] = ()
) -> MappedWindows:
    """Write windows of train, columns of ``PACKAGE_WINDOWS``, into a new folder and open them."""
    with SplitWriter(folder, Split.TRAIN, min_stars=2, contexts=contexts) as writer:
        for batch in batches:
            writer.add_windows(batch)
        writer.finish(HOLDOUT_ALLELES.empty())
    return MappedWindows(MappedSplit(folder))
