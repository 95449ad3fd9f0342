"""Window tables found by the digest of their bytes, and read in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.lewm.states.edited import EditEncoder, check_spans, encode_edited_windows
from genolewm_assets.lewm.states.window_tables import find_window_tables, window_table_of
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.cache_world import publish_cache, publish_windows
from genolewm_assets_tests.worlds.lewm.package_world import make_sources
from genolewm_assets_tests.worlds.store.plans import flip, make_plan, new_root


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


def test_spans_are_blocks_of_the_window() -> None:
    inside = check_spans([2, 4], 1, np.array([0, 0]), np.array([(1, 2), (0, 3)]))
    assert inside.tolist() == [[False, True, False, False], [True, True, True, False]]


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
    assert find_window_tables(root.path) == {}
    older = publish_windows(root, "windows/index", "chr20", table)
    cache = publish_cache(root, older)
    newer = publish_windows(root, "windows/index", "chr20", table.slice(3))
    found = find_window_tables(root.path)
    assert {entry.path for entry in found.values()} == {p.file("windows.parquet") for p in (older, newer)}
    of_cache = window_table_of(cache.manifest, found)
    assert (of_cache.path, of_cache.artefact) == (older.file("windows.parquet"), older.artefact)
    of_cache.check_bytes(ByteCount(NO_PROGRESS, of_cache.size_bytes))
    hashes = np.concatenate(list(of_cache.read_hashes()))
    assert [row.tobytes() for row in hashes] == table["window_hash"].to_pylist()
    pieces = list(of_cache.read_batches(["start"], 4))
    assert [len(piece) for piece in pieces] == [4, 4, 4, 2]
    flip(of_cache.path, 300)
    with pytest.raises(CorruptResourceError, match=r"content differs: .* Rebuild windows/index\[chr20\]\.$"):
        of_cache.check_bytes(ByteCount(NO_PROGRESS, of_cache.size_bytes))
    del found[of_cache.sha256]
    with pytest.raises(MissingResourceError, match=r"embeddings/cache\[chr20\]: its window table is not in the root"):
        window_table_of(cache.manifest, found)


def test_a_manifest_that_names_no_table(tmp_path: Path) -> None:
    published = build(Root(tmp_path / "root"), make_plan())
    with pytest.raises(CorruptResourceError, match="names no window table"):
        window_table_of(read_manifest(published.directory), {})
