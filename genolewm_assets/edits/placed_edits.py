"""Convert edits between a window's strand and the reference, normalise them, find where haplotypes first differ."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.errors import EditError
from genolewm_assets.genome import (
    EditedWindow,
    EditSpec,
    RelEdit,
    left_align,
    pos_from_start,
    reverse_complement,
    reverse_complement_edit,
    start_from_pos,
)


class EditPlace:
    """One window, and its coordinates on the reference if the window has an exact placement."""

    __slots__ = ("_bases", "_context", "_contig", "_is_reverse", "_plus", "_size", "_start", "window")

    def __init__(self, window: WindowRecord) -> None:
        self.window = window
        self._size = len(window.sequence)
        self._context = (window.sequence + window.right_flank).encode("ascii")
        self._bases = np.frombuffer(self._context, dtype=np.uint8, count=self._size)
        self._contig, self._start = window.contig, window.start or 0
        self._is_reverse = window.strand == "-"
        # On the plus strand the context includes the right flank, from which an indel can move left into the window. On
        # the minus strand that flank lies left of the window on the reference; an edit that would move there is not
        # inset and is rejected.
        self._plus = reverse_complement(window.sequence).encode("ascii") if self._is_reverse else self._context

    @property
    def is_placed(self) -> bool:
        """Whether the window has an exact placement on the reference."""
        return self._contig is not None

    def reference_span(self, low: int, high: int) -> tuple[str, int, int] | None:
        """Return contig, start and end (0-based half-open) of the window's bases ``[low, high)``; None if unplaced."""
        if self._contig is None:
            return None
        if self._is_reverse:
            low, high = self._size - high, self._size - low
        return self._contig, self._start + low, self._start + high

    def edit_of(self, pos: int, ref: str, alt: str) -> RelEdit | None:
        """Return a reference allele (``pos`` 1-based) as an edit of the placed window, in the window's normal form.

        Returns None if ``ref`` extends beyond the window or differs from it.
        """
        at = start_from_pos(pos) - self._start
        if not 0 <= at <= self._size - len(ref) or self._plus[at : at + len(ref)] != ref.encode():
            return None
        edit = RelEdit(at, ref, alt)
        return self.normal_form(reverse_complement_edit(edit, self._size) if self._is_reverse else edit)

    def normal_form(self, edit: RelEdit) -> RelEdit:
        """Return an edit trimmed and left-aligned in the window's direction."""
        return _left_aligned(edit, self._context)

    def on_reference(self, edit: RelEdit) -> RelEdit:
        """Return an edit in the reference's normal form: on the plus strand, relative to the window's start there."""
        return _left_aligned(reverse_complement_edit(edit, self._size), self._plus) if self._is_reverse else edit

    def allele(self, plus_edit: RelEdit) -> EditSpec:
        """Return the reference allele of an edit that :meth:`on_reference` returned."""
        if self._contig is None:
            raise EditError(f"window {self.window.window_id}", "has no place on the reference")
        return plus_edit.absolute(self._contig, self._start)

    def joined(self, edits: Sequence[RelEdit]) -> RelEdit:
        """Return sorted edits as one edit that spans them and the bases between, in the window's normal form."""
        sequence, first, last = self.window.sequence, edits[0], edits[-1]
        between = (sequence[before.rel_end : after.rel_pos] + after.alt for before, after in pairwise(edits))
        alt = first.alt + "".join(between)
        return _left_aligned(RelEdit(first.rel_pos, sequence[first.rel_pos : last.rel_end], alt), self._context)

    def first_difference(self, edit: RelEdit) -> int | None:
        """Return the 0-based base of the unedited window at which an edit alone first differs; None if it does not.

        A deletion in a repeat makes a difference at the end of the repeat, which may lie in the right flank.
        """
        if len(edit.ref) == len(edit.alt) == 1:
            return edit.rel_pos
        if min(len(edit.ref), len(edit.alt)) == 1 and edit.ref[0] == edit.alt[0]:
            end = self.last_difference(edit)
            return None if end == len(self._context) else end - max(0, len(edit.ref) - len(edit.alt))
        after = np.frombuffer(edit.alt.encode("ascii") + self._context[edit.rel_end :], dtype=np.uint8)
        before = np.frombuffer(self._context, dtype=np.uint8, offset=edit.rel_pos)
        size = min(len(before), len(after))
        differs = before[:size] != after[:size]
        at = int(differs.argmax())
        return edit.rel_pos + at if differs[at] else None

    def last_difference(self, edit: RelEdit) -> int:
        """Return the end of the unedited bases that an edit, moved along a repeat, can be said to change."""
        if len(edit.ref) == len(edit.alt):
            return edit.rel_end
        # The inserted or deleted bases move right by one while the first of them recurs behind the last.
        event = deque(max(edit.ref, edit.alt, key=len)[1:].encode("ascii"))
        end, context = edit.rel_end, self._context
        while end < len(context) and context[end] == event[0]:
            event.rotate(-1)
            end += 1
        return end

    def locus_bp(self, edited: EditedWindow) -> int | None:
        """Return the 0-based base of the unedited window at which the haplotypes first differ; None if they do not."""
        shift = edited.origin_shift
        low, high = max(edited.edits[0].rel_pos, -shift), self._size - max(0, shift)
        after = np.frombuffer(edited.sequence.encode("ascii"), dtype=np.uint8)[low + shift : high + shift]
        differs = self._bases[low:high] != after
        # argmax returns 0 if no element is True, so the element is tested too.
        at = int(differs.argmax())
        return low + at if high > low and differs[at] else None


def _left_aligned(edit: RelEdit, context: bytes) -> RelEdit:
    """Return an edit trimmed and left-aligned in ``context``, the sequence that its position counts from."""
    if len(edit.ref) == len(edit.alt) == 1:
        return edit
    pos, ref, alt = left_align(pos_from_start(edit.rel_pos), edit.ref, edit.alt, context)
    return RelEdit(start_from_pos(pos), ref, alt)
