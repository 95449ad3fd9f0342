from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from genolewm_assets.errors import InputError
from genolewm_assets.lewm.edits.allele_index import AlleleIndex
from genolewm_assets.lewm.edits.draws import DrawKey
from genolewm_assets.lewm.edits.rules import SamplingRules
from genolewm_assets.lewm.states.pooling import Pooling, TupleKind, block_count
from genolewm_assets.lewm.training.batches import encode_targets, make_batch, merge_batches, pool_states
from genolewm_assets.lewm.training.schedule import EditMix
from genolewm_assets.lewm.training.tuples import build_tuples
from genolewm_assets_tests.referees.plain_sampler import EditSampler
from genolewm_assets_tests.worlds.lewm.stream_world import make_window, no_alleles, simulate_reference

REFERENCE = simulate_reference()


def tuples_of(start: int, kind: str = "local", window_bp: int = 3_072):
    window = make_window(REFERENCE, start, window_bp=window_bp)
    pooling = Pooling.named(kind, 100, "both")
    sampler = EditSampler({}, AlleleIndex.of(no_alleles()), SamplingRules(pooling=pooling))
    haplotypes, _ = sampler.sample(window, EditMix.named("exact").slots(8).plan(0, 0), DrawKey.of(start))
    return build_tuples(window, haplotypes, pooling, epoch=0, position=0)


def batch_of(start: int, position: int = 0, *, states: bool = True, **kinds):
    tuples, tokens = tuples_of(start, **kinds)
    rows = np.full((8, 3), float(start), np.float32) if states else None
    return make_batch(tuples, list(tokens), epoch=0, position=position, source_states=rows, redraws={"held_out": 2})


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
    planned, served = (
        Counter(f"{word}_{getattr(one, name)}" for one in batch.tuples)
        for word, name in (("planned", "planned_source"), ("served", "edit_source"))
    )
    assert planned["planned_gnomad"] == 3
    assert served["served_synthetic_snv"] == 7
    wanted = dict(planned + served) | {"redrawn_held_out": 2}
    wanted |= Counter("multi_edit" for one in batch.tuples if len(one.rel_edits) > 1)
    assert batch.counts == wanted
    merged = merge_batches([batch, batch_of(4_000)])
    assert merged.counts["planned_gnomad"] == 6
    assert merged.counts["redrawn_held_out"] == 4


def test_kinds_do_not_mix():
    local, whole = tuples_of(1_000), tuples_of(1_000, "global")
    with pytest.raises(InputError, match=r"not of one kind: expected all local or all global"):
        make_batch([*local[0], *whole[0]], [*local[1], *whole[1]], epoch=0, position=0)
    with pytest.raises(InputError, match="not of one kind"):
        merge_batches([batch_of(1_000), batch_of(1_000, kind="global")])
    for kind in ("local", "global"):
        empty = make_batch([], [], epoch=0, position=0, kind=TupleKind(kind))
        with pytest.raises(InputError, match="not of one kind"):
            merge_batches([batch_of(1_000, kind="local" if kind == "global" else "global", states=False), empty])
    with pytest.raises(InputError, match="not of one kind"):
        make_batch([], [], epoch=0, position=0)


def test_batches_without_a_tuple_are_merged():
    states = np.zeros((0, 3), np.float32)
    empty = make_batch([], [], epoch=2, position=5, unfilled=4, kind=TupleKind.GLOBAL, source_states=states)
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


def test_states_come_with_every_tuple_or_none():
    tuples, tokens = tuples_of(1_000)
    with pytest.raises(InputError, match="expected 8 rows, got 7"):
        make_batch(tuples, list(tokens), epoch=0, position=0, source_states=np.zeros((7, 3), np.float32))
    with pytest.raises(InputError, match="all have source states, or none"):
        merge_batches([batch_of(1_000), batch_of(1_000, states=False)])


def test_source_and_target_are_pooled_over_the_same_tokens():
    """Pool 6-mer composition, and compare with counting bases in the very tokens."""
    for kind in ("local", "global"):
        batch = merge_batches([batch_of(1_000, kind=kind), batch_of(4_000, kind=kind, window_bp=2_052)])
        pooled = encode_targets(batch, _CountingEncoder())
        source = pool_states(
            batch.tuples, _CountingEncoder().encode_windows([one.source_window for one in batch.tuples]), 64
        )
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


def test_an_encoder_that_shares_work_gets_every_window_once():
    for kind in ("local", "global"):
        batch = merge_batches([batch_of(start, kind=kind) for start in (1_000, 4_000, 1_000)])
        encoder = _SharingEncoder()
        pooled = encode_targets(batch, encoder)
        assert pooled.tobytes() == encode_targets(batch, _CountingEncoder()).tobytes()
        ((first, second),) = encoder.sources
        assert [one.source_window for one in batch.tuples] == [first] * 8 + [second] * 8 + [first] * 8


def test_states_of_another_shape_are_refused():
    tuples, _ = tuples_of(1_000)
    with pytest.raises(InputError, match=r"expected \(8, n_blocks, hidden\)"):
        pool_states(tuples, np.zeros((7, 8, 3)), 64)
    with pytest.raises(InputError, match="not blocks of the window"):
        pool_states([replace(one, block_stop=9) for one in tuples], np.zeros((8, 8, 3)), 64)
