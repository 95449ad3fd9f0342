from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import BusyError, ConfigurationError, InputError, ResourceError, VersionError
from genolewm_assets.store import ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.arrays.layout import ArraySpec
from genolewm_assets.store.arrays.log import committed_rows, read_header
from genolewm_assets.store.arrays.report import inspect_cache
from genolewm_assets_tests.faults.killing import outcome
from genolewm_assets_tests.worlds.store.array_stores import (
    CONFIG,
    FINGERPRINT,
    contents,
    finish,
    key,
    meta,
    open_writer,
    restate,
    sidecars,
    values,
    write_rows,
)
from genolewm_assets_tests.worlds.store.plans import flip

ROWS = 21


def check_rows(directory: Path, n_rows: int) -> None:
    reader = ArrayStoreReader(directory, check=True)
    wanted = values(0, n_rows)
    assert reader.n_rows == n_rows
    for name, array in wanted.items():
        np.testing.assert_array_equal(reader.get_rows(np.arange(n_rows), name), array)
    assert reader.keys() == [key(row) for row in range(n_rows)]
    assert reader.index.column("start").to_pylist() == [row * 8192 for row in range(n_rows)]
    assert reader.verify() == []


@pytest.mark.parametrize("n_rows", [0, 1, 7, 8, 9, 16, ROWS])
def test_what_is_written_is_read(tmp_path: Path, n_rows: int) -> None:
    check_rows(finish(tmp_path / "s", n_rows), n_rows)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, ROWS), max_size=5).map(sorted), st.booleans(), st.sampled_from([1, 3, 8, 13, 50]))
def test_bytes_do_not_depend_on_calls_sessions_and_commits(
    tmp_path_factory: pytest.TempPathFactory, stops: list[int], by_row: bool, commit_rows: int
) -> None:
    directory = tmp_path_factory.mktemp("stores")
    undisturbed = contents(finish(directory / "a", ROWS))
    for stop in (*stops, ROWS):
        with open_writer(directory / "b", commit_rows=commit_rows, batch_rows=8) as writer:
            if by_row:
                for row in range(writer.n_rows, stop):
                    arrays = {name: array[0] for name, array in values(row, row + 1).items()}
                    writer.write(arrays, key=key(row), meta=meta(row), sidecars=sidecars(row))
            else:
                write_rows(writer, writer.n_rows, stop)
            writer.commit()
    with open_writer(directory / "b", commit_rows=commit_rows, batch_rows=8) as writer:
        assert writer.resume_keys() == [key(row) for row in range(ROWS)]
        writer.finalize(FINGERPRINT)
    assert contents(directory / "b") == undisturbed


def test_rows_after_the_last_commit_are_written_again(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), open_writer(tmp_path) as writer:
        write_rows(writer, 0, 11)
        raise RuntimeError("stop")
    with open_writer(tmp_path) as writer:
        assert writer.resume_keys() == [key(row) for row in range(8)]
        assert writer.n_rows == 8


def test_rows_are_committed_when_the_oldest_has_waited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def committed_after(seconds: float) -> int:
        now = time.monotonic() + seconds
        monkeypatch.setattr(time, "monotonic", lambda: now)
        write_rows(writer, writer.n_rows, writer.n_rows + 1)
        return committed_rows(tmp_path)

    with open_writer(tmp_path, commit_rows=1_000, commit_ms=50, batch_rows=8) as writer:
        assert [committed_after(seconds) for seconds in (0, 0.04, 0.02, 0.04, 0.04)] == [0, 0, 3, 3, 3]
        assert committed_after(0.02) == 6


@pytest.mark.parametrize("limits", [{"commit_rows": 0}, {"commit_ms": 0}, {"commit_ms": -1}])
def test_commits_have_a_size(tmp_path: Path, limits: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="commit_rows or commit_ms: expected at least 1"):
        open_writer(tmp_path, batch_rows=8, **limits)


@pytest.mark.parametrize("damage", range(2, ROWS, 3))
def test_a_commit_of_several_batches_counts_whole_or_not_at_all(tmp_path: Path, damage: int) -> None:
    """Three commits, at rows 9, 18 and 21, over batches of 4: a damaged row takes its commit and the later ones."""
    with open_writer(tmp_path / "s", commit_rows=9, batch_rows=4) as writer:
        write_rows(writer, 0, ROWS)
    flip(tmp_path / "s" / "states.bin", damage * 30)
    with open_writer(tmp_path / "s", commit_rows=9, batch_rows=4) as writer:
        assert writer.n_rows == max(end for end in (0, 9, 18) if end <= damage // 4 * 4)
        write_rows(writer, writer.n_rows, ROWS)
        writer.finalize(FINGERPRINT)
    assert contents(tmp_path / "s") == contents(finish(tmp_path / "t", ROWS, commit_rows=4))


@pytest.mark.parametrize(("name", "version"), [("log", 1), ("log", 3), ("layout", 99)])
def test_a_store_that_another_version_began_is_left_to_it(tmp_path: Path, name: str, version: int) -> None:
    with open_writer(tmp_path / "s") as writer:
        write_rows(writer, 0, 9)
        own = read_header(tmp_path / "s")[f"{name}_version"]
    restate(tmp_path / "s", **{f"{name}_version": version})
    before = contents(tmp_path / "s")
    message = rf"s: .* another version .*: expected {name} version {own}, got {name} version {version}\. Finish it with"
    for action in (open_writer, inspect_cache):
        with pytest.raises(VersionError, match=message):
            action(tmp_path / "s")
    assert contents(tmp_path / "s") == before


def test_a_finished_store_is_opened_as_such(tmp_path: Path) -> None:
    directory = finish(tmp_path / "s", ROWS)
    before = contents(directory)
    with open_writer(directory) as writer:
        assert writer.resume_keys() == [key(row) for row in range(ROWS)]
        with pytest.raises(ConfigurationError, match="is finished"):
            write_rows(writer, ROWS, ROWS + 1)
        with pytest.raises(ConfigurationError, match=r"from other sources .*sources: 'x' is new"):
            writer.finalize(compute_fingerprint(CONFIG, {"x": "b" * 64}))
        writer.finalize(FINGERPRINT)
    assert contents(directory) == before


def test_a_finished_store_of_another_configuration_is_refused(tmp_path: Path) -> None:
    directory = finish(tmp_path / "s", ROWS)
    with pytest.raises(ConfigurationError, match="begun with another key"):
        open_writer(directory, key_config={"encoder": "other"})


def test_what_lies_there_without_a_log_is_not_taken_for_rows(tmp_path: Path) -> None:
    finish(tmp_path / "s", ROWS)
    (tmp_path / "s" / "_COMPLETE").unlink()
    (tmp_path / "s" / ".crc.json.0123abcd.tmp").write_bytes(b"left by a kill")
    assert contents(finish(tmp_path / "s", 5)) == contents(finish(tmp_path / "fresh", 5))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"states": np.zeros((1, 3, 5), "f2"), "mask": np.zeros((1, 7), "i1")}, "wrong arrays"),
        ({**values(0, 1), "more": np.zeros(1)}, "wrong arrays"),
        ({**values(0, 1), "mask": np.full((1, 7), 200)}, "does not fit its dtype"),
        ({**values(0, 1), "scale": np.zeros((1, 1), "f4")}, "wrong shape"),
    ],
)
def test_a_refused_batch_leaves_nothing_behind(tmp_path: Path, rows: dict[str, np.ndarray], message: str) -> None:
    with open_writer(tmp_path / "s") as writer:
        write_rows(writer, 0, 5)
        with pytest.raises(InputError, match=message):
            writer.write_batch(rows, keys=["new"], metas=[meta(99)], sidecars=[{"panel": '"never"'}])
        for bad in ({"panel": "{"}, {"ladder": "{}"}):
            with pytest.raises(InputError, match="side-car"):
                writer.write_batch(values(5, 6), keys=["new"], metas=[meta(99)], sidecars=[bad])
        with pytest.raises(InputError, match="a column has no value"):
            writer.write_batch(values(5, 6), keys=["new"], sidecars=[{"panel": '"never"'}])
        write_rows(writer, 5, ROWS)
        writer.finalize(FINGERPRINT)
    assert contents(tmp_path / "s") == contents(finish(tmp_path / "t", ROWS))


def test_one_of_each_per_row(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer, pytest.raises(InputError, match="number of metas: expected 2, got 1"):
        writer.write_batch(values(0, 2), keys=["a", "b"], metas=[meta(0)])


def test_a_caller_may_reuse_its_array(tmp_path: Path) -> None:
    spec = ArraySpec("a", (2,), "int16")
    buffer = np.zeros(2, np.int16)
    with ArrayStoreWriter(tmp_path, [spec], key_config={}) as writer:
        for row in range(5):
            buffer[:] = row
            writer.write({"a": buffer}, key=str(row))
        writer.finalize(compute_fingerprint({}, {}))
    assert ArrayStoreReader(tmp_path).get_rows([0, 1, 2, 3, 4]).tolist() == [[n, n] for n in range(5)]


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        pass
    with pytest.raises(ConfigurationError, match="is closed"):
        write_rows(writer, 0, 1)
    with pytest.raises(ConfigurationError, match="is closed"):
        writer.finalize(FINGERPRINT)


def test_a_fingerprint_that_is_none_is_refused_before_anything_is_finished(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        with pytest.raises(ConfigurationError, match="does not match its content"):
            writer.finalize({"sha256": "x"})
        writer.finalize(FINGERPRINT)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        with pytest.raises(BusyError, match="another writer has this array store open"):
            open_writer(tmp_path)
        assert "BusyError" in outcome(lambda: open_writer(tmp_path))
        write_rows(writer, 0, 3)
    with open_writer(tmp_path) as writer:
        assert writer.n_rows == 3


@pytest.mark.parametrize("at", range(0, 9))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_storage_that_refuses_is_named_and_committed_rows_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, at: int
) -> None:
    directory, real, calls = tmp_path / "s", os.fsync, 0

    def failing(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > at:
            raise OSError(code, os.strerror(code))
        real(descriptor)

    with open_writer(directory) as writer:
        write_rows(writer, 0, 8)
        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(ResourceError, match=f"refused to write .{os.strerror(code)}.*committed rows are kept"):
            write_rows(writer, 8, ROWS)
            writer.finalize(FINGERPRINT)
        monkeypatch.undo()
    with open_writer(directory) as writer:
        assert writer.n_rows >= 8
        write_rows(writer, writer.n_rows, ROWS)
        writer.finalize(FINGERPRINT)
    assert contents(directory) == contents(finish(tmp_path / "t", ROWS))


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"")
    with pytest.raises(ResourceError, match="the storage refused"):
        open_writer(tmp_path / "s")


def test_side_car_files_hold_each_value_once(tmp_path: Path) -> None:
    reader = ArrayStoreReader(finish(tmp_path / "s", ROWS))
    assert reader.sidecar_texts("panel") == [f'{{"loci":["D3","vWA"],"panel":{n}}}' for n in range(4)]
    assert reader.index.column("panel_key").to_pylist() == [row // 6 for row in range(ROWS)]
    keys = reader.index.column("allele_key").to_pylist()
    assert [keys[row] is None for row in range(ROWS)] == [row % 4 == 0 for row in range(ROWS)]
    assert all(reader.sidecar("allele", keys[row]) == f"[{row % 3}]" for row in range(ROWS) if row % 4)


def test_the_index_does_not_depend_on_commits_where_it_has_many_row_groups(tmp_path: Path) -> None:
    spec, n_rows = ArraySpec("a", (), "int32"), 70_000
    for name, step in (("s", 70_000), ("t", 33_333)):
        with ArrayStoreWriter(tmp_path / name, [spec], key_config={}, commit_rows=step // 7) as writer:
            for first in range(0, n_rows, step):
                rows = np.arange(first, min(first + step, n_rows))
                writer.write_batch({"a": rows}, keys=[f"{row:040}" for row in rows])
            writer.finalize(compute_fingerprint({}, {}))
    assert contents(tmp_path / "s") == contents(tmp_path / "t")
    reader = ArrayStoreReader(tmp_path / "s")
    assert reader.keys() == [f"{row:040}" for row in range(n_rows)]
    assert reader.index.column("row").to_pylist() == list(range(n_rows))
