"""Windows to compare with held-out sequence, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.holdouts import QUERIES, PieceQueries, WindowKey
from genolewm_assets.windows.bases import TEXTS, pack_texts


class Query(NamedTuple):
    key: WindowKey
    bases: bytes
    transcribed: bool = False
    piece: str = "piece"


def as_table(queries: Iterable[Query]) -> pa.Table:
    rows = [each.key._asdict() | {name: getattr(each, name) for name in Query._fields[1:]} for each in queries]
    return pa.Table.from_pylist(rows, schema=QUERIES)


def pack(table: pa.Table) -> NDArray[np.uint8]:
    """Return the packed bases of a table of windows, read-only as a mapped file has them."""
    parts = [pack_texts(batch).packed for batch in table.select(TEXTS).combine_chunks().to_batches()]
    packed = np.concatenate([np.empty(0, np.uint8), *parts])
    packed.flags.writeable = False
    return packed


def as_pieces(queries: Iterable[Query]) -> Iterator[PieceQueries]:
    """Yield windows, of which those of one piece follow each other, without a flank before them."""
    for name, group in groupby(queries, lambda query: query.piece):
        table = as_table(group)
        texts = table["bases"].cast(pa.string())
        packed = pack(pa.table([pa.repeat("", len(texts)), texts, pa.repeat("", len(texts))], TEXTS))
        sizes = np.array([len(text) for text in texts.to_pylist()], np.int64)
        yield PieceQueries.of(
            table.drop_columns(["bases"]), np.arange(len(sizes)), packed, sizes, margin_bp=0, name=name
        )


def as_queries(pieces: Iterable[PieceQueries]) -> Iterator[Query]:
    for piece in pieces:
        for row in piece.read(np.arange(len(piece.rows))).cast(QUERIES).to_pylist():
            yield Query(
                WindowKey(*(row[name] for name in WindowKey._fields)), *(row[name] for name in Query._fields[1:])
            )
