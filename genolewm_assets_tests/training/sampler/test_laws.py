"""A million tuples against the laws that they are drawn from, and against the alleles that no edit may make."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.rules import EDIT_SOURCE_CODES, EditSource, SamplingRules
from genolewm_assets.genome import Variant, decode_sequence, normalise
from genolewm_assets.training.sampler.batch_sampler import BatchSampler
from genolewm_assets.training.sampler.tables import EditBatch, WindowArrays
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows
from genolewm_assets_tests.worlds.lewm.stream_world import (
    CONTIG,
    as_batch,
    make_window,
    no_alleles,
    plan_of,
    simulate_alleles,
    simulate_reference,
)

TUPLES, WINDOW_BP, INSET_BP = 1_000_000, 1_536, 64
#: A window is visited this often in one call.
VISITS = 2_000


def draw(
    windows: SplitWindows, sampler: BatchSampler, plan: NDArray[np.int8], n_tuples: int = TUPLES
) -> Iterator[tuple[WindowArrays, EditBatch]]:
    """Yield batches of one window each, visited many times, until there are enough tuples."""
    n, again = 0, np.arange(VISITS)
    for epoch in range(1_000):
        for row in range(len(windows)):
            arrays = WindowArrays.unpack(windows.packed(np.full(VISITS, row)))
            edits = sampler.sample(arrays, np.broadcast_to(plan, (VISITS, plan.size)), seed=3, epoch=epoch, again=again)
            yield arrays, edits
            n += len(edits)
            if n >= n_tuples:
                return


def is_plausible(counts: NDArray[np.int64], shares: NDArray[np.float64]) -> bool:
    """Tell whether counts fit shares: chi-square within five standard deviations of its mean."""
    expected = counts.sum() * shares / shares.sum()
    degrees = len(counts) - 1
    return bool(((counts - expected) ** 2 / expected).sum() < degrees + 5 * np.sqrt(2 * degrees))


def random_windows(n: int) -> SplitWindows:
    """Return windows without repeats and without a place, of which no allele is held out."""
    rng = np.random.default_rng(11)
    bases = np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, n * 2_100)].tobytes()
    windows = [make_window(bases, 256 + at * 2_100, window_bp=WINDOW_BP, placed=False) for at in range(n)]
    return SplitWindows([as_batch(windows)])


@pytest.fixture(scope="module")
def sampler() -> BatchSampler:
    return BatchSampler({}, AlleleIndex.of(no_alleles()), SamplingRules(multi_edit_share=0))


@pytest.mark.slow
def test_snvs_are_uniform_over_places_and_alternatives(sampler):
    places, alternatives = np.zeros(WINDOW_BP, np.int64), np.zeros((4, 4), np.int64)
    plan = np.array([EDIT_SOURCE_CODES[EditSource.SYNTHETIC_SNV]], dtype=np.int8)
    for _, edits in draw(random_windows(4), sampler, plan):
        places += np.bincount(edits.edit_rel_pos[:, 0], minlength=WINDOW_BP)
        np.add.at(alternatives, (edits.edit_ref[:, 0, 0], edits.edit_alt[:, 0, 0]), 1)
    inner = places[INSET_BP : WINDOW_BP - INSET_BP]
    assert places.sum() == inner.sum() >= TUPLES
    assert is_plausible(inner, np.ones(len(inner)))
    assert not alternatives.diagonal().any()
    for ref in range(4):
        assert is_plausible(alternatives[ref][np.arange(4) != ref], np.ones(3))


@pytest.mark.slow
def test_indels_have_the_stated_lengths_and_even_places(sampler):
    lengths, blocks = np.zeros(31, np.int64), np.zeros(22, np.int64)
    plan = np.array([EDIT_SOURCE_CODES[EditSource.SYNTHETIC_INDEL]], dtype=np.int8)
    for _, edits in draw(random_windows(8), sampler, plan):
        lengths += np.bincount(edits.length_change + 15, minlength=31)
        # Blocks of 64 bases, without the first and last: an indel is moved to the left end of a repeat.
        blocks += np.bincount(edits.edit_rel_pos[:, 0] // 64, minlength=24)[1:23]
    assert lengths[15] == 0
    law = 2.0 ** (15 - np.arange(1, 16))
    deleted, inserted = lengths[:15][::-1], lengths[16:]
    for found in (deleted, inserted):
        # Of the longest ones too few are expected for chi-square; they are counted together.
        assert is_plausible(np.append(found[:11], found[11:].sum()), np.append(law[:11], law[11:].sum()))
    assert is_plausible(np.array([deleted.sum(), inserted.sum()]), np.ones(2))
    assert is_plausible(blocks[1:-1], np.ones(20))


@pytest.mark.nightly
def test_a_million_tuples_make_no_held_out_allele():
    """A third of the real alleles are held out; without the filter, each window makes many of them."""
    reference = simulate_reference(seed=7)
    alleles = simulate_alleles(reference, 2_000, seed=5)
    held = alleles.take(list(range(0, 2_000, 3)))
    keys = set(zip(*(held[name].to_pylist() for name in ("pos", "ref", "alt")), strict=True))
    starts = range(300, 20_000, 1_999)
    shown = [make_window(reference, at, strand="+-"[at % 2], window_bp=2_562) for at in starts]
    windows = SplitWindows([as_batch(shown)])
    real = {EditSource.GNOMAD: AlleleIndex.of(alleles), EditSource.CLINVAR: AlleleIndex.of(alleles.slice(500, 300))}
    for filter_, n_tuples in ((held, TUPLES), (no_alleles(), TUPLES // 50)):
        rules = SamplingRules(multi_edit_share=0.2)
        sampler, made, joint = BatchSampler(real, AlleleIndex.of(filter_), rules), 0, 0
        for arrays, edits in draw(windows, sampler, plan_of(), n_tuples):
            found = reference_alleles(arrays, edits)
            made += len(found & keys)
            several = np.flatnonzero(edits.n_edits > 1)[:20]
            joint += sum(one in keys for row in several for one in joined_alleles(reference, edits, row))
        if filter_ is held:
            assert (made, joint) == (0, 0)
        else:
            assert made > 50


def reference_alleles(arrays: WindowArrays, edits: EditBatch) -> set[tuple[int, str, str]]:
    """Return the different single edits of a batch on the reference, of one window."""
    left, size, right = arrays.sizes[0].tolist()
    codes = arrays.codes[left : left + size + right]
    if arrays.is_reverse[0]:
        codes = 3 - codes[:size][::-1]
    placed = edits.edit_pos >= 0
    ends = edits.allele_alt_at + edits.edit_alt_length
    columns = edits.edit_pos, edits.edit_ref_length, edits.allele_alt_at, ends
    rows = zip(*(column[placed] for column in columns), strict=True)
    start = int(arrays.start[0])
    found = set()
    for pos, ref_bp, first, end in rows:
        at = int(pos) - 1 - start
        found.add((int(pos), codes[at : at + ref_bp].tobytes(), edits.pool[first:end].tobytes()))
    return {
        (pos, decode_sequence(np.frombuffer(ref, np.uint8)), decode_sequence(np.frombuffer(alt, np.uint8)))
        for pos, ref, alt in found
    }


def joined_alleles(reference: bytes, edits: EditBatch, row: int) -> Iterator[tuple[int, str, str]]:
    """Yield what neighbouring edits of a tuple make together, normalised on the whole contig."""
    single = []
    for place in range(edits.n_edits[row]):
        pos, ref_bp = int(edits.edit_pos[row, place]), int(edits.edit_ref_length[row, place])
        first = int(edits.allele_alt_at[row, place])
        alt = decode_sequence(edits.pool[first : first + int(edits.edit_alt_length[row, place])])
        single.append((pos - 1, pos - 1 + ref_bp, alt))
    single.sort()
    for first in range(len(single) - 1):
        for last in range(first + 1, len(single)):
            start, end = single[first][0], single[last][1]
            bases, at = "", start
            for low, high, alt in single[first : last + 1]:
                bases += reference[at:low].decode() + alt
                at = high
            made = normalise(Variant(CONTIG, start + 1, reference[start:end].decode(), bases), reference)
            yield made.pos, made.ref, made.alt
