"""Edits of one window, on its own strand and on the reference: normal forms, keys, and where the haplotypes differ.

Not here: drawing edits (``edit_sampling``), edits of sequences as such (``genome.edits``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

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
from genolewm_assets.lewm.training.windows import WindowRecord


class EditPlace:
    """One window with what edits of it need to know.

    Parameters
    ----------
    window
        The window.
    """

    __slots__ = ("_bases", "_context", "_contig", "_is_reverse", "_plus", "_size", "_start", "window")

    def __init__(self, window: WindowRecord) -> None:
        self.window = window
        self._size = len(window.sequence)
        self._context = (window.sequence + window.right_flank).encode("ascii")
        self._bases = np.frombuffer(self._context, dtype=np.uint8, count=self._size)
        self._contig, self._start = window.contig, window.start or 0
        self._is_reverse = window.strand == "-"
        # A window on the plus strand may read its right flank, as indels roll left from it; on the other strand the
        # flank lies left of it on the reference, where nothing that stays inset reaches.
        self._plus = reverse_complement(window.sequence).encode("ascii") if self._is_reverse else self._context

    @property
    def is_placed(self) -> bool:
        """Whether the window's place on the reference is known base for base."""
        return self._contig is not None

    def reference_span(self, low: int, high: int) -> tuple[str, int, int] | None:
        """Return contig, start and end on the reference of the window's bases ``[low, high)``, or None if unplaced."""
        if self._contig is None:
            return None
        if self._is_reverse:
            low, high = self._size - high, self._size - low
        return self._contig, self._start + low, self._start + high

    def edit_of(self, pos: int, ref: str, alt: str) -> RelEdit | None:
        """Return a reference allele (pos 1-based) as an edit of the placed window, in the window's normal form.

        None where it leaves the window or its ``ref`` differs.
        """
        at = start_from_pos(pos) - self._start
        if not 0 <= at <= self._size - len(ref) or self._plus[at : at + len(ref)] != ref.encode():
            return None
        edit = RelEdit(at, ref, alt)
        return self.normal_form(reverse_complement_edit(edit, self._size) if self._is_reverse else edit)

    def normal_form(self, edit: RelEdit) -> RelEdit:
        """Return an edit trimmed and left-aligned in the window's own direction."""
        return _left_aligned(edit, self._context)

    def on_reference(self, edit: RelEdit) -> RelEdit:
        """Return an edit in the reference's normal form, counted from the window's start on the plus strand."""
        return _left_aligned(reverse_complement_edit(edit, self._size), self._plus) if self._is_reverse else edit

    def allele(self, plus_edit: RelEdit) -> EditSpec:
        """Return what :meth:`on_reference` gave at its place on the reference.

        Raises
        ------
        EditError
            If the window has none.
        """
        if self._contig is None:
            raise EditError(f"window {self.window.window_id}", "has no place on the reference")
        return plus_edit.absolute(self._contig, self._start)

    def joined(self, edits: Sequence[RelEdit]) -> RelEdit:
        """Return neighbouring edits, sorted, as one edit from the first to the last, in the window's normal form."""
        sequence, first, last = self.window.sequence, edits[0], edits[-1]
        between = (sequence[before.rel_end : after.rel_pos] + after.alt for before, after in pairwise(edits))
        alt = first.alt + "".join(between)
        return self.normal_form(RelEdit(first.rel_pos, sequence[first.rel_pos : last.rel_end], alt))

    def locus_bp(self, edited: EditedWindow) -> int | None:
        """Return the base of the unedited window at which the two haplotypes first differ; None: nowhere inside it.

        Not the edit's position: a deletion in a repeat shows first where the repeat ends.
        """
        shift = edited.origin_shift
        low, high = max(edited.edits[0].rel_pos, -shift), self._size - max(0, shift)
        after = np.frombuffer(edited.sequence.encode("ascii"), dtype=np.uint8)[low + shift : high + shift]
        differs = self._bases[low:high] != after
        # The first True; 0 also where there is none.
        at = int(differs.argmax())
        return low + at if high > low and differs[at] else None


def _left_aligned(edit: RelEdit, context: bytes) -> RelEdit:
    if len(edit.ref) == len(edit.alt) == 1:
        return edit
    pos, ref, alt = left_align(pos_from_start(edit.rel_pos), edit.ref, edit.alt, context)
    return RelEdit(start_from_pos(pos), ref, alt)
