from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.edits.draws import DrawKey
from genolewm_assets_tests.referees.sampling.plain_synthetic import draw_event_bp, draw_indel, draw_snv
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows, pack_bases, unpack_bases
from genolewm_assets_tests.strategies import sequences
from genolewm_assets_tests.worlds.lewm.stream_world import as_batch, make_window, simulate_reference

REFERENCE = simulate_reference()


@given(sequences(0, 50))
def test_packing_keeps_every_base_at_two_bits_each(sequence):
    packed = pack_bases(sequence)
    assert unpack_bases(packed, len(sequence)) == sequence
    assert len(packed) == (len(sequence) + 3) // 4


@pytest.mark.parametrize("sequence", ["ACNT", "ACGTR"])
def test_other_bases_are_refused(sequence):
    with pytest.raises(CorruptResourceError, match="other than A, C, G and T"):
        pack_bases(sequence)


def test_windows_come_back_as_they_were():
    windows = [
        make_window(REFERENCE, 1_000, cache=("k1", 4)),
        make_window(REFERENCE, 5_000, strand="-", window_bp=2_052, origin="mrna_evo2"),
        make_window(REFERENCE, 9_000, placed=False, origin="prokaryote_evo2", cache=("k2", 0)),
    ]
    split = SplitWindows([as_batch(windows[:2]), as_batch(windows[2:]), as_batch([])])
    assert [split.record(row) for row in range(len(split))] == windows
    assert split.origins.tolist() == ["reference", "mrna_evo2", "prokaryote_evo2"]
    assert windows[1].n_tokens == 342
    assert split.shortest_bp == 2_052


def test_a_place_that_is_not_exact_is_none():
    split = SplitWindows([as_batch([make_window(REFERENCE, 1_000)], placement_exact=False)])
    record = split.record(0)
    assert (record.contig, record.start, record.strand) == (None, None, None)


def test_a_split_may_be_empty():
    assert len(SplitWindows([])) == 0
    assert SplitWindows([]).origins.tolist() == []
    assert SplitWindows([]).shortest_bp == 0


SEQUENCE = "ACGTTGCAAGGCTTAACCGT" * 4


class _Fixed:
    """Draws that return one number."""

    def __init__(self, value: int) -> None:
        self.value = value

    def below(self, n: int) -> int:
        assert n == 2**15 - 1
        return self.value


def test_event_lengths_are_geometric_renormalised_on_1_to_15():
    counts = Counter(draw_event_bp(_Fixed(value)) for value in range(2**15 - 1))
    # P(n) = 0.5**n / (1 - 0.5**15), that is 2**(15 - n) of 2**15 - 1.
    assert counts == {n: 2 ** (15 - n) for n in range(1, 16)}


def test_snvs_are_uniform_over_places_and_other_bases():
    draws = DrawKey.of("snv").draws()
    edits = [draw_snv(SEQUENCE, 10, 20, draws) for _ in range(6_000)]
    assert all(SEQUENCE[edit.rel_pos] == edit.ref != edit.alt for edit in edits)
    counts = Counter((edit.rel_pos, edit.alt) for edit in edits)
    assert {at for at, _ in counts} == set(range(10, 20))
    # Chi-squared with 29 degrees of freedom: 58.3 is exceeded once in 1,000.
    assert len(counts) == 30
    assert sum((n - 200) ** 2 / 200 for n in counts.values()) < 58.3


def test_indels_are_half_and_half_and_stay_inside():
    draws = DrawKey.of("indel").draws()
    edits = [draw_indel(SEQUENCE, 10, 40, draws) for _ in range(4_000)]
    inserted = [edit for edit in edits if edit.length_change > 0]
    assert abs(len(inserted) - 2_000) < 4 * np.sqrt(1_000)
    for edit in edits:
        assert SEQUENCE[edit.rel_pos : edit.rel_end] == edit.ref
        assert min(len(edit.ref), len(edit.alt)) == 1
        assert edit.ref[0] == edit.alt[0]
        assert edit.rel_pos >= 10
        assert edit.rel_pos + max(len(edit.ref), len(edit.alt)) <= 40
    lengths = {sign: [abs(e.length_change) for e in edits if (e.length_change > 0) == sign] for sign in (True, False)}
    for values in lengths.values():
        assert abs(np.mean(values) - 2) < 4 * np.sqrt(2 / len(values))


@pytest.mark.parametrize("draw", [draw_snv, draw_indel])
def test_there_is_none_where_none_fits(draw):
    assert draw(SEQUENCE, 10, 10, DrawKey.of().draws()) is None
    assert draw(SEQUENCE, 10, 9, DrawKey.of().draws()) is None


def test_an_indel_needs_room_for_anchor_and_event():
    found = [draw_indel(SEQUENCE, 10, 12, DrawKey.of(seed).draws()) for seed in range(60)]
    assert {abs(edit.length_change) for edit in found if edit} == {1}
    assert None in found
