from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.haplotypes import HaplotypeSampler
from genolewm_assets.edits.rules import SamplingRules
from genolewm_assets.errors import InputError
from genolewm_assets.holdouts.schema import HOLDOUT_HAPLOTYPES
from genolewm_assets.states.pooling import Pooling, block_count
from genolewm_assets.training.batches import TrainingBatch, encode_targets, merge_batches, pool_states
from genolewm_assets.training.sampler.batch_sampler import BatchSampler
from genolewm_assets.training.stream import HaplotypeStream, RandomStream, StreamSettings, Visits
from genolewm_assets_tests.referees.sampling.plain_tuples import assert_arrays
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows
from genolewm_assets_tests.worlds.lewm.stream_world import (
    as_batch,
    make_window,
    no_alleles,
    plan_of,
    simulate_reference,
)

REFERENCE = simulate_reference()


def batch_of(
    start: int, position: int = 0, *, kind: str = "local", window_bp: int = 3_072, states: bool = True
) -> TrainingBatch:
    window = make_window(REFERENCE, start, window_bp=window_bp)
    settings = StreamSettings(seed=start, pooling=Pooling.named(kind, 100, "both"))
    sampler = BatchSampler({}, AlleleIndex.of(no_alleles()), SamplingRules(pooling=settings.pooling))
    stream = RandomStream(SplitWindows([as_batch([window])]), sampler, settings)
    batch = stream.batch(Visits.of([0], plan_of()), epoch=0, position=position)
    rows = np.full((8, 3), float(start), np.float32) if states else None
    return replace(batch, source_states=rows, counts={**batch.counts, "redrawn_held_out": 2})


def empty_batch(kind: str, *, states: bool = True) -> TrainingBatch:
    """Return a batch of a window without a haplotype."""
    settings = StreamSettings(pooling=Pooling.named(kind, 100, "both"))
    windows = SplitWindows([as_batch([make_window(REFERENCE, 1_000)])])
    none = HaplotypeSampler(HOLDOUT_HAPLOTYPES.arrow.empty_table(), AlleleIndex.of(no_alleles()))
    batch = HaplotypeStream(windows, none, settings).batch(Visits.of([0], plan_of(n_slots=4)), epoch=2, position=5)
    return replace(batch, source_states=np.zeros((0, 3), np.float32) if states else None)


class _CountingEncoder:
    """States that are the number of each base in the block's tokens."""

    def encode_windows(self, sequences):
        blocks = max(block_count(len(sequence) // 6) for sequence in sequences)
        states = np.full((len(sequences), blocks, 4), np.nan)
        for row, sequence in enumerate(sequences):
            for block in range(block_count(len(sequence) // 6)):
                part = sequence[block * 384 : (block + 1) * 384]
                states[row, block] = [part.count(base) / (len(part) // 6) for base in "ACGT"]
        return states


def test_rows_of_the_arrays_belong_to_the_tuples():
    batch = merge_batches([batch_of(1_000), batch_of(4_000, 1, window_bp=2_052)])
    assert batch.target_tokens.shape == (16, 512)
    for row, one in enumerate(batch.tuples):
        own = batch.target_tokens[row, : batch.n_tokens[row]]
        letters = "".join("ACGT"[(int(token) >> shift) & 3] for token in own for shift in (10, 8, 6, 4, 2, 0))
        assert letters == one.target_window
        assert (batch.target_tokens[row, batch.n_tokens[row] :] == -1).all()
        assert (batch.block_start[row], batch.block_stop[row]) == (one.block_start, one.block_stop)
        assert batch.locus_token[row] == one.locus_token
    assert batch.source_states[:, 0].tolist() == [1_000.0] * 8 + [4_000.0] * 8
    assert (batch.position, len(batch), batch.kind) == (1, 16, "local")


def test_slots_are_counted_before_and_after_fallback():
    batch = batch_of(1_000)
    planned = Counter(f"planned_{one.planned_source}" for one in batch.tuples)
    served = Counter(f"served_{one.edit_source}" for one in batch.tuples)
    assert planned["planned_gnomad"] == 3
    assert served["served_synthetic_snv"] == 7
    fell_back = [one for one in batch.tuples if one.planned_source != one.edit_source]
    fallbacks = Counter(f"fallback_{one.planned_source}" for one in fell_back)
    assert fallbacks == {"fallback_gnomad": 3, "fallback_clinvar": 1}
    wanted = dict(planned + served + fallbacks) | {"redrawn_held_out": 2}
    wanted |= Counter("multi_edit" for one in batch.tuples if len(one.rel_edits) > 1)
    assert batch.counts == wanted
    merged = merge_batches([batch, batch_of(4_000)])
    assert merged.counts["planned_gnomad"] == 6
    assert merged.counts["redrawn_held_out"] == 4


def test_batches_that_cannot_be_merged():
    with pytest.raises(InputError, match="not of one kind"):
        merge_batches([batch_of(1_000), batch_of(1_000, kind="global")])
    for kind in ("local", "global"):
        other = batch_of(1_000, kind="local" if kind == "global" else "global", states=False)
        with pytest.raises(InputError, match="not of one kind"):
            merge_batches([other, empty_batch(kind, states=False)])
    with pytest.raises(InputError, match="cannot be merged"):
        merge_batches([])
    with pytest.raises(InputError, match="all have source states, or none"):
        merge_batches([batch_of(1_000), batch_of(1_000, states=False)])


def test_batches_without_a_tuple_are_merged():
    empty = empty_batch("global")
    merged = merge_batches([empty, replace(empty, position=6)])
    assert (len(merged), merged.kind, merged.epoch, merged.position) == (0, "global", 2, 6)
    assert merged.counts == {"unfilled": 8}
    assert merged.source_states is not None
    assert merged.source_states.shape == (0, 3)
    full = batch_of(1_000, kind="global")
    both = merge_batches([empty, full])
    assert both.tuples == full.tuples
    assert np.array_equal(both.target_tokens, full.target_tokens)
    assert np.array_equal(both.source_states, full.source_states)


def test_merged_batches_keep_their_tuples_and_arrays():
    parts = [batch_of(1_000), batch_of(4_000, 1, window_bp=2_052), batch_of(1_000, 2)]
    merged = merge_batches(parts)
    assert merged.tuples == tuple(one for part in parts for one in part.tuples)
    assert [one.position for one in merged.tuples] == [0] * 8 + [1] * 8 + [2] * 8
    assert_arrays(merged)


def test_a_pickled_batch_is_small_and_the_same():
    batch = batch_of(1_000)
    size = len(pickle.dumps(batch))
    assert batch.tuples
    again = pickle.loads(pickle.dumps(batch))
    assert len(pickle.dumps(batch)) == size
    assert again.tuples == batch.tuples


def test_source_and_target_are_pooled_over_the_same_tokens():
    """Pool 6-mer composition, and compare with counting bases in the very tokens."""
    for kind in ("local", "global"):
        batch = merge_batches([batch_of(1_000, kind=kind), batch_of(4_000, kind=kind, window_bp=2_052)])
        pooled = encode_targets(batch, _CountingEncoder())
        sources = _CountingEncoder().encode_windows([one.source_window for one in batch.tuples])
        source = pool_states(sources, np.stack((batch.block_start, batch.block_stop), axis=1), batch.n_tokens, 64)
        for row, one in enumerate(batch.tuples):
            for states, sequence in ((pooled, one.target_window), (source, one.source_window)):
                part = sequence[one.block_start * 384 : one.block_stop * 384]
                assert len(part) == 6 * one.n_pooled
                wanted = [part.count(base) / one.n_pooled for base in "ACGT"]
                np.testing.assert_allclose(states[row], wanted, rtol=1e-6)
    assert pooled.dtype == np.float32


class _SharingEncoder(_CountingEncoder):
    """The same states, of the blocks asked for only."""

    def __init__(self):
        self.sources = []

    def encode_edits(self, sources, edited, source_of, spans):
        self.sources.append(sources)
        states = self.encode_windows(edited)
        for row, (start, stop) in enumerate(spans):
            assert len(edited[row]) == len(sources[source_of[row]])
            states[row, :start] = states[row, stop:] = np.nan
        return states


def test_an_encoder_that_shares_work_gets_every_visit_once():
    for kind in ("local", "global"):
        batch = merge_batches([batch_of(start, kind=kind) for start in (1_000, 4_000, 1_000)])
        encoder = _SharingEncoder()
        pooled = encode_targets(batch, encoder)
        assert pooled.tobytes() == encode_targets(batch, _CountingEncoder()).tobytes()
        # The third visit is of the first window again: what is shared must not depend on who else is in the batch.
        ((first, second, third),) = encoder.sources
        assert first == third != second
        assert [one.source_window for one in batch.tuples] == [first] * 8 + [second] * 8 + [third] * 8


def test_states_of_another_shape_are_refused():
    blocks, n_tokens = np.array([[0, 3]] * 8), np.full(8, 512)
    with pytest.raises(InputError, match=r"expected \(8, n_blocks, hidden\)"):
        pool_states(np.zeros((7, 8, 3)), blocks, n_tokens, 64)
    with pytest.raises(InputError, match="not blocks of the window"):
        pool_states(np.zeros((8, 8, 3)), blocks + np.array([0, 6]), n_tokens, 64)
