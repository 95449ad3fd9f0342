"""Edits: absolute, relative to a window, and applied to a window that keeps its length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from genolewm_assets.errors import EditError, ReferenceMismatchError
from genolewm_assets.genome.intervals import pos_from_start, start_from_pos
from genolewm_assets.genome.sequence import reverse_complement
from genolewm_assets.genome.variants import EditType, Variant, canonical_alleles
from genolewm_assets.genome.windows import TOKEN_BP

__all__ = [
    "INSET_BP",
    "EditSpec",
    "EditType",
    "EditedWindow",
    "LengthPolicy",
    "RelEdit",
    "apply_edit",
    "apply_edits",
    "check_inset",
    "invert_edit",
    "is_inset",
    "reverse_complement_edit",
    "unapply_edits",
]

#: Bases at either end of a window that no edit touches.
INSET_BP = 64

#: Which side gives or takes the bases by which an edit changes the length. ``opposite``: the side away from the edit;
#: ``left_flank`` is the mirror image of ``right_flank``, for windows read on the other strand.
LengthPolicy = Literal["right_flank", "left_flank", "opposite"]


@dataclass(frozen=True, slots=True, order=True)
class EditSpec:
    """An edit at its place on the reference.

    Parameters
    ----------
    chrom
        Canonical contig name.
    pos
        1-based position of the first base of ``ref``.
    ref, alt
        Alleles, upper-cased here and never empty; equal ones make the null edit.

    Raises
    ------
    AlleleError
        If an allele is not a sequence.
    IntervalError
        If ``pos`` is under 1.
    """

    chrom: str
    pos: int
    ref: str
    alt: str

    def __post_init__(self) -> None:
        ref, alt = canonical_alleles(f"{self.chrom}:{self.pos}", self.ref, self.alt)
        start_from_pos(self.pos)
        object.__setattr__(self, "ref", ref)
        object.__setattr__(self, "alt", alt)

    @classmethod
    def from_variant(cls, variant: Variant) -> EditSpec:
        """Return the edit that makes a variant."""
        return cls(variant.chrom, variant.pos, variant.ref, variant.alt)

    def relative_to(self, window_start: int) -> RelEdit:
        """Return the edit in the coordinates of a window that starts at a 0-based position.

        Raises
        ------
        EditError
            If the edit starts left of the window.
        """
        return RelEdit(start_from_pos(self.pos) - window_start, self.ref, self.alt)


@dataclass(frozen=True, slots=True, order=True)
class RelEdit:
    """An edit inside a window.

    Parameters
    ----------
    rel_pos
        0-based index, in the unedited window, of the first base of ``ref``.
    ref, alt
        Alleles, upper-cased here and never empty; equal ones make the null edit.

    Raises
    ------
    AlleleError
        If an allele is not a sequence.
    EditError
        If ``rel_pos`` is negative.
    """

    rel_pos: int
    ref: str
    alt: str

    def __post_init__(self) -> None:
        ref, alt = canonical_alleles(f"edit at rel_pos {self.rel_pos}", self.ref, self.alt)
        if self.rel_pos < 0:
            raise EditError(
                f"edit {ref}>{alt}", "starts left of the window", expected="rel_pos >= 0", got=f"{self.rel_pos}"
            )
        object.__setattr__(self, "ref", ref)
        object.__setattr__(self, "alt", alt)

    def __str__(self) -> str:
        return f"{self.rel_pos}:{self.ref}>{self.alt}"

    @property
    def rel_end(self) -> int:
        """Index after the last base of ``ref``."""
        return self.rel_pos + len(self.ref)

    @property
    def length_change(self) -> int:
        """Bases gained; negative: lost."""
        return len(self.alt) - len(self.ref)

    @property
    def kind(self) -> EditType:
        """Type of the change, padding aside."""
        return EditType.of(self.ref, self.alt)

    def absolute(self, chrom: str, window_start: int) -> EditSpec:
        """Return the edit on the reference, for a window that starts at a 0-based position."""
        return EditSpec(chrom, pos_from_start(window_start + self.rel_pos), self.ref, self.alt)


@dataclass(frozen=True, slots=True)
class EditedWindow:
    """A window after its edits, with all that is needed to take them back.

    Parameters
    ----------
    sequence
        The edited window, as long as the unedited one.
    edits
        The edits applied, sorted, in the coordinates of the unedited window.
    left_flank, right_flank
        The flanks that were handed in, less the bases pulled into the window, plus those pushed out of it:
        ``left_flank + sequence + right_flank`` is the edited haplotype.
    origin_shift
        How far bases left of every edit moved inside the window: 0 where the right flank absorbs the change,
        ``-length_change`` where the left one does.
    length_change
        Bases gained by the haplotype; negative: lost.
    """

    sequence: str
    edits: tuple[RelEdit, ...]
    left_flank: str
    right_flank: str
    origin_shift: int
    length_change: int

    @property
    def frame_shift(self) -> int:
        """Change of length modulo 6: not 0 where the tokens beside the edit are re-framed."""
        return self.length_change % TOKEN_BP


def apply_edit(
    window: str, edit: RelEdit, *, right_flank: str, policy: LengthPolicy = "right_flank", left_flank: str = ""
) -> EditedWindow:
    """Apply one edit to a window; see :func:`apply_edits`.

    Examples
    --------
    >>> apply_edit("ACGTACGT", RelEdit(1, "CG", "C"), right_flank="TTT").sequence
    'ACTACGTT'
    """
    return apply_edits(window, (edit,), right_flank=right_flank, policy=policy, left_flank=left_flank)


def apply_edits(
    window: str,
    edits: Sequence[RelEdit],
    *,
    right_flank: str,
    policy: LengthPolicy = "right_flank",
    left_flank: str = "",
) -> EditedWindow:
    """Apply edits to a window, which keeps its length.

    Parameters
    ----------
    window
        Unedited sequence, upper-case.
    edits
        In any order, each in the coordinates of the unedited window; two of them have at least one token (6 bp)
        of unedited bases between them.
    right_flank, left_flank
        Reference bases that follow and precede the window: deletions pull from them, insertions push into them.
    policy
        The side that absorbs the change of length. ``opposite`` takes the left one where the edits lie, taken
        together, in the right half of the window.

    Raises
    ------
    EditError
        If an edit leaves the window, edits are too close, or the flank is too short or not ACGT where bases are pulled.
    ReferenceMismatchError
        If an edit's ``ref`` differs from the window.
    """
    ordered = tuple(sorted(edits))
    _check_edits(window, ordered)
    body = _splice(window, ordered)
    change, size = len(body) - len(window), len(window)
    from_left = _absorbs_left(policy, ordered, size)
    flank = left_flank if from_left else right_flank
    pulled = flank[change:] if from_left and change < 0 else flank[: max(0, -change)]
    if len(pulled) < -change or (change < 0 and pulled.strip("ACGT")):
        raise EditError(
            f"edits {', '.join(map(str, ordered))}",
            f"the {'left' if from_left else 'right'} flank cannot give the bases deleted",
            expected=f"{-change} ACGT bases",
            got=repr(pulled),
            remedy="Hand in the reference bases beside the window, or redraw the edit",
        )
    if from_left:
        haplotype = left_flank + body
        cut = len(haplotype) - size
        return EditedWindow(haplotype[cut:], ordered, haplotype[:cut], right_flank, -change, change)
    haplotype = body + right_flank
    return EditedWindow(haplotype[:size], ordered, left_flank, haplotype[size:], 0, change)


def unapply_edits(edited: EditedWindow) -> tuple[str, str, str]:
    """Take the edits of a window back.

    Returns
    -------
    tuple[str, str, str]
        Left flank, window and right flank as they were handed to :func:`apply_edits`.
    """
    size = len(edited.sequence)
    haplotype = edited.left_flank + edited.sequence + edited.right_flank
    first = len(edited.left_flank) + edited.origin_shift
    last = first + size + edited.length_change
    gained, inverse = 0, []
    for edit in edited.edits:
        inverse.append(RelEdit(edit.rel_pos + gained, edit.alt, edit.ref))
        gained += edit.length_change
    return haplotype[:first], _splice(haplotype[first:last], inverse), haplotype[last:]


def invert_edit(edit: RelEdit) -> RelEdit:
    """Return the edit that takes a single edit back, where the right flank absorbed its change of length."""
    return RelEdit(edit.rel_pos, edit.alt, edit.ref)


def reverse_complement_edit(edit: RelEdit, window_bp: int) -> RelEdit:
    """Return the same edit on the window's other strand.

    The base that anchors an indel is then on its right; both spellings are the same haplotype.

    Raises
    ------
    EditError
        If the edit leaves the window.
    """
    _check_inside(edit, window_bp)
    return RelEdit(window_bp - edit.rel_end, reverse_complement(edit.ref), reverse_complement(edit.alt))


def is_inset(edit: RelEdit, window_bp: int, inset_bp: int = INSET_BP) -> bool:
    """Tell whether both alleles of an edit stay clear of the first and last ``inset_bp`` bases of the window."""
    return edit.rel_pos >= inset_bp and edit.rel_pos + max(len(edit.ref), len(edit.alt)) <= window_bp - inset_bp


def check_inset(edit: RelEdit, window_bp: int, inset_bp: int = INSET_BP) -> None:
    """Raise :class:`EditError` unless :func:`is_inset`."""
    if not is_inset(edit, window_bp, inset_bp):
        raise EditError(
            f"edit {edit}",
            "too near the end of the window",
            expected=f"bases {inset_bp} to {window_bp - inset_bp - 1}",
            got=f"bases {edit.rel_pos} to {edit.rel_pos + max(len(edit.ref), len(edit.alt)) - 1}",
        )


def _splice(body: str, edits: Sequence[RelEdit]) -> str:
    """Replace each ref by its alt, right to left, so that the positions still to come stay valid."""
    for edit in reversed(edits):
        body = body[: edit.rel_pos] + edit.alt + body[edit.rel_end :]
    return body


def _absorbs_left(policy: LengthPolicy, edits: Sequence[RelEdit], window_bp: int) -> bool:
    if policy == "opposite":
        return bool(edits) and edits[0].rel_pos + edits[-1].rel_end > window_bp
    if policy not in {"right_flank", "left_flank"}:
        raise EditError("policy", "unknown", expected="'right_flank', 'left_flank' or 'opposite'", got=repr(policy))
    return policy == "left_flank"


def _check_edits(window: str, edits: Sequence[RelEdit]) -> None:
    for edit in edits:
        _check_inside(edit, len(window))
        bases = window[edit.rel_pos : edit.rel_end]
        if bases != edit.ref:
            raise ReferenceMismatchError(
                f"edit {edit}", "ref allele differs from the window", expected=repr(bases), got=repr(edit.ref)
            )
    for before, after in pairwise(edits):
        gap = after.rel_pos - before.rel_end
        if gap < TOKEN_BP:
            raise EditError(
                f"edits {before} and {after}",
                "too close to each other",
                expected=f"at least {TOKEN_BP} bases between them",
                got=f"{gap}",
            )


def _check_inside(edit: RelEdit, window_bp: int) -> None:
    if edit.rel_end > window_bp:
        raise EditError(
            f"edit {edit}", "leaves the window", expected=f"an end of at most {window_bp}", got=f"{edit.rel_end}"
        )
