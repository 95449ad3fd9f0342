"""Find the evaluation windows of ``holdout-haplotypes`` that can emit haplotypes, and the alleles that lie in them.

Not here: the holdout's windows (``split``), the choice among them (``plan``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.edits import AlleleIndex, DrawKey, HaplotypeSampler, SamplingRules, WindowRecord
from genolewm_assets.genome import Bases, Split
from genolewm_assets.memory_mapped import closed_alleles
from genolewm_assets.packages import EVALUATION_CONTEXT_BP, REFERENCE_ORIGIN
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_spans


class HaplotypeInputs(Protocol):
    """Inputs that decide which windows emit, as in :class:`~genolewm_assets.package_build.plan.PackageSources`."""

    @property
    def windows(self) -> Mapping[str, pa.Table]:
        """Window index by contig."""

    @property
    def alleles(self) -> pa.Table:
        """Schema ``HOLDOUT_ALLELES``."""

    @property
    def haplotypes(self) -> pa.Table:
        """Schema ``HOLDOUT_HAPLOTYPES``."""

    @property
    def reference(self) -> Callable[[str], Bases]:
        """Function that returns the upper-case bases of a contig."""

    @property
    def margin_bp(self) -> int:
        """Length of each flank of a window."""


def windows_that_emit(sources: HaplotypeInputs, candidates: Mapping[str, Int64s], split: Split) -> dict[str, Int64s]:
    """Return the windows for which the stream of a split finds at least one haplotype, with its default options.

    Parameters
    ----------
    sources
        Inputs of the package.
    candidates
        Row numbers of the holdout's windows by contig, each int64, ascending.
    split
        Validation or test.

    Returns
    -------
    dict
        Row numbers by contig, int64, ascending; no entry for a contig without a window.

    Notes
    -----
    A window of at most twice the default minimum of left context is judged without that minimum.
    """
    rows = sources.haplotypes.filter(pc.equal(sources.haplotypes["role"], str(split)))
    held_out = AlleleIndex.of(closed_alleles(sources.alleles, split).select(ALLELE_KEY))
    found: dict[str, Int64s] = {}
    for contig, numbers in candidates.items():
        table, bases = sources.windows[contig].take(pa.array(numbers)), sources.reference(contig)
        starts, ends = table["start"].to_pylist(), table["end"].to_pylist()
        context = EVALUATION_CONTEXT_BP if ends[0] - starts[0] > 2 * EVALUATION_CONTEXT_BP else 0
        ours = rows.filter(pc.equal(rows["contig"], contig))
        sampler = HaplotypeSampler(ours, held_out, SamplingRules(min_left_context_bp=context))
        emitting = [
            number
            for number, start, end in zip(numbers.tolist(), starts, ends, strict=True)
            if _emits(sampler, _window(contig, start, end, bases, sources.margin_bp))
        ]
        if emitting:
            found[contig] = np.array(emitting, dtype=np.int64)
    return found


def alleles_inside(alleles: pa.Table, windows: pa.Table, rows: Int64s) -> Bools:
    """Tell which alleles lie inside one of some windows, with all their reference bases.

    Parameters
    ----------
    alleles
        Alleles of one contig; columns pos and ref.
    windows
        Window index of the contig, sorted by start; the windows are of one size.
    rows
        Row numbers of the windows, int64, ascending.

    Returns
    -------
    ndarray
        bool, shape (n_alleles,).
    """
    start, end = allele_spans(alleles)
    starts, ends = (windows[name].to_numpy()[rows] for name in ("start", "end"))
    # Of the windows that begin before an allele, the last one ends last.
    last = np.searchsorted(starts, start, side="right") - 1
    inside: Bools = last >= 0
    inside[inside] = end[inside] <= ends[last[inside]]
    return inside


def _emits(sampler: HaplotypeSampler, window: WindowRecord) -> bool:
    haplotypes, _ = sampler.sample(window, 1, DrawKey((0, 0, 0, 0)))
    return bool(haplotypes)


def _window(contig: str, start: int, end: int, bases: Bases, margin_bp: int) -> WindowRecord:
    left, sequence, right = (
        bases[low:high].decode("ascii")
        for low, high in ((start - margin_bp, start), (start, end), (end, end + margin_bp))
    )
    return WindowRecord("", REFERENCE_ORIGIN, sequence, left, right, contig, start, "+")
