"""Inverses of edits: revert an edited window, and the inverse of a single edit."""

from __future__ import annotations

from genolewm_assets.genome import EditedWindow, RelEdit


def unapply_edits(edited: EditedWindow) -> tuple[str, str, str]:
    """Return the left flank, window and right flank that were passed to ``apply_edits``."""
    haplotype = edited.left_flank + edited.sequence + edited.right_flank
    first = len(edited.left_flank) + edited.origin_shift
    last = first + len(edited.sequence) + edited.length_change
    window, at, source = [], 0, haplotype[first:last]
    gained = 0
    for edit in edited.edits:
        start = edit.rel_pos + gained
        window += [source[at:start], edit.ref]
        at = start + len(edit.alt)
        gained += edit.length_change
    return haplotype[:first], "".join([*window, source[at:]]), haplotype[last:]


def invert_edit(edit: RelEdit) -> RelEdit:
    """Return the edit that reverts a single edit whose change of length the right flank absorbed."""
    return RelEdit(edit.rel_pos, edit.alt, edit.ref)
