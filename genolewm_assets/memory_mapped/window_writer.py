"""Write the windows of a split as arrays, in the order of their rows. Not here: alleles (``allele_writer``)."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.memory_mapped.array_file import REBUILD, ArrayWriter, Create, map_array, write_array
from genolewm_assets.memory_mapped.layout import VIEW_ROWS, VIEW_ROWS_COLUMN, WINDOW_COLUMNS, SplitIndex, ViewIndex
from genolewm_assets.memory_mapped.spelling import SpellingWriter
from genolewm_assets.variants import as_bools

#: Windows whose bases are packed at once: 13 MB of text.
_PACKED_ROWS: Final = 1_024
_TEXTS: Final = ("left_flank", "sequence", "right_flank")
#: Columns of ``PACKAGE_WINDOWS`` that are read.
READ_COLUMNS: Final = (
    "window_id", "origin", "contig", "start", "strand", "placement_exact", *_TEXTS, "holdout", "frozen", "cache_key",
    "cache_row",
)  # fmt: skip


class WindowWriter(ExitStack):
    """Writes the windows of one split into a folder, and tells ``spelling`` of them if it is given."""

    def __init__(self, folder: Path, create: Create, spelling: SpellingWriter | None) -> None:
        super().__init__()
        self._folder, self._create, self._spelling = folder, create, spelling
        self._names = {name: _Names() for name in ("contig", "origin", "cache", "holdout")}
        self._n_bytes = 0
        shapes = {"sizes": (3,)}
        self._columns = {
            name: self.enter_context(ArrayWriter(folder / f"{name}.npy", column.dtype, shapes.get(name, ()), create))
            for name, column in WINDOW_COLUMNS.items()
            if name != "first_row"
        }

    def add(self, windows: pa.Table | pa.RecordBatch) -> None:
        """Append windows: columns of ``PACKAGE_WINDOWS``; another symbol than A, C, G and T is an error."""
        table = pa.table(windows).select(READ_COLUMNS)
        for batch in table.combine_chunks().to_batches(_PACKED_ROWS):
            self._add_bases(batch)
            self._add_facts(batch)

    def finish(self) -> SplitIndex:
        """Write what needs all windows, and return an index of them alone; no window can be added afterwards."""
        self.close()
        n = self._columns["frozen"].rows
        self._write_first_rows(n)
        return SplitIndex(
            n_windows=n,
            n_bytes=self._n_bytes,
            contigs=self._names["contig"].names,
            origins=self._names["origin"].names,
            caches=self._names["cache"].names,
            holdouts=self._names["holdout"].names,
            views=self._write_views(n),
            alleles={},
        )

    def _add_bases(self, batch: pa.RecordBatch) -> None:
        from genolewm_assets.memory_mapped.kernels import pack_rows

        parts = [batch.column(name) for name in _TEXTS]
        sizes = np.stack([pc.binary_length(part).to_numpy(zero_copy_only=False) for part in parts], axis=1)
        joined = pc.binary_join_element_wise(*parts, "").cast(pa.large_string())
        _, _, data = joined.buffers()
        lengths = sizes.sum(axis=1, dtype=np.int64)
        at = np.concatenate(([0], np.cumsum(lengths)))
        ends = np.cumsum((lengths + 3) // 4)
        packed = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
        first = ends - (lengths + 3) // 4
        text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        wrong = pack_rows(at, text, first, packed)
        if wrong >= 0:
            window = text[at[wrong] : at[wrong + 1]].tobytes().decode("ascii", "replace")
            raise CorruptResourceError(
                f"window {batch.column('window_id')[wrong]}",
                "a sequence or flank holds a base other than A, C, G and T",
                expected="windows inside ACGT runs",
                got=repr(next(base for base in window if base not in "ACGT")),
                remedy=REBUILD,
            )
        self._columns["bases"].append(packed)
        self._columns["first_byte"].append(self._n_bytes + first)
        self._columns["sizes"].append(sizes)
        self._n_bytes += len(packed)
        if self._spelling is not None:
            self._spelling.add(packed, first, np.where(_is_placed(batch), 0, lengths))

    def _add_facts(self, batch: pa.RecordBatch) -> None:
        exact = batch.column("placement_exact")
        contig = pc.if_else(exact, batch.column("contig"), pa.scalar(None, pa.string()))
        reverse = pc.and_(exact, pc.fill_null(pc.equal(batch.column("strand"), "-"), False))
        start = pc.if_else(pc.is_valid(contig), batch.column("start"), pa.scalar(-1, pa.int64()))
        facts = {
            "window_id": np.array(batch.column("window_id").to_pylist(), dtype="S32"),
            "contig": self._names["contig"].codes(contig),
            "start": _numbers(start),
            "is_reverse": _numbers(pc.and_(reverse, pc.is_valid(contig))),
            "origin": self._names["origin"].codes(batch.column("origin")),
            "cache": self._names["cache"].codes(batch.column("cache_key")),
            "cache_row": _numbers(pc.fill_null(batch.column("cache_row"), -1)),
            "frozen": _numbers(batch.column("frozen")),
            "holdout": self._names["holdout"].codes(pc.fill_null(batch.column("holdout"), "")),
        }
        for name, values in facts.items():
            self._columns[name].append(values)

    def _write_first_rows(self, n: int) -> None:
        from genolewm_assets.memory_mapped.kernels import hash_ids, write_first_rows

        ids = self._map("window_id", n)
        words = ids.view(np.uint64).reshape(n, 4) if n else np.zeros((0, 4), np.uint64)
        hashes, first_row = np.empty(n, np.uint64), np.empty(n, np.int64)
        hash_ids(words, hashes)
        write_first_rows(words, hashes, np.argsort(hashes, kind="stable"), first_row)
        write_array(self._folder / "first_row.npy", first_row, WINDOW_COLUMNS["first_row"].dtype, self._create)

    def _write_views(self, n: int) -> tuple[ViewIndex, ...]:
        """Write the rows of the views of every holdout; in train, or a split without a window, there is one holdout."""
        sizes, contig, frozen, holdout = (self._map(name, n) for name in ("sizes", "contig", "frozen", "holdout"))
        views: list[ViewIndex] = []
        with ArrayWriter(self._folder / f"{VIEW_ROWS}.npy", VIEW_ROWS_COLUMN.dtype, create=self._create) as writer:
            for code, name in enumerate(self._names["holdout"].names or ("",)):
                for frozen_only in (True, False):
                    rows = np.flatnonzero((holdout == code) & (frozen | (not frozen_only)))
                    place = None if len(rows) == n else (writer.rows, writer.rows + len(rows))
                    if place is not None:
                        writer.append(rows)
                    shortest = int(sizes[rows, 1].min()) if len(rows) else 0
                    all_placed = bool((contig[rows] >= 0).all())
                    views.append(ViewIndex(name, frozen_only, place, len(rows), shortest, all_placed))
        return tuple(views)

    def _map(self, name: str, n: int) -> NDArray[Any]:
        shape = (n, 3) if name == "sizes" else (n,)
        return map_array(self._folder / f"{name}.npy", WINDOW_COLUMNS[name].dtype, shape)


class _Names:
    """Codes of the distinct values of a column, in the order in which they appear."""

    def __init__(self) -> None:
        self._code_of: dict[str, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The values, by code."""
        return tuple(self._code_of)

    def codes(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the code of every value, -1 for null: int64, shape (n,)."""
        encoded = column.dictionary_encode()
        own = [self._code_of.setdefault(name, len(self._code_of)) for name in encoded.dictionary.to_pylist()]
        # The last place answers -1, the code of null.
        codes: NDArray[np.int64] = np.array([*own, -1], dtype=np.int64)[
            pc.fill_null(encoded.indices, len(own)).to_numpy(zero_copy_only=False)
        ]
        return codes


def _is_placed(windows: pa.RecordBatch) -> NDArray[np.bool_]:
    """Tell which windows have an exact placement."""
    return as_bools(pc.and_(windows.column("placement_exact"), pc.is_valid(windows.column("contig"))))


def _numbers(column: pa.Array) -> NDArray[Any]:
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers
