"""Sample the edits of a window: real alleles inside the window, synthetic SNVs and indels, one to three per haplotype.

Every edit returned is in normal form, lies outside the window's edge margins and is not held out. Its haplotype differs
from the window and from the haplotypes of the window's other slots. Not here: the order of sources (``schedule``),
synthetic proposals (``synthetic``), tuples made from haplotypes (``tuples``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations, pairwise
from typing import get_args

from genolewm_assets.errors import ConfigurationError, EditError
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
from genolewm_assets.lewm.states import RADIUS_TOKENS
from genolewm_assets.lewm.training.allele_index import AlleleIndex
from genolewm_assets.lewm.training.draws import DrawKey, TrainDraws
from genolewm_assets.lewm.training.placed_edits import EditPlace
from genolewm_assets.lewm.training.schedule import EditSource
from genolewm_assets.lewm.training.synthetic import draw_indel, draw_snv
from genolewm_assets.lewm.training.windows import WindowRecord

#: Synthetic proposals of one source for one slot, after which the source counts as exhausted.
_ATTEMPTS = 64

#: Further edits of a haplotype are drawn at most this far from the first edit, within the radius of a local state.
_COMPANION_BP = RADIUS_TOKENS * TOKEN_BP


class Redraw(StrEnum):
    """Reason why a proposal was rejected and another one drawn.

    ``leaves_inset``: an edit touches an edge margin, or has too little left context. ``held_out``: an edit, or several
    edits together, make a held-out allele. ``duplicate``: the haplotype equals the window or another slot's haplotype.
    ``no_difference``: the haplotypes do not differ in the window before its right margin, or not in the token of the
    locus. ``too_close``: fewer than 6 bp between two edits. ``beyond_flank``: the net change of length exceeds the
    shorter flank. ``other_reference``: the allele's ``ref`` differs from the window or extends beyond it.
    """

    LEAVES_INSET = "leaves_inset"
    HELD_OUT = "held_out"
    DUPLICATE = "duplicate"
    NO_DIFFERENCE = "no_difference"
    TOO_CLOSE = "too_close"
    BEYOND_FLANK = "beyond_flank"
    OTHER_REFERENCE = "other_reference"


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """Rules for the edits of a window.

    Parameters
    ----------
    inset_bp
        Bases at each end of the window that no edit touches; the first difference between the haplotypes does not lie
        in the last ``inset_bp`` bases either.
    min_left_context_bp
        Least number of bases of the window left of an edit.
    multi_edit_share
        Probability that a slot is planned with 2 or 3 edits, 0 to 1.
    policy
        Flank that supplies or takes up bases when an edit changes the length.

    Raises
    ------
    ConfigurationError
        If a value is out of range.
    """

    inset_bp: int = INSET_BP
    min_left_context_bp: int = 0
    multi_edit_share: float = 0.1
    policy: LengthPolicy = "right_flank"

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
class SampledHaplotype:
    """One slot of a window: the edits and the edited window.

    Attributes
    ----------
    planned, source
        Source that the mix planned, and source that the first edit came from.
    edited
        The edited window; its edits are sorted and in the window's normal form.
    locus_bp
        Base of the unedited window at which the two haplotypes first differ, 0-based.
    alleles
        The edits as reference alleles in the reference's normal form; empty if the window has no exact placement.
    label
        ClinVar class of a single ClinVar allele, else None.
    """

    planned: EditSource
    source: EditSource
    edited: EditedWindow
    locus_bp: int
    alleles: tuple[EditSpec, ...] = ()
    label: str | None = None


@dataclass(frozen=True, slots=True)
class _Proposal:
    """One proposed edit, its source, and the ClinVar class of a ClinVar allele."""

    edit: RelEdit
    source: EditSource
    label: str | None = None


@dataclass(slots=True)
class _Site:
    """State of one window while its slots are filled: sequences already used, and counts of redraws."""

    place: EditPlace
    taken: set[str]
    redraws: Counter[str] = field(default_factory=Counter)

    @property
    def window(self) -> WindowRecord:
        return self.place.window


class EditSampler:
    """Samples the edits of windows; keeps no state between windows.

    Parameters
    ----------
    real
        Alleles to draw from, by source.
    held_out
        Alleles that no edit of any source may make.
    rules
        Limits and shares; None: the defaults.
    """

    def __init__(
        self, real: Mapping[EditSource, AlleleIndex], held_out: AlleleIndex, rules: SamplingRules | None = None
    ) -> None:
        self._real, self._held_out, self._rules = dict(real), held_out, rules or SamplingRules()

    def sample(
        self, window: WindowRecord, plan: Sequence[EditSource], key: DrawKey
    ) -> tuple[tuple[SampledHaplotype, ...], Counter[str]]:
        """Sample one haplotype for every slot of a window.

        Parameters
        ----------
        plan
            Source of every slot.
        key
            Key of the window's random numbers.

        Returns
        -------
        tuple[SampledHaplotype, ...]
            One per slot. If the planned source has no allowed edit (left), the slot holds a synthetic SNV.
        Counter
            Rejected proposals by value of :class:`Redraw`.

        Raises
        ------
        EditError
            If no allowed edit is found for a slot.
        """
        site = _Site(EditPlace(window), {window.sequence})
        # One iterator per source and window, so that a real allele is the first edit of at most one slot.
        real_proposals = {
            source: self._alleles(site, source, 0, len(window.sequence), key.child(source.value).draws())
            for source in self._real
        }
        filled: list[SampledHaplotype] = []
        for slot, planned in enumerate(plan):
            draws = key.child(slot).draws()
            size = 2 + draws.below(2) if draws.uniform() < self._rules.multi_edit_share else 1
            synthetic = self._synthetic(site, planned, 0, len(window.sequence), draws)
            haplotype = self._first_allowed(site, planned, real_proposals.get(planned, synthetic), ())
            if haplotype is None:
                fallback = self._synthetic(site, EditSource.SYNTHETIC_SNV, 0, len(window.sequence), draws)
                haplotype = self._first_allowed(site, planned, fallback, ())
            if haplotype is None:
                raise EditError(
                    f"window {window.window_id}",
                    "no further edit is allowed",
                    expected=f"{len(plan)} distinct edits outside the edge margins",
                    got=f"{slot}",
                    remedy="Reduce n_edits or min_left_context_bp",
                )
            haplotype = self._with_companions(site, haplotype, size, draws)
            site.taken.add(haplotype.edited.sequence)
            filled.append(haplotype)
        return tuple(filled), site.redraws

    def _with_companions(self, site: _Site, first: SampledHaplotype, size: int, draws: TrainDraws) -> SampledHaplotype:
        """Add edits near the first one until there are ``size``: of the same source, then synthetic SNVs.

        Returns fewer than ``size`` edits if no further edit is allowed.
        """
        at, haplotype = first.edited.edits[0].rel_pos, first
        low, high = at - _COMPANION_BP, at + _COMPANION_BP
        while len(haplotype.edited.edits) < size:
            sources = dict.fromkeys((first.source, EditSource.SYNTHETIC_SNV))
            proposals = (
                proposal
                for source in sources
                for proposal in (self._alleles if source in self._real else self._synthetic)(
                    site, source, low, high, draws
                )
            )
            longer = self._first_allowed(site, first.planned, proposals, haplotype.edited.edits)
            if longer is None:
                break
            haplotype = replace(longer, source=first.source, label=None)
        return haplotype

    def _first_allowed(
        self, site: _Site, planned: EditSource, proposals: Iterator[_Proposal], present: tuple[RelEdit, ...]
    ) -> SampledHaplotype | None:
        """Return the haplotype of the first proposal that the rules allow together with ``present``, or None."""
        for proposal in proposals:
            edits = tuple(sorted((*present, site.place.normal_form(proposal.edit))))
            result = self._apply(site, edits)
            if isinstance(result, Redraw):
                site.redraws[result.value] += 1
                continue
            edited, locus_bp, alleles = result
            return SampledHaplotype(planned, proposal.source, edited, locus_bp, alleles, proposal.label)
        return None

    def _apply(
        self, site: _Site, edits: tuple[RelEdit, ...]
    ) -> tuple[EditedWindow, int, tuple[EditSpec, ...]] | Redraw:
        """Apply edits in normal form; return edited window, locus and alleles, or the reason for rejection."""
        window, place = site.window, site.place
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
            policy=self._rules.policy,
            left_flank=window.left_flank,
        )
        locus_bp, last = place.locus_bp(edited), len(window.sequence) - self._rules.inset_bp
        if locus_bp is None or locus_bp >= last or not _shows(window.sequence, edited, locus_bp):
            return Redraw.NO_DIFFERENCE
        if edited.sequence in site.taken:
            return Redraw.DUPLICATE
        return edited, locus_bp, alleles

    def _misplaced(
        self, window: WindowRecord, edits: tuple[RelEdit, ...], on_reference: tuple[RelEdit, ...]
    ) -> Redraw | None:
        """Return the reason why the positions of edits are not allowed, or None."""
        size, inset_bp = len(window.sequence), self._rules.inset_bp
        if edits[0].rel_pos < self._rules.first_bp:
            return Redraw.LEAVES_INSET
        if not all(is_inset(edit, size, inset_bp) for edit in (*edits, *on_reference)):
            return Redraw.LEAVES_INSET
        if any(after.rel_pos - before.rel_end < TOKEN_BP for before, after in pairwise(edits)):
            return Redraw.TOO_CLOSE
        change = sum(edit.length_change for edit in edits)
        spare_bp = min(len(window.right_flank), len(window.left_flank))
        return Redraw.BEYOND_FLANK if abs(change) > spare_bp else None

    def _is_held_out(self, allele: EditSpec) -> bool:
        return self._held_out.contains(allele.chrom, allele.pos, allele.ref, allele.alt)

    def _alleles(self, site: _Site, source: EditSource, low: int, high: int, draws: TrainDraws) -> Iterator[_Proposal]:
        """Yield the alleles of a source that begin in the window's bases ``[low, high)``, once each, in random order.

        Nothing is yielded for a window without an exact placement.
        """
        index = self._real[source]
        low, high = self._clip(site, low, high)
        span = site.place.reference_span(low, high)
        rows = range(0) if span is None else index.rows(*span)
        for choice in draws.permuted(len(rows)):
            edit = site.place.edit_of(*index.allele(rows[choice]))
            if edit is None:
                site.redraws[Redraw.OTHER_REFERENCE.value] += 1
            else:
                yield _Proposal(edit, source, index.label(rows[choice]))

    def _synthetic(
        self, site: _Site, source: EditSource, low: int, high: int, draws: TrainDraws
    ) -> Iterator[_Proposal]:
        """Yield up to ``_ATTEMPTS`` synthetic edits in the window's bases ``[low, high)``.

        The edits are indels for the source ``synthetic_indel``, and SNVs for any other.
        """
        low, high = self._clip(site, low, high)
        draw = draw_indel if source is EditSource.SYNTHETIC_INDEL else draw_snv
        served = EditSource.SYNTHETIC_INDEL if draw is draw_indel else EditSource.SYNTHETIC_SNV
        for _ in range(_ATTEMPTS):
            edit = draw(site.window.sequence, low, high, draws)
            if edit is not None:
                yield _Proposal(edit, served)

    def _clip(self, site: _Site, low: int, high: int) -> tuple[int, int]:
        """Restrict a range of the window's bases to the positions at which edits are allowed."""
        return max(low, self._rules.first_bp), min(high, len(site.window.sequence) - self._rules.inset_bp)


def _joined_alleles(place: EditPlace, edits: tuple[RelEdit, ...]) -> Iterator[EditSpec]:
    """Yield the allele that each run of neighbouring edits makes together.

    Two SNVs, for example, make an MNV, which may be held out although neither SNV is.
    """
    if place.is_placed and len(edits) > 1:
        for first, last in combinations(range(len(edits)), 2):
            yield place.allele(place.on_reference(place.joined(edits[first : last + 1])))


def _shows(window: str, edited: EditedWindow, locus_bp: int) -> bool:
    """Return whether the token that contains the locus differs between the two windows."""
    token = slice(locus_bp // TOKEN_BP * TOKEN_BP, locus_bp // TOKEN_BP * TOKEN_BP + TOKEN_BP)
    return window[token] != edited.sequence[token]
