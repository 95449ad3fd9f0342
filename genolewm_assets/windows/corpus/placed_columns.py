"""Placements of windows as columns of ``CORPUS_WINDOWS``."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import pyarrow as pa

from genolewm_assets.store.tables import number_column, text_column
from genolewm_assets.windows.corpus.placement import Placement, PlacementHow

#: Column and attribute of a placement, by kind.
_TEXTS = {"placement_how": "how", "placed_contig": "contig", "strand": "strand", "stated_contig": "stated_contig"}
_WHOLE = {"placed_start": "start", "placed_end": "end", "stated_start": "stated_start", "stated_end": "stated_end"}
_SHARES = {"identity": "identity", "coverage": "coverage"}
_FLAGS = {"spliced": "spliced", "placement_exact": "exact"}
_ATTRIBUTES = {**_TEXTS, **_WHOLE, **_SHARES, **_FLAGS}
#: Columns of a placement.
PLACED = tuple(_ATTRIBUTES)


def placed_columns(placements: Sequence[Placement]) -> dict[str, pa.Array]:
    """Return the columns of placements, by name."""
    columns = {column: [*map(attrgetter(name), placements)] for column, name in _ATTRIBUTES.items()}
    made = {name: text_column(columns[name]) for name in _TEXTS}
    for names, dtype in ((_WHOLE, np.int64), (_SHARES, np.float32)):
        for name in names:
            there = np.array([value is not None for value in columns[name]], np.bool_)
            made[name] = number_column(np.array([value or 0 for value in columns[name]], dtype), there)
    return made | {name: number_column(np.array(columns[name], np.bool_)) for name in _FLAGS}


def placements_of(batch: pa.RecordBatch) -> list[Placement]:
    """Return the placements of the rows of a batch with these columns."""
    columns = zip(*(batch[name].to_pylist() for name in PLACED), strict=True)
    rows = (dict(zip(_ATTRIBUTES.values(), values, strict=True)) for values in columns)
    return [Placement(**{**row, "how": PlacementHow(row["how"])}) for row in rows]
