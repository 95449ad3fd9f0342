"""Write the windows of a split as arrays, in the order of their rows, and which of them spell held-out alleles.

Not here: alleles (``allele_writer``).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.edits import HeldKmers, HeldSequences
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.memory_mapped.layout import (
    KMER_COLUMNS,
    VIEW_ROWS,
    VIEW_ROWS_COLUMN,
    WINDOW_COLUMNS,
    SplitIndex,
    ViewIndex,
)
from genolewm_assets.packages import PIECE_BASES, PIECES
from genolewm_assets.variants import Bools, as_bools
from genolewm_assets.windows.bases import (
    REBUILD,
    TEXTS,
    ArrayWriter,
    Create,
    map_array,
    pack_texts,
    packed_sizes,
    write_array,
)

#: Windows whose bases are packed at once: 13 MB of text.
_PACKED_ROWS: Final = 1_024
#: Parts of the windows, by the first two letters of their ids, in which equal ids are looked for.
_PARTS: Final = 61
#: Rows whose numbers are written at once.
_AT_ONCE: Final = 1 << 20
#: Columns of ``PACKAGE_WINDOWS`` that are read of windows of a piece, and of others.
FACT_COLUMNS: Final = (
    "window_id", "origin", "contig", "start", "strand", "placement_exact", "window_bp", "holdout", "frozen",
    "cache_key", "cache_row",
)  # fmt: skip
READ_COLUMNS: Final = (*FACT_COLUMNS, *TEXTS)


class WindowWriter(ExitStack):
    """Writes the windows of one split into a folder, and tells ``spelling`` of them if it is given."""

    def __init__(self, folder: Path, create: Create, spelling: SpellingWriter | None) -> None:
        super().__init__()
        self._folder, self._create, self._spelling = folder, create, spelling
        self._names = {name: _Names() for name in ("contig", "origin", "cache", "holdout")}
        self._n_bytes, self._pieces = 0, dict[str, int]()
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

    def add_piece(
        self, name: str, bases: NDArray[np.uint8], parts: Iterable[tuple[pa.Table, Bools]], margin_bp: int
    ) -> None:
        """Append windows of a piece whose bases are mapped.

        ``parts``: all windows of the piece, columns :data:`FACT_COLUMNS`, and which of them are appended.
        """
        piece, at = len(self._pieces), 0
        for table, kept in parts:
            (batch,) = table.combine_chunks().to_batches()
            inner = _numbers(batch.column("window_bp")).astype(np.int64)
            n_bytes = packed_sizes(inner + 2 * margin_bp)
            first = at + np.cumsum(n_bytes) - n_bytes
            at += int(n_bytes.sum())
            batch, inner, first = batch.filter(pa.array(kept)), inner[kept], first[kept]
            margins = np.full(len(inner), margin_bp)
            self._add_places(np.full(len(inner), piece), first, np.stack([margins, inner, margins], axis=1))
            self._add_facts(batch)
            if self._spelling is not None:
                self._spelling.add(bases, first, np.where(_is_placed(batch), 0, inner + 2 * margin_bp))
        if at != len(bases):
            raise CorruptResourceError(
                f"{PIECES}/{name}/{PIECE_BASES}",
                "does not hold the bases of the windows of its piece",
                expected=f"{at:,} bytes",
                got=f"{len(bases):,} bytes",
                remedy=REBUILD,
            )
        self._pieces[name] = at

    def finish(self) -> SplitIndex:
        """Write what needs all windows, and return an index of them alone; no window can be added afterwards."""
        self.close()
        n = self._columns["frozen"].rows
        self._write_first_rows(n)
        return SplitIndex(
            n_windows=n,
            n_bytes=self._n_bytes,
            contigs=tuple(self._names["contig"]),
            origins=tuple(self._names["origin"]),
            caches=tuple(self._names["cache"]),
            holdouts=tuple(self._names["holdout"]),
            views=self._write_views(n),
            pieces=tuple(self._pieces),
            piece_bytes=tuple(self._pieces.values()),
            alleles={},
        )

    def _add_bases(self, batch: pa.RecordBatch) -> None:
        packed, first, sizes = pack_texts(batch)
        self._columns["bases"].append(packed)
        self._add_places(np.full(len(first), -1), self._n_bytes + first, sizes)
        self._n_bytes += len(packed)
        if self._spelling is not None:
            self._spelling.add(packed, first, np.where(_is_placed(batch), 0, sizes.sum(axis=1)))

    def _add_places(self, piece: NDArray[np.int64], first: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        for name, values in (("piece", piece), ("first_byte", first), ("sizes", sizes)):
            self._columns[name].append(values)

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
        """Write the first row with the id of each row; ids are read into memory in parts."""
        from genolewm_assets.memory_mapped.kernels import hash_ids, write_first_rows

        ids, first_row = self._map("window_id", n), np.empty(n, np.min_scalar_type(n))
        part_of = (ids.view(np.uint16).reshape(n, -1)[:, 0] % _PARTS).astype(np.uint8) if n else np.empty(0, np.uint8)
        for part in range(_PARTS):
            rows = np.flatnonzero(part_of == part)
            words = ids[rows].view(np.uint64).reshape(len(rows), 4)
            hashes, first = np.empty(len(rows), np.uint64), np.empty(len(rows), np.int64)
            hash_ids(words, hashes)
            write_first_rows(words, hashes, np.argsort(hashes, kind="stable"), first)
            first_row[rows] = rows[first]
        path, dtype = self._folder / "first_row.npy", WINDOW_COLUMNS["first_row"].dtype
        with ArrayWriter(path, dtype, create=self._create) as writer:
            for some in _parts(n):
                writer.append(first_row[some])

    def _write_views(self, n: int) -> tuple[ViewIndex, ...]:
        """Write the rows of the views of every holdout; in train, or a split without a window, there is one holdout."""
        sizes, contig, frozen, holdout = (self._map(name, n) for name in ("sizes", "contig", "frozen", "holdout"))
        views: list[ViewIndex] = []
        with ArrayWriter(self._folder / f"{VIEW_ROWS}.npy", VIEW_ROWS_COLUMN.dtype, create=self._create) as writer:
            for code, name in enumerate(self._names["holdout"] or ("",)):
                for frozen_only in (True, False):
                    ours = (holdout == code) & (frozen | (not frozen_only))
                    n_rows = int(np.count_nonzero(ours))
                    place = None if n_rows == n else (writer.rows, writer.rows + n_rows)
                    for some in () if place is None else _parts(n):
                        writer.append(some.start + np.flatnonzero(ours[some]))
                    shortest = int(sizes[:, 1].min(where=ours, initial=np.iinfo(np.int32).max)) if n_rows else 0
                    all_placed = not (ours & (contig < 0)).any()
                    views.append(ViewIndex(name, frozen_only, place, n_rows, shortest, all_placed))
        return tuple(views)

    def _map(self, name: str, n: int) -> NDArray[Any]:
        shape = (n, 3) if name == "sizes" else (n,)
        return map_array(self._folder / f"{name}.npy", WINDOW_COLUMNS[name].dtype, shape)


class SpellingWriter:
    """Writes the folder ``held_sequences`` of a split if one of its windows has no exact placement.

    ``contexts`` (``PACKAGE_CONTEXTS``) are read when the first of these windows comes; their 31-mers are sorted in
    ``scratch``.
    """

    def __init__(self, folder: Path, contexts: Iterable[pa.RecordBatch], create: Create, scratch: Path) -> None:
        self._folder, self._contexts, self._create, self._scratch = folder, contexts, create, scratch
        self._spells: list[NDArray[np.bool_]] = []
        self._is_needed = False

    def add(self, packed: NDArray[np.uint8], first: NDArray[np.int64], n_bases: NDArray[np.int64]) -> None:
        """Append windows: their packed bases, the first byte of each, and its bases, 0 if it is placed exactly."""
        from genolewm_assets.edits import kmer_kernels

        spells = np.zeros(len(first), dtype=np.bool_)
        if n_bases.any():
            self._is_needed = True
            kmer_kernels.mark_spelling(packed, first, n_bases, self._kmers, spells)
        self._spells.append(spells)

    def finish(self) -> tuple[int | None, int]:
        """Write which windows spell a 31-mer; return the numbers of 31-mers and of seed words for the index."""
        if not self._is_needed:
            return None, 0
        self._write("spells_held", np.concatenate(self._spells))
        return len(self._kmers.keys), len(self._kmers.seeds)

    @cached_property
    def _kmers(self) -> HeldKmers:
        table = HeldSequences(self._contexts, self._scratch).table
        return HeldKmers.of(self._write("keys", table.keys), self._write("seeds", table.seeds))

    def _write(self, name: str, array: NDArray[np.generic]) -> NDArray[np.uint64]:
        """Write an array, and return it mapped."""
        path, dtype = self._folder / f"{name}.npy", KMER_COLUMNS[name].dtype
        write_array(path, array, dtype, self._create)
        return map_array(path, dtype, array.shape)


class _Names(dict[str, int]):
    """Codes of the distinct values of a column, in the order in which they appear."""

    def codes(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the code of every value, -1 for null: int64, shape (n,)."""
        encoded = column.dictionary_encode()
        own = [self.setdefault(name, len(self)) for name in encoded.dictionary.to_pylist()]
        # The last place answers -1, the code of null.
        codes: NDArray[np.int64] = np.array([*own, -1], dtype=np.int64)[
            pc.fill_null(encoded.indices, len(own)).to_numpy(zero_copy_only=False)
        ]
        return codes


def _parts(n: int) -> list[slice]:
    return [slice(at, at + _AT_ONCE) for at in range(0, n, _AT_ONCE)]


def _is_placed(windows: pa.RecordBatch) -> NDArray[np.bool_]:
    """Tell which windows have an exact placement."""
    return as_bools(pc.and_(windows.column("placement_exact"), pc.is_valid(windows.column("contig"))))


def _numbers(column: pa.Array) -> NDArray[Any]:
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers
