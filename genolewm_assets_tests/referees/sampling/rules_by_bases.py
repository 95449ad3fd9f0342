"""The rule that a window without an exact placement shows no held-out allele, as the compiled loops have it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.held_sequences import HeldSequences
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.rules import AllowedHaplotype, EditRules, Redraw, SamplingRules
from genolewm_assets.genome import EditedWindow, RelEdit
from genolewm_assets.packages import CONTEXT_BP


class RulesByBases(EditRules):
    """The rules, and the bases by which held-out alleles are told where a window has no place; None: by none."""

    def __init__(
        self, limits: SamplingRules, held_out: AlleleIndex, held_sequences: HeldSequences | None = None
    ) -> None:
        super().__init__(limits, held_out)
        self._held_sequences = held_sequences

    def apply(
        self,
        place: EditPlace,
        edits: tuple[RelEdit, ...],
        taken: AbstractSet[str] = frozenset(),
        *,
        shown_at_locus: bool = True,
    ) -> AllowedHaplotype | Redraw:
        found = super().apply(place, edits, taken, shown_at_locus=shown_at_locus)
        if isinstance(found, Redraw) or place.is_placed:
            return found
        return Redraw.HELD_OUT if self._shows_held_out(place, found.edited) else found

    def _shows_held_out(self, place: EditPlace, edited: EditedWindow) -> bool:
        """Return whether the bases that differ, or those around or between them, spell a held-out allele.

        The unedited bases count too: an edit that takes a held-out allele back tells its effect as one that makes it.
        An edit in a repeat reaches to the last place that it can be moved to.
        """
        held, bases, shift = self._held_sequences, place.window.sequence, edited.origin_shift
        if held is None:
            return False
        if len(edited.edits) == 1:  # nearly always; the rest of this function takes three times as long
            (edit,) = edited.edits
            end = edit.rel_end if len(edit.ref) == len(edit.alt) else place.last_difference(edit)
            gained = max(0, len(edit.alt) - len(edit.ref))
            before = around(bases, edit.rel_pos, end)
            return f"{before}N{around(edited.sequence, edit.rel_pos + shift, end + shift + gained)}" in held
        ends = [place.last_difference(edit) for edit in edited.edits]
        parts = [around(bases, edit.rel_pos, end) for edit, end in zip(edited.edits, ends, strict=True)]
        gained = sum(max(0, edit.length_change) for edit in edited.edits)
        parts.append(around(edited.sequence, edited.edits[0].rel_pos + shift, max(ends) + shift + gained))
        return "N".join(parts) in held


def around(bases: str, start: int, end: int) -> str:
    """Return the bases ``[start, end)`` with those on both sides that share a 31-mer with one of them."""
    return bases[max(0, start - CONTEXT_BP) : end + CONTEXT_BP]
