"""Models whose vocabularies are not tagged 6-mers: states against the plain library, cache, package and stream."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genolewm_assets import encoders, lewm
from genolewm_assets.encoders.state_checks import null_edit_ratio
from genolewm_assets.errors import ConfigurationError, SequenceError
from genolewm_assets.training.batches import encode_targets
from genolewm_assets_tests.encoders.conftest import random_snvs, random_windows
from genolewm_assets_tests.encoders.vocabularies.other_models import MASKED, WRITERS, character_tokenizer
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_encoded, publish_package

torch = Late("torch")
transformers = Late("transformers")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folder of a model of each kind; tests that change files work on a copy."""
    places = {kind: tmp_path_factory.mktemp("models") / kind for kind in WRITERS}
    for kind, write in WRITERS.items():
        write(places[kind])
    return places


@pytest.fixture(scope="session")
def loaded(folders: dict[str, Path]) -> dict[str, encoders.CausalLMStateEncoder]:
    return {kind: encoders.CausalLMStateEncoder(folder) for kind, folder in folders.items()}


def plain_ids(kind: str, window: str) -> list[int]:
    """Return the ids of a window as the published tokenizers of each kind give them."""
    if kind == "characters":
        return [7 + "ACGTN".index(base) for base in window] + [1]
    if kind == "bytes":
        return list(window.encode())
    return [3, *(MASKED.index(window[at : at + 6]) for at in range(0, len(window), 6))]


@each_row("kind", WRITERS)
def test_blocks_are_means_over_384_bases(kind: str, folders: Any, loaded: Any) -> None:
    (window,) = random_windows(1, 1_200)
    ids = plain_ids(kind, window)
    if kind == "masked":
        model = transformers.EsmForMaskedLM.from_pretrained(folders[kind]).esm.eval()
        tokens, size = slice(1, None), 64
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(folders[kind]).base_model.eval()
        tokens, size = slice(0, 1_200), 384
    with torch.no_grad():
        states = model(input_ids=torch.tensor([ids])).last_hidden_state[0, tokens].numpy()
    expected = [states[at : at + size].mean(axis=0) for at in range(0, len(states), size)]
    found = loaded[kind].encode_windows([window])
    assert found.shape == (1, 4, 32) == (1, *loaded[kind].identity.row_shape(1_200))
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


@each_row("kind", WRITERS)
@each_row("size_bp", [6, 11, 383, 384, 385, 389, 390, 773])
def test_every_model_has_the_blocks_of_6_mers(kind: str, size_bp: int, loaded: Any) -> None:
    encoder, (window,) = loaded[kind], random_windows(1, size_bp)
    row = encoder.encode_windows([window], n_blocks=3)
    n_blocks = -(-(size_bp // 6) // 64)
    assert row.shape == (1, 3, 32)
    assert np.isfinite(row[0, :n_blocks]).all()
    assert np.isnan(row[0, n_blocks:]).all()
    assert encoder.encode_windows([window[: size_bp // 6 * 6]], n_blocks=3).tobytes() == row.tobytes()


def test_an_unknown_base_keeps_the_other_tokens_in_place(loaded: Any) -> None:
    tokens = loaded["masked"].tokens
    known, unknown = tokens.encode("ACGTACGGATTA"), tokens.encode("ACGNACGGATTA")
    assert unknown.tolist() == [3, 0, known[2]]
    assert loaded["characters"].tokens.encode("ACGNAR").tolist() == [7, 8, 9, 11, 7, 11, 1]
    assert loaded["bytes"].tokens.encode("acgNAR").tolist() == list(b"ACGNAN")


@pytest.fixture(scope="module", params=WRITERS)
def cached(request: pytest.FixtureRequest, loaded: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return a kind of model, and a package with caches of its states."""
    kind: str = request.param
    return kind, publish_encoded(tmp_path_factory.mktemp("cached"), loaded[kind])


@pytest.mark.nightly
def test_states_go_through_cache_package_and_stream(cached: tuple[str, Path], loaded: Any, tmp_path: Path) -> None:
    kind, package = cached
    options = {"kind": "local", "radius_tokens": 30, "windows_per_batch": 3, "seed": 2}
    batches = list(islice(lewm.GenoLeWMDataset(package, **options), 2))
    bare = publish_package(tmp_path, encode=None)
    live = list(islice(lewm.GenoLeWMDataset(bare, encoder=loaded[kind], **options), 2))
    assert [len(batch.tuples) for batch in batches] == [len(batch.tuples) for batch in live]
    assert all(batch.counts["encoded_windows"] > 0 for batch in live)
    for batch, other in zip(batches, live, strict=True):
        assert batch.source_states is not None
        np.testing.assert_array_equal(batch.source_states, other.source_states)
        moved = np.linalg.norm(encode_targets(batch, loaded[kind]) - batch.source_states, axis=1)
        assert np.isfinite(moved).all()
        assert (moved > 0).all()
    none = np.zeros(len(batches[0]), dtype=np.int64)
    unedited = replace(batches[0], edits=replace(batches[0].edits, n_edits=none, origin_shift=none))
    assert unedited.target_windows == tuple(unedited.source_windows[window] for window in unedited.edits.window)
    same = encode_targets(unedited, loaded[kind])
    # From a prefix, other products are summed up than in the cached windows.
    np.testing.assert_allclose(same, batches[0].source_states, rtol=1e-5, atol=1e-6)


@each_row("kind", WRITERS)
def test_a_null_edit_changes_nothing(kind: str, loaded: Any) -> None:
    windows = random_windows(4, 1_200)
    ratio = null_edit_ratio(loaded[kind], windows, random_snvs(windows))
    assert ratio == 0.0 if kind == "masked" else ratio < 1e-4


def test_a_package_of_another_kind_is_refused(cached: tuple[str, Path], loaded: Any) -> None:
    kind, package = cached
    other = {"characters": "bytes", "bytes": "masked", "masked": "characters"}[kind]
    with pytest.raises(ConfigurationError, match="made with another encoder"):
        lewm.GenoLeWMDataset(package, encoder=loaded[other])


@each_row(("kind", "fits"), [("characters", 1_296), ("bytes", 1_296), ("masked", 5_994)])
def test_a_window_longer_than_the_context_is_refused(kind: str, fits: int, loaded: Any, folders: Any) -> None:
    assert loaded[kind].encode_windows(random_windows(1, fits)).shape[0] == 1
    with pytest.raises(SequenceError, match="longer than the context"):
        loaded[kind].encode_windows(random_windows(1, fits + 6))
    encoders.read_identity(folders[kind], window_bp=fits)
    with pytest.raises(ConfigurationError, match=f"at most {fits:,} bp"):
        encoders.CausalLMStateEncoder(folders[kind], window_bp=fits + 6)


def plain_loss(folder: Path, ids: list[int], stop: int) -> float:
    """Return the mean loss of the tokens from the second to ``stop``, in nats."""
    model, tokens = transformers.AutoModelForCausalLM.from_pretrained(folder).eval(), torch.tensor(ids)
    with torch.no_grad():
        chances = model(input_ids=tokens[None]).logits[0].double().log_softmax(-1)
    return float(np.mean([-float(chances[at - 1, tokens[at]]) for at in range(1, stop)]))


def test_the_loss_of_single_bases_is_per_base(folders: Any) -> None:
    for kind in ("characters", "bytes"):
        window = random_windows(1, 600)[0][:-50] + "N" * 50
        (found,) = encoders.CausalLMLoss(folders[kind]).nats_per_base([window])
        assert found == pytest.approx(plain_loss(folders[kind], plain_ids(kind, window)[:600], 550), rel=1e-4)


def test_the_first_base_follows_a_special_token_where_there_is_one(folders: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["characters"], tmp_path / "bos"))
    (folder / "tokenizer.json").write_text(json.dumps(character_tokenizer(before="[BOS]", after=None)))
    window = random_windows(1, 60)[0]
    (found,) = encoders.CausalLMLoss(folder).nats_per_base([window])
    assert found == pytest.approx(plain_loss(folder, [2, *plain_ids("characters", window)[:60]], 61), rel=1e-4)


def test_a_masked_model_has_no_loss_of_the_next_token(folders: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"not a causal language model.*got EsmForMaskedLM"):
        encoders.CausalLMLoss(folders["masked"])


def plain_chances(kind: str, folder: Path, ids: list[int]) -> Any:
    name = "AutoModelForMaskedLM" if kind == "masked" else "AutoModelForCausalLM"
    with torch.no_grad():
        return (
            getattr(transformers, name)
            .from_pretrained(folder)
            .eval()(torch.tensor([ids]))
            .logits[0]
            .double()
            .log_softmax(-1)
        )


@each_row("kind", WRITERS)
def test_an_edit_is_as_likely_as_the_plain_library_says(kind: str, folders: Any, loaded: Any) -> None:
    before = random_windows(1, 1_200)[0]
    if kind != "masked":
        before = before[:-12] + "N" * 12
    edited = [before[:601] + "ACGT"["ACGT".index(before[601]) - 1] + before[602:], before[:30] + "TTG" + before[30:-3]]
    likelihood = loaded[kind].load_likelihood()
    assert likelihood.kind == ("masked" if kind == "masked" else "causal")
    source_of, spans = np.zeros(2, np.int64), np.array([[601, 602], [30, 33]])
    found = likelihood.losses_of_edits([before], edited, source_of, spans)
    for row, window in enumerate(edited):
        lost = 0.0
        for sign, text in ((1, window), (-1, before)):
            ids = plain_ids(kind, text)
            if kind == "masked":
                at = 1 + spans[row, 0] // 6
                hidden = [*ids[:at], MASKED.index("<mask>"), *ids[at + 1 :]]
                lost -= sign * float(plain_chances(kind, folders[kind], hidden)[at, ids[at]])
            else:
                chances = plain_chances(kind, folders[kind], ids)
                counted = [at for at in range(spans[row, 0], 1_200) if text[at] != "N"]
                lost -= sign * float(sum(chances[at - 1, ids[at]] for at in counted))
        assert found[row] == pytest.approx(lost, rel=1e-3, abs=2e-3)
