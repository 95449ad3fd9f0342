"""Sample the edits of a window: real alleles, synthetic SNVs and indels, one to three per haplotype."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.draws import DrawKey, TrainDraws
from genolewm_assets.edits.held_sequences import HeldSequences
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.rules import EDIT_SOURCE_CODES, EditSource, Redraw, SamplingRules
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.errors import EditError
from genolewm_assets.genome import EditedWindow, EditSpec, RelEdit
from genolewm_assets_tests.referees.sampling.plain_synthetic import draw_indel, draw_snv
from genolewm_assets_tests.referees.sampling.rules_by_bases import RulesByBases

#: Synthetic proposals of one source for one slot, after which the source counts as exhausted.
_ATTEMPTS = 64


@dataclass(frozen=True, slots=True)
class SampledHaplotype:
    """One slot of a window; ``allele_row`` is the row of a single real allele in the index of its source, else -1."""

    planned: EditSource
    source: EditSource
    edited: EditedWindow
    locus_bp: int
    alleles: tuple[EditSpec, ...] = ()
    allele_row: int = -1
    phased: bool = False


@dataclass(frozen=True, slots=True)
class _Proposal:
    edit: RelEdit
    source: EditSource
    allele_row: int = -1


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
    """Samples the edits of windows; keeps no state between windows."""

    def __init__(
        self,
        real: Mapping[EditSource, AlleleIndex],
        held_out: AlleleIndex,
        rules: SamplingRules | None = None,
        held_sequences: HeldSequences | None = None,
    ) -> None:
        self._real, self._rules = dict(real), RulesByBases(rules or SamplingRules(), held_out, held_sequences)

    def sample(
        self, window: WindowRecord, plan: Sequence[EditSource], key: DrawKey
    ) -> tuple[tuple[SampledHaplotype, ...], Counter[str]]:
        """Sample a haplotype for every slot; where the planned source has no allowed edit left, a synthetic SNV."""
        site = _Site(EditPlace(window), {window.sequence})
        # One iterator per source and window, so that a real allele is the first edit of at most one slot.
        real_proposals = {
            source: self._alleles(site, source, 0, len(window.sequence), key.draws(2**31 + EDIT_SOURCE_CODES[source]))
            for source in self._real
        }
        filled: list[SampledHaplotype] = []
        for slot, planned in enumerate(plan):
            draws = key.draws(slot)
            size = 2 + draws.below(2) if draws.uniform() < self._rules.limits.multi_edit_share else 1
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
        """Add edits in the pooled span until there are ``size``: of the first one's source, then synthetic SNVs.

        Returns fewer than ``size`` edits if no further edit is allowed.
        """
        haplotype = first
        while len(haplotype.edited.edits) < size:
            low, high = self._rules.reach_bp(site.place, haplotype.edited.edits)
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
            haplotype = replace(longer, source=first.source, allele_row=-1)
        return haplotype

    def _first_allowed(
        self, site: _Site, planned: EditSource, proposals: Iterator[_Proposal], present: tuple[RelEdit, ...]
    ) -> SampledHaplotype | None:
        """Return the haplotype of the first proposal that the rules allow together with ``present``, or None."""
        for proposal in proposals:
            edits = tuple(sorted((*present, site.place.normal_form(proposal.edit))))
            found = self._rules.apply(site.place, edits, site.taken)
            if isinstance(found, Redraw):
                site.redraws[found.value] += 1
                continue
            return SampledHaplotype(
                planned, proposal.source, found.edited, found.locus_bp, found.alleles, proposal.allele_row
            )
        return None

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
                yield _Proposal(edit, source, rows[choice])

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
        return max(low, self._rules.limits.first_bp), min(high, len(site.window.sequence) - self._rules.limits.inset_bp)
