from __future__ import annotations

import pytest
from hypothesis import given

from genolewm_assets.errors import CorruptResourceError
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
