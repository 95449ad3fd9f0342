"""Token rows that hold, per reference window, its first tokens once, and per edited window only the *tail*.

A causal model gives equal states before the first token that an edit changes; the tail reaches from it to the last
token asked for. Not here: the forward pass (:mod:`.packed_attention`), block means (``edited``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Token ids of a window, int64, shape (n_tokens,), tags included.
Ids = NDArray[np.int64]


class Segment(NamedTuple):
    """Consecutive tokens of one window in a packed row; a token attends to those before it in its window."""

    #: ``start``, ``stop``: places in the row, 0-based half-open.
    start: int
    stop: int
    #: Place in the window, tags included, of the first token: 0 for a reference.
    first: int
    #: Place in the row of the reference's first token, from where the window's tokens before ``first`` are read; of a
    #: reference its own.
    reference: int


@dataclass(frozen=True, slots=True, eq=False)
class PackedRow:
    """Tokens of some reference windows, then the tails of edited windows."""

    #: ``ids``, ``positions``: int64, shape (n_tokens,): token ids, and the place of each token in its window, tags
    #: included.
    ids: Ids
    positions: NDArray[np.int64]
    #: Consecutive segments that cover the row: references first, then tails, those of a reference from right to left.
    segments: tuple[Segment, ...]
    #: ``reference_at``, ``tail_at``: int64, shape (n_edits,): places of the first token of an edit's reference, and of
    #: its tail; 0 without a tail.
    reference_at: NDArray[np.int64]
    tail_at: NDArray[np.int64]
    #: int64, shape (n_edits,): tokens of the window that are read from the reference; the tail follows them.
    prefixes: NDArray[np.int64]


class Tails(NamedTuple):
    """Edited windows, and which of their tokens are computed."""

    #: ``sources``, ``edited``: token ids of the unedited and of the edited windows.
    sources: Sequence[Ids]
    edited: Sequence[Ids]
    #: int64, shape (n_edits,): source of every edited window.
    source_of: NDArray[np.int64]
    #: ``prefixes``, ``stops``: int64, shape (n_edits,): first and last token of the tail, half-open. The tokens before
    #: it are the source's.
    prefixes: NDArray[np.int64]
    stops: NDArray[np.int64]


def find_tails(
    sources: Sequence[Ids], edited: Sequence[Ids], source_of: NDArray[np.int64], stops: NDArray[np.int64]
) -> Tails:
    """Find the first token before ``stops`` at which every edited window differs from its source, if there is one."""
    prefixes = np.empty(len(edited), dtype=np.int64)
    for row, (ids, source, stop) in enumerate(zip(edited, source_of, stops, strict=True)):
        size = min(int(stop), len(ids), len(sources[source]))
        differs = ids[:size] != sources[source][:size]
        prefixes[row] = differs.argmax() if differs.any() else size
    return Tails(sources, edited, source_of, prefixes, stops)


def plan_rows(tails: Tails, *, max_tokens: int, one_source: bool) -> list[NDArray[np.int64]]:
    """Return the edits of each packed row (int64), sorted by source, then by prefix.

    Edits of a source are in more than one row only if they do not fit; its common tokens are then in each.
    """
    rows: list[list[int]] = []
    tokens, before = 0, -1
    source_of, prefixes, stops = tails.source_of, tails.prefixes, tails.stops
    for edit in np.lexsort((prefixes, source_of)).tolist():
        same = before >= 0 and source_of[before] == source_of[edit]
        # Within a source the prefixes rise, and the longest is the part of the reference that the row holds.
        added = int(stops[edit] - (prefixes[before] if same else 0))
        if not rows or tokens + added > max_tokens or (one_source and not same):
            rows.append([])
            tokens, added = 0, int(stops[edit])
        rows[-1].append(edit)
        tokens, before = tokens + added, edit
    return [np.array(row, dtype=np.int64) for row in rows]


def pack_row(tails: Tails, edits: NDArray[np.int64]) -> PackedRow:
    """Pack the tokens of some edits into one row; see :func:`plan_rows`."""
    parts: list[Ids] = []
    segments: list[Segment] = []

    def add(ids: Ids, first: int, reference: int | None = None) -> int:
        start = segments[-1].stop if segments else 0
        segments.append(Segment(start, start + len(ids), first, start if reference is None else reference))
        parts.append(ids)
        return start

    source_of, prefixes = tails.source_of[edits], tails.prefixes[edits]
    places = dict[int, int]()
    for source in np.unique(source_of).tolist():
        longest = int(prefixes[source_of == source].max())
        # Windows without a special token in front may have no token in common.
        places[source] = add(tails.sources[source][:longest], 0) if longest else 0
    reference_at = np.array([places[source] for source in source_of.tolist()], dtype=np.int64)
    tail_at = np.zeros(len(edits), dtype=np.int64)
    # From right to left, so that a tail may take the place of the reference's keys right of it.
    for at in np.argsort(-prefixes, kind="stable").tolist():
        prefix, stop = int(prefixes[at]), int(tails.stops[edits[at]])
        if prefix < stop:
            tail = tails.edited[edits[at]][prefix:stop]
            tail_at[at] = add(tail, prefix, int(reference_at[at]) if prefix else None)
    positions = [np.arange(one.first, one.first + one.stop - one.start) for one in segments]
    return PackedRow(
        ids=np.concatenate(parts),
        positions=np.concatenate(positions),
        segments=tuple(segments),
        reference_at=reference_at,
        tail_at=tail_at,
        prefixes=prefixes,
    )
