"""A corpus source that is divided: each piece is built by itself, and together they are what one piece would be."""

from __future__ import annotations

import json
import os
from functools import partial
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster import build_sensor_context

from genolewm_assets.definitions import defs
from genolewm_assets.defs.operations.corpus_sensor import corpus_piece_sensor
from genolewm_assets.defs.operations.demo import Demo
from genolewm_assets.defs.runtime.settings import WorkspaceResource
from genolewm_assets.genome import Split
from genolewm_assets.packages import open_package, read_latest
from genolewm_assets.store.artefacts import verify_root
from genolewm_assets.windows.corpus.pieces import piece_of
from genolewm_assets_tests.faults.killing import start
from genolewm_assets_tests.worlds.graph.built_world import STEPS, BuiltWorld, forget
from genolewm_assets_tests.worlds.graph.tiny_world import CORPUS, RELEASES, bytes_of, shown_of

SOURCE = "mrna_evo2"
PIECES = tuple(f"{SOURCE}-{number:05d}" for number in range(4))


@pytest.fixture
def divided(unbuilt: BuiltWorld) -> BuiltWorld:
    """Return a world of which one source has 100 records in four pieces, and nothing is built."""
    unbuilt.write_foreign(SOURCE, range(100))
    unbuilt.edit_catalog(corpus={"records_per_piece": 32})
    unbuilt.make("reference/genome")
    return unbuilt


def registered(world: BuiltWorld) -> set[str]:
    return set(world.instance.get_dynamic_partitions("corpus_piece"))


def windows_of(world: BuiltWorld, *pieces: str) -> pa.Table:
    paths = [world.open("corpus/windows", piece).file("windows.parquet") for piece in pieces]
    return pa.concat_tables([pq.read_table(path) for path in paths]).sort_by("record_id")


def test_pieces_are_built_one_by_one_and_a_changed_record_changes_one(divided: BuiltWorld) -> None:
    world, others = divided, {name for name in CORPUS if name != SOURCE}
    assert registered(world) == set(CORPUS)
    assert world.make("corpus/records", SOURCE).metadata["pieces"].value == len(PIECES)
    assert registered(world) == others | set(PIECES)
    for piece in PIECES:
        world.make("corpus/windows", piece)
    before = windows_of(world, *PIECES)
    assert len(set(before["record_id"].to_pylist())) == 100
    digests = {piece: world.open("corpus/windows", piece).manifest.sha256 for piece in PIECES}

    world.write_foreign(SOURCE, [*range(99), 999])
    world.make("corpus/records", SOURCE)
    for piece in PIECES:
        world.make("corpus/windows", piece)
    changed = {piece for piece in PIECES if world.open("corpus/windows", piece).manifest.sha256 != digests[piece]}
    assert changed == {PIECES[piece_of(name, len(PIECES))] for name in ("t99", "t999")}

    world.write_foreign(SOURCE, range(100))
    world.edit_catalog(corpus={"records_per_piece": 100})
    world.make("corpus/records", SOURCE)
    assert registered(world) == set(CORPUS)
    world.make("corpus/windows", SOURCE)
    assert windows_of(world, SOURCE).equals(before)


def test_a_package_is_made_of_all_pieces(divided: BuiltWorld) -> None:
    world = divided
    keys = {"corpus/records": CORPUS, "corpus/windows": (*CORPUS[:1], *CORPUS[2:], *PIECES)}
    for assets, partitions in STEPS[1:]:
        chosen = keys["corpus/windows"] if "corpus/windows" in assets else partitions
        for partition in chosen if RELEASES[0] not in partitions else RELEASES[:1]:
            if "packages/current" not in assets and "forensic/profiles" not in assets:
                result = world.materialize(*assets, partition=partition)
                assert result.success, (assets, partition)
    package = open_package(world.root / read_latest(world.root, RELEASES[0]).path, allow_unaudited=True)
    rows = package.windows(Split.TRAIN, ["origin", "record_id", "cache_key"]).to_pylist()
    ours = [row for row in rows if row["origin"] == SOURCE]
    assert len({row["record_id"] for row in ours}) > 80
    assert {ref.source for ref in package.info.caches} >= set(PIECES)
    assert len({row["cache_key"] for row in ours}) == len(PIECES)


def test_pieces_are_known_before_anything_is_built(divided: BuiltWorld) -> None:
    world = divided
    for key in CORPUS:
        world.instance.delete_dynamic_partition("corpus_piece", key)
    resource = WorkspaceResource(root=str(world.root), catalog=str(world.catalog))
    for said in (f"registered now: {len(PIECES) + 3}", "every corpus source are registered"):
        context = build_sensor_context(world.instance, resources={"workspace": resource})
        assert said in str(corpus_piece_sensor(context).skip_message)
    assert registered(world) == {*PIECES, *CORPUS} - {SOURCE}
    steps = Demo(defs, world.workspace(), world.instance).steps()
    assert [key for asset, key in steps if asset.key == "embeddings/corpus" and key.startswith(SOURCE)] == [*PIECES]
    # A folder that cannot be read for a while takes no partition away.
    (world.folder / "corpus" / SOURCE).rename(Path(world.folder / "away"))
    Demo(defs, world.workspace(), world.instance).steps()
    assert registered(world) == {*PIECES, *CORPUS} - {SOURCE}


@pytest.mark.nightly
def test_two_processes_build_all_pieces_of_a_root_and_each_piece_once(divided: BuiltWorld, tmp_path: Path) -> None:
    sources = {SOURCE: 16, "prokaryote_evo2": 8}
    for source, pieces in sources.items():
        divided.write_foreign(source, range(20 * pieces))
        divided.make("corpus/records", source)
    keys = sorted(key for key in registered(divided) if key.startswith(tuple(sources)))
    assert len(keys) == 24
    assets = "corpus/windows", "embeddings/corpus"

    def build(said: Path) -> None:
        kept = {}
        for key in keys:
            result = divided.materialize(*assets, partition=key)
            assert result.success, key
            kept.update({f"{asset}[{key}]": shown_of(result, asset).metadata["reused"].value for asset in assets})
        said.write_text(json.dumps(kept))

    said = [tmp_path / "first", tmp_path / "second"]
    children = [start(partial(build, path)) for path in said]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    first, second = (json.loads(path.read_text()) for path in said)
    assert len(first) == 48
    assert [name for name in first if first[name] == second[name]] == []
    assert verify_root(divided.workspace().root) == []
    both = bytes_of(divided.root)
    for asset, key in product(assets, keys):
        forget(divided.root, asset, key)
    build(tmp_path / "alone")
    assert bytes_of(divided.root) == both
