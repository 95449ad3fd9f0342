from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open

from genolewm_assets.encoders import read_identity, state_config, write_tiny_llama
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.store.arrays import compute_key
from genolewm_assets_tests.encoders.hybrid_model import write_hybrid_fixture
from genolewm_assets_tests.rows import each_row


def test_the_recipe_is_plain_json_and_names_no_path(tiny_folder: Path) -> None:
    recipe = read_identity(tiny_folder).as_recipe()
    assert json.loads(json.dumps(recipe)) == recipe
    assert str(tiny_folder.parent) not in json.dumps(recipe)
    assert {name: value for name, value in recipe.items() if not name.endswith("sha256")} == {
        "model_id": "tiny-llama-random",
        "revision": None,
        "layer": 2,
        "block_tokens": 64,
        "dtype": "float32",
        "hidden_size": 64,
        "pooling": "block_mean",
        "normalisation": "none",
        "prompt_template": "<dna>{sequence}</dna>",
    }


def test_caches_in_float32_keep_the_keys_from_before_there_was_a_choice(tiny_folder: Path) -> None:
    for identity in (read_identity(tiny_folder), read_identity(tiny_folder, compute="float32")):
        config = state_config(identity, windows_sha256="0" * 64, window_bp=12_288)
        assert compute_key(config) == "76c9cc5c010799c9"
    low = read_identity(tiny_folder, compute="bfloat16")
    assert low.as_recipe() == {**read_identity(tiny_folder).as_recipe(), "compute": "bfloat16"}


@each_row(
    "parameters",
    [
        {"layer": 1},
        {"layer": 0},
        {"block_tokens": 32},
        {"dtype": "float16"},
        {"compute": "bfloat16"},
        {"revision": "v2"},
    ],
)
def test_every_parameter_makes_another_encoder(parameters: dict[str, object], tiny_folder: Path) -> None:
    plain, other = read_identity(tiny_folder), read_identity(tiny_folder, **parameters)  # type: ignore[arg-type]
    assert plain.as_recipe() != other.as_recipe()


@each_row(("negative", "layer"), [(-1, 2), (-2, 1), (-3, 0)])
def test_two_spellings_of_a_layer_are_one_encoder(negative: int, layer: int, tiny_folder: Path) -> None:
    assert read_identity(tiny_folder, layer=negative) == read_identity(tiny_folder, layer=layer)
    assert read_identity(tiny_folder, layer=layer).layer == layer


@each_row(
    ("parameters", "says"),
    [
        ({"layer": 3}, "no such hidden state"),
        ({"layer": -4}, "no such hidden state"),
        ({"block_tokens": 0}, "block_tokens"),
        ({"dtype": "bfloat16"}, "expected float32 or float16, got bfloat16"),
        ({"dtype": "float64"}, "got float64"),
        ({"compute": "float16"}, "compute: not supported: expected float32 or bfloat16, got float16"),
    ],
)
def test_what_the_model_does_not_have_is_refused(parameters: dict[str, object], says: str, tiny_folder: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_identity(tiny_folder, **parameters)  # type: ignore[arg-type]
    assert says in str(caught.value)


@each_row(
    ("window_bp", "dtype", "shape", "size_bytes"),
    [
        (12_288, "float32", (32, 64), 32 * 64 * 4),
        (12_288, "float16", (32, 64), 32 * 64 * 2),
        (2_046, "float16", (6, 64), 6 * 64 * 2),
        (6, "float32", (1, 64), 256),
    ],
)
def test_the_size_of_a_row_is_known_beforehand(
    window_bp: int, dtype: str, shape: tuple[int, int], size_bytes: int, tiny_folder: Path
) -> None:
    identity = read_identity(tiny_folder, dtype=dtype)
    assert identity.row_shape(window_bp) == shape
    assert identity.row_bytes(window_bp) == size_bytes


def test_an_identity_is_read_without_the_model_library(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from genolewm_assets.encoders import read_identity, write_tiny_llama\n"
        "write_tiny_llama(Path(sys.argv[1])); read_identity(sys.argv[1])\n"
        "print(sorted({'torch', 'transformers', 'dagster', 'pysam', 'huggingface_hub'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "m")], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


#: A change here is another encoder: every cache of the sample gets another key.
GOLDEN = {
    "config.json": "f219c467560231b0",
    "model.safetensors": "7d3ba7bc5fcd6725",
    "tokenizer.json": "bab461be79d2712e",
}


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("writer", [write_tiny_llama, write_hybrid_fixture])
def test_every_run_writes_the_same_bytes(writer: Callable[[Path], None], tmp_path: Path) -> None:
    writer(tmp_path / "a")
    writer(tmp_path / "deeper" / "b")
    assert digests(tmp_path / "a") == digests(tmp_path / "deeper" / "b")


def test_the_bytes_are_the_agreed_ones(tiny_folder: Path) -> None:
    found = digests(tiny_folder)
    assert {name: found[name][:16] for name in GOLDEN} == GOLDEN


def test_what_is_there_stays_and_what_is_damaged_is_mended(tmp_path: Path) -> None:
    write_tiny_llama(tmp_path)
    before = digests(tmp_path)
    for path in tmp_path.iterdir():
        os.utime(path, ns=(1, 1))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    write_tiny_llama(tmp_path)
    assert digests(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir() if path.stat().st_mtime_ns != 1} == {"model.safetensors"}


def test_the_weights_are_a_hugging_face_checkpoint(tiny_folder: Path) -> None:
    with safe_open(tiny_folder / "model.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"}
        assert file.get_slice("model.embed_tokens.weight").get_shape() == [4_100, 64]
        assert len(file.keys()) == 1 + 2 * 9 + 1


@pytest.mark.parametrize("folder", ["tiny_folder", "hybrid_folder"])
def test_the_card_says_that_the_weights_are_random(folder: str, request: pytest.FixtureRequest) -> None:
    card = (request.getfixturevalue(folder) / "README.md").read_text()
    assert "**The weights of this model are random.**" in card
