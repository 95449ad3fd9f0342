"""Propose synthetic edits: uniform SNVs, and insertions or deletions with geometric length."""

from __future__ import annotations

from genolewm_assets.edits.draws import TrainDraws
from genolewm_assets.genome import RelEdit

#: Longest synthetic insertion or deletion in bases; with the anchor base the longer allele has 16 (RFC-0006 §3.4).
MAX_EVENT_BP = 15


def draw_snv(sequence: str, start: int, stop: int, draws: TrainDraws) -> RelEdit | None:
    """Propose an SNV at a uniform position in ``[start, stop)``, 0-based, or None if the range is empty."""
    if stop <= start:
        return None
    at = start + draws.below(stop - start)
    return RelEdit(at, sequence[at], "ACGT".replace(sequence[at], "")[draws.below(3)])


def draw_indel(sequence: str, start: int, stop: int, draws: TrainDraws) -> RelEdit | None:
    """Propose an insertion or a deletion, with probability 1/2 each, inside ``[start, stop)``, 0-based.

    The position of the anchor base is uniform over ``[start, stop - length)``, and inserted bases are uniform. Returns
    None if the range is too short for the drawn length.
    """
    event_bp, inserts = draw_event_bp(draws), draws.below(2) == 1
    if stop - event_bp <= start:
        return None
    at = start + draws.below(stop - event_bp - start)
    if not inserts:
        return RelEdit(at, sequence[at : at + 1 + event_bp], sequence[at])
    return RelEdit(at, sequence[at], sequence[at] + "".join("ACGT"[draws.below(4)] for _ in range(event_bp)))


def draw_event_bp(draws: TrainDraws) -> int:
    """Draw the length of an insertion or deletion in bases: geometric(0.5), truncated to 1 to :data:`MAX_EVENT_BP`.

    The length is 16 minus the bit length of a uniform number from 1 to 2**15 - 1. Of these numbers 2**(b - 1) have b
    bits, so length n has the exact probability 2**(15 - n) / (2**15 - 1).
    """
    return MAX_EVENT_BP + 1 - (1 + draws.below(2**MAX_EVENT_BP - 1)).bit_length()
