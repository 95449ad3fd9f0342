from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.encoders.edits.packed_rows import PackedRow, Tails, find_tails, pack_row, plan_rows
from genolewm_assets_tests.late import Late

torch = Late("torch")
transformers = Late("transformers")
functional = Late("torch.nn.functional")
attention = Late("torch.nn.attention")
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
        sizes = {"vocab_size": 51, "hidden_size": 64, "intermediate_size": 32, "max_position_embeddings": 512}
        heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        config = transformers.LlamaConfig(**sizes, **heads, initializer_range=0.3)
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
def test_pieces_of_any_size_give_the_masks_states(piece: int, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genolewm_assets.encoders.edits.packed_attention._PIECE_TOKENS", piece)
    monkeypatch.setattr("genolewm_assets.encoders.edits.packed_attention._PART_TOKENS", min(piece, 100))
    row = a_row()
    torch.testing.assert_close(states_of(model, row, fused=False), dense_states(model, row), rtol=1e-4, atol=1e-5)
    assert model.config._attn_implementation == "sdpa"


def attend_one_by_one(query: Any, key: Any, value: Any, sequences: Any, scale: float | None) -> Any:
    """Do as the kernel of a CUDA device does, one sequence after the other, with a mask of its tokens."""
    queries, keys = (pairwise(ends.tolist()) for ends in (sequences.query_ends, sequences.key_ends))
    results, sizes = [], []
    for here, seen in zip(queries, keys, strict=True):
        parts = ((query, here), (key, seen), (value, seen))
        own, *theirs = (each[slice(*part)].transpose(0, 1) for each, part in parts)
        n_queries, n_keys = own.shape[1], theirs[0].shape[1]
        mask = torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)
        options = {"attn_mask": mask, "scale": scale, "enable_gqa": True}
        results.append(functional.scaled_dot_product_attention(own, *theirs, **options).transpose(0, 1))
        sizes.append((n_queries, n_keys))
    assert tuple(map(max, zip(*sizes, strict=True))) == sequences[2:]
    return torch.cat(results)


@pytest.mark.parametrize("sizes", [(260, 150), (500, 31, 400)])
def test_a_row_has_the_masks_states(sizes: tuple[int, ...], model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genolewm_assets.encoders.edits.packed_attention.attend_sequences", attend_one_by_one)
    row = a_row(sizes, n_edits=4)
    torch.testing.assert_close(states_of(model, row, fused=True), dense_states(model, row), rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("key_heads", [2, 4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_sequence_has_the_bits_of_a_whole_window(dtype: str, key_heads: int) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    n, prefixes = 2_050, (0, 1, 100, 777, 1_500)
    torch.manual_seed(0)
    drawn = [torch.randn(n, heads, 64, device="cuda").to(getattr(torch, dtype)) for heads in (4, key_heads, key_heads)]
    whole = [each.transpose(0, 1)[None] for each in drawn]
    if dtype == "float32":
        whole[1:] = [each.repeat_interleave(4 // key_heads, dim=1) for each in whole[1:]]
    kernels = [attention.SDPBackend.FLASH_ATTENTION, attention.SDPBackend.EFFICIENT_ATTENTION]
    with attention.sdpa_kernel(kernels, set_priority=True):
        expected = functional.scaled_dot_product_attention(*whole, is_causal=True, enable_gqa=dtype != "float32")
    ends = torch.tensor([[n - each for each in prefixes], [n for _ in prefixes]], device="cuda").cumsum(dim=1)
    starts = torch.nn.functional.pad(ends, (1, 0)).to(torch.int32)
    tails = torch.cat([drawn[0][prefix:] for prefix in prefixes])
    keys, values = (each.repeat(len(prefixes), 1, 1) for each in drawn[1:])
    sequences = packed_attention.Sequences(starts[0], starts[1], n, n)
    found = packed_attention.attend_sequences(tails, keys, values, sequences, None)
    assert torch.equal(found, torch.cat([expected[0].transpose(0, 1)[prefix:] for prefix in prefixes]))


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
