from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.training.allele_index import AlleleIndex
from genolewm_assets.lewm.training.sampling import EditSampler
from genolewm_assets.lewm.training.schedule import EditSource
from genolewm_assets.lewm.training.stream import StreamSettings, TupleStream, Visit
from genolewm_assets.lewm.training.tuples import Pooling
from genolewm_assets.lewm.training.windows import SplitWindows
from genolewm_assets_tests.worlds.lewm.stream_world import (
    MemoryStates,
    as_batch,
    make_window,
    no_alleles,
    simulate_alleles,
    simulate_reference,
)

REFERENCE = simulate_reference()
WINDOWS = [
    make_window(REFERENCE, 1_000, cache=("full", 1)),
    make_window(REFERENCE, 4_000, cache=("full", 0)),
    make_window(REFERENCE, 7_000, window_bp=2_052, origin="mrna_evo2", placed=False, cache=("short", 2)),
    make_window(REFERENCE, 1_000, cache=("full", 1)),
]
#: 512 tokens are 8 blocks; 342 are 6, in rows that have room for 8.
READERS = {"full": MemoryStates([8, 8], 8), "short": MemoryStates([6, 6, 6], 8, seed=2)}
SAMPLER = EditSampler({EditSource.GNOMAD: AlleleIndex(simulate_alleles(REFERENCE, 300))}, AlleleIndex(no_alleles()))
SETTINGS = StreamSettings(seed=4)
VISITS = [Visit(0, 2, 0), Visit(1, 0, 0), Visit(2, 1, 0), Visit(3, 2, 1)]


def stream(readers=READERS, settings=SETTINGS) -> TupleStream:
    return TupleStream(SplitWindows([as_batch(WINDOWS)]), SAMPLER, settings, readers)


@pytest.mark.parametrize(
    "pooling", [Pooling(radius_tokens=90), Pooling.named("global", 0, "both"), Pooling(side="right")]
)
def test_source_states_are_the_cached_blocks_of_each_tuple(pooling):
    batch = stream(settings=StreamSettings(seed=4, pooling=pooling)).batch(VISITS, epoch=1, position=6)
    assert (batch.epoch, batch.position, len(batch), batch.kind) == (1, 6, 32, pooling.kind)
    rows = {0: ("full", 1), 1: ("full", 0), 2: ("short", 2)}
    for index, one in enumerate(batch.tuples):
        cache, row = rows[VISITS[index // 8].row]
        blocks = READERS[cache].states[row].astype(float)
        wanted = np.mean([blocks[token // 64] for token in pooled_tokens(one)], axis=0)
        np.testing.assert_allclose(batch.source_states[index], wanted, rtol=1e-5)


def pooled_tokens(one) -> range:
    return range(one.block_start * 64, min(one.n_tokens, one.block_stop * 64))


def test_a_batch_depends_on_its_visits_alone():
    whole = stream().batch(VISITS, epoch=1, position=0)
    for index, visit in enumerate(VISITS):
        alone = stream().batch([visit], epoch=1, position=0)
        assert alone.tuples == whole.tuples[index * 8 : index * 8 + 8]


def test_a_window_seen_again_gets_other_edits():
    batch = stream().batch(VISITS, epoch=1, position=0)
    first, again = ({one.target_window for one in batch.tuples[i : i + 8]} for i in (0, 24))
    assert len(first | again) > 12
    other = stream().batch(VISITS, epoch=2, position=0)
    assert len({one.target_window for one in other.tuples[:8]} | first) > 12
    seeded = stream(settings=StreamSettings(seed=5)).batch(VISITS, epoch=1, position=0)
    assert len({one.target_window for one in seeded.tuples[:8]} | first) > 12


def test_without_readers_there_are_no_states():
    batch = stream(readers=None).batch(VISITS, epoch=1, position=0)
    assert batch.source_states is None
    assert batch.tuples == stream().batch(VISITS, epoch=1, position=0).tuples


def test_a_window_in_no_cache_is_named():
    with pytest.raises(
        CorruptResourceError, match=r"in no cache of the package: expected one of \['short'\], got 'full'"
    ):
        stream({"short": READERS["short"]}).batch(VISITS[1:], epoch=0, position=0)
    unknown = TupleStream(
        SplitWindows([as_batch([replace(WINDOWS[0], cache_key=None)])]), SAMPLER, StreamSettings(), READERS
    )
    with pytest.raises(CorruptResourceError, match="got None"):
        unknown.batch([Visit(0, 0, 0)], epoch=0, position=0)


@pytest.mark.parametrize(("widths", "n_blocks"), [([8, 8], 16), ([4, 4], 4), ([4, 4], 8), ([16, 16], 16)])
def test_states_of_another_block_size_are_refused(widths, n_blocks):
    readers = {"full": MemoryStates(widths, n_blocks), "short": READERS["short"]}
    if widths == [8, 8]:
        # Room for more blocks is no mistake.
        assert len(stream(readers).batch(VISITS, epoch=0, position=0)) == 32
        return
    with pytest.raises(CorruptResourceError, match="cached states are not this window's: expected 8 blocks of finite"):
        stream(readers).batch(VISITS, epoch=0, position=0)
