"""Sample haplotypes of two or three real alleles, from rows of the table ``HOLDOUT_HAPLOTYPES``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.draws import DrawKey, TrainDraws
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.rules import EditRules, EditSource, Haplotype, Redraw, SamplingRules
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.genome import TOKEN_BP, RelEdit

#: Numbers of alleles of a haplotype.
_SIZES = (2, 3)


@dataclass(frozen=True, slots=True)
class _Anchor:
    """An edit, and the edits after it that can be pooled together with it: row ``row`` of the table."""

    row: int
    first: RelEdit
    others: tuple[RelEdit, ...]

    def count(self, size: int) -> int:
        """Return the number of sets of ``size`` edits that begin with the first one."""
        n = len(self.others)
        return n if size == 2 else n * (n - 1) // 2

    def choose(self, size: int, number: int) -> tuple[RelEdit, ...]:
        """Return set ``number`` of :meth:`count`."""
        if size == 2:
            return self.first, self.others[number]
        # Pairs (i, j) with i < j in the order of j, then i.
        last = int((1 + np.sqrt(1 + 8 * number)) // 2)
        while last * (last - 1) // 2 > number:
            last -= 1
        return self.first, self.others[number - last * (last - 1) // 2], self.others[last]


class HaplotypeSampler:
    """Samples haplotypes of windows; keeps no state between windows.

    Parameters
    ----------
    haplotypes
        Rows of ``HOLDOUT_HAPLOTYPES``, in any order.
    held_out
        Alleles that no haplotype may make, alone or together.
    rules
        Limits; ``multi_edit_share`` is not used. None: the defaults.
    """

    def __init__(self, haplotypes: pa.Table, held_out: AlleleIndex, rules: SamplingRules | None = None) -> None:
        self._rules = EditRules(rules or SamplingRules(), held_out)
        self._phased: list[bool] = haplotypes["phased"].to_pylist()
        self._alleles: list[list[tuple[int, str, str]]] = [
            [(each["pos"], each["ref"], each["alt"]) for each in alleles]
            for alleles in haplotypes["alleles"].to_pylist()
        ]
        self._spans: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = {}
        contigs = np.array(haplotypes["contig"].to_pylist(), dtype=np.str_)
        for contig in np.unique(contigs).tolist():
            rows = np.flatnonzero(contigs == contig)
            first, last = (
                np.array([each(pos for pos, _, _ in self._alleles[row]) for row in rows]) for each in (min, max)
            )
            self._spans[contig] = rows, first, last

    def sample(self, window: WindowRecord, n_slots: int, key: DrawKey) -> tuple[tuple[Haplotype, ...], Counter[str]]:
        """Sample at most ``n_slots`` different haplotypes of a window, and count the rejected proposals by ``Redraw``.

        Each has two or three alleles of gnomAD; a window without an exact placement has none.
        """
        place, redraws = EditPlace(window), Counter[str]()
        anchors = self._anchors(place)
        proposals = {size: self._proposals(anchors, size, key.draws(size)) for size in _SIZES}
        taken = {window.sequence}
        filled: list[Haplotype] = []
        draws = key.draws(0)
        while len(filled) < n_slots:
            preferred = _SIZES[draws.below(2)]
            sizes = (preferred, *(size for size in _SIZES if size != preferred))
            haplotype = next(filter(None, (self._next(place, proposals[n], taken, redraws) for n in sizes)), None)
            if haplotype is None:
                break
            taken.add(haplotype.edited.sequence)
            filled.append(haplotype)
        return tuple(filled), redraws

    def _next(
        self,
        place: EditPlace,
        proposals: Iterator[tuple[int, tuple[RelEdit, ...]]],
        taken: set[str],
        redraws: Counter[str],
    ) -> Haplotype | None:
        """Return the haplotype of the next proposal that the rules allow, or None."""
        for row, edits in proposals:
            found = self._rules.apply(place, edits, taken)
            if not isinstance(found, Redraw):
                return Haplotype(EditSource.GNOMAD, found.edited, found.locus_bp, found.alleles, self._phased[row])
            redraws[found.value] += 1
        return None

    def _anchors(self, place: EditPlace) -> list[_Anchor]:
        """Return every edit of the window's haplotypes that another one can be pooled with."""
        anchors: list[_Anchor] = []
        size = len(place.window.sequence)
        span = place.reference_span(0, size)
        if span is None or span[0] not in self._spans:
            return anchors
        # The haplotypes of a block share most of their alleles, so each is placed once.
        edit_of, first_difference = cache(place.edit_of), cache(place.first_difference)
        reach = cache(partial(self._rules.reach_bp, place))
        rows, first, last = self._spans[span[0]]
        for row in rows[(first <= span[2]) & (last > span[1])].tolist():
            placed = (edit for allele in self._alleles[row] if (edit := edit_of(*allele)) is not None)
            # An edit whose first difference is in the right flank, or nowhere, lies in no pooled span.
            edits = sorted(edit for edit in placed if (at := first_difference(edit)) is not None and at < size)
            for index, edit in enumerate(edits):
                low, high = reach((edit,))
                others = tuple(
                    other
                    for other in edits[index + 1 :]
                    if (at := first_difference(other)) is not None and low <= at < high and _are_apart((edit, other))
                )
                if others:
                    anchors.append(_Anchor(row, edit, others))
        return anchors

    def _proposals(
        self, anchors: Sequence[_Anchor], size: int, draws: TrainDraws
    ) -> Iterator[tuple[int, tuple[RelEdit, ...]]]:
        """Yield every set of ``size`` edits of one haplotype once, in random order, with its row."""
        proposed: set[tuple[RelEdit, ...]] = set()
        ends = np.cumsum([0, *(anchor.count(size) for anchor in anchors)])
        for number in draws.permuted(int(ends[-1])):
            index = int(np.searchsorted(ends, number, side="right")) - 1
            edits = anchors[index].choose(size, number - int(ends[index]))
            # Several haplotypes of a block share most of their sets.
            if edits not in proposed and _are_apart(edits):
                proposed.add(edits)
                yield anchors[index].row, edits


def _are_apart(edits: Sequence[RelEdit]) -> bool:
    return all(after.rel_pos - before.rel_end >= TOKEN_BP for before, after in pairwise(edits))
