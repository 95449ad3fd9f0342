"""The network: precision, block means, compiled layers, batches that follow the memory, cut models, device errors."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets import encoders
from genolewm_assets.encoders.identity import Compute
from genolewm_assets.encoders.tokens import DnaTokens
from genolewm_assets.errors import DeviceError
from genolewm_assets.genome import encode_sequence
from genolewm_assets.states import block_means
from genolewm_assets_tests.encoders.conftest import random_windows
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row

torch = Late("torch")
network = Late("genolewm_assets.encoders.network")


def load(folder: Path, *, layer: int = 2, **settings: Any) -> Any:
    files = encoders.locate_model(folder)
    return network.StateNetwork(files, layer=layer, device=torch.device("cpu"), cpu_threads=1, **settings)


def token_ids(folder: Path, n: int = 3, size_bp: int = 1_536) -> np.ndarray:
    codes = encode_sequence("".join(random_windows(n, size_bp))).reshape(n, size_bp)
    return DnaTokens.from_tokenizer_files(folder).encode_codes(codes)


@each_row("n_tokens", [64, 65, 130, 10])
def test_block_means_of_a_device_are_those_of_the_host(n_tokens: int) -> None:
    states = np.random.default_rng(0).normal(size=(2, n_tokens, 8)).astype(np.float32)
    found = network.tensor_block_means(torch.from_numpy(states), 64).numpy()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.stack([block_means(one, 64) for one in states]))


@pytest.mark.parametrize("compiler", [None, "eager"])
def test_means_made_on_the_device_are_those_of_the_host(compiler: str | None, tiny_folder: Path) -> None:
    ids = token_ids(tiny_folder, 3, 780)
    some = load(tiny_folder, compiler=compiler)
    found = some.start_pooled(ids, 64)()
    assert found.shape == (3, 3, 64)
    # The passes over one and over three windows add up products in another order.
    np.testing.assert_allclose(
        found, np.concatenate([some.start_blocks(ids[[row]], 64)() for row in range(3)]), atol=1e-5
    )


@pytest.mark.parametrize("folder", ["tiny_folder", "hybrid_folder"])
def test_bfloat16_is_close_to_float32_and_no_copy_of_it(folder: str, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue(folder)
    windows = random_windows(3, 1_536)
    exact = encoders.CausalLMStateEncoder(place).encode_windows(windows)
    low = encoders.CausalLMStateEncoder(place, compute="bfloat16").encode_windows(windows)
    assert low.dtype == np.float32
    error = np.linalg.norm(low - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
    # One product of bfloat16 numbers is wrong by up to 2^-8; the sums between layers are float32.
    assert 1e-4 < error.max() < 0.02


def test_only_products_are_in_bfloat16(tiny_folder: Path) -> None:
    low = load(tiny_folder, compute=Compute.BFLOAT16)
    seen: dict[str, Any] = {}
    with low.computing() as model:
        for name in ("layers.1.mlp.down_proj", "layers.1.input_layernorm", "norm"):
            model.get_submodule(name).register_forward_hook(
                lambda _, given, output, name=name: seen.update({name: (given[0].dtype, output.dtype)})
            )
        model(input_ids=torch.from_numpy(token_ids(tiny_folder, 1)))
    assert seen["layers.1.mlp.down_proj"][1] == torch.bfloat16
    assert seen["layers.1.input_layernorm"] == seen["norm"] == (torch.float32, torch.float32)
    assert model.layers[0].self_attn.q_proj.weight.dtype == torch.bfloat16
    assert model.get_input_embeddings().weight.dtype == torch.float32


@pytest.mark.parametrize("compute", list(Compute))
@pytest.mark.parametrize("compiler", ["eager", pytest.param("inductor", marks=pytest.mark.nightly)])
@pytest.mark.filterwarnings("ignore")  # Of the compiler's own imports.
def test_fused_layers_give_the_same_states(compiler: str, compute: Compute, tiny_folder: Path) -> None:
    plain, fused = (load(tiny_folder, compute=compute, compiler=each) for each in (None, compiler))
    for n_windows, size_bp in ((3, 768), (1, 1_536), (2, 96)):
        ids = token_ids(tiny_folder, n_windows, size_bp)
        found, wanted = fused.token_states(ids), plain.token_states(ids)
        error = (found - wanted).norm(dim=-1) / wanted.norm(dim=-1)
        # bfloat16: one rounding in place of two after an activation.
        assert error.max() < (1e-6 if compute is Compute.FLOAT32 else 0.01)


def test_the_norms_that_products_read_are_rounded_once(tiny_folder: Path) -> None:
    seen = {}
    low = load(tiny_folder, compute=Compute.BFLOAT16, compiler="eager")
    with low.computing() as model:
        for name in ("layers.0.input_layernorm", "layers.1", "norm"):
            part = model.get_submodule(name)
            part.register_forward_hook(lambda _, given, output, name=name: seen.update({name: output.dtype}))
        model(input_ids=torch.from_numpy(token_ids(tiny_folder, 1)))
    assert seen == {"layers.0.input_layernorm": torch.bfloat16, "layers.1": torch.float32, "norm": torch.float32}


def test_errors_of_an_accelerator_are_the_machine_s() -> None:
    with pytest.raises(DeviceError, match="encoder x: the accelerator failed"), network.device_errors("encoder x"):
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")
    with pytest.raises(RuntimeError, match="shapes"), network.device_errors("encoder x"):
        raise RuntimeError("shapes cannot be multiplied")
    with pytest.raises(torch.OutOfMemoryError), network.device_errors("encoder x"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize("compute", list(Compute))
def test_a_run_states_what_it_ran_on_and_how_fast(compute: Compute, tiny_folder: Path) -> None:
    some = load(tiny_folder, compute=compute)
    facts = some.describe_run(n_windows=50, seconds=4.0, n_tokens=2_050)
    assert facts["device"].startswith("cpu (")
    assert (facts["compute"], facts["torch"]) == (compute.value, version("torch"))
    assert facts["transformers"] == version("transformers")
    assert facts["windows_per_s"] == 12.5
    assert facts["tflops"] == pytest.approx(12.5 * some.count_flops(2_050) / 1e12, rel=1e-3)
    assert facts["matrix_tflops"] > 0
    assert facts["share_of_matrix_rate"] == pytest.approx(facts["tflops"] / facts["matrix_tflops"], rel=2e-3)


class SmallDevice:
    """A device with memory for some windows; the result of a window is its ids times two."""

    def __init__(self, room: int) -> None:
        self.room, self.passes = room, list[int]()

    def start(self, ids: NDArray[np.int64]) -> Callable[[], NDArray[np.int64]]:
        self.passes.append(len(ids))
        if len(ids) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return lambda: ids * 2


@each_row("room, passes, left", [(64, [16, 4], 16), (5, [16, 8, 4, 4, 4, 4, 4], 4), (1, [16, 8, 4, 2, *[1] * 20], 1)])
def test_the_batch_is_lowered_for_good(room: int, passes: list[int], left: int) -> None:
    device = SmallDevice(room)
    some, ids = network.Batches(device.start, 16, "encoder x"), np.arange(60).reshape(20, 3)
    np.testing.assert_array_equal(some.run(ids), ids * 2)
    assert (device.passes, some.windows) == (passes, left)
    some.run(ids[:2])
    assert device.passes[len(passes) :] == [2] if left > 1 else [1, 1]


def test_a_device_without_room_for_one_window_is_the_machine_s_fault() -> None:
    some = network.Batches(SmallDevice(0).start, 4, "encoder x")
    with pytest.raises(
        DeviceError, match=r"encoder x: the accelerator's memory is too small for one window \(CUDA out"
    ):
        some.run(np.zeros((3, 2), dtype=np.int64))


def test_threads_share_the_batch() -> None:
    some, ids = network.Batches(SmallDevice(3).start, 64, "encoder x"), np.arange(400).reshape(200, 2)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(some.run, [ids] * 8):
            np.testing.assert_array_equal(found, ids * 2)
    assert some.windows == 2


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
