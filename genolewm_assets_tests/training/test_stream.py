from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.haplotypes import HaplotypeSampler
from genolewm_assets.edits.rules import EditSource, SamplingRules
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.holdouts.schema import HOLDOUT_HAPLOTYPES
from genolewm_assets.states.pooling import Pooling
from genolewm_assets.training.sampler.batch_sampler import BatchSampler
from genolewm_assets.training.stream import HaplotypeStream, RandomStream, StreamSettings, Visits
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.stream_world import (
    MemoryStates,
    as_batch,
    make_window,
    no_alleles,
    plan_of,
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
GNOMAD = {EditSource.GNOMAD: AlleleIndex.of(simulate_alleles(REFERENCE, 300))}
SETTINGS = StreamSettings(seed=4)
VISITS = Visits.of([2, 0, 1, 2], plan_of(), [0, 0, 0, 1])


def stream(readers=READERS, settings=SETTINGS) -> RandomStream:
    return RandomStream(SplitWindows([as_batch(WINDOWS)]), sampler(settings), settings, readers)


def sampler(settings=SETTINGS) -> BatchSampler:
    return BatchSampler(GNOMAD, AlleleIndex.of(no_alleles()), SamplingRules(pooling=settings.pooling))


def some(which: int | slice) -> Visits:
    """Return some of the visits."""
    at = np.arange(4)[which].reshape(-1)
    return Visits(VISITS.rows[at], VISITS.plan[at], VISITS.again[at])


@each_row("pooling", [Pooling(radius_tokens=90), Pooling.named("global", 0, "both"), Pooling(side="right")])
def test_source_states_are_the_cached_blocks_of_each_tuple(pooling):
    batch = stream(settings=StreamSettings(seed=4, pooling=pooling)).batch(VISITS, epoch=1, position=6)
    assert (batch.epoch, batch.position, len(batch), batch.kind) == (1, 6, 32, pooling.kind)
    rows = {0: ("full", 1), 1: ("full", 0), 2: ("short", 2)}
    for index, one in enumerate(batch.tuples):
        cache, row = rows[int(VISITS.rows[index // 8])]
        blocks = READERS[cache].states[row].astype(float)
        wanted = np.mean([blocks[token // 64] for token in pooled_tokens(one)], axis=0)
        np.testing.assert_allclose(batch.source_states[index], wanted, rtol=1e-5)


def pooled_tokens(one) -> range:
    return range(one.block_start * 64, min(one.n_tokens, one.block_stop * 64))


def test_windows_with_fewer_haplotypes_than_slots():
    """The first window has one haplotype, the second four, the others none: states belong to their own window."""
    keys = [(at + 1, chr(REFERENCE[at])) for at in (1_500, 1_600, 4_700, 4_800, 4_900)]
    alleles = [{"pos": pos, "ref": base, "alt": "ACGT"["ACGT".index(base) - 1]} for pos, base in keys]
    rows = [
        {"role": "test", "contig": "chr17", "unit": f"u{i}", "number": 0, "phased": bool(i), "n_carriers": i or None}
        | {"alleles": alleles[part]}
        for i, part in enumerate([slice(0, 2), slice(2, 5)])
    ]
    haplotypes = pa.Table.from_pylist(rows, schema=HOLDOUT_HAPLOTYPES.arrow)
    held = AlleleIndex.of(no_alleles())
    made = HaplotypeStream(SplitWindows([as_batch(WINDOWS)]), HaplotypeSampler(haplotypes, held), SETTINGS, READERS)
    batch = made.batch(Visits.of([0, 1, 2], plan_of()), epoch=0, position=0)
    assert [one.phase for one in batch.tuples] == ["unphased"] + ["phased"] * 4
    assert batch.counts["unfilled"] == 3 * 8 - 5
    assert batch.counts["multi_edit"] == len(batch) == 5
    for index, one in enumerate(batch.tuples):
        blocks = READERS["full"].states[1 if one.window_start == 1_000 else 0].astype(float)
        wanted = np.mean([blocks[token // 64] for token in pooled_tokens(one)], axis=0)
        np.testing.assert_allclose(batch.source_states[index], wanted, rtol=1e-5)
    empty = made.batch(Visits.of([2], plan_of()), epoch=0, position=3)
    assert (len(empty), empty.counts, empty.kind, empty.source_states.shape) == (0, {"unfilled": 8}, "local", (0, 5))
    assert empty.target_tokens.shape == (0, 342)


def test_without_readers_there_are_no_states():
    batch = stream(readers=None).batch(VISITS, epoch=1, position=0)
    assert batch.source_states is None
    assert batch.tuples == stream().batch(VISITS, epoch=1, position=0).tuples


def test_a_window_in_no_cache_is_named():
    with pytest.raises(CorruptResourceError, match=r"in no cache of the .*: expected one of \['short'\], got 'full'"):
        stream({"short": READERS["short"]}).batch(some(slice(1, None)), epoch=0, position=0)
    windows = SplitWindows([as_batch([replace(WINDOWS[0], cache_key=None)])])
    unknown = RandomStream(windows, sampler(), StreamSettings(), READERS)
    with pytest.raises(CorruptResourceError, match="got None"):
        unknown.batch(Visits.of([0], plan_of()), epoch=0, position=0)


@each_row(("widths", "n_blocks"), [([8, 8], 16), ([4, 4], 4), ([4, 4], 8), ([16, 16], 16)])
def test_states_of_another_block_size_are_refused(widths, n_blocks):
    readers = {"full": MemoryStates(widths, n_blocks), "short": READERS["short"]}
    if widths == [8, 8]:
        # Room for more blocks is no mistake.
        assert len(stream(readers).batch(VISITS, epoch=0, position=0)) == 32
        return
    with pytest.raises(CorruptResourceError, match="cached states are not this window's: expected 8 blocks of finite"):
        stream(readers).batch(VISITS, epoch=0, position=0)


def test_tuples_of_slots_that_fell_back_are_counted_and_left_out_on_request():
    whole = stream().batch(VISITS, epoch=1, position=6)
    fell = [one.planned_source != one.edit_source for one in whole.tuples]
    assert 0 < sum(fell) < 32
    assert {one.edit_source for one, back in zip(whole.tuples, fell, strict=True) if back} == {"synthetic_snv"}
    short = stream(settings=replace(SETTINGS, without_fallback=True)).batch(VISITS, epoch=1, position=6)
    kept = [one for one, back in zip(whole.tuples, fell, strict=True) if not back]
    assert [one.target_window for one in short.tuples] == [one.target_window for one in kept]
    assert [one.rel_edits for one in short.tuples] == [one.rel_edits for one in kept]
    np.testing.assert_array_equal(short.source_states, whole.source_states[~np.array(fell)])
    assert len(short.windows) == len(whole.windows) == 4
    for batch in (whole, short):
        counted = Counter(one.planned_source for one, back in zip(whole.tuples, fell, strict=True) if back)
        stated = {name: n for name, n in batch.counts.items() if name.startswith("fallback_")}
        assert stated == {f"fallback_{source}": n for source, n in counted.items()}
        served = Counter(f"served_{one.edit_source}" for one in batch.tuples)
        assert {name: n for name, n in batch.counts.items() if name.startswith("served_")} == served
        assert "unfilled" not in batch.counts


def test_windows_of_one_id_are_counted_in_the_rows_that_are_read():
    # The rows of a holdout are some of the split's, which is what `first_rows` names.
    stream = object.__new__(RandomStream)
    stream.windows, stream._repeated = SimpleNamespace(first_rows=np.array([4, 5, 4, 9, 4])), None
    rows = np.array([4, 0, 2, 3])
    again = stream._again(Visits(rows, np.zeros((4, 1), np.int8), np.array([1, 0, 0, 0])))
    assert again.tolist() == [(2 << 32) + 1, 0, 1 << 32, 0]
