"""Proposals for synthetic edits: uniform SNVs, and indels of geometric length.

Not here: whether a proposal is allowed in its window (``edit_sampling``).
"""

from __future__ import annotations

from genolewm_assets.genome import RelEdit
from genolewm_assets.lewm.training.draws import TrainDraws

#: Longest synthetic insertion or deletion in bases; the anchor base makes it 16 (RFC-0006 §3.4).
MAX_EVENT_BP = 15


def draw_snv(sequence: str, start: int, stop: int, draws: TrainDraws) -> RelEdit | None:
    """Propose another base at a uniform position in ``[start, stop)``; None where that is empty."""
    if stop <= start:
        return None
    at = start + draws.below(stop - start)
    return RelEdit(at, sequence[at], "ACGT".replace(sequence[at], "")[draws.below(3)])


def draw_indel(sequence: str, start: int, stop: int, draws: TrainDraws) -> RelEdit | None:
    """Propose an insertion or a deletion, half each, whose alleles lie in ``[start, stop)``; None where none fits.

    The anchor is uniform over the places where the event fits, the bases inserted are uniform.
    """
    event_bp, inserts = draw_event_bp(draws), draws.below(2) == 1
    if stop - event_bp <= start:
        return None
    at = start + draws.below(stop - event_bp - start)
    if not inserts:
        return RelEdit(at, sequence[at : at + 1 + event_bp], sequence[at])
    return RelEdit(at, sequence[at], sequence[at] + "".join("ACGT"[draws.below(4)] for _ in range(event_bp)))


def draw_event_bp(draws: TrainDraws) -> int:
    """Draw the length of an insertion or deletion: geometric(0.5), renormalised on 1 to :data:`MAX_EVENT_BP`.

    Of the numbers 1 to 2**15 - 1, half (rounded up) have 15 bits, a quarter 14, and so on: the shares wanted, exactly.
    """
    return MAX_EVENT_BP + 1 - (1 + draws.below(2**MAX_EVENT_BP - 1)).bit_length()
