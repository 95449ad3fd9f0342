from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest

from genolewm_assets.encoders.model_files import locate_model
from genolewm_assets.errors import (
    ConfigurationError,
    CorruptResourceError,
    FetchError,
    GenoLeWMError,
    MissingResourceError,
)
from genolewm_assets_tests.rows import each_row

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def edit_config(folder: Path, **entries: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def test_a_local_folder_is_known_by_its_name_and_not_its_path(tiny_folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny_folder, tmp_path / "elsewhere" / tiny_folder.name))
    here, there = locate_model(tiny_folder), locate_model(str(copy))
    assert here.model_id == there.model_id == "tiny-llama-random"
    assert here.weights_sha256() == there.weights_sha256()
    assert here.settings_sha256() == there.settings_sha256()
    assert here.revision is None


def test_a_link_to_a_folder_keeps_the_link_s_name(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "encoder").symlink_to(tiny_folder)
    assert locate_model(tmp_path / "encoder").model_id == "encoder"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_settings_count_for_the_identity(name: str, model_copy: Path) -> None:
    before = locate_model(model_copy)
    digests = before.settings_sha256(), before.weights_sha256()
    (model_copy / name).write_text((model_copy / name).read_text() + "\n")
    assert before.settings_sha256() != digests[0]
    assert before.weights_sha256() == digests[1]


def test_one_bit_of_the_weights_counts(model_copy: Path) -> None:
    files = locate_model(model_copy)
    before = files.weights_sha256()
    data = bytearray((model_copy / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (model_copy / "model.safetensors").write_bytes(data)
    assert files.weights_sha256() != before


def test_the_card_does_not_count(model_copy: Path) -> None:
    files = locate_model(model_copy)
    before = files.settings_sha256()
    (model_copy / "README.md").write_text("another card")
    assert files.settings_sha256() == before


def test_code_counts_where_it_may_run(model_copy: Path) -> None:
    plain, trusted = locate_model(model_copy), locate_model(model_copy, trusted_code=str(model_copy))
    (model_copy / "modeling.py").write_text("1")
    first = plain.settings_sha256(), trusted.settings_sha256()
    (model_copy / "modeling.py").write_text("2")
    assert plain.settings_sha256() == first[0]
    assert trusted.settings_sha256() != first[1]


def test_sharded_weights_are_digested_as_sha256sum_lists_them(model_copy: Path) -> None:
    (model_copy / "model.safetensors").rename(model_copy / "b.safetensors")
    (model_copy / "a.safetensors").write_bytes(b"shard")
    index = {"weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"}}
    (model_copy / "model.safetensors.index.json").write_text(json.dumps(index))
    listing = "".join(
        f"{hashlib.sha256((model_copy / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("a.safetensors", "b.safetensors")
    )
    assert locate_model(model_copy).weights_sha256() == hashlib.sha256(listing.encode()).hexdigest()


@pytest.mark.parametrize("weight_map", [{}, {"x": "../other/model.safetensors"}, {"x": "/etc/passwd"}, ["a"], None])
def test_an_index_of_shards_names_files_of_its_folder(weight_map: object, model_copy: Path) -> None:
    (model_copy / "model.safetensors").unlink()
    (model_copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CorruptResourceError, match="weight_map"):
        locate_model(model_copy).weights()


def test_a_missing_shard_is_named(model_copy: Path) -> None:
    (model_copy / "model.safetensors").unlink()
    (model_copy / "model.safetensors.index.json").write_text('{"weight_map": {"x": "gone.safetensors"}}')
    with pytest.raises(MissingResourceError, match=r"gone\.safetensors"):
        locate_model(model_copy).weights_sha256()


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
    with pytest.raises(FetchError, match="download failed"):
        locate_model("owner/tiny", revision=COMMIT[::-1])
    assert locate_model("owner/tiny", revision=COMMIT, download=False).folder == files.folder
    with pytest.raises(MissingResourceError, match="the model is not in this machine's hub cache"):
        locate_model("owner/tiny", revision=COMMIT[::-1], download=False)


def test_trusted_code_of_a_third_repository_is_refused(model_copy: Path) -> None:
    edit_config(model_copy, auto_map={"AutoModel": "someone/else--modeling.Model"})
    assert locate_model(model_copy).code_trusted is False
    with pytest.raises(ConfigurationError, match="someone/else--modeling"):
        locate_model(model_copy, trusted_code=str(model_copy))


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "2", None])
def test_a_size_that_is_none_is_refused(value: object, model_copy: Path) -> None:
    edit_config(model_copy, hidden_size=value)
    with pytest.raises(ConfigurationError, match="no usable hidden_size"):
        locate_model(model_copy).config_int("hidden_size")


def test_sizes_are_found_under_the_names_of_other_families(model_copy: Path) -> None:
    (model_copy / "config.json").write_text('{"n_layer": 12, "n_embd": 768}')
    files = locate_model(model_copy)
    assert files.config_int("num_hidden_layers", "n_layer") == 12
    assert files.config_int("hidden_size", "n_embd") == 768
