from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genolewm_assets import encoders
from genolewm_assets.encoders import read_identity
from genolewm_assets.encoders.identity import StateDtype
from genolewm_assets.encoders.state_checks import null_edit_ratio
from genolewm_assets.encoders.tokens import DnaTokens
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, GenoLeWMError, SequenceError
from genolewm_assets_tests.encoders.conftest import change_config, random_snvs, random_windows
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row

torch = Late("torch")
transformers = Late("transformers")
torch_files = Late("safetensors.torch")
causal_lm = Late("genolewm_assets.encoders.causal_lm")


@pytest.fixture(scope="module")
def plain_model(tiny_folder: Path) -> Any:
    """The same model as the library hands it to anybody."""
    model: Any = transformers.LlamaForCausalLM.from_pretrained(tiny_folder)
    return model.eval()


def plain_states(model: Any, folder: Path, window: str, layer: int) -> np.ndarray:
    """Return the states of a window's DNA tokens, computed without any of our pooling."""
    ids = torch.tensor(DnaTokens.from_tokenizer_files(folder).encode(window)[None])
    with torch.no_grad():
        hidden = model(input_ids=ids, output_hidden_states=True).hidden_states
    assert len(hidden) == 3
    return np.asarray(hidden[layer][0, 1:-1])


@each_row("layer", [-1, 0, 1, 2])
def test_blocks_are_means_of_the_model_s_hidden_states(layer: int, plain_model: Any, tiny_folder: Path) -> None:
    encoder = encoders.CausalLMStateEncoder(tiny_folder, layer=layer)
    windows = random_windows(2, 1_542)
    found = encoder.encode_windows(windows)
    assert found.shape == (2, 5, 64)
    assert found.dtype == np.float32
    for window, blocks in zip(windows, found, strict=True):
        tokens = plain_states(plain_model, tiny_folder, window, layer)
        assert len(tokens) == 257
        expected = [tokens[at : at + 64].mean(axis=0) for at in range(0, 257, 64)]
        np.testing.assert_allclose(blocks, expected, rtol=1e-5, atol=2e-6)


def test_a_window_s_bits_do_not_depend_on_its_batch(encoder: encoders.CausalLMStateEncoder) -> None:
    windows = random_windows(5)
    together = encoder.encode_windows(windows)
    assert together.shape == (5, 32, 64)
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        for size in (1, 2, 5):
            groups = [[windows[row] for row in order[at : at + size]] for at in range(0, 5, size)]
            parts = [encoder.encode_windows(group) for group in groups]
            assert np.concatenate(parts).tobytes() == together[order].tobytes()
    assert encoder.encode_edited(windows).tobytes() == together.tobytes()


def test_weights_in_bfloat16_are_computed_in_float32(model_copy: Path) -> None:
    path = model_copy / "model.safetensors"
    rounded = {name: tensor.to(torch.bfloat16) for name, tensor in torch_files.load_file(path).items()}
    torch_files.save_file(rounded, path, metadata={"format": "pt"})
    config = (model_copy / "config.json").read_text()
    change_config(model_copy, dtype="bfloat16")
    half_weights = encoders.CausalLMStateEncoder(model_copy).encode_windows(random_windows(1, 1_536))
    torch_files.save_file({name: tensor.float() for name, tensor in rounded.items()}, path, metadata={"format": "pt"})
    (model_copy / "config.json").write_text(config)
    whole_weights = encoders.CausalLMStateEncoder(model_copy).encode_windows(random_windows(1, 1_536))
    assert half_weights.tobytes() == whole_weights.tobytes()


def test_windows_of_several_lengths_share_a_shape(encoder: encoders.CausalLMStateEncoder) -> None:
    windows = [*random_windows(1, 2_046), *random_windows(2, 768), *random_windows(1, 6)]
    rows = encoder.encode_windows(windows, n_blocks=8)
    assert rows.shape == (4, 8, 64)
    for window, row in zip(windows, rows, strict=True):
        alone = encoder.encode_windows([window])[0]
        assert row[: len(alone)].tobytes() == alone.tobytes()
        assert np.isnan(row[len(alone) :]).all()
    assert encoder.encode_windows(windows).shape == (4, 6, 64)
    assert encoder.encode_windows([]).shape == (0, 0, 64)


@each_row(
    ("windows", "n_blocks", "says"),
    [
        (["ACGT" * 12_287], None, "expected at most 8,192 tokens, 2 of them special"),
        (["ACGTACGT", "ACG"], None, "at least 6 bp, got 3 bp"),
        (["ACGTAC!"], None, "not a nucleotide symbol"),
        (["ACGT" * 192], 1, "window 0: has more blocks than a row: expected at most 1, got 2"),
    ],
)
def test_a_window_that_does_not_fit_is_refused(
    windows: list[str], n_blocks: int | None, says: str, encoder: encoders.CausalLMStateEncoder
) -> None:
    with pytest.raises(SequenceError) as caught:
        encoder.encode_windows(windows, n_blocks=n_blocks)
    assert says in str(caught.value)


def test_the_identity_is_the_one_read_beforehand(tiny_folder: Path, encoder: encoders.CausalLMStateEncoder) -> None:
    assert encoder.identity == read_identity(tiny_folder)
    assert encoder.hidden_size == 64


#: The tokenizer of tagged 6-mers as code of the model, as Carbon has it.
TOKENIZER_CODE = """
from transformers import PreTrainedTokenizer

class SixMers(PreTrainedTokenizer):
    vocab_files_names = {}

    def __init__(self, **kwargs):
        kmers = [""]
        for _ in range(6):
            kmers = [kmer + base for kmer in kmers for base in "ACGT"]
        self.ids = {word: place for place, word in enumerate(["<pad>", "<dna>", "</dna>", "<oov>", *kmers])}
        super().__init__(unk_token="<oov>", **kwargs)

    @property
    def vocab_size(self):
        return len(self.ids)

    def get_vocab(self):
        return dict(self.ids)

    def tokenize(self, text, **kwargs):
        body = text.removeprefix("<dna>").removesuffix("</dna>").upper()
        return ["<dna>", *(body[at : at + 6] for at in range(0, len(body), 6)), "</dna>"]

    def _convert_token_to_id(self, token):
        return self.ids.get(token, self.ids["<oov>"]) + SHIFT

    def _convert_id_to_token(self, index):
        return list(self.ids)[index]
"""


@pytest.mark.parametrize("shift", [0, 1])
def test_trusted_code_has_its_tokenizer_compared(
    shift: int, model_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = tmp_path / "modules"
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(modules))
    monkeypatch.setattr(sys, "path", [*sys.path])
    (model_copy / "six_mers.py").write_text(TOKENIZER_CODE.replace("SHIFT", str(shift)))
    (model_copy / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "SixMers", "auto_map": {"AutoTokenizer": ["six_mers.SixMers", None]}})
    )
    if shift:
        with pytest.raises(ConfigurationError, match="differ from those of the model's own tokenizer"):
            encoders.CausalLMStateEncoder(model_copy, trusted_code=str(model_copy))
    else:
        encoder = encoders.CausalLMStateEncoder(model_copy, trusted_code=str(model_copy))
        assert encoder.encode_windows(random_windows(1, 768)).shape == (1, 2, 64)
    assert modules.is_dir()


def test_loading_needs_no_network_and_says_nothing(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    bars = transformers.utils.logging.is_progress_bar_enabled()
    encoders.CausalLMStateEncoder(tiny_folder).encode_windows(random_windows(1, 768))
    assert capfd.readouterr() == ("", "")
    assert transformers.utils.logging.is_progress_bar_enabled() == bars


def change_weights(folder: Path, **tensors: torch.Tensor | None) -> None:
    path = folder / "model.safetensors"
    changed = torch_files.load_file(path) | {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    kept = {name: tensor for name, tensor in changed.items() if tensor is not None}
    torch_files.save_file(kept, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("scale", "error", "says"),
    [(1e6, ConfigurationError, "exceeds the range of float16"), (float("nan"), CorruptResourceError, "not finite")],
)
def test_states_not_storable_are_refused(scale: float, error: type[GenoLeWMError], says: str, model_copy: Path) -> None:
    change_weights(model_copy, model__norm__weight=torch.full((64,), scale))
    encoder = encoders.CausalLMStateEncoder(model_copy, dtype="float16")
    with pytest.raises(error) as caught:
        encoder.encode_windows(random_windows(1, 768))
    assert says in str(caught.value)


def test_a_tensor_that_is_missing_is_not_made_up(model_copy: Path) -> None:
    change_weights(model_copy, model__layers__1__mlp__up_proj__weight=None)
    with pytest.raises(CorruptResourceError, match=r"lack tensors of the model.*layers\.1\.mlp\.up_proj"):
        encoders.CausalLMStateEncoder(model_copy)


def test_truncated_weights_are_refused(model_copy: Path) -> None:
    path = model_copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(CorruptResourceError, match="cannot be loaded"):
        encoders.CausalLMStateEncoder(model_copy)


def test_an_embedding_that_lacks_rows_is_refused(model_copy: Path) -> None:
    rows = torch_files.load_file(model_copy / "model.safetensors")["model.embed_tokens.weight"][:4_099]
    change_weights(model_copy, model__embed_tokens__weight=rows.clone())
    change_config(model_copy, vocab_size=4_099)
    with pytest.raises(ConfigurationError, match="token ids below 4,099, got 4,099"):
        encoders.CausalLMStateEncoder(model_copy)


def test_code_that_nobody_allowed_does_not_run(model_copy: Path) -> None:
    hooks = {"AutoConfig": "ours.Config", "AutoModel": "ours.Model"}
    change_config(model_copy, model_type="ours", auto_map=hooks)
    (model_copy / "ours.py").write_text("raise SystemExit('ran')\n")
    with pytest.raises(ConfigurationError, match="cannot be built"):
        encoders.CausalLMStateEncoder(model_copy)


@each_row("parameters", [{"device": "cuda:99"}, {"device": "abacus"}, {"batch_windows": 0}, {"cpu_threads": 0}])
def test_what_the_machine_does_not_have_is_refused(parameters: dict[str, Any], tiny_folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(parameters))):
        encoders.CausalLMStateEncoder(tiny_folder, **parameters)


@pytest.mark.gpu
@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
@pytest.mark.parametrize("compiler", [None, "inductor"])
def test_the_accelerator_agrees_with_the_processor(
    compiler: str | None, compute: str, tiny_folder: Path, encoder: encoders.CausalLMStateEncoder
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    windows = random_windows(11)
    options = {"dtype": "float16", "compute": compute, "compiler": compiler}
    there = encoders.CausalLMStateEncoder(tiny_folder, device="cuda", **options)
    bound = 2e-3 if compute == "float32" else 0.05
    np.testing.assert_allclose(there.encode_windows(windows), encoder.encode_windows(windows), rtol=bound, atol=bound)
    # A null edit, computed from a shared prefix, has the bits of the whole window.
    assert there.full_path_reason is None
    assert null_edit_ratio(there, windows, random_snvs(windows)) == 0


def test_states_are_stored_in_the_asked_dtype() -> None:
    values = np.array([[65_504.0, -65_504.0, 1 / 3]], dtype=np.float32)
    assert causal_lm.store_states(values, StateDtype.FLOAT16, where="x").tolist() == values.astype(np.float16).tolist()
    assert causal_lm.store_states(values, StateDtype.FLOAT32, where="x").tobytes() == values.tobytes()


@each_row("value", [65_520.0, -1e5, 3e38])
def test_a_state_that_float16_cannot_hold_is_refused(value: float) -> None:
    values = np.array([[0.0, value]], dtype=np.float32)
    assert np.isfinite(causal_lm.store_states(values, StateDtype.FLOAT32, where="x")).all()
    with pytest.raises(ConfigurationError, match="exceeds the range of float16"):
        causal_lm.store_states(values, StateDtype.FLOAT16, where="encoder x")


@each_row("value", [np.nan, np.inf, -np.inf])
@each_row("dtype", list(StateDtype))
def test_a_state_that_is_not_finite_is_refused(value: float, dtype: StateDtype) -> None:
    with pytest.raises(CorruptResourceError, match="not finite"):
        causal_lm.store_states(np.array([[0.0, value]], dtype=np.float32), dtype, where="encoder x")


def test_settings_of_the_trainer_do_not_reach_the_states(encoder: encoders.CausalLMStateEncoder) -> None:
    windows = random_windows(1, 1_536)
    expected = encoder.encode_windows(windows)
    backends: Any = torch.backends
    products = backends.mkldnn.matmul
    products.fp32_precision = "bf16"
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad():
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
            assert encoder.encode_windows(windows).tobytes() == expected.tobytes()
        assert products.fp32_precision == "bf16"
    finally:
        products.fp32_precision = "none"
