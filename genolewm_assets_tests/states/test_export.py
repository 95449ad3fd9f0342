"""A cache in the columns of RFC-0002, and states of edited windows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.states import export as cache_export
from genolewm_assets.states.edited import EditEncoder, check_spans, encode_edited_windows
from genolewm_assets.states.export import RFC_0002, export_states
from genolewm_assets.states.window_tables import window_table_of
from genolewm_assets.store.artefacts.published import Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files import remove_tree
from genolewm_assets.store.tables.export import TableFormat
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.cache_world import (
    BLOCK_TOKENS,
    make_root,
    publish_cache,
    publish_windows,
    states_of,
    token_counts,
)
from genolewm_assets_tests.worlds.lewm.package_world import make_sources
from genolewm_assets_tests.worlds.store.array_stores import finish
from genolewm_assets_tests.worlds.store.plans import flip, new_root

World = tuple[Root, dict[str, tuple[Published, Published]]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_root(tmp_path_factory.mktemp("world") / "root")


def token_means(table: pa.Table) -> np.ndarray:
    """Return the mean over the tokens of each window, blocks spread out over their tokens again."""
    means = []
    for states, n_tokens in zip(states_of(table), token_counts(table), strict=True):
        tokens = np.repeat(states.astype(np.float64), BLOCK_TOKENS, axis=0)[:n_tokens]
        means.append(tokens.mean(axis=0))
    return np.array(means)


@pytest.mark.parametrize("form", TableFormat)
@pytest.mark.parametrize("source", ["chr17", "mrna_evo2"])
def test_rows_are_the_windows_with_their_mean_state(
    source: str, form: TableFormat, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "contig" if source == "chr17" else "record_id"
    windows, cache = world[1][source]
    table = pq.ParquetFile(windows.file("windows.parquet")).read()
    monkeypatch.setattr(cache_export, "rows_at_once", lambda row_bytes: 4)
    output = tmp_path / f"out.{form}"
    assert export_states(cache.directory, output, form) == table.num_rows
    found = pq.ParquetFile(output).read() if form == "parquet" else pa.ipc.open_file(output).read_all()
    assert found.schema.equals(RFC_0002)
    for ours, theirs in ((place, "chrom"), ("start", "start_bp"), ("end", "end_bp"), ("window_hash", "window_hash")):
        assert found[theirs].to_pylist() == table[ours].to_pylist()
    np.testing.assert_allclose(np.array(found["embedding"].to_pylist()), token_means(table), rtol=2e-3, atol=1e-3)
    same = found.drop_columns(["chrom", "start_bp", "end_bp", "window_hash", "embedding"]).to_pylist()
    fixed = {"encoder_hash": b"\xee" * 32, "state_layer": 2, "pool_type": "global_mean", "pool_radius": 0}
    fixed |= {"dtype": "fp32", "untargeted": True, "created_at": 0, "schema_version": "1.0.0"}
    assert same == table.num_rows * [fixed]
    before = output.read_bytes()
    link = world[0].path / "embeddings" / cache.directory.name.partition(".")[0]
    export_states(link, output, form, overwrite=True)
    assert output.read_bytes() == before


def test_windows_of_several_lengths(world: World, tmp_path: Path) -> None:
    root, table = world[0], make_sources().corpus["mrna_evo2"]
    ends = [start + 6 * n for start, n in zip(table["start"].to_pylist(), (100, 17, 16, 1, 100, 90), strict=True)]
    table = table.set_column(table.column_names.index("end"), table.schema.field("end"), pa.array(ends, pa.int64()))
    cache = publish_cache(root, publish_windows(root, "corpus/windows", "other", table))
    export_states(cache.directory, tmp_path / "out")
    found = np.array(pq.ParquetFile(tmp_path / "out").read()["embedding"].to_pylist())
    np.testing.assert_allclose(found, token_means(table), rtol=2e-3, atol=1e-3)


@pytest.mark.slow
def test_what_is_refused(tmp_path: Path) -> None:
    world = make_root(tmp_path / "root")
    (windows, cache), output = world[1]["chr20"], tmp_path / "out"
    flip(cache.directory / "states.bin", 7)
    with pytest.raises(CorruptResourceError, match=r"states\.bin: rows 0 to 13 differ"):
        export_states(cache.directory, output)
    flip(cache.directory / "states.bin", 7)
    flip(windows.file("windows.parquet"), 300)
    with pytest.raises(CorruptResourceError, match=r"windows\.parquet: content differs.*Rebuild windows/index\[chr20"):
        export_states(cache.directory, output)
    windows.file("windows.parquet").with_name("manifest.json").unlink()
    with pytest.raises(MissingResourceError, match="its window table is not in the root"):
        export_states(cache.directory, output)
    with pytest.raises(MissingResourceError, match="is not in a root"):
        export_states(finish(tmp_path / "plain", 3), output)
    assert not output.exists()
    output.touch()
    with pytest.raises(InputError, match="a file of that name exists"):
        export_states(world[1]["chr17"][1].directory, output)


def test_a_mean_that_float16_cannot_hold_is_an_error() -> None:
    states = np.full((2, 1, 3), 70_000.0, np.float32)
    with pytest.raises(InputError, match="does not fit float16"):
        cache_export._means(states, np.array([16, 16]), 16, "here")


class Whole:
    """The number of As of each window, one block."""

    def encode_windows(self, sequences: Sequence[str]) -> NDArray[Any]:
        return np.array([[[float(sequence.count("A"))]] for sequence in sequences])


class Shared(Whole):
    """The same, and what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], list[int], list[list[int]]]] = []

    def encode_edits(
        self, sources: Sequence[str], edited: Sequence[str], source_of: NDArray[np.int64], spans: NDArray[np.int64]
    ) -> NDArray[Any]:
        self.calls.append((list(sources), source_of.tolist(), spans.tolist()))
        return self.encode_windows(edited)


def test_an_encoder_of_edits_gets_every_source_once() -> None:
    encoder = Shared()
    assert isinstance(encoder, EditEncoder)
    spans = [(0, 1), (0, 1), (2, 5)]
    found = encode_edited_windows(encoder, ["GGG", "TTT", "GGG"], ["GAG", "TAA", "AAA"], spans)
    assert found[:, 0, 0].tolist() == [1, 2, 3]
    assert encoder.calls == [(["GGG", "TTT"], [0, 1, 0], [[0, 1], [0, 1], [2, 5]])]
    encode_edited_windows(encoder, [], [], [])
    assert encoder.calls[1] == ([], [], [])


def test_another_encoder_gets_whole_windows() -> None:
    assert not isinstance(Whole(), EditEncoder)
    found = encode_edited_windows(Whole(), ["GGG", "TTT"], ["GAG", "TAA"], [(0, 1), (0, 1)])
    assert found[:, 0, 0].tolist() == [1, 2]


@each_row(
    ("source_of", "spans", "says"),
    [
        ([0, 1], [(0, 1), (0, 1)], "edited window 1: its source or span does not exist: expected one of 1 sources"),
        ([0, -1], [(0, 1), (0, 1)], "edited window 1"),
        ([0, 0], [(0, 3), (0, 1)], r"edited window 0.*blocks from 0 to 2, got source 0, blocks \[0, 3\]"),
        ([0, 0], [(0, 1), (2, 2)], "edited window 1"),
        ([0, 0], [(-1, 1), (1, 2)], "edited window 0"),
        ([0], [(0, 1), (0, 1)], r"expected source_of \(2,\) and spans \(2, 2\)"),
        ([0, 0], [(0, 1)], "do not match"),
    ],
)
def test_a_span_that_is_not_there_is_refused(source_of: list[int], spans: list[Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_spans([2, 4], 1, np.array(source_of), np.array(spans))


def test_superseded_tables_are_found_too(tmp_path: Path) -> None:
    root, table = new_root(tmp_path / "root"), make_sources().windows["chr20"]
    older = publish_windows(root, "windows/index", "chr20", table)
    cache = publish_cache(root, older)
    publish_windows(root, "windows/index", "chr20", table.slice(3))
    of_cache = window_table_of(cache.manifest, root.path)
    assert (of_cache.path, of_cache.artefact) == (older.file("windows.parquet"), older.artefact)
    of_cache.check_bytes(ByteCount(NO_PROGRESS, of_cache.size_bytes))
    hashes = np.concatenate(list(of_cache.read_hashes()))
    assert [row.tobytes() for row in hashes] == table["window_hash"].to_pylist()
    pieces = list(of_cache.read_batches(["start"], 4))
    assert [len(piece) for piece in pieces] == [4, 4, 4, 2]
    flip(of_cache.path, 300)
    with pytest.raises(CorruptResourceError, match=r"content differs: .* Rebuild windows/index\[chr20\]\.$"):
        of_cache.check_bytes(ByteCount(NO_PROGRESS, of_cache.size_bytes))
    # A table of the same bytes, published by other code, is as good as the one that the cache names.
    remove_tree(older.directory)
    again = publish_windows(root, "windows/index", "chr20", table)
    (again.directory / "manifest.json").chmod(0o644)
    assert window_table_of(cache.manifest, root.path).path == again.file("windows.parquet")
    remove_tree(again.directory)
    with pytest.raises(MissingResourceError, match=r"embeddings/cache\[chr20\]: its window table is not in the root"):
        window_table_of(cache.manifest, root.path)
