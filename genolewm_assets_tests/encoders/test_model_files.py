from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import huggingface_hub.constants
import pytest

from genolewm_assets.encoders import read_identity, state_config, write_tiny_llama
from genolewm_assets.encoders.model_files import locate_model
from genolewm_assets.errors import (
    ConfigurationError,
    CorruptResourceError,
    GenoLeWMError,
    MissingResourceError,
)
from genolewm_assets.store.arrays import compute_key
from genolewm_assets_tests.encoders.conftest import change_config
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.store.plans import flip

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_local_folder_is_known_by_its_name_and_not_its_path(tiny_folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_folder, tmp_path / "elsewhere" / tiny_folder.name))
    here, there = locate_model(tiny_folder), locate_model(str(copy))
    assert here.model_id == there.model_id == "tiny-llama-random"
    assert here.weights_sha256() == there.weights_sha256()
    assert here.settings_sha256() == there.settings_sha256()
    assert here.revision is None


@pytest.mark.parametrize(("name", "counts"), [("config.json", True), ("tokenizer.json", True), ("README.md", False)])
def test_settings_count_for_the_identity_and_the_card_does_not(name: str, counts: bool, model_copy: Path) -> None:
    (model_copy / "README.md").write_text("a card")
    files = locate_model(model_copy)
    settings, weights = files.settings_sha256(), files.weights_sha256()
    (model_copy / name).write_text((model_copy / name).read_text() + "\n")
    assert (files.settings_sha256() != settings) is counts
    assert files.weights_sha256() == weights


def test_one_bit_of_the_weights_counts(model_copy: Path) -> None:
    files = locate_model(model_copy)
    before = files.weights_sha256()
    flip(model_copy / "model.safetensors", -1)
    assert files.weights_sha256() != before


@pytest.mark.parametrize("name", ["modeling.py", "tokenization.py"])
def test_code_counts_where_it_may_run(name: str, model_copy: Path) -> None:
    plain, trusted = locate_model(model_copy), locate_model(model_copy, trusted_code=str(model_copy))
    (model_copy / name).write_text("1")
    first = plain.settings_sha256(), trusted.settings_sha256()
    (model_copy / name).write_text("2")
    assert plain.settings_sha256() == first[0]
    assert trusted.settings_sha256() != first[1]


def test_sharded_weights_are_digested_as_sha256sum_lists_them(model_copy: Path) -> None:
    (model_copy / "model.safetensors").rename(model_copy / "b.safetensors")
    (model_copy / "a.safetensors").write_bytes(b"shard")
    index = {"weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"}}
    (model_copy / "model.safetensors.index.json").write_text(json.dumps(index))
    listing = "".join(f"{digests(model_copy)[name]}  {name}\n" for name in ("a.safetensors", "b.safetensors"))
    assert locate_model(model_copy).weights_sha256() == hashlib.sha256(listing.encode()).hexdigest()


@pytest.mark.parametrize("weight_map", [{}, {"x": "../other/model.safetensors"}, {"x": "/etc/passwd"}, ["a"], None])
def test_an_index_of_shards_names_files_of_its_folder(weight_map: object, model_copy: Path) -> None:
    (model_copy / "model.safetensors").unlink()
    (model_copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CorruptResourceError, match="weight_map"):
        locate_model(model_copy).weights()


def test_pickled_weights_are_not_read(model_copy: Path) -> None:
    (model_copy / "model.safetensors").rename(model_copy / "pytorch_model.bin")
    with pytest.raises(ConfigurationError, match=r"no safetensors weights.*pytorch_model\.bin"):
        locate_model(model_copy).weights()


@each_row(
    ("model", "revision", "trusted_code", "error", "says"),
    [
        (Path("/nowhere/model"), None, None, MissingResourceError, "no such model folder"),
        ("/nowhere/model", COMMIT, None, MissingResourceError, "no such model folder"),
        ("owner/model/more", COMMIT, None, MissingResourceError, "no such model folder"),
        ("owner/model", None, None, ConfigurationError, "got None"),
        ("owner/model", "main", None, ConfigurationError, "40 hexadecimal digits, got 'main'"),
        ("owner/model", COMMIT[:12], None, ConfigurationError, "40 hexadecimal digits"),
        ("owner/model", COMMIT, "owner/other", ConfigurationError, "expected 'owner/model', got 'owner/other'"),
    ],
)
def test_a_model_that_is_not_pinned_is_refused(
    model: str | Path, revision: str | None, trusted_code: str | None, error: type[GenoLeWMError], says: str
) -> None:
    with pytest.raises(error) as caught:
        locate_model(model, revision=revision, trusted_code=trusted_code)
    assert says in str(caught.value)


def test_a_hub_model_is_taken_at_its_commit(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The hub client's own cache, filled by hand, and its offline switch: the real client without a network.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    shutil.copytree(tiny_folder, tmp_path / "models--owner--tiny" / "snapshots" / COMMIT)
    files = locate_model("owner/tiny", revision=COMMIT)
    assert (files.model_id, files.revision) == ("owner/tiny", COMMIT)
    assert files.weights_sha256() == locate_model(tiny_folder).weights_sha256()
    with pytest.raises(MissingResourceError, match="HF_HUB_OFFLINE is set"):
        locate_model("owner/tiny", revision=COMMIT[::-1])
    assert locate_model("owner/tiny", revision=COMMIT, download=False).folder == files.folder
    with pytest.raises(MissingResourceError, match="the model is not in this machine's hub cache"):
        locate_model("owner/tiny", revision=COMMIT[::-1], download=False)


def test_trusted_code_of_a_third_repository_is_refused(model_copy: Path) -> None:
    change_config(model_copy, auto_map={"AutoModel": "someone/else--modeling.Model"})
    assert locate_model(model_copy).code_trusted is False
    with pytest.raises(ConfigurationError, match="someone/else--modeling"):
        locate_model(model_copy, trusted_code=str(model_copy))


def test_caches_in_float32_keep_the_keys_from_before_there_was_a_choice(tiny_folder: Path) -> None:
    for identity in (read_identity(tiny_folder), read_identity(tiny_folder, compute="float32")):
        config = state_config(identity, windows_sha256="0" * 64, window_bp=12_288)
        assert compute_key(config) == "76c9cc5c010799c9"
    low = read_identity(tiny_folder, compute="bfloat16")
    assert low.as_recipe() == {**read_identity(tiny_folder).as_recipe(), "compute": "bfloat16"}


OTHERS = [{"layer": 1}, {"layer": 0}, {"block_tokens": 32}, {"dtype": "float16"}, {"compute": "bfloat16"}]


@each_row("parameters", [*OTHERS, {"revision": "v2"}])
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


def test_an_identity_is_read_without_the_model_library(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from genolewm_assets.encoders import read_identity, write_tiny_llama\n"
        "write_tiny_llama(Path(sys.argv[1])); read_identity(sys.argv[1])\n"
        "print(sorted({'torch', 'transformers', 'dagster', 'pysam', 'huggingface_hub'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", program, str(tmp_path / "m")], text=True).strip() == "[]"


#: A change here is another encoder: every cache of the sample gets another key.
GOLDEN = {
    "config.json": "f219c467560231b0",
    "model.safetensors": "7d3ba7bc5fcd6725",
    "tokenizer.json": "bab461be79d2712e",
}


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


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
