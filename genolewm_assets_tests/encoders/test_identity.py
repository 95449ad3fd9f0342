from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets.encoders import read_identity, state_config
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.store.arrays import compute_key


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(("negative", "layer"), [(-1, 2), (-2, 1), (-3, 0)])
def test_two_spellings_of_a_layer_are_one_encoder(negative: int, layer: int, tiny_folder: Path) -> None:
    assert read_identity(tiny_folder, layer=negative) == read_identity(tiny_folder, layer=layer)
    assert read_identity(tiny_folder, layer=layer).layer == layer


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
