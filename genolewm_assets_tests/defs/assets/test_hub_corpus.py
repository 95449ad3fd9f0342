"""A corpus and an encoder that come from a hub on 127.0.0.1 through the real client."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from genolewm_assets.encoders import locate_model, read_identity, write_tiny_llama
from genolewm_assets.errors import ChecksumError
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.servers.hub import Hub, running_hub, use_hub
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld, bytes_of, failure_of

COMMIT, NEXT = "0123456789" * 4, "fedcba9876" * 4
SOURCE = "mrna_evo2"
URL = f"hf://datasets/owner/corpus@{COMMIT}/rna/**/*.parquet"


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    """Return a world whose corpus source has three files, of which the catalogue uses two."""
    world = TinyWorld(tmp_path / "world")
    folder = world.folder / "corpus" / SOURCE
    for number in (1, 2):
        world.write_foreign(SOURCE, range(4 * number, 4 * number + 4))
        (folder / "part-00000.parquet").rename(folder / f"part-0000{number}.parquet")
    world.write_foreign(SOURCE, range(4))
    world.edit_catalog(corpus={"sources": {SOURCE: {"files": 2, "revision": COMMIT}}})
    return world


@pytest.fixture
def hub(world: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    repository = tmp_path / "repository"
    shutil.copytree(world.folder / "corpus" / SOURCE, repository / "rna" / "more")
    write_tiny_llama(tmp_path / "model")
    with running_hub() as hub:
        hub.add("datasets", "owner/corpus", COMMIT, repository)
        hub.add("datasets", "owner/gated", COMMIT, repository, gated=True)
        hub.add("models", "owner/tiny", COMMIT, tmp_path / "model")
        use_hub(hub, tmp_path / "home", monkeypatch)
        yield hub


def build(world: TinyWorld) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Build the source and its windows; return the recipe of the source, and the tables by name."""
    world.make("corpus/records", SOURCE)
    world.make("corpus/windows", SOURCE)
    records, windows = world.open("corpus/records", SOURCE), world.open("corpus/windows", SOURCE)
    pieces = sorted(records.directory.glob("*.arrow"))
    tables = {path.name.partition("-")[0]: path.read_bytes() for path in pieces}
    tables |= {path.name: path.read_bytes() for path in windows.directory.glob("*.parquet")}
    return dict(records.manifest.recipe), tables


def test_a_corpus_of_the_hub_is_built_as_its_local_copy_is(
    world: TinyWorld, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.make("reference/genome")
    local, expected = build(world)
    shutil.rmtree(world.folder / "corpus" / SOURCE)
    shutil.rmtree(world.root / "corpus")
    world.edit_catalog(corpus={"sources": {SOURCE: {"url": URL, "revision": None}}})
    assert world.materialize("corpus/source").success
    requests = len(hub.requests)
    assert world.materialize("corpus/source").success
    assert len(hub.requests) == requests, "a commit never changes"
    recipe, tables = build(world)
    assert tables == expected
    assert len(tables) >= 4
    assert sorted(hub.downloads()) == ["part-00000.parquet", "part-00001.parquet"]
    assert recipe["revision"] == local["revision"] == COMMIT
    assert [sorted(source) for source in recipe["sources"]] == [["file", "sha256", "size_bytes"]] * 2
    before = bytes_of(world.root)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert build(world) == (recipe, tables)
    assert bytes_of(world.root) == before
    shutil.rmtree(world.root / "corpus")
    assert build(world) == (recipe, tables)
    assert bytes_of(world.root) == before


def test_a_build_says_what_to_do(world: TinyWorld, hub: Hub) -> None:
    world.edit_catalog(corpus={"sources": {SOURCE: {"url": URL, "revision": None, "files": 1}}})
    world.make("corpus/records", SOURCE)
    (blob,) = Path(huggingface_hub.constants.HF_HUB_CACHE).glob("*/blobs/*")
    content = blob.read_bytes()
    blob.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    world.edit_catalog(corpus={"max_faulty_fraction": 0.02})
    for url, says in {
        URL: f"{blob}: differs from what the hub states of hf://datasets/owner/corpus@{COMMIT}/rna/more/part-00000.p",
        URL.replace("corpus@", "gated@"): "Accept its terms at https://huggingface.co/datasets/owner/gated and set HF_",
        URL.replace("corpus@", "absent@"): "the hub has no such dataset, or does not show it",
        URL.replace(COMMIT, NEXT): f"the dataset has no commit {NEXT}",
    }.items():
        world.edit_catalog(corpus={"sources": {SOURCE: {"url": url}}})
        failed = world.materialize("corpus/records", partition=SOURCE)
        assert not failed.success
        assert says in failure_of(failed)
        assert len(failure_of(failed).strip().splitlines()) == 1


def test_a_changed_byte_of_an_encoder_is_found(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    identity = read_identity("owner/tiny", revision=COMMIT)
    local = read_identity(tmp_path / "model")
    assert identity == replace(local, model_id="owner/tiny", revision=COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert read_identity("owner/tiny", revision=COMMIT) == identity
    folder = locate_model("owner/tiny", revision=COMMIT).folder
    for name in ("model.safetensors", "tokenizer.json"):
        blob = (folder / name).resolve()
        content = blob.read_bytes()
        blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ChecksumError, match=f"{blob}: differs from what the hub states of owner/tiny .{name}.: "):
            read_identity("owner/tiny", revision=COMMIT)
        blob.write_bytes(content)


def test_catalogue_check_asks_the_hub(world: TinyWorld, hub: Hub, command: Command) -> None:
    def check() -> dict[str, str]:
        printed = command("catalog", "check", world.catalog, "--json")
        return {each["place"]: each["text"] for each in json.loads(printed.out)["findings"]}

    model = {"model": "owner/tiny", "revision": COMMIT}
    world.edit_catalog(corpus={"sources": {SOURCE: {"url": URL, "revision": None}}}, encoder=model)
    size = sum(path.stat().st_size for path in (world.folder / "corpus" / SOURCE).glob("part-0000[01].parquet"))
    found = check()
    assert found[f"corpus.sources.{SOURCE}.url"] == f"2 files of the hub, {size:,} bytes"
    assert found["encoder.model"].startswith("4 files of the hub, ")
    assert set(hub.downloads()) == {"config.json"}
    gated = {"sources": {SOURCE: {"url": URL.replace("corpus@", "gated@")}}}
    world.edit_catalog(corpus=gated, encoder={"revision": NEXT})
    found = check()
    assert "is gated. Accept its terms at" in found[f"corpus.sources.{SOURCE}.url"]
    assert found["encoder.model"].startswith(f"encoder owner/tiny@{NEXT}: the model has no commit {NEXT}. Copy")
    world.edit_catalog(corpus={"sources": {SOURCE: {"url": URL.replace(COMMIT, "main")}}}, encoder=model)
    printed = command("catalog", "check", world.catalog)
    assert printed.code == 3
    assert f"corpus.sources.{SOURCE}.url: needs the commit of the data set: expected hf://datasets/OWNER" in printed.out
    assert "https://huggingface.co/datasets/owner/corpus/commits/main" in printed.out
