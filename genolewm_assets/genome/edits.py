"""Edits of DNA, in reference or window coordinates, and their application to a window of constant length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from genolewm_assets.errors import EditError, ReferenceMismatchError
from genolewm_assets.genome.intervals import pos_from_start, start_from_pos
from genolewm_assets.genome.sequence import reverse_complement
from genolewm_assets.genome.variants import EditType, canonical_alleles
from genolewm_assets.genome.windows import TOKEN_BP

#: Bases at each end of a window that no edit may touch.
INSET_BP = 64

#: Flank that supplies the bases pulled in by a deletion and takes the bases pushed out by an insertion. ``opposite``:
#: the flank farther from the edits. ``left_flank`` mirrors ``right_flank``, for windows read on the other strand.
LengthPolicy = Literal["right_flank", "left_flank", "opposite"]


@dataclass(frozen=True, slots=True, order=True)
class EditSpec:
    """An edit in reference coordinates.

    Parameters
    ----------
    pos
        1-based position of the first base of ``ref``, as in VCF.
    ref, alt
        Alleles over ACGT, never empty; converted to upper case. Equal alleles make a null edit. N is accepted in
        ``ref``, and in ``alt`` as the anchor that it shares with ``ref``.

    Raises
    ------
    AlleleError, IntervalError
        If an allele is empty or holds another symbol; if ``pos`` is under 1.
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

    def relative_to(self, window_start: int) -> RelEdit:
        """Convert to the coordinates of a window on the same contig with a 0-based start; its end is not checked.

        Raises
        ------
        EditError
            If the edit starts left of the window.
        """
        return RelEdit(start_from_pos(self.pos) - window_start, self.ref, self.alt)


@dataclass(frozen=True, slots=True, order=True)
class RelEdit:
    """An edit in window coordinates.

    Parameters
    ----------
    rel_pos
        0-based index, in the unedited window, of the first base of ``ref``.
    ref, alt
        As in :class:`EditSpec`.

    Raises
    ------
    AlleleError, EditError
        If an allele is empty or holds another symbol; if ``rel_pos`` is negative.
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
        """0-based index of the base after ``ref``, in the unedited window."""
        return self.rel_pos + len(self.ref)

    @property
    def length_change(self) -> int:
        """Length of ``alt`` minus length of ``ref``, in bases; negative for a deletion."""
        return len(self.alt) - len(self.ref)

    @property
    def kind(self) -> EditType:
        """Type of the edit after trimming; a null edit has none and raises :class:`AlleleError`."""
        return EditType.of(self.ref, self.alt)

    def absolute(self, chrom: str, window_start: int) -> EditSpec:
        """Convert to reference coordinates, given the 0-based start of the window on its contig."""
        return EditSpec(chrom, pos_from_start(window_start + self.rel_pos), self.ref, self.alt)


@dataclass(frozen=True, slots=True)
class EditedWindow:
    """A window with its edits applied, and the data that reverts them.

    Parameters
    ----------
    sequence
        The edited window, as long as the unedited window.
    edits
        The edits applied, sorted by position, in the coordinates of the unedited window.
    left_flank, right_flank
        The input flanks, minus the bases pulled into the window, plus the bases pushed out of it: ``left_flank +
        sequence + right_flank`` is the edited haplotype.
    origin_shift
        Shift, in bases, of the window's bases left of the first edit: 0 if the right flank absorbs the change of
        length, ``-length_change`` if the left flank does.
    length_change
        Length of the edited haplotype minus that of the unedited one, in bases; negative if bases were lost.
    """

    sequence: str
    edits: tuple[RelEdit, ...]
    left_flank: str
    right_flank: str
    origin_shift: int
    length_change: int

    @property
    def frame_shift(self) -> int:
        """``length_change`` modulo 6; if it is not 0, tokens beside the edit change their reading frame."""
        return self.length_change % TOKEN_BP


def apply_edit(
    window: str, edit: RelEdit, *, right_flank: str, policy: LengthPolicy = "right_flank", left_flank: str = ""
) -> EditedWindow:
    """Apply one edit to a window; parameters and errors are those of :func:`apply_edits`.

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
    """Apply edits to a window and keep its length constant.

    Parameters
    ----------
    window
        Unedited sequence, upper-case.
    edits
        Edits in any order, each in the coordinates of the unedited window. Between two edits there are at least 6
        unedited bases (one token).
    right_flank, left_flank
        Reference bases after and before the window, upper-case. Deletions pull bases from a flank into the window,
        insertions push bases from the window into it.
    policy
        The flank that absorbs the change of length. ``opposite`` is the left flank if the middle of the span from the
        first to the last edit is in the right half of the window, otherwise the right flank.

    Raises
    ------
    EditError
        If an edit reaches past the end of the window, bases are inserted behind its last base, so that they go into the
        flank, two edits are too close, the flank is too short, a base pulled from it is not A, C, G or T, or the policy
        is unknown.
    ReferenceMismatchError
        If the ``ref`` of an edit differs from the window.
    """
    ordered = tuple(sorted(edits))
    _check_edits(window, ordered)
    body = window
    # From right to left, so that the positions of the remaining edits stay valid.
    for edit in reversed(ordered):
        body = body[: edit.rel_pos] + edit.alt + body[edit.rel_end :]
    change, size = len(body) - len(window), len(window)
    from_left = _absorbs_left(policy, ordered, size)
    if not from_left:
        _check_shown(ordered, size)
    flank = left_flank if from_left else right_flank
    pulled = flank[change:] if from_left and change < 0 else flank[: max(0, -change)]
    if len(pulled) < -change or (change < 0 and pulled.strip("ACGT")):
        raise EditError(
            f"edits {', '.join(map(str, ordered))}",
            f"the {'left' if from_left else 'right'} flank cannot replace the deleted bases",
            expected=f"{-change} ACGT bases",
            got=repr(pulled),
            remedy="Pass the reference bases beside the window as flank, or draw another edit",
        )
    if from_left:
        haplotype = left_flank + body
        cut = len(haplotype) - size
        return EditedWindow(haplotype[cut:], ordered, haplotype[:cut], right_flank, -change, change)
    haplotype = body + right_flank
    return EditedWindow(haplotype[:size], ordered, left_flank, haplotype[size:], 0, change)


def reverse_complement_edit(edit: RelEdit, window_bp: int) -> RelEdit:
    """Return the edit that makes the same change on the reverse complement of a window of ``window_bp`` bases.

    The anchor of an indel is then after the changed bases instead of before them; the haplotype is the same.

    Raises
    ------
    EditError
        If the edit reaches past the end of the window.
    """
    _check_inside(edit, window_bp)
    return RelEdit(window_bp - edit.rel_end, reverse_complement(edit.ref), reverse_complement(edit.alt))


def is_inset(edit: RelEdit, window_bp: int, inset_bp: int = INSET_BP) -> bool:
    """Tell whether neither allele of an edit touches the first or last ``inset_bp`` bases of the window."""
    return edit.rel_pos >= inset_bp and edit.rel_pos + max(len(edit.ref), len(edit.alt)) <= window_bp - inset_bp


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


def _check_shown(edits: Sequence[RelEdit], window_bp: int) -> None:
    """Raise if the last edit inserts bases behind the window, which thus stays as it is."""
    for edit in edits[-1:]:
        if edit.rel_end == window_bp and edit.ref != edit.alt and edit.alt.startswith(edit.ref):
            raise EditError(
                f"edit {edit}",
                "inserts bases behind the last base of the window, which does not show them",
                expected=f"an end before {window_bp}",
                remedy="Take a window around the edit",
            )


def _check_inside(edit: RelEdit, window_bp: int) -> None:
    if edit.rel_end > window_bp:
        raise EditError(
            f"edit {edit}",
            "reaches past the end of the window",
            expected=f"an end of at most {window_bp}",
            got=f"{edit.rel_end}",
        )
