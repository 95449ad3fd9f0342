"""Windows to encode that a test lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from genolewm_assets.states import WindowSource


def listed_windows(sequences: Sequence[str], source: str = "chr17") -> WindowSource:
    """Return windows with the keys ``<source>:<row>``, in one batch."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    keys = [f"{source}:{row}" for row in range(len(sequences))]
    batch = pa.RecordBatch.from_pydict({"key": keys, "sequence": list(sequences)})
    return WindowSource(lengths, lambda: iter([batch]), lambda rows: [sequences[row] for row in rows])
