"""Windows to compare with held-out sequence, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from genolewm_assets.holdouts import QUERIES, WindowKey


class Query(NamedTuple):
    key: WindowKey
    bases: bytes
    transcribed: bool = False
    piece: str = "piece"


def as_table(queries: Iterable[Query]) -> pa.Table:
    rows = [each.key._asdict() | {name: getattr(each, name) for name in Query._fields[1:]} for each in queries]
    return pa.Table.from_pylist(rows, schema=QUERIES)


def as_queries(tables: Iterable[pa.Table]) -> Iterator[Query]:
    for table in tables:
        for row in table.cast(QUERIES).to_pylist():
            yield Query(
                WindowKey(*(row[name] for name in WindowKey._fields)), *(row[name] for name in Query._fields[1:])
            )
