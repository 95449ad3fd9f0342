"""Windows of a mapped split by row, as streams and samplers take them. Not here: files (``split``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import PackedWindows, WindowRecord
from genolewm_assets.memory_mapped.layout import WINDOWS
from genolewm_assets.memory_mapped.split import MappedSplit

Rows = NDArray[np.int64]

#: uint8, shape (256, 4): the four ASCII bases of every packed byte; the first base is in the lowest bits.
_UNPACKED = np.frombuffer(b"ACGT", dtype=np.uint8)[(np.arange(256)[:, None] >> np.array([0, 2, 4, 6])) & 3]


class MappedWindows:
    """The windows of a split that serve one holdout, or train, accessed by row number.

    Rows count from 0 within these windows, in the order of the package's files. A pickle holds a path and names.

    Parameters
    ----------
    split
        The mapped split.
    holdout
        Holdout of the windows; None in train.
    frozen_only
        Whether windows that are there only to score alleles are left out.

    Raises
    ------
    ConfigurationError
        If the split has no window of the holdout.
    """

    def __init__(self, split: MappedSplit, holdout: str | None = None, *, frozen_only: bool = True) -> None:
        self.split, self._holdout, self._frozen_only = split, holdout, frozen_only
        self._view = split.view(holdout, frozen_only=frozen_only)
        self._rows = split.view_rows(self._view)

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.split, self._holdout, self._frozen_only)

    def __len__(self) -> int:
        """Return the number of windows."""
        return self._view.n_windows

    @property
    def shortest_bp(self) -> int:
        """Bases of the shortest window; 0 if there is no window."""
        return self._view.shortest_bp

    @property
    def all_placed(self) -> bool:
        """Whether every window has an exact place on the reference."""
        return self._view.all_placed

    @property
    def contigs(self) -> tuple[str, ...]:
        """Contigs on which windows of the split have an exact place."""
        return self.split.index.contigs

    @property
    def window_ids(self) -> NDArray[np.bytes_]:
        """First 32 hex digits of the SHA-256 of every window: bytes (S32), shape (n_windows,)."""
        return self._of_all("window_id")

    @property
    def first_rows(self) -> Rows:
        """First row of the split with the same ``window_id``, for every window: int64, shape (n_windows,)."""
        return self._of_all("first_row")

    @property
    def origins(self) -> NDArray[np.str_]:
        """Origin of every window: str, shape (n_windows,)."""
        return self.origins_of(np.arange(len(self)))

    def origin_codes(self) -> tuple[tuple[str, ...], NDArray[np.int16]]:
        """Return the origins of the split, and the index of every window's: int16, shape (n_windows,)."""
        return self.split.index.origins, self._of_all("origin")

    def origins_of(self, rows: Rows) -> NDArray[np.str_]:
        """Return the origin of the window of each row: str, shape (n_rows,)."""
        names = np.array(self.split.index.origins or ("",), dtype=np.str_)
        origins: NDArray[np.str_] = names[self._column("origin")[self._absolute(rows)]]
        return origins

    def packed(self, rows: Rows) -> PackedWindows:
        """Return the windows of some rows as arrays, their bases read into memory of their own.

        Sizes, places and contigs that cannot be raise CorruptResourceError: the loops over bases and alleles test no
        index.
        """
        here = self._absolute(rows)
        names = ("sizes", "first_byte", "contig", "piece")
        sizes, first_byte, contig, piece = (self._column(name)[here] for name in names)
        for name, column, end in (
            ("sizes", sizes, None),
            ("first_byte", first_byte, None),
            ("contig", contig + 1, len(self.contigs) + 1),
            ("piece", piece + 1, len(self.split.index.pieces) + 1),
        ):
            if column.size and (column.min() < 0 or (end is not None and column.max() >= end)):
                raise self.split.damaged(f"{WINDOWS}/{name}", "holds a number that is out of range")
        n_bytes = (sizes.sum(axis=1, dtype=np.int64) + 3) // 4
        return PackedWindows(
            packed=self.split.read_bases(piece, first_byte, n_bytes),
            first=np.cumsum(n_bytes) - n_bytes,
            sizes=sizes,
            window_ids=self._column("window_id")[here],
            origins=self.origins_of(rows),
            contigs=self.contigs,
            contig=contig,
            start=self._column("start")[here],
            is_reverse=self._column("is_reverse")[here],
            spells_held=self.split.spells_held(here),
        )

    def cached(self, rows: Rows) -> tuple[tuple[str | None, ...], NDArray[np.int32], Rows]:
        """Return keys of state caches, and for each of some rows the index of its key and the row there.

        The last key is None: that of windows without a cache, whose row is -1.
        """
        here, caches = self._absolute(rows), self.split.index.caches
        code = self._column("cache")[here].astype(np.int32)
        code[code < 0] = len(caches)
        return (*caches, None), code, self._column("cache_row")[here]

    def spans(self, first_bp: int, last_bp: int) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64], Rows]]:
        """Yield contig, starts and ends of inner bases (0-based half-open), and rows of placed windows: int64, (n,).

        ``first_bp``, ``last_bp``: bases at the ends of each window, on its own strand, that are left out.
        """
        codes = self._of_all("contig")
        for code, contig in enumerate(self.contigs):
            rows = np.flatnonzero(codes == code)
            if not len(rows):
                continue
            here = self._absolute(rows)
            reverse, start = self._column("is_reverse")[here], self._column("start")[here]
            end = start + self._column("sizes")[here, 1]
            yield (
                contig,
                start + np.where(reverse, last_bp, first_bp),
                end - np.where(reverse, first_bp, last_bp),
                rows,
            )

    def record(self, row: int) -> WindowRecord:
        """Return the window of a row, with its sequences unpacked."""
        rows = np.array([row], dtype=np.int64)
        packed, here = self.packed(rows), int(self._absolute(rows)[0])
        left, size, right = packed.sizes[0].tolist()
        bases = _UNPACKED[packed.packed].tobytes()[: left + size + right].decode("ascii")
        (contig,), (cache,) = packed.contig.tolist(), self._column("cache")[[here]].tolist()
        index = self.split.index
        return WindowRecord(
            window_id=packed.window_ids[0].decode(),
            origin=index.origins[self._column("origin")[here]],
            sequence=bases[left : left + size],
            left_flank=bases[:left],
            right_flank=bases[left + size :],
            contig=None if contig < 0 else index.contigs[contig],
            start=None if contig < 0 else int(packed.start[0]),
            strand=None if contig < 0 else ("-" if packed.is_reverse[0] else "+"),
            cache_key=None if cache < 0 else index.caches[cache],
            cache_row=None if cache < 0 else int(self._column("cache_row")[here]),
        )

    def _column(self, name: str) -> NDArray[Any]:
        return self.split.column(f"{WINDOWS}/{name}")

    def _of_all(self, name: str) -> NDArray[Any]:
        """Return a column of all windows of this view; of train it is the mapped one."""
        column = self._column(name)
        return column if self._rows is None else column[self._rows]

    def _absolute(self, rows: Rows) -> Rows:
        return rows if self._rows is None else self._rows[rows]


def _reopen(split: MappedSplit, holdout: str | None, frozen_only: bool) -> MappedWindows:
    return MappedWindows(split, holdout, frozen_only=frozen_only)
