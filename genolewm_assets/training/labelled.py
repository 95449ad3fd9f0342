"""Labelled alleles of training, each once, as a readout of a probe learns from them. Not here: the training stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from genolewm_assets.genome import Split
from genolewm_assets.memory_mapped import MappedWindows, open_mapped
from genolewm_assets.packages import Package
from genolewm_assets.training.batches import TrainingBatch
from genolewm_assets.training.opening import open_caches
from genolewm_assets.training.schedule import EditCycle
from genolewm_assets.training.scoring import Bench, ScoringStream
from genolewm_assets.training.stream import StreamSettings, Visits
from genolewm_assets.training.window_states import LiveEncoder

#: Alleles of a batch.
_AT_ONCE = 64


def labelled_batches(package: Package, *, most: int, encoder: LiveEncoder) -> Iterator[TrainingBatch]:
    """Yield the P, LP, B and LB ClinVar alleles of training, each once, alone, in its most central reference window.

    The training stream draws P and LP alone, and B and LB would be missing to whoever tells them apart.

    Parameters
    ----------
    package
        An open package.
    most
        Largest number of alleles, which are spread evenly over the table.
    encoder
        Encoder of the unedited windows that the caches do not hold.
    """
    windows, settings = MappedWindows(open_mapped(package, Split.TRAIN), frozen_only=False), StreamSettings()
    bench = Bench.of_training(package, windows, most)
    stream = ScoringStream(windows, bench, settings, open_caches(package, encoder), encoder)
    plan = EditCycle.named("exact", settings.n_edits).plans(np.zeros(1, np.int64), np.zeros(1, np.int64))
    for position, first in enumerate(range(0, len(stream), _AT_ONCE)):
        visits = Visits.of(np.arange(first, min(first + _AT_ONCE, len(stream))), plan)
        yield stream.batch(visits, epoch=0, position=position)
