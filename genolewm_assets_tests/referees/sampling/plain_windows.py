"""The windows of one split, read from Parquet batches by plain Python, in place of the mapped ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.edits import HeldSequences, PackedWindows, WindowRecord
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import AMBIGUOUS, encode_sequence
from genolewm_assets.packages import PACKAGE_WINDOWS

_BASES = np.frombuffer(b"ACGT", dtype=np.uint8)
#: uint8, shape (256, 4): the four ASCII bases of every packed byte; the first base is in the lowest bits.
_UNPACKED = _BASES[(np.arange(256)[:, None] >> np.array([0, 2, 4, 6])) & 3]
#: Row numbers: int64, one-dimensional.
Rows: TypeAlias = NDArray[np.int64]

_PLACES = np.array([1, 4, 16, 64], dtype=np.uint8)


class SplitWindows:
    """The windows of one split, accessed by row number; ``window_ids`` are the first 32 hex digits of digests."""

    _COLUMNS = ("window_id", "origin", "contig", "start", "strand", "placement_exact", "cache_key", "cache_row")

    def __init__(self, batches: Iterable[pa.RecordBatch], held_sequences: HeldSequences | None = None) -> None:
        # A bytearray grows in place; a list of arrays would be in memory twice when it is joined.
        packed, ends = bytearray(), [0]
        sizes: list[tuple[int, ...]] = []
        spells: list[bool] = []
        kept: list[pa.RecordBatch] = []
        for batch in batches:
            kept.append(batch.select(self._COLUMNS))
            parts = (batch.column(name).to_pylist() for name in ("left_flank", "sequence", "right_flank"))
            for row in zip(*parts, strict=True):
                sizes.append(tuple(map(len, row)))
                packed += pack_bases("".join(row)).tobytes()
                spells.append(held_sequences is None or "".join(row) in held_sequences)
                ends.append(len(packed))
        self._bases, self._first = np.frombuffer(packed, np.uint8), np.array(ends, dtype=np.int64)
        self._spells = np.array(spells, dtype=np.bool_)
        self._sizes = np.array(sizes, dtype=np.int32).reshape(-1, 3)
        table = pa.Table.from_batches(kept, pa.schema([PACKAGE_WINDOWS.arrow.field(name) for name in self._COLUMNS]))
        self.window_ids = table["window_id"].to_numpy().astype("S32")
        self._start, self._cache_row = (
            table[name].fill_null(-1).to_numpy().astype(np.int64) for name in ("start", "cache_row")
        )
        contig = pc.if_else(table["placement_exact"], table["contig"], pa.scalar(None, pa.string()))
        self._contig, self._strand = _Dictionary(contig), _Dictionary(table["strand"])
        self._origin, self._cache_key = _Dictionary(table["origin"]), _Dictionary(table["cache_key"])

    def __len__(self) -> int:
        return len(self.window_ids)

    @property
    def shortest_bp(self) -> int:
        return int(self._sizes[:, 1].min()) if len(self) else 0

    @property
    def all_placed(self) -> bool:
        return None not in self._contig.values

    @property
    def contigs(self) -> tuple[str, ...]:
        return tuple(value for value in self._contig.values if value is not None)

    @property
    def first_rows(self) -> Rows:
        """First row with the same ``window_id``, for every window: int64, shape (n_windows,)."""
        first = {name: row for row, name in reversed(list(enumerate(self.window_ids.tolist())))}
        return np.array([first[name] for name in self.window_ids.tolist()], dtype=np.int64)

    def packed(self, rows: Rows) -> PackedWindows:
        code_of = {name: code for code, name in enumerate(self.contigs)}
        codes = np.array([code_of.get(value or "", -1) for value in self._contig.values], dtype=np.int32)
        reverse = np.array([value == "-" for value in self._strand.values], dtype=np.bool_)
        contig = codes[self._contig.code[rows]]
        parts = [self._bases[self._first[row] : self._first[row + 1]] for row in rows.tolist()]
        return PackedWindows(
            packed=np.concatenate(parts) if parts else self._bases[:0],
            first=np.cumsum([0, *map(len, parts)])[:-1],
            sizes=self._sizes[rows],
            window_ids=self.window_ids[rows],
            origins=self.origins_of(rows),
            contigs=self.contigs,
            contig=contig,
            start=np.where(contig < 0, -1, self._start[rows]),
            is_reverse=reverse[self._strand.code[rows]] & (contig >= 0),
            spells_held=self._spells[rows],
        )

    @property
    def origins(self) -> NDArray[np.str_]:
        return np.array(self._origin.values, dtype=np.str_)[self._origin.code]

    def origin_codes(self) -> tuple[tuple[str, ...], NDArray[np.int16]]:
        """Return origins, and the index of every window's: int16, shape (n_windows,)."""
        return tuple(map(str, self._origin.values)), self._origin.code.astype(np.int16)

    def origins_of(self, rows: Rows) -> NDArray[np.str_]:
        return np.array(self._origin.values, dtype=np.str_)[self._origin.code[rows]]

    def cached(self, rows: Rows) -> tuple[tuple[str | None, ...], NDArray[np.int32], Rows]:
        """Return keys of state caches, and for each of some rows the index of its key and the row there."""
        return tuple(self._cache_key.values), self._cache_key.code[rows], self._cache_row[rows]

    def spans(self, first_bp: int, last_bp: int) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64], Rows]]:
        """Yield contig, starts, ends and rows of the placed windows without bases at either end."""
        size = self._sizes[:, 1].astype(np.int64)
        reverse = np.array([value == "-" for value in self._strand.values])[self._strand.code]
        start = self._start + np.where(reverse, last_bp, first_bp)
        end = self._start + size - np.where(reverse, first_bp, last_bp)
        for code, contig in enumerate(self._contig.values):
            if contig is not None:
                rows = np.flatnonzero(self._contig.code == code)
                yield contig, start[rows], end[rows], rows

    def record(self, row: int) -> WindowRecord:
        left, size, right = self._sizes[row].tolist()
        bases = unpack_bases(self._bases[self._first[row] : self._first[row + 1]], left + size + right)
        contig, cache_key = self._contig[row], self._cache_key[row]
        return WindowRecord(
            window_id=self.window_ids[row].decode(),
            origin=str(self._origin[row]),
            sequence=bases[left : left + size],
            left_flank=bases[:left],
            right_flank=bases[left + size :],
            contig=contig,
            start=None if contig is None else int(self._start[row]),
            strand=None if contig is None else (self._strand[row] or "+"),
            cache_key=cache_key,
            cache_row=None if cache_key is None else int(self._cache_row[row]),
        )


class _Dictionary:
    """A dictionary-encoded column of strings or nulls: four bytes per row and a list of distinct values."""

    __slots__ = ("code", "values")

    def __init__(self, column: pa.ChunkedArray) -> None:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        self.values: list[str | None] = encoded.dictionary.to_pylist()
        self.code: NDArray[np.int32] = encoded.indices.to_numpy().astype(np.int32)

    def __getitem__(self, row: int) -> str | None:
        return self.values[int(self.code[row])]


def pack_bases(sequence: str) -> NDArray[np.uint8]:
    """Pack upper-case ACGT, four bases per byte, the first in the lowest two bits; unused bits of the last are 0."""
    codes = encode_sequence(sequence)
    if codes.max(initial=0) >= AMBIGUOUS:
        raise CorruptResourceError(
            "package windows",
            "a sequence holds a base other than A, C, G and T",
            expected="windows inside ACGT runs",
            got=f"{sequence[int(np.argmax(codes))]!r}",
            remedy="Rebuild the package",
        )
    padded = np.zeros(-(-len(codes) // 4) * 4, dtype=np.uint8)
    padded[: len(codes)] = codes
    packed: NDArray[np.uint8] = (padded.reshape(-1, 4) * _PLACES).sum(axis=1, dtype=np.uint8)
    return packed


def unpack_bases(packed: NDArray[np.uint8], n_bases: int) -> str:
    """Return the ``n_bases`` bases that :func:`pack_bases` packed, as upper-case text."""
    bases: bytes = _UNPACKED[packed].tobytes()
    return bases[:n_bases].decode("ascii")
