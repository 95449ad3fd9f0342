from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.encoders.edits.packed_rows import Tails, find_tails, pack_row, plan_rows

IDS = st.lists(st.integers(0, 2), min_size=2, max_size=12).map(lambda ids: np.array(ids, dtype=np.int64))


@st.composite
def tails(draw: st.DrawFn) -> Tails:
    sources = draw(st.lists(IDS, min_size=1, max_size=3))
    edited = draw(st.lists(IDS, min_size=1, max_size=8))
    source_of = np.array([draw(st.integers(0, len(sources) - 1)) for _ in edited], dtype=np.int64)
    stops = np.array([draw(st.integers(1, len(ids))) for ids in edited], dtype=np.int64)
    return find_tails(sources, edited, source_of, stops)


@given(tails(), st.integers(1, 60), st.booleans())
def test_rows_hold_every_token_of_every_edit(found: Tails, max_tokens: int, one_source: bool) -> None:
    rows = plan_rows(found, max_tokens=max_tokens, one_source=one_source)
    assert sorted(edit for row in rows for edit in row.tolist()) == list(range(len(found.edited)))
    for edits in rows:
        row = pack_row(found, edits)
        assert len(row.ids) <= max_tokens or len(edits) == 1
        assert len(set(found.source_of[edits].tolist())) == 1 or not one_source
        assert [one.start for one in row.segments] == [0, *(one.stop for one in row.segments[:-1])]
        assert row.segments[-1].stop == len(row.ids) == len(row.positions)
        for at, edit in enumerate(edits.tolist()):
            prefix, stop = row.prefixes[at], found.stops[edit]
            shared = slice(row.reference_at[at], row.reference_at[at] + prefix)
            tail = slice(row.tail_at[at], row.tail_at[at] + stop - prefix)
            tokens = np.concatenate((row.ids[shared], row.ids[tail]))
            assert np.array_equal(tokens, found.edited[edit][:stop])
            assert np.array_equal(np.concatenate((row.positions[shared], row.positions[tail])), np.arange(stop))


@given(tails())
def test_a_row_holds_no_token_twice(found: Tails) -> None:
    (edits,) = plan_rows(found, max_tokens=10_000, one_source=False)
    row = pack_row(found, edits)
    longest = dict.fromkeys(found.source_of.tolist(), 0)
    for source, prefix in zip(found.source_of.tolist(), found.prefixes.tolist(), strict=True):
        longest[source] = max(longest[source], prefix)
    assert len(row.ids) == sum(longest.values()) + int((found.stops - found.prefixes).sum())
    assert (found.prefixes <= found.stops).all()
    for edit, prefix in enumerate(found.prefixes.tolist()):
        ids, source = found.edited[edit], found.sources[found.source_of[edit]]
        assert prefix == found.stops[edit] or prefix == len(source) or ids[prefix] != source[prefix]
