from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from genolewm_assets import encoders
from genolewm_assets.errors import InputError, SequenceError
from genolewm_assets.states import Pooling, block_count, pool_blocks
from genolewm_assets_tests.encoders.conftest import random_windows
from genolewm_assets_tests.encoders.edits.other_models import write_other_model
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row

torch = Late("torch")
prefixes = Late("genolewm_assets.encoders.edits.prefixes")

BP = 1_542
FLANK = 30


def replaced(window: str, flank: str, *changes: tuple[int, int, str]) -> str:
    """Replace bases from right to left, and keep the length with bases of the flank."""
    edited = window + flank
    for at, length, bases in sorted(changes, reverse=True):
        edited = edited[:at] + bases + edited[at + length :]
    return edited[: len(window)]


def other(base: str) -> str:
    return "ACGT"["ACGT".index(base) - 1]


def snv(window: str, at: int) -> tuple[int, int, str]:
    return at, 1, other(window[at])


def edits_of(window: str, flank: str) -> dict[str, str]:
    last = len(window) - 1
    changes: dict[str, list[tuple[int, int, str]]] = {
        "snv": [snv(window, 700)],
        "snv at the first base": [snv(window, 0)],
        "snv at the last base": [snv(window, last)],
        "insertion": [(400, 0, "ACGTA")],
        "insertion of a token": [(600, 0, "TTGACC")],
        "deletion": [(900, 7, "")],
        "deletion of a token": [(30, 6, "")],
        "deletion at the end": [(last - 3, 3, "")],
        "insertion at the start": [(0, 0, "G")],
        "several": [snv(window, 500), (520, 2, "ACC"), snv(window, 800)],
        "none": [],
    }
    moved = window[5:500] + "ACGTT" + window[500:]
    return {name: replaced(window, flank, *own) for name, own in changes.items()} | {
        "origin moves": moved,
        "unknown bases": replaced(window, flank, (300, 2, "NN")),
    }


def close(found: NDArray[Any], expected: NDArray[Any], relative: float = 1e-5) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * float(np.abs(expected).max()))


def inside(spans: NDArray[np.int64], n_blocks: int) -> NDArray[np.bool_]:
    return np.array([[start <= block < stop for block in range(n_blocks)] for start, stop in spans.tolist()])


@contextmanager
def counted_tokens(encoder: encoders.CausalLMStateEncoder) -> Iterator[list[int]]:
    """Count the tokens of every forward pass."""
    counts: list[int] = []
    with encoder._network.computing() as model:
        layer = model.get_input_embeddings()
    hook = layer.register_forward_hook(lambda _, given, __: counts.append(given[0].numel()))
    try:
        yield counts
    finally:
        hook.remove()


@pytest.fixture(scope="module", params=["plain", "hybrid"])
def folder(request: pytest.FixtureRequest, tiny_folder: Path, hybrid_folder: Path) -> Path:
    return {"plain": tiny_folder, "hybrid": hybrid_folder}[request.param]


@pytest.mark.parametrize("layer", [-1, 1, 0])
def test_every_edit_has_the_states_of_its_whole_window(layer: int, folder: Path) -> None:
    encoder = encoders.CausalLMStateEncoder(folder, layer=layer)
    assert encoder.full_path_reason is None
    windows = random_windows(2, BP + FLANK)
    edited, source_of, names = [], [], []
    for row, sequence in enumerate(windows):
        found = edits_of(sequence[:BP], sequence[BP:])
        names += list(found)
        edited += list(found.values())
        source_of += [row] * len(found)
    n_blocks = block_count(BP // 6)
    whole = encoder.encode_windows(edited)
    for kind, side in (("local", "both"), ("local", "right"), ("global", "both")):
        spans, pooled = [], []
        for row, sequence in zip(source_of, edited, strict=True):
            pairs = zip(windows[row][:BP], sequence, strict=True)
            locus = next((at for at, (one, two) in enumerate(pairs) if one != two), BP // 2)
            spans.append(Pooling.named(kind, 40, side).blocks(locus // 6, BP // 6))
        wanted = np.array(spans)
        found = encoder.encode_edits([one[:BP] for one in windows], edited, np.array(source_of), wanted)
        assert found.shape == whole.shape == (len(names), n_blocks, 64)
        assert np.array_equal(np.isfinite(found).all(axis=2), inside(wanted, n_blocks))
        for row, name in enumerate(names):
            start, stop = spans[row]
            close(found[row, start:stop], whole[row, start:stop])
            pooled = [pool_blocks(states[row], start, stop, BP // 6) for states in (found, whole)]
            assert np.abs(pooled[0] - pooled[1]).max() <= 1e-5 * np.abs(pooled[1]).max(), name


@pytest.mark.parametrize("kind", ["grouped queries", "learned positions", "neox", "bfloat16"])
def test_other_causal_models_and_products_take_the_path(kind: str, tiny_folder: Path, tmp_path: Path) -> None:
    if kind == "bfloat16":
        encoder, relative = encoders.CausalLMStateEncoder(tiny_folder, compute="bfloat16"), 2e-2
    else:
        folder, relative = write_other_model(kind, tiny_folder, tmp_path / "model"), 1e-5
        encoder = encoders.CausalLMStateEncoder(folder)
    assert encoder.full_path_reason is None
    window, flank = random_windows(1, 1_200)[0], "ACGTGCATTC" * 3
    edited = list(edits_of(window, flank).values())
    spans = np.array([(0, 4)] * len(edited))
    with counted_tokens(encoder) as counts:
        found = encoder.encode_edits([window], edited, np.zeros(len(edited), dtype=int), spans)
    assert sum(counts) < 0.8 * 202 * len(edited)
    close(found, encoder.encode_windows(edited), relative)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("bidirectional", "not causal"),
        ("sliding window", "sliding_window"),
        ("recurrent", "not those of the whole window|position_ids"),
        ("dynamic positions", "depend on the length"),
    ],
)
def test_a_model_without_prefix_takes_whole_windows(kind: str, says: str, tiny_folder: Path, tmp_path: Path) -> None:
    encoder = encoders.CausalLMStateEncoder(write_other_model(kind, tiny_folder, tmp_path / "model"))
    window = random_windows(1, 1_200)[0]
    edited = list(edits_of(window, "ACGTGCATTC" * 3).values())[:4]
    spans = np.array([(0, 1), (1, 4), (3, 4), (0, 4)])
    found = encoder.encode_edits([window], edited, np.zeros(4, dtype=int), spans)
    assert encoder.full_path_reason is not None
    assert re.search(says, encoder.full_path_reason), encoder.full_path_reason
    chosen = inside(spans, 4)
    assert found[chosen].tobytes() == encoder.encode_windows(edited)[chosen].tobytes()
    assert np.isnan(found[~chosen]).all()


def test_only_changed_tokens_go_through_the_model(encoder: encoders.CausalLMStateEncoder) -> None:
    window = random_windows(1)[0]
    assert encoder.full_path_reason is None
    loci = [1_000, 3_000, 5_000, 7_000, 9_000, 10_000, 11_000, 12_000]
    edited = [replaced(window, "", snv(window, at)) for at in loci]
    spans = np.array([Pooling().blocks(at // 6, 2_048) for at in loci])
    with counted_tokens(encoder) as counts:
        encoder.encode_edits([window], edited, np.zeros(8, dtype=int), spans)
    # The opening tag and all tokens before the last edit once; of each edit those from it to the end of its blocks.
    tails = [min(2_048, int(stop) * 64) - at // 6 for at, (_, stop) in zip(loci, spans, strict=True)]
    assert sum(counts) == 1 + 12_000 // 6 + sum(tails)
    assert 4 * sum(counts) < 8 * 2_050
    with counted_tokens(encoder) as counts:
        encoder.encode_edits([window], [window] * 3, np.zeros(3, dtype=int), np.array([(0, 2), (1, 3), (2, 3)]))
    assert sum(counts) == 1 + 3 * 64


def test_edits_of_several_windows_keep_their_order(encoder: encoders.CausalLMStateEncoder) -> None:
    windows = [*random_windows(2, BP), *random_windows(1, 900, seed=7)]
    order = [2, 0, 1, 1, 2, 0, 0]
    edited = [replaced(windows[row], "", snv(windows[row], 100 * at + 40)) for at, row in enumerate(order)]
    spans = np.array([(0, 1 + at % 3) for at in range(7)])
    found = encoder.encode_edits(windows, edited, np.array(order), spans)
    assert found.shape == (7, 5, 64)
    for row, sequence in enumerate(edited):
        alone = encoder.encode_windows([sequence], n_blocks=5)[0]
        close(found[row, : spans[row, 1]], alone[: spans[row, 1]])
    # On the CPU the bits do not depend on the edits of other windows.
    own = [row for row, source in enumerate(order) if source == 0]
    again = encoder.encode_edits(windows[:1], [edited[row] for row in own], np.zeros(3, dtype=int), spans[own])
    assert np.array_equal(again, found[own], equal_nan=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_edits_equal_the_whole_window(data: st.DataObject, encoder: encoders.CausalLMStateEncoder) -> None:
    size = data.draw(st.integers(6, 1_200))
    window = random_windows(1, size, seed=data.draw(st.integers(0, 99)))[0]
    edited, spans = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        change = st.tuples(st.integers(0, size - 1), st.integers(0, 8), st.text("ACGT", max_size=9))
        changes = data.draw(st.lists(change, max_size=3))
        sequence = replaced(window, data.draw(st.text("ACGT", max_size=20)), *changes)
        edited.append(sequence if len(sequence) >= 6 else window)
        n_blocks = block_count(len(edited[-1]) // 6)
        start = data.draw(st.integers(0, n_blocks - 1))
        spans.append((start, data.draw(st.integers(start + 1, n_blocks))))
    found = encoder.encode_edits([window], edited, np.zeros(len(edited), dtype=int), np.array(spans))
    whole = encoder.encode_windows(edited)
    for row, (start, stop) in enumerate(spans):
        close(found[row, start:stop], whole[row, start:stop])
        assert np.isnan(found[row, :start]).all()
        assert np.isnan(found[row, stop:]).all()


@each_row(
    ("edited", "source_of", "spans", "error"),
    [
        (["ACGT" * 200], [0], [(0, 4)], InputError),
        (["ACGT" * 200], [0], [(1, 1)], InputError),
        (["ACGT" * 200], [1], [(0, 1)], InputError),
        (["ACGT" * 200], [0, 0], [(0, 1)], InputError),
        (["ACG"], [0], [(0, 1)], SequenceError),
        (["ACGT" * 12_287], [0], [(0, 1)], SequenceError),
    ],
)
def test_what_is_not_there_is_refused(
    edited: list[str], source_of: list[int], spans: Any, error: type[Exception], encoder: encoders.CausalLMStateEncoder
) -> None:
    with pytest.raises(error):
        encoder.encode_edits(["ACGT" * 200], edited, np.array(source_of), np.array(spans))


class _SmallMemory:
    """A network whose states are running sums of the ids of a window, with memory for few tokens."""

    context, rope_types = None, frozenset[str]()

    def __init__(self, tokens: int) -> None:
        self.tokens, self.sizes = tokens, list[int]()

    def token_states(self, ids: NDArray[np.int64]) -> Any:
        return torch.from_numpy(np.cumsum(ids, axis=1)[..., None].astype(np.float32))

    def packed_states(self, row: Any) -> Any:
        self.sizes.append(len(row.ids))
        if len(row.ids) > self.tokens:
            raise torch.OutOfMemoryError("no memory")
        states = np.zeros(len(row.ids), dtype=np.float32)
        for one in row.segments:
            before = states[one.reference + one.first - 1] if one.first else 0
            states[one.start : one.stop] = before + np.cumsum(row.ids[one.start : one.stop])
        return torch.from_numpy(states[:, None])


def small_encoder(network: _SmallMemory) -> Any:
    shape = {"leading": (), "trailing": (), "tokens_per_block": 4, "context": None, "compute": "float32"}
    return prefixes.PrefixEncoder(network, np.arange(4), **shape, max_tokens=1_000, one_source=False)


def test_rows_are_divided_until_they_fit_into_memory() -> None:
    network = _SmallMemory(tokens=60)
    small = small_encoder(network)
    assert small.obstacle is not None  # 94 tokens do not fit either.
    rng = np.random.default_rng(0)
    sources = [rng.integers(0, 4, 20) for _ in range(3)]
    source_of = np.arange(12) % 3
    edited: Sequence[Any] = [sources[source].copy() for source in source_of]
    for at, ids in enumerate(edited):
        ids[at] = 3 - ids[at]
    spans = np.array([(at % 4, 5) for at in range(12)])
    network.sizes.clear()
    found = small.block_states(sources, edited, source_of, spans)
    pairs = zip(edited, spans, strict=True)
    wanted = [np.cumsum(ids).reshape(5, 4).mean(axis=1)[start:stop] for ids, (start, stop) in pairs]
    np.testing.assert_array_equal(found[:, 0], np.concatenate(wanted).astype(np.float32))
    assert max(network.sizes) > 60
    network.sizes.clear()
    small.block_states(sources, edited, source_of, spans)
    assert max(network.sizes) <= 60 * 2
    with pytest.raises(torch.OutOfMemoryError):
        small_encoder(_SmallMemory(tokens=10)).block_states(sources, edited, source_of, spans)
