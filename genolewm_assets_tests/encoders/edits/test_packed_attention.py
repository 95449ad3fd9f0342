from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.encoders.edits.packed_rows import PackedRow, Tails, find_tails, pack_row, plan_rows
from genolewm_assets.errors import ConfigurationError
from genolewm_assets_tests.late import Late

torch = Late("torch")
transformers = Late("transformers")
flex = Late("torch.nn.attention.flex_attention")
packed_attention = Late("genolewm_assets.encoders.edits.packed_attention")


def a_row(sizes: tuple[int, ...] = (260, 150), n_edits: int = 3) -> PackedRow:
    rng = np.random.default_rng(2)
    sources = [rng.integers(0, 50, size) for size in sizes]
    source_of = np.repeat(np.arange(len(sizes)), n_edits)
    edited = [sources[source].copy() for source in source_of]
    for at, ids in enumerate(edited):
        place = 20 + 37 * at % (len(ids) - 40)
        ids[place] = 50
        if at % 2:
            ids[place:] = rng.integers(0, 50, len(ids) - place)
    stops = np.array([len(ids) - 5 * at for at, ids in enumerate(edited)])
    return pack_row(find_tails(sources, edited, source_of, stops), np.arange(len(edited)))


def seen_tokens(row: PackedRow, size: int) -> np.ndarray:
    """Return, token by token, what each token of a row attends to: bool, shape (size, size)."""
    seen = np.eye(size, dtype=bool)
    for one in row.segments:
        for place in range(one.start, one.stop):
            seen[place, one.start : place + 1] = True
            seen[place, one.reference : one.reference + one.first] = True
    return seen


@pytest.fixture(scope="module")
def model() -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=51,
            hidden_size=64,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            initializer_range=0.3,
        )
        return transformers.AutoModel.from_config(config).eval()


def states_of(model: Any, row: PackedRow, *, fused: bool) -> Any:
    def forward(ids: Any, positions: Any) -> Any:
        return model(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state

    with torch.no_grad():
        return packed_attention.packed_states(model, forward, row, torch.device("cpu"), fused=fused)


def dense_states(model: Any, row: PackedRow) -> Any:
    """Return the states by the model's own attention with a mask of tokens."""
    with torch.no_grad():
        return model(
            input_ids=torch.from_numpy(row.ids)[None],
            position_ids=torch.from_numpy(row.positions)[None],
            attention_mask=torch.from_numpy(seen_tokens(row, len(row.ids)))[None, None],
            use_cache=False,
        ).last_hidden_state[0]


@pytest.mark.parametrize("piece", [64, 333, 4_096])
def test_pieces_of_any_size_give_the_states_of_the_mask(
    piece: int, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genolewm_assets.encoders.edits.packed_attention._PIECE_TOKENS", piece)
    monkeypatch.setattr("genolewm_assets.encoders.edits.packed_attention._PART_TOKENS", min(piece, 100))
    row = a_row()
    torch.testing.assert_close(states_of(model, row, fused=False), dense_states(model, row), rtol=1e-4, atol=1e-5)
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_one_kernel_for_the_row_gives_the_states_of_the_mask(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genolewm_assets.encoders.edits.packed_attention._compiled_flex", lambda: flex.flex_attention)
    row = a_row()
    torch.testing.assert_close(states_of(model, row, fused=True), dense_states(model, row), rtol=1e-4, atol=1e-5)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_the_compiled_kernel_skips_the_right_blocks(model: Any) -> None:
    for row in (a_row(), a_row((500, 31, 400), n_edits=4)):
        torch.testing.assert_close(states_of(model, row, fused=True), dense_states(model, row), rtol=1e-4, atol=1e-5)


def test_blocks_of_the_mask_are_those_of_the_tokens() -> None:
    row = a_row((500, 400), n_edits=4)
    size = -(-len(row.ids) // 1_024) * 1_024
    mask = packed_attention.flex_mask(row.segments, size, torch.device("cpu"))
    seen = seen_tokens(row, size)
    places = torch.arange(size)
    assert np.array_equal(mask.mask_mod(None, None, places[:, None], places[None]).numpy(), seen)
    by_block = seen.reshape(size // 128, 128, size // 128, 128)
    some, every = by_block.any(axis=(1, 3)), by_block.all(axis=(1, 3))
    for block in range(size // 128):
        partial = set(mask.kv_indices[0, 0, block, : mask.kv_num_blocks[0, 0, block]].tolist())
        whole = set(mask.full_kv_indices[0, 0, block, : mask.full_kv_num_blocks[0, 0, block]].tolist())
        assert whole == set(np.flatnonzero(every[block]).tolist())
        assert partial == set(np.flatnonzero(some[block] & ~every[block]).tolist())


def test_attention_with_an_unknown_part_is_refused(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(ids: Any, positions: Any) -> Any:
        return model(input_ids=ids, position_ids=positions, use_cache=False, sinks=torch.ones(1)).last_hidden_state

    with torch.no_grad(), pytest.raises(ConfigurationError, match=r"packed attention.*sinks"):
        packed_attention.packed_states(model, forward, a_row(), torch.device("cpu"))
    assert model.config._attn_implementation == "sdpa"


def test_compiled_layers_run_as_written_and_stay_compiled(model: Any) -> None:
    row = a_row()
    expected = states_of(model, row, fused=False)

    def compiled(*args: object, **kwargs: object) -> Any:
        raise AssertionError("the compiled code ran")

    layer = model.layers[0]
    layer._compiled_call_impl = compiled
    try:
        assert torch.equal(states_of(model, row, fused=False), expected)
        assert layer._compiled_call_impl is compiled
    finally:
        layer._compiled_call_impl = None


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
