"""Which windows are similar to held-out sequence, by what they share with it.

A window is similar to an interval if, outside repeats, it aligns with 90 % equal bases over 1,000 bp, or chained
alignments hold half of it. It is similar to the intervals with which it shares most if it shares 31-mers with all
held-out sequence as the audit counts them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.holdouts import HeldPlace, SimilarReason, WindowKey, is_first

#: An alignment with this share of equal bases over so many bases, both outside repeats, excludes a window.
MIN_IDENTITY, MIN_ALIGNED_BP = 0.90, 1_000
#: Chained alignments of this share of a window exclude it, if this share of it is aligned outside repeats.
MIN_CHAINED, MIN_OUTSIDE = 0.5, 0.1
#: Shared 31-mers outside repeats that exclude a window, as the audit counts them: so many one after another, or such a
#: share of those of a stretch of so many bases, in so many places that do not overlap.
LONGEST_RUN, LEAST_SHARE, STRETCH_BP, LEAST_PLACES = 32, 0.019, 1_000, 2
#: Shared 21-mers of a stretch from which on an interval counts to those with which a window shares most: those of 50
#: equal bases, and fewest in a window that is shorter than a stretch.
_ENOUGH, STRETCH, _LEAST_SHARED = 30, 980, 4
#: Sampled 21-mers of a stretch, one in six, with which a window is aligned to an interval (a copy with 85 % equal bases
#: has five), and with which it is reported as similar by repeats alone (one with 92 % has 28).
TO_ALIGN, _REPEATED = 3, 24
_K = 21
_PAIR = (*WindowKey._fields, "held_contig", "unit_start")

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]


def least_repeated(sizes: Int64s) -> Floats:
    """Return the fewest sampled 21-mers in repeats with which windows are reported: float64, shape (n_windows,)."""
    return _least_of(sizes) * _REPEATED / _ENOUGH


def _least_of(sizes: Int64s) -> Floats:
    least: Floats = np.maximum(_LEAST_SHARED, _ENOUGH * np.minimum(1.0, (sizes - _K + 1) / STRETCH))
    return least


def aligns_as_similar(places: Sequence[HeldPlace], share: float, size: int) -> bool:
    """Tell whether alignments of a window of ``size`` bases to one interval make it similar to that."""
    if any(place.aligned_bp >= MIN_ALIGNED_BP and (place.identity or 0) >= MIN_IDENTITY for place in places):
        return True
    return share >= MIN_CHAINED and sum(place.aligned_bp for place in places) >= MIN_OUTSIDE * size


def list_similar_pairs(compared: pa.Table) -> pa.Table:
    """Return the rows of a table ``HOLDOUT_COMPARED``, sorted by its key, of similar windows, with their reasons."""
    if not compared.num_rows:
        return compared.append_column("reason", pa.array([], pa.string()))
    columns = ("aligned_bp", "share", "shared_kmers", "window_bp")
    aligned_bp, share, shared, sizes = (compared[name].to_numpy() for name in columns)
    identity = pc.fill_null(compared["identity"], 0.0).to_numpy()
    firsts = np.flatnonzero(is_first(compared, _PAIR))
    pair = np.repeat(np.arange(firsts.size), np.diff([*firsts, compared.num_rows]))
    is_aligned = np.logical_or.reduceat((aligned_bp >= MIN_ALIGNED_BP) & (identity >= MIN_IDENTITY), firsts)
    is_chained = (share[firsts] >= MIN_CHAINED) & (np.add.reduceat(aligned_bp, firsts) >= MIN_OUTSIDE * sizes[firsts])
    shares_kmers = shared[firsts] >= _least_counted(compared)[firsts]
    # In the order of the reasons, of which the first that holds is the window's.
    number = np.select([is_aligned, is_chained, shares_kmers], [0, 1, 2], 3)[pair]
    names = pa.array([*map(str, SimilarReason), None])
    return compared.append_column("reason", names.take(pa.array(number))).filter(pa.array(number < len(SimilarReason)))


def _least_counted(compared: pa.Table) -> Floats:
    """Return, by row, the fewest shared 21-mers with which shared 31-mers make a window similar; else infinity."""
    from genolewm_assets.sources.similarity.kmer_kernels import find_counted

    runs, sizes = compared["runs"].combine_chunks(), compared["window_bp"].to_numpy().astype(np.int64)
    n_runs = pc.list_value_length(runs).to_numpy() // 2
    firsts = np.flatnonzero(is_first(compared, WindowKey._fields))
    window = np.repeat(np.arange(firsts.size), np.diff([*firsts, compared.num_rows]))
    each, counted = runs.flatten().to_numpy().astype(np.int64).reshape(-1, 2), np.zeros(firsts.size, dtype=bool)
    rule = np.array([LONGEST_RUN, STRETCH_BP, LEAST_PLACES])
    find_counted(sizes[firsts], np.cumsum(np.add.reduceat(n_runs, firsts)), each, rule, LEAST_SHARE, counted)
    shared = np.where(n_runs > 0, compared["shared_kmers"].to_numpy(), 0)
    least = np.minimum(_least_of(sizes), np.maximum.reduceat(shared, firsts)[window])
    return np.where(counted[window] & (n_runs > 0), least, np.inf)
