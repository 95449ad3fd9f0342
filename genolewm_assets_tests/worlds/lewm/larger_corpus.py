"""The training split of a package with its corpus windows several times, as a larger corpus would give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from genolewm_assets.edits.rules import SamplingRules
from genolewm_assets.genome import Split
from genolewm_assets.packages.epoch_plan import WindowAlleles, plan_epoch
from genolewm_assets.packages.mix import Shares
from genolewm_assets.packages.reader import Package
from genolewm_assets.training.opening import open_stream, read_split
from genolewm_assets.training.schedule import WindowSchedule
from genolewm_assets.training.stream import StreamSettings, Visits
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows


def served_with(package: Package, times: int, *, n_visits: int = 600) -> Shares:
    """Serve part of an epoch of a package whose corpus is ``times`` as large; return the shares of its tuples."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in package.window_batches(Split.TRAIN):
            corpus = np.array(batch["origin"].to_pylist()) != "reference"
            rows = np.concatenate([np.flatnonzero(~corpus), np.repeat(np.flatnonzero(corpus), times)])
            yield batch.take(pa.array(rows))

    given = read_split(package, Split.TRAIN, None)
    windows, rules = SplitWindows(batches()), SamplingRules()
    alleles = WindowAlleles.count(windows, given.real, rules.first_bp, rules.inset_bp)
    plan = plan_epoch(alleles, package.info.mix, n_edits=8)
    rows = WindowSchedule.of(plan, plan.slots, seed=0).rows(0)
    stream = open_stream(replace(given, windows=windows, held_sequences=None), rules, StreamSettings())
    origins, edits = Counter[str](), Counter[str]()
    at = np.unique(np.linspace(0, len(rows) - 1, n_visits).astype(np.int64))
    for one in stream.batch(Visits.of(rows[at], plan.slots.plans(at, rows[at])), epoch=0, position=0).tuples:
        origins[one.origin] += 1
        edits[str(one.edit_source)] += 1
    return Shares(
        {name: n / origins.total() for name, n in origins.items()},
        {name: n / edits.total() for name, n in edits.items()},
    )
