from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.haplotypes import HaplotypeSampler
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.rules import EditSource, Haplotype, SamplingRules
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.holdouts.schema import HOLDOUT_HAPLOTYPES
from genolewm_assets.states.pooling import Pooling
from genolewm_assets.training.batches import TrainingBatch
from genolewm_assets.training.stream import HaplotypeStream, StreamSettings, Visits
from genolewm_assets.training.tuples import Phase
from genolewm_assets_tests.referees.sampling.plain_tuples import assert_arrays, build_tuples
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows
from genolewm_assets_tests.worlds.lewm.stream_world import (
    CONTIG,
    WINDOW_BP,
    as_batch,
    draw_key,
    make_window,
    no_alleles,
    plan_of,
    simulate_alleles,
    simulate_reference,
)

REFERENCE = simulate_reference()
NONE_HELD = AlleleIndex.of(no_alleles())
_SIMULATED = simulate_alleles(REFERENCE, 500).to_pylist()
COMMON = [(row["pos"], row["ref"], row["alt"]) for row in _SIMULATED if len(row["ref"]) < 20]
Key = tuple[int, str, str]


def snv(start: int) -> Key:
    base = chr(REFERENCE[start])
    return start + 1, base, "ACGT"["ACGT".index(base) - 1]


def table(*rows: tuple[int | None, list[Key]]) -> pa.Table:
    """Return haplotypes from (number of carriers or None, alleles)."""
    filled = [
        {"role": "test", "contig": CONTIG, "unit": "u", "number": number, "phased": n is not None, "n_carriers": n}
        | {"alleles": [dict(zip(("pos", "ref", "alt"), key, strict=True)) for key in sorted(keys)]}
        for number, (n, keys) in enumerate(rows)
    ]
    return pa.Table.from_pylist(filled, schema=HOLDOUT_HAPLOTYPES.arrow)


def sample(
    haplotypes: pa.Table, window: WindowRecord, *, n: int = 8, turn: int = 0, held: AlleleIndex = NONE_HELD, **rules
) -> tuple[Haplotype, ...]:
    sampler = HaplotypeSampler(haplotypes, held, SamplingRules(**rules))
    return sampler.sample(window, n, draw_key(turn))[0]


def batch_of(window: WindowRecord, found: tuple[Haplotype, ...], pooling: Pooling) -> TrainingBatch:
    """Return the batch that the stream makes of a window's haplotypes."""

    class Found(HaplotypeSampler):
        def sample(self, *_: object) -> tuple[tuple[Haplotype, ...], Counter[str]]:
            return found, Counter()

    windows, none = SplitWindows([as_batch([window])]), table((None, []))
    stream = HaplotypeStream(windows, Found(none.slice(0, 0), NONE_HELD), StreamSettings(pooling=pooling))
    return stream.batch(Visits.of([0], plan_of()), epoch=0, position=0)


def keys_of(haplotype: Haplotype) -> frozenset[Key]:
    return frozenset((one.pos, one.ref, one.alt) for one in haplotype.alleles)


@given(
    st.lists(st.lists(st.sampled_from(COMMON), min_size=2, max_size=9, unique=True), min_size=1, max_size=5),
    st.integers(300, 20_000),
    st.sampled_from("+-"),
    st.sampled_from([Pooling(), Pooling(radius_tokens=64), Pooling(side="right", radius_tokens=100)]),
    st.integers(0, 3),
)
@settings(deadline=None, max_examples=50)
def test_every_haplotype_is_a_part_of_one_row(rows, start, strand, pooling, n_phased):
    haplotypes = table(*((5 if number < n_phased else None, keys) for number, keys in enumerate(rows)))
    window = make_window(REFERENCE, start, strand=strand)
    found = sample(haplotypes, window, pooling=pooling)
    assert len({keys_of(one) for one in found}) == len({one.edited.sequence for one in found}) == len(found) <= 8
    tuples, tokens = build_tuples(window, found, pooling, epoch=0, position=0)
    batch = batch_of(window, found, pooling)
    assert batch.tuples == tuples
    assert_arrays(batch)
    assert batch.target_tokens.tolist() == tokens.tolist()
    for one, made in zip(found, tuples, strict=True):
        assert len(one.edited.edits) in {2, 3}
        assert (one.source, one.allele_row) == (EditSource.GNOMAD, -1)
        assert any(keys_of(one) <= set(keys) for keys in rows)
        assert made.phase in {Phase.PHASED, Phase.UNPHASED}
        if made.phase is Phase.PHASED:
            assert any(keys_of(one) <= set(keys) for keys in rows[:n_phased])


def test_every_pair_and_triple_is_emitted_once_where_slots_are_many():
    """Five SNVs, of which the last is too far from the first two: all sets that one pooled span holds, and no other."""
    places = [1_000, 1_100, 1_104, 1_800, 2_420]
    keys = [snv(5_000 + at) for at in places]
    window, pooling = make_window(REFERENCE, 5_000), Pooling(radius_tokens=128)
    wanted = set()
    for size in (2, 3):
        for chosen in combinations(range(5), size):
            at = [places[i] for i in chosen]
            apart = all(b - a > 6 for a, b in pairwise(at))
            last_block = (at[0] // 6 + 128) // 64
            if apart and at[-1] // 6 // 64 <= last_block:
                wanted.add(frozenset(keys[i] for i in chosen))
    assert 5 < len(wanted) < 20
    for turn in range(3):
        found = sample(table((3, keys), (1, keys[:4])), window, n=40, turn=turn, pooling=pooling)
        assert {keys_of(one) for one in found} == wanted
        assert len(found) == len(wanted)
    pairs = [sample(table((3, keys)), window, n=2, turn=turn, pooling=pooling) for turn in range(40)]
    few = [keys_of(one) for pair in pairs for one in pair]
    assert len(few) == 80
    assert set(few) == wanted
    sizes = Counter(map(len, few))
    assert min(sizes.values()) > 20


def test_each_allele_of_a_window_is_placed_once(monkeypatch):
    placed = Counter()

    def edit_of(place, *allele, made=EditPlace.edit_of):
        placed[allele] += 1
        return made(place, *allele)

    monkeypatch.setattr(EditPlace, "edit_of", edit_of)
    keys = [snv(5_000 + at) for at in (400, 500, 600, 700)]
    found = sample(table(*((1, keys[n % 2 :]) for n in range(20))), make_window(REFERENCE, 5_000), n=40)
    assert len(found) == 6 + 4
    assert placed == dict.fromkeys(keys, 1)


def test_an_allele_without_a_difference_in_window_and_flank_is_left_out():
    """A repeat that lasts to the end of the flank is the same with a unit less."""
    unit, start = "ACGTTGCA", 8_000
    bases = bytearray(REFERENCE)
    bases[start:] = (unit * (len(bases) // 8)).encode()[: len(bases) - start]
    bases[start - 1 : start] = b"C"
    shorter = start, f"C{unit}", "C"
    window = make_window(bytes(bases), 5_500)
    keys = [snv(7_500), snv(7_600)]
    (found,) = sample(table((1, [*keys, shorter])), window)
    assert keys_of(found) == frozenset(keys)


def test_draws_depend_on_the_key_alone():
    keys = [snv(5_000 + at) for at in range(400, 2_000, 90)]
    haplotypes, window = table((3, keys), (None, keys[3:])), make_window(REFERENCE, 5_000)
    assert sample(haplotypes, window) == sample(haplotypes, window)
    assert sample(haplotypes, window, turn=1) != sample(haplotypes, window)


def test_a_window_without_two_alleles_in_one_span_emits_nothing():
    window = make_window(REFERENCE, 5_000)
    near, far = [snv(5_500), snv(5_600)], [snv(5_100), snv(7_900)]
    narrow = {"pooling": Pooling(radius_tokens=64)}
    assert len(sample(table((1, near)), window, **narrow)) == 1
    assert sample(table((1, far)), window, **narrow) == ()
    assert sample(table((1, [snv(5_500), snv(4_900)])), window) == ()
    assert sample(table((1, near)), window, min_left_context_bp=550) == ()
    assert sample(table((1, near)), make_window(REFERENCE, 5_000, placed=False)) == ()
    assert sample(table((1, near)), make_window(REFERENCE, 5_000 + WINDOW_BP)) == ()
    assert sample(HOLDOUT_HAPLOTYPES.empty(), window) == ()
    # One allele of the edge margin leaves a single one.
    assert sample(table((1, [snv(5_010), snv(5_100)])), window) == ()


@pytest.mark.parametrize("strand", ["+", "-"])
def test_haplotypes_that_make_a_closed_allele_are_not_emitted(strand):
    window = make_window(REFERENCE, 5_000, strand=strand)
    keys = [snv(6_000), snv(6_020), snv(6_040)]
    closed = AlleleIndex.of(pa.table([[CONTIG], *([part] for part in keys[1])], names=["chrom", "pos", "ref", "alt"]))
    assert {keys_of(one) for one in sample(table((1, keys)), window, held=closed)} == {frozenset({keys[0], keys[2]})}
    assert len(sample(table((1, keys)), window)) == 4


def test_a_deletion_that_first_differs_behind_the_window_is_in_no_haplotype():
    """A base less of a repeat across the end of the window makes its first difference in the flank."""
    start = 3_000
    run = slice(start + WINDOW_BP - 10, start + WINDOW_BP + 10)
    reference = bytearray(REFERENCE)
    reference[run.start - 1 : run.stop + 1] = b"C" + b"A" * (run.stop - run.start) + b"C"
    deletion = (run.start, "CA", "C")
    inside = [snv(start + at) for at in (WINDOW_BP // 2, WINDOW_BP // 2 + 30, 60, WINDOW_BP - 60)]
    found = sample(table((None, [deletion, *inside])), make_window(bytes(reference), start), n=30)
    assert found
    assert all(deletion not in keys_of(one) for one in found)
