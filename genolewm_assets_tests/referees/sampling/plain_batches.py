"""The plain sampler with the interface of the compiled one: a mistake in its rules reaches the product's stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import AlleleIndex, DrawKey, EditSource, HeldSequences, SamplingRules, WindowRecord
from genolewm_assets.edits.rules import Haplotype
from genolewm_assets.genome import decode_sequence
from genolewm_assets.training.haplotype_edits import edits_of
from genolewm_assets.training.sampler.batch_sampler import BatchSampler
from genolewm_assets.training.sampler.tables import EditBatch, WindowArrays
from genolewm_assets_tests.referees.sampling.plain_sampler import EditSampler


class PlainBatchSampler:
    """Takes the place of :class:`~genolewm_assets.training.sampler.BatchSampler`."""

    def __init__(
        self,
        real: Mapping[EditSource, AlleleIndex],
        held_out: AlleleIndex,
        rules: SamplingRules | None = None,
        held_sequences: HeldSequences | None = None,
    ) -> None:
        self._real, self._rules = real, rules or SamplingRules()
        self._sampler = EditSampler(real, held_out, self._rules, held_sequences)

    def sample(
        self, windows: WindowArrays, plan: NDArray[np.int8], *, seed: int, epoch: int, again: NDArray[np.int64]
    ) -> EditBatch:
        filled: list[tuple[WindowRecord, list[Haplotype], Mapping[str, int]]] = []
        for row, sources in enumerate(plan.tolist()):
            record = _record(windows, row)
            key = DrawKey.of(seed, epoch, record.window_id, int(again[row]))
            drawn, redraws = self._sampler.sample(record, [list(EditSource)[code] for code in sources], key)
            own = [Haplotype(one.source, one.edited, one.locus_bp, one.alleles, False, one.allele_row) for one in drawn]
            filled.append((record, own, redraws))
        return replace(edits_of(filled, self._rules.pooling), planned_source=np.ascontiguousarray(plan).ravel())

    stated = BatchSampler.stated


def _record(windows: WindowArrays, row: int) -> WindowRecord:
    left, size, _ = windows.sizes[row].tolist()
    bases = decode_sequence(windows.codes[windows.at[row] : windows.at[row + 1]])
    placed: dict[str, Any] = {}
    if windows.contig[row] >= 0:
        strand = "-" if windows.is_reverse[row] else "+"
        placed = {"contig": windows.contigs[windows.contig[row]], "start": int(windows.start[row]), "strand": strand}
    parts = bases[left : left + size], bases[:left], bases[left + size :]
    return WindowRecord(windows.window_ids[row].decode(), "any", *parts, **placed)
