"""The cut model against the whole one, for every hidden state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from genolewm_assets_tests.late import Late

torch = Late("torch")
transformers = Late("transformers")
loading = Late("genolewm_assets.encoders.model_loading")

IDS = [[5, 77, 901, 4_000, 12, 13, 14]]


def hidden_states(model: Any) -> Any:
    with torch.inference_mode():
        return model(input_ids=torch.tensor(IDS), use_cache=False, output_hidden_states=True).hidden_states


@pytest.mark.parametrize("folder", ["tiny_folder", "hybrid_folder"])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_the_cut_model_gives_the_bits_of_the_whole_one(folder: str, layer: int, request: pytest.FixtureRequest) -> None:
    model = transformers.AutoModel.from_pretrained(request.getfixturevalue(folder)).eval()
    wanted = hidden_states(model)[layer]
    assert loading.cut_layers(model, layer)
    assert len(model.layers) == layer
    assert isinstance(model.norm, torch.nn.Identity) == (layer < 2)
    with torch.inference_mode():
        found = model(input_ids=torch.tensor(IDS), use_cache=False).last_hidden_state
    assert torch.equal(found, wanted)


def test_another_architecture_is_cut_the_same_way() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=3, n_embd=32, n_head=2, vocab_size=4_200, n_positions=64)
    model = transformers.GPT2Model(config).eval()
    wanted = hidden_states(model)
    assert loading.cut_layers(model, 1)
    assert len(model.h) == 1
    with torch.inference_mode():
        assert torch.equal(model(input_ids=torch.tensor(IDS)).last_hidden_state, wanted[1])


def test_a_model_that_does_not_agree_stays_whole(tiny_folder: Path) -> None:
    model = transformers.AutoModel.from_pretrained(tiny_folder).eval()
    wanted = hidden_states(model)
    former = model.layers

    # The state of a model that changes its last one otherwise than by a norm is not that of its layers.
    model.register_forward_hook(lambda module, args, output: shift(output))
    assert not loading.cut_layers(model, 1)
    assert model.layers is former
    assert not isinstance(model.norm, torch.nn.Identity)
    assert torch.equal(hidden_states(model)[1], wanted[1])


def shift(output: Any) -> Any:
    """Return a model's output with another last state."""
    output.last_hidden_state = output.last_hidden_state + 1
    return output


def test_a_model_without_a_list_of_layers_stays_whole(tiny_folder: Path) -> None:
    model = transformers.AutoModel.from_pretrained(tiny_folder).eval()
    assert loading.find_layers(model, 5) is None
    model.layers = torch.nn.Sequential(*model.layers)
    assert not loading.cut_layers(model, 1)
