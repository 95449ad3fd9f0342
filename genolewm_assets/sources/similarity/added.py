"""What an earlier release found, and the windows that have a 21-mer that is held out now and was not then.

What a window shares with an interval can have changed only if the interval did. With one that grew, a window can share
more only through a 21-mer that has an added base: all others were in the interval before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.genome import IntervalArray, meets
from genolewm_assets.holdouts import HOLDOUT_COMPARED, Kept, PieceQueries, WindowKey
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity.held_part import HeldPart, HeldSpan, Repeats
from genolewm_assets.sources.similarity.repeats import hash_table
from genolewm_assets.variants import Bools, Int64s, as_bools

#: Added bases, with 20 beside each stretch of them, from which on every window is looked up.
MOST_ADDED_BP = 1 << 18
#: Bits of the filter, by added base: 512 KiB for 10,000 bases.
_BITS = 256
_K = 21
_KEY = list(WindowKey._fields)


def list_added(spans: Sequence[HeldSpan], before: Collection[HeldSpan]) -> list[HeldSpan]:
    """Return stretches that have every 21-mer of a changed span, but those of the largest earlier span within it."""
    earlier: dict[str, list[tuple[int, int]]] = {}
    for contig, *bounds in before:
        earlier.setdefault(contig, []).append((bounds[0], bounds[1]))
    added = []
    for contig, start, end in spans:
        then = np.array(earlier.get(contig, []), np.int64).reshape(-1, 2)
        within = then[(then[:, 0] >= start) & (then[:, 1] <= end)]
        first, last = within[np.argmax(within[:, 1] - within[:, 0])].tolist() if len(within) else (end, end)
        sides = (start, min(end, first + _K - 1), first > start), (max(start, last - _K + 1), end, last < end)
        added += [HeldSpan(contig, a, b) for a, b, has_added in sides if has_added]
    return added


@dataclass(frozen=True, slots=True)
class AddedKmers:
    """21-mers outside repeats: ``keys``, a table of their hashes; ``bits``, ``shift``: a filter of their seeds."""

    keys: NDArray[np.uint64]
    bits: NDArray[np.uint64]
    shift: np.uint32

    @classmethod
    def read(cls, reader: FastaReader, spans: Sequence[HeldSpan], repeats: Repeats) -> AddedKmers:
        """Read the 21-mers of spans."""
        from genolewm_assets.sources.similarity import kmer_kernels, presence_kernels

        part = HeldPart.read(reader, spans, repeats)
        power = max(_BITS, _BITS * part.codes.size).bit_length()
        hashes, bits = np.empty(part.codes.size, np.uint64), np.zeros((1 << power) >> 6, np.uint64)
        kmer_kernels.hash_kmers(part.codes, hashes)
        presence_kernels.mark_seeds(part.codes, part.kinds, bits, shift := np.uint32(32 - power))
        return cls(hash_table(hashes[part.kinds >= kmer_kernels.SIMPLE]), bits, shift)

    def find(self, piece: PieceQueries) -> Bools:
        """Tell which windows of a piece, with the flanks on both sides, have one: bool, shape (n_windows,)."""
        from genolewm_assets.sources.similarity.presence_kernels import find_any

        found = np.zeros(len(piece.rows), np.bool_)
        if self.bits.any():
            find_any(piece.packed, piece.first, piece.n_bases, self.keys, self.bits, self.shift, found)
        return found


class EarlierFinds:
    """What is known of windows that an earlier release compared; ``taken``: rows of its table that hold now.

    ``changed``: spans that were not held out as they are now; ``added``: the 21-mers that they have more.
    """

    def __init__(self, kept: Kept, spans: Sequence[HeldSpan], changed: Sequence[HeldSpan], added: AddedKmers) -> None:
        names, self._kept, self._added = ["held_contig", "unit_start", "unit_end"], kept, added
        self.taken, before = [HOLDOUT_COMPARED.empty()], kept.compared
        schema = pa.schema([HOLDOUT_COMPARED.arrow.field(name) for name in names])
        now = pa.Table.from_pylist([dict(zip(names, span, strict=True)) for span in spans], schema=schema)
        self._is_same, self._meets_changed = np.zeros((2, before.num_rows), np.bool_)
        self._is_same[_rows_in(before, now, names)] = True
        start, end = (before[name].to_numpy() for name in names[1:])
        for contig in {span.contig for span in changed}:
            bounds = zip(*((span.start, span.end) for span in changed if span.contig == contig), strict=True)
            ours = as_bools(pc.equal(before["held_contig"], contig))
            self._meets_changed |= ours & meets(IntervalArray.from_unsorted(*bounds).merge(), start, end)

    def take_over(self, piece: PieceQueries) -> Bools:
        """Take over what holds of the windows of a piece; tell which windows are to be looked up: (n_windows,)."""
        if piece.name not in self._kept.pieces:
            return np.ones(len(piece.rows), np.bool_)
        ours, again = as_bools(pc.equal(self._kept.compared["piece"], piece.name)), self._added.find(piece)
        if ours.any():
            at = _rows_in(piece.keys, self._kept.compared.filter(pa.array(ours)), _KEY)
            windows = piece.keys.take(pa.array(at))
            same, changed = (
                self._kept.compared.filter(pa.array(ours & mask)) for mask in (self._is_same, self._meets_changed)
            )
            self.taken.append(same.take(pa.array(_rows_in(same, windows, _KEY))))
            again[at[_rows_in(windows, changed, _KEY)]] = True
        return again


def _rows_in(table: pa.Table, keys: pa.Table, on: list[str]) -> Int64s:
    """Return the numbers of the rows of a table whose values of some columns are those of a row of ``keys``."""
    numbered = table.select(on).append_column("row", pa.array(np.arange(table.num_rows)))
    rows: Int64s = np.sort(numbered.join(keys.select(on), on, join_type="left semi")["row"].to_numpy())
    return rows
