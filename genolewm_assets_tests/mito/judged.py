"""Collections of genomes judged record by record, and levels of a genome that is the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.mito.genomes.differences import CirclePlacement
from genolewm_assets.mito.genomes.qc import KeptGenome, RejectedGenome, find_duplicates, judge_record, reject
from genolewm_assets.mito.genomes.records import GenomeRecord
from genolewm_assets.mito.variants.heteroplasmy import CallDrop, HeteroplasmyCall, levels_of_genome


class Judged(NamedTuple):
    """Every record is in one of the two."""

    kept: tuple[KeptGenome, ...]
    rejected: tuple[RejectedGenome, ...]


def judge_all(records: Iterable[GenomeRecord]) -> Judged:
    outcomes = [judge_record(record) for record in records]
    fit = [each for each in outcomes if isinstance(each, KeptGenome)]
    faults = find_duplicates([(each.record, each.circle_sha256) for each in fit])
    rejected = [each for each in outcomes if isinstance(each, RejectedGenome)]
    rejected += [reject(fit[at].record, fault) for at, fault in faults.items()]
    return Judged(
        tuple(each for at, each in enumerate(fit) if at not in faults),
        tuple(sorted(rejected, key=lambda each: (each.file, each.number))),
    )


def levels_on_reference(
    calls: Iterable[HeteroplasmyCall], reference: bytes
) -> tuple[NDArray[np.float32], Counter[CallDrop]]:
    """Return the share of a sample's copies that differ from the reference at each of its bases."""
    length = len(reference)
    own = CirclePlacement(reference.decode(), np.arange(length, dtype=np.int32), np.zeros(length, dtype=np.int16))
    return levels_of_genome(calls, reference, own)
