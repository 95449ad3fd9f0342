"""Rules that decide whether edits may stand together in a window. Not here: which edits are proposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, pairwise
from typing import Final, get_args

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import (
    INSET_BP,
    TOKEN_BP,
    EditedWindow,
    EditSpec,
    LengthPolicy,
    RelEdit,
    apply_edits,
    is_inset,
)
from genolewm_assets.states import Pooling


class EditSource(StrEnum):
    """Source of an edit (RFC-0006 §3.3)."""

    GNOMAD = "gnomad"
    SYNTHETIC_SNV = "synthetic_snv"
    SYNTHETIC_INDEL = "synthetic_indel"
    CLINVAR = "clinvar"


#: Code by source of an edit, in the order of :class:`EditSource`, to which sources are appended.
EDIT_SOURCE_CODES: Final[Mapping[EditSource, int]] = {source: code for code, source in enumerate(EditSource)}


class Redraw(StrEnum):
    """Reason why a proposal was rejected and another one drawn.

    ``leaves_inset``: an edit touches an edge margin, or has too little left context. ``held_out``: an edit, or several
    edits together, make a held-out allele or, in a window without an exact placement, undo or stand beside one.
    ``duplicate``: the haplotype equals the window or another slot's haplotype. ``no_difference``: the haplotypes do not
    differ in the window before its right margin, or not in the token of the locus. ``too_close``: fewer than 6 bp
    between two edits. ``beyond_flank``: the net change of length exceeds the shorter flank. ``other_reference``: the
    allele's ``ref`` differs from the window or extends beyond it. ``outside_pooled``: an edit lies outside of the
    tokens that the tuple's states are averaged over.
    """

    LEAVES_INSET = "leaves_inset"
    HELD_OUT = "held_out"
    DUPLICATE = "duplicate"
    NO_DIFFERENCE = "no_difference"
    TOO_CLOSE = "too_close"
    BEYOND_FLANK = "beyond_flank"
    OTHER_REFERENCE = "other_reference"
    OUTSIDE_POOLED = "outside_pooled"


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """Rules for the edits of a window.

    Raises
    ------
    ConfigurationError
        If a value is out of range.
    """

    #: Bases at each end of the window that no edit touches; the first difference between the haplotypes does not lie in
    #: the last ``inset_bp`` bases either.
    inset_bp: int = INSET_BP
    #: Least number of bases of the window left of an edit.
    min_left_context_bp: int = 0
    #: Probability that a slot is planned with 2 or 3 edits, 0 to 1.
    multi_edit_share: float = 0.1
    #: Flank that supplies or takes up bases when an edit changes the length.
    policy: LengthPolicy = "right_flank"
    #: Blocks that the states of the haplotype's tuple are averaged over. Every edit lies in them, at the first base at
    #: which it alone makes a difference; of several edits, every base that one deletes does too.
    pooling: Pooling = field(default_factory=Pooling)

    def __post_init__(self) -> None:
        if not 0 <= self.multi_edit_share <= 1 or min(self.inset_bp, self.min_left_context_bp) < 0:
            raise ConfigurationError(
                "edit sampling", "rules out of range", expected="a share from 0 to 1 and bases from 0", got=str(self)
            )
        if self.policy not in get_args(LengthPolicy):
            raise ConfigurationError(
                "length policy", "unknown", expected=f"one of {get_args(LengthPolicy)}", got=repr(self.policy)
            )

    @property
    def first_bp(self) -> int:
        """Lowest allowed position of an edit in the window, 0-based."""
        return max(self.inset_bp, self.min_left_context_bp)


@dataclass(frozen=True, slots=True)
class AllowedHaplotype:
    """Allowed edits, and the base of the unedited window, 0-based, at which the haplotypes first differ."""

    edited: EditedWindow
    locus_bp: int
    alleles: tuple[EditSpec, ...]


@dataclass(frozen=True, slots=True)
class Haplotype:
    """The edits of one tuple and the edited window."""

    #: Source of the edits.
    source: EditSource
    #: The edited window; its edits are sorted and in the window's normal form.
    edited: EditedWindow
    #: Base of the unedited window at which the two haplotypes first differ, 0-based.
    locus_bp: int
    #: The edits as reference alleles in the reference's normal form; empty if the window has no exact placement.
    alleles: tuple[EditSpec, ...] = ()
    #: Whether phased genotypes show all the edits on one haplotype.
    phased: bool = False
    #: Row of a single allele in the index that it was taken from; -1 without one.
    allele_row: int = -1


class EditRules:
    """The limits of :class:`SamplingRules`, and the alleles that no edit may make."""

    __slots__ = ("_held_out", "limits")

    def __init__(self, limits: SamplingRules, held_out: AlleleIndex) -> None:
        self.limits, self._held_out = limits, held_out

    def apply(
        self,
        place: EditPlace,
        edits: tuple[RelEdit, ...],
        taken: AbstractSet[str] = frozenset(),
        *,
        shown_at_locus: bool = True,
    ) -> AllowedHaplotype | Redraw:
        """Apply edits, sorted and in normal form, or return the reason why they are not allowed."""
        window = place.window
        on_reference = tuple(map(place.on_reference, edits))
        refusal = self._misplaced(window, edits, on_reference)
        if refusal is not None:
            return refusal
        alleles = tuple(map(place.allele, on_reference)) if place.is_placed else ()
        if any(map(self._is_held_out, (*alleles, *_joined_alleles(place, edits)))):
            return Redraw.HELD_OUT
        edited = apply_edits(
            window.sequence,
            edits,
            right_flank=window.right_flank,
            policy=self.limits.policy,
            left_flank=window.left_flank,
        )
        locus_bp, last = place.locus_bp(edited), len(window.sequence) - self.limits.inset_bp
        if locus_bp is None or locus_bp >= last or (shown_at_locus and not _shows(window.sequence, edited, locus_bp)):
            return Redraw.NO_DIFFERENCE
        if not self._is_pooled(place, edits, locus_bp):
            return Redraw.OUTSIDE_POOLED
        return Redraw.DUPLICATE if edited.sequence in taken else AllowedHaplotype(edited, locus_bp, alleles)

    def reach_bp(self, place: EditPlace, edits: tuple[RelEdit, ...]) -> tuple[int, int]:
        """Return the bases ``[low, high)`` of the window in which a further edit is pooled together with ``edits``."""
        tokens = [at // TOKEN_BP for at in map(place.first_difference, edits) if at is not None]
        low, high = self.limits.pooling.reach(min(tokens), max(tokens), place.window.n_tokens)
        return low * TOKEN_BP, high * TOKEN_BP

    def _misplaced(
        self, window: WindowRecord, edits: tuple[RelEdit, ...], on_reference: tuple[RelEdit, ...]
    ) -> Redraw | None:
        """Return the reason why the positions of edits are not allowed, or None."""
        size, inset_bp = len(window.sequence), self.limits.inset_bp
        if edits[0].rel_pos < self.limits.first_bp:
            return Redraw.LEAVES_INSET
        if not all(is_inset(edit, size, inset_bp) for edit in (*edits, *on_reference)):
            return Redraw.LEAVES_INSET
        if any(after.rel_pos - before.rel_end < TOKEN_BP for before, after in pairwise(edits)):
            return Redraw.TOO_CLOSE
        change = sum(edit.length_change for edit in edits)
        spare_bp = min(len(window.right_flank), len(window.left_flank))
        return Redraw.BEYOND_FLANK if abs(change) > spare_bp else None

    def _is_pooled(self, place: EditPlace, edits: tuple[RelEdit, ...], locus_bp: int) -> bool:
        """Return whether every edit lies in the tokens that the states of the tuple are averaged over."""
        first, after = self.limits.pooling.tokens(locus_bp // TOKEN_BP, place.window.n_tokens)
        places = map(place.first_difference, edits)
        # A single deletion may be longer than the span; beside another edit, all that it deletes lies inside.
        ends_inside = len(edits) == 1 or max(edit.rel_end for edit in edits) <= after * TOKEN_BP
        return ends_inside and all(at is not None and first <= at // TOKEN_BP < after for at in places)

    def _is_held_out(self, allele: EditSpec) -> bool:
        return self._held_out.contains(allele.chrom, allele.pos, allele.ref, allele.alt)


def _joined_alleles(place: EditPlace, edits: tuple[RelEdit, ...]) -> Iterator[EditSpec]:
    """Yield the allele of each run of neighbouring edits: two SNVs make an MNV, which may be held out."""
    if place.is_placed and len(edits) > 1:
        for first, last in combinations(range(len(edits)), 2):
            yield place.allele(place.on_reference(place.joined(edits[first : last + 1])))


def _shows(window: str, edited: EditedWindow, locus_bp: int) -> bool:
    """Return whether the token that contains the locus differs between the two windows."""
    token = slice(locus_bp // TOKEN_BP * TOKEN_BP, locus_bp // TOKEN_BP * TOKEN_BP + TOKEN_BP)
    return window[token] != edited.sequence[token]
