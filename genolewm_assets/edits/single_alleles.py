"""Make a given allele the only edit of a window, without a random choice.

Not here: the rules that every haplotype keeps (``rules``), random edits (``training.sampler``).
"""

from __future__ import annotations

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.rules import EditRules, Haplotype, Redraw, SamplingRules
from genolewm_assets.edits.sources import EditSource
from genolewm_assets.edits.windows import WindowRecord


class AlleleMaker:
    """Makes single ClinVar alleles the edits of windows; keeps no state between windows.

    Parameters
    ----------
    held_out
        Alleles that no edit may make.
    rules
        Limits; None: the defaults.
    """

    def __init__(self, held_out: AlleleIndex, rules: SamplingRules | None = None) -> None:
        self._rules = EditRules(rules or SamplingRules(), held_out)

    def make(self, window: WindowRecord, allele: tuple[int, str, str], row: int = -1) -> Haplotype | Redraw:
        """Make an allele the only edit of a window.

        Parameters
        ----------
        window
            Window with an exact placement.
        allele
            pos (1-based), ref and alt on the window's contig, in normal form.
        row
            Row of the allele in its index; copied to the haplotype.

        Returns
        -------
        Haplotype or Redraw
            The haplotype, or the reason why the window cannot show the allele.

        Notes
        -----
        If bases of the left flank replace deleted ones, the token of the locus may be equal in both windows; tokens on
        its left then differ.
        """
        place = EditPlace(window)
        edit = place.edit_of(*allele)
        if edit is None:
            return Redraw.OTHER_REFERENCE
        found = self._rules.apply(place, (edit,), {window.sequence}, shown_at_locus=False)
        if isinstance(found, Redraw):
            return found
        return Haplotype(EditSource.CLINVAR, found.edited, found.locus_bp, found.alleles, allele_row=row)
