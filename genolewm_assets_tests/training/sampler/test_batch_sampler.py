"""The compiled sampler against the plain one, tuple for tuple."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import fields, replace
from itertools import product
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from genolewm_assets.edits import (
    EDIT_SOURCE_CODES,
    AlleleIndex,
    EditPlace,
    EditRules,
    EditSource,
    Haplotype,
    Redraw,
    SamplingRules,
    WindowRecord,
)
from genolewm_assets.errors import ConfigurationError, EditError
from genolewm_assets.states import Pooling
from genolewm_assets.training.haplotype_edits import edits_of
from genolewm_assets.training.sampler import batch_sampler
from genolewm_assets.training.sampler.batch_sampler import BatchSampler
from genolewm_assets.training.sampler.tables import EditBatch, WindowArrays
from genolewm_assets.training.schedule import EditCycle
from genolewm_assets_tests.referees.sampling.plain_tuples import Samplers
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows
from genolewm_assets_tests.worlds.lewm.sampler_world import simulate_world
from genolewm_assets_tests.worlds.lewm.stream_world import (
    as_batch,
    make_window,
    no_alleles,
    simulate_alleles,
    simulate_reference,
)

PLAN = [EditCycle.named("exact", 8).cycle[slot] for slot in range(8)]
POLICIES = ("right_flank", "left_flank", "opposite")
POOLINGS = (
    Pooling(),
    Pooling("local", 0, "both", 16),
    Pooling("local", 20, "right", 8),
    Pooling("global", 0, "both", 64),
)


def test_windows_of_every_kind_under_every_rule():
    """Each set of rules sees its own world; together they meet every reason for a redraw."""
    seen: Counter[str] = Counter()
    for number, (policy, pooling, share) in enumerate(product(POLICIES, POOLINGS, (0.0, 0.3, 1.0))):
        world = simulate_world(number, n_windows=40, flank_bp=(64, 8, 128, 20)[number % 4])
        rules = SamplingRules(
            inset_bp=(64, 6, 0, 30, 64)[number % 5],
            min_left_context_bp=200 * (number % 7 == 0),
            multi_edit_share=share,
            policy=policy,
            pooling=pooling,
        )
        samplers = Samplers(world.windows, world.real, world.held_out, rules, world.held_sequences)
        # One window at a time: where a window has no further edit, the others are still compared.
        for row in range(40):
            samplers.compare([row], [PLAN], seed=number, epoch=2)
        seen.update(samplers.seen)
    assert set(seen) >= {reason.value for reason in Redraw} | {"edits_1", "edits_2", "edits_3"}
    assert all(seen[reason.value] > 20 for reason in Redraw), seen


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_random_rules_and_plans(data):
    world = simulate_world(
        data.draw(st.integers(0, 2**32)),
        n_windows=12,
        window_bp=6 * data.draw(st.integers(30, 200)),
        flank_bp=data.draw(st.sampled_from([0, 1, 5, 30, 200])),
    )
    rules = SamplingRules(
        inset_bp=data.draw(st.integers(0, 64)),
        min_left_context_bp=data.draw(st.sampled_from([0, 0, 70, 150])),
        multi_edit_share=data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        policy=data.draw(st.sampled_from(POLICIES)),
        pooling=Pooling(
            data.draw(st.sampled_from(["local", "global"])),
            data.draw(st.integers(0, 80)),
            data.draw(st.sampled_from(["both", "right"])),
            data.draw(st.integers(1, 70)),
        ),
    )
    real = {source: world.real[source] for source in data.draw(st.sets(st.sampled_from(sorted(world.real))))}
    sequences = data.draw(st.sampled_from([None, world.held_sequences]))
    samplers = Samplers(world.windows, real, world.held_out, rules, sequences)
    rows = data.draw(st.lists(st.integers(0, 11), min_size=1, max_size=12))
    n_slots = data.draw(st.integers(1, 10))
    sources = st.lists(st.sampled_from(list(EditSource)), min_size=n_slots, max_size=n_slots)
    plans = [data.draw(sources) for _ in rows]
    samplers.compare(rows, plans, seed=data.draw(st.integers(0, 2**64 - 1)), epoch=data.draw(st.integers(0, 2**33)))


def shown_alone(rules: EditRules, window: WindowRecord, allele: tuple[int, str, str]) -> Haplotype | Redraw:
    """Make an allele the only edit of a window with a place, or say why not."""
    place = EditPlace(window)
    edit = place.edit_of(*allele)
    if edit is None:
        return Redraw.OTHER_REFERENCE
    found = rules.apply(place, (edit,), {window.sequence}, shown_at_locus=False)
    if isinstance(found, Redraw):
        return found
    return Haplotype(EditSource.CLINVAR, found.edited, found.locus_bp, found.alleles)


def test_alleles_shown_alone_are_those_of_the_plain_maker():
    """Every ClinVar allele near each window with a place, of both strands, by all rules: tuples, reasons and errors."""
    seen: Counter[str] = Counter()
    for number, (policy, pooling) in enumerate(product(POLICIES, POOLINGS)):
        world = simulate_world(number, n_windows=16, flank_bp=(64, 8, 128, 20)[number % 4])
        rules = SamplingRules(inset_bp=(64, 6, 0)[number % 3], policy=policy, pooling=pooling)
        alleles = world.real[EditSource.CLINVAR]
        plain = EditRules(rules, world.held_out)
        records = [record for record in map(world.windows.record, range(16)) if record.contig]
        near = [alleles.rows(one.contig, one.start - 20, one.start + len(one.sequence) + 20) for one in records]
        made = [
            [shown_alone(plain, one, alleles.allele(row)) for row in rows]
            for one, rows in zip(records, near, strict=True)
        ]
        arrays = WindowArrays.unpack(SplitWindows([as_batch(records)]).packed(np.arange(len(records))))
        call = arrays, np.cumsum([0, *map(len, near)]), np.concatenate(near)
        sampler = BatchSampler({EditSource.CLINVAR: alleles}, world.held_out, rules)
        shown = [
            [replace(one, allele_row=row) for one, row in zip(own, rows, strict=True) if isinstance(one, Haplotype)]
            for own, rows in zip(made, near, strict=True)
        ]
        filled = [(record, own, {}) for record, own in zip(records, shown, strict=True)]
        try:
            expected = edits_of(filled, pooling)
        except EditError as err:
            seen["error"] += 1
            with pytest.raises(EditError, match=err.problem):
                sampler.show(*call)
            continue
        edits, refused = sampler.show(*call)
        reasons = [one if isinstance(one, Redraw) else None for own in made for one in own]
        assert [list(Redraw)[code] if code >= 0 else None for code in refused.tolist()] == reasons
        seen.update(map(str, reasons))
        texts = [(batch.pool, at) for batch in (edits, expected) for at in (batch.alt_at, batch.allele_alt_at)]
        alts = [
            [pool[at : at + n].tobytes() for at, n in zip(first[:, 0], edits.edit_alt_length[:, 0], strict=True)]
            for pool, first in texts
        ]
        assert alts[:2] == alts[2:]
        for name in {each.name for each in fields(EditBatch)} - {"pool", "alt_at", "allele_alt_at"}:
            np.testing.assert_array_equal(getattr(edits, name), getattr(expected, name), err_msg=name)
    assert set(seen) >= {
        "error",
        "None",
        "held_out",
        "leaves_inset",
        "other_reference",
        "beyond_flank",
        "no_difference",
    }, seen


def test_every_deleted_base_of_several_edits_is_pooled():
    """By plain arithmetic on what is emitted; deletions that end at the last pooled base are among it."""
    at_the_end, several = 0, 0
    for number, pooling in enumerate(POOLINGS[1:3] * 6):
        world = simulate_world(number, n_windows=40)
        sampler = BatchSampler(world.real, world.held_out, SamplingRules(multi_edit_share=1.0, pooling=pooling))
        arrays = WindowArrays.unpack(world.windows.packed(np.arange(40)))
        plan = np.full((40, 6), EDIT_SOURCE_CODES[EditSource.SYNTHETIC_INDEL], dtype=np.int8)
        for again in range(10):
            batch = sampler.sample(arrays, plan, seed=number, epoch=0, again=np.full(40, again))
            rows = batch.n_edits > 1
            ends = np.where(batch.edit_rel_pos >= 0, batch.edit_rel_pos + batch.edit_ref_length, 0).max(axis=1)[rows]
            left_bp = 6 * pooling.block_tokens * batch.block_stop[rows] - ends
            assert left_bp.min() >= 0
            at_the_end, several = at_the_end + int((left_bp == 0).sum()), several + int(rows.sum())
    assert several > 10_000
    assert at_the_end > 10


def test_windows_of_the_size_of_the_stream():
    """3,072 bp with the alleles of the stream's world, windows of both strands visited three times, and one shorter."""
    reference = simulate_reference()
    alleles = simulate_alleles(reference, 600)
    windows = [make_window(reference, start, strand=strand) for start in range(256, 20_000, 1_024) for strand in "+-"]
    windows.append(make_window(reference, 4_000, window_bp=1_026))
    real = {
        EditSource.GNOMAD: AlleleIndex.of(alleles),
        EditSource.CLINVAR: AlleleIndex.of(alleles.take(list(range(0, 600, 5)))),
    }
    held = AlleleIndex.of(alleles.take(list(range(3, 600, 7))))
    samplers = Samplers(SplitWindows([as_batch(windows)]), real, held, SamplingRules())
    for epoch in range(2):
        samplers.compare([*range(len(windows))] * 3, [PLAN] * 3 * len(windows), seed=7, epoch=epoch)
    assert samplers.seen["held_out"] > 0


def test_a_window_without_room_is_named():
    reference = simulate_reference()
    windows = SplitWindows([as_batch([make_window(reference, at, window_bp=132) for at in (3_000, 5_000)])])
    samplers = Samplers(windows, {}, AlleleIndex.of(no_alleles()), SamplingRules())
    samplers.compare([1, 0], [[EditSource.SYNTHETIC_SNV] * 20] * 2, seed=0, epoch=0)
    assert samplers.seen["full"] == 1


def test_more_than_two_sources_of_real_alleles_are_refused():
    index = AlleleIndex.of(no_alleles())
    with pytest.raises(ConfigurationError, match="too many: expected at most 2, got 3"):
        BatchSampler(dict.fromkeys(list(EditSource)[:3], index), index)


def test_alleles_whose_bounds_are_not_in_their_text_are_not_read():
    """Of a damaged file: no edit is drawn from them, and at the place of a held-out one there is no edit."""
    reference = simulate_reference()
    windows = WindowArrays.unpack(SplitWindows([as_batch([make_window(reference, 3_000)])]).packed(np.array([0])))
    alleles = AlleleIndex.of(simulate_alleles(reference, 2_000))
    damaged = replace(alleles, at=alleles.at + np.uint32(2**31))
    empty = AlleleIndex.of(no_alleles())

    def sample(source: EditSource, held: AlleleIndex) -> EditBatch:
        sampler = BatchSampler({EditSource.GNOMAD: damaged}, held, SamplingRules(multi_edit_share=0.0))
        plan = np.full((1, 60), EDIT_SOURCE_CODES[source], dtype=np.int8)
        return sampler.sample(windows, plan, seed=1, epoch=0, again=np.zeros(1, dtype=np.int64))

    drawn = sample(EditSource.GNOMAD, empty)
    assert set(drawn.edit_source.tolist()) == {EDIT_SOURCE_CODES[EditSource.SYNTHETIC_SNV]}
    assert set(sample(EditSource.SYNTHETIC_SNV, empty).edit_pos[:, 0].tolist()) & set(alleles.pos.tolist())
    assert not set(sample(EditSource.SYNTHETIC_SNV, damaged).edit_pos[:, 0].tolist()) & set(alleles.pos.tolist())


def test_positions_that_are_not_sorted_lead_to_no_place_behind_a_room(monkeypatch):
    """Of a damaged file: fewer alleles are found in a window than in a part of it."""
    reference = simulate_reference()
    alleles, make, behind = AlleleIndex.of(simulate_alleles(reference, 2_000)), batch_sampler._dice, []

    def dice(most: int) -> Any:
        room = np.full(3 * most + len(alleles), -1, dtype=np.int64)
        behind.append(room[3 * most :])
        return make(most)._replace(order=room[: 3 * most].reshape(3, -1))

    monkeypatch.setattr(batch_sampler, "_dice", dice)
    rules = SamplingRules(inset_bp=0, multi_edit_share=1.0, pooling=Pooling("local", 25, "right", 1))
    plan = np.full((1, 4), EDIT_SOURCE_CODES[EditSource.GNOMAD], dtype=np.int8)
    for start in range(3_000, 13_000, 250):
        windows = WindowArrays.unpack(SplitWindows([as_batch([make_window(reference, start)])]).packed(np.array([0])))
        pos = alleles.pos.copy()
        # The end of the window's alleles is searched here first.
        pos[np.searchsorted(pos, start + 1) + 16] = 2**40
        sampler = BatchSampler({EditSource.GNOMAD: replace(alleles, pos=pos)}, AlleleIndex.of(no_alleles()), rules)
        sampler.sample(windows, plan, seed=1, epoch=0, again=np.zeros(1, dtype=np.int64))
        assert (behind[-1] == -1).all()


@pytest.mark.parametrize("side", ["both", "right"])
def test_a_radius_of_any_size_pools_the_whole_window(side):
    windows = SplitWindows([as_batch([make_window(simulate_reference(), 3_000)])])
    for radius in (sys.maxsize, 2**70):
        rules = SamplingRules(pooling=Pooling("local", radius, side))
        samplers = Samplers(windows, {}, AlleleIndex.of(no_alleles()), rules)
        samplers.compare([0], [[EditSource.SYNTHETIC_SNV] * 4], seed=0, epoch=0)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(100))
def test_a_hundred_thousand_windows(part):
    """1,000 windows of a world of their own, with the default rules and eight edits."""
    world = simulate_world(1_000 + part, n_windows=1_000)
    samplers = Samplers(world.windows, world.real, world.held_out, SamplingRules(), world.held_sequences)
    for first in range(0, 1_000, 20):
        samplers.compare(range(first, first + 20), [PLAN] * 20, seed=part, epoch=1)
    assert samplers.seen["edits_2"] > 100
