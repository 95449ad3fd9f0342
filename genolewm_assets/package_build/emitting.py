"""The windows of ``holdout-haplotypes`` that can emit haplotypes, and the alleles that lie in them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.edits import AlleleIndex, DrawKey, HaplotypeSampler, SamplingRules, WindowRecord
from genolewm_assets.genome import Bases, Split
from genolewm_assets.memory_mapped import closed_alleles
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.packages import EVALUATION_CONTEXT_BP, REFERENCE_ORIGIN
from genolewm_assets.variants import Bools, Int64s, allele_spans


def windows_that_emit(sources: PackageSources, candidates: Mapping[str, Int64s], split: Split) -> dict[str, Int64s]:
    """Return the rows, by contig, of windows for which the stream of a split, by default options, finds a haplotype."""
    rows = sources.haplotypes.filter(pc.equal(sources.haplotypes["role"], str(split)))
    held_out = AlleleIndex.of(closed_alleles(sources.alleles, split))
    found: dict[str, Int64s] = {}
    for contig, numbers in candidates.items():
        table, bases = sources.windows[contig].take(pa.array(numbers)), sources.reference(contig)
        starts, ends = table["start"].to_pylist(), table["end"].to_pylist()
        # A window of at most twice the default minimum of left context is judged without it.
        context = EVALUATION_CONTEXT_BP if ends[0] - starts[0] > 2 * EVALUATION_CONTEXT_BP else 0
        ours = rows.filter(pc.equal(rows["contig"], contig))
        sampler = HaplotypeSampler(ours, held_out, SamplingRules(min_left_context_bp=context))
        emitting = [
            number
            for number, start, end in zip(numbers.tolist(), starts, ends, strict=True)
            if sampler.sample(indexed_window(contig, start, end, bases, sources.margin_bp), 1, DrawKey((0, 0, 0, 0)))[0]
        ]
        if emitting:
            found[contig] = np.array(emitting, dtype=np.int64)
    return found


def alleles_inside(alleles: pa.Table, windows: pa.Table, rows: Int64s) -> Bools:
    """Tell which alleles have all reference bases inside one of some rows of a window index: bool, (n_alleles,)."""
    start, end = allele_spans(alleles)
    starts, ends = (windows[name].to_numpy()[rows] for name in ("start", "end"))
    # Of the windows that begin before an allele, the last one ends last.
    last = np.searchsorted(starts, start, side="right") - 1
    inside: Bools = last >= 0
    inside[inside] = end[inside] <= ends[last[inside]]
    return inside


def indexed_window(contig: str, start: int, end: int, bases: Bases, margin_bp: int) -> WindowRecord:
    """Return one window of the index as the package's reader will."""
    spans = ((start, end), (max(0, start - margin_bp), start), (end, end + margin_bp))
    sequence, left, right = (bases[low:high].decode("ascii") for low, high in spans)
    return WindowRecord(f"{contig}:{start}", REFERENCE_ORIGIN, sequence, left, right, contig, start, "+")
