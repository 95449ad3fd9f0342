"""A small package and the mapped form of its splits, made through the writer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from genolewm_assets.genome import Split
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_ALLELES
from genolewm_assets.lewm.mapped.split import MappedSplit
from genolewm_assets.lewm.mapped.windows import MappedWindows
from genolewm_assets.lewm.mapped.writer import SplitWriter
from genolewm_assets.lewm.packages.info import read_package_info
from genolewm_assets.lewm.packages.reader import Package
from genolewm_assets.lewm.packages.schema import ARRAYS


def map_windows(folder: Path, batches: Sequence[pa.RecordBatch]) -> MappedWindows:
    """Write windows of train, columns of ``PACKAGE_WINDOWS``, into a new folder and open them."""
    with SplitWriter(folder, Split.TRAIN, min_stars=2) as writer:
        for batch in batches:
            writer.add_windows(batch)
        writer.finish(HOLDOUT_ALLELES.empty(), [])
    return MappedWindows(MappedSplit(folder))


def without_arrays(directory: Path) -> Package:
    """Open a written package as if it had none of the files of the mapped form, as packages of format 2.1 have none."""
    info = read_package_info(directory)
    files = tuple(entry for entry in info.files if not entry.path.startswith(f"{ARRAYS}/"))
    return Package(directory, replace(info, files=files), {})
