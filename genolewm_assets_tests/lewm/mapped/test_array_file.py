from __future__ import annotations

import tempfile

import numpy as np
import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.lewm.mapped.array_file import HEADER_BYTES, ArrayWriter, check_array_file, map_array, put_aside
from genolewm_assets_tests.referees.resident_pages import resident_bytes


@pytest.mark.parametrize("n", [0, 1, 3, 1_000_003])
def test_numpy_reads_what_was_written_in_parts(tmp_path, n):
    rows, path, kind = np.arange(3 * n, dtype=np.int64).reshape(n, 3), tmp_path / "new" / "x.npy", np.dtype("<i4")
    with ArrayWriter(path, kind, (3,)) as writer:
        for part in np.array_split(rows, 4):
            writer.append(part)
    assert writer.rows == n
    read = np.load(path)
    assert (read.dtype, read.shape) == (kind, (n, 3))
    assert (read == rows).all()
    check_array_file(path, kind, (n, 3))
    mapped = map_array(path, kind, (n, 3))
    assert (mapped == rows).all()
    assert not mapped.flags.writeable


def test_a_lossy_type_and_another_shape_are_refused(tmp_path):
    with ArrayWriter(tmp_path / "x.npy", np.dtype("<i4")) as writer:
        with pytest.raises(TypeError, match="same_kind"):
            writer.append(np.array([0.5]))
        with pytest.raises(ValueError, match="rows have shape"):
            writer.append(np.zeros((2, 2), np.int32))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"\x92NUMPY" + data[6:],
        lambda data: data.replace(b"<i4", b"<u4"),
        lambda data: data[: HEADER_BYTES - 1],
        lambda data: b"",
    ],
)
def test_another_header_or_size_is_found_without_reading(tmp_path, change):
    path = tmp_path / "x.npy"
    with ArrayWriter(path, np.dtype("<i4")) as writer:
        writer.append(np.arange(5, dtype=np.int32))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CorruptResourceError, match=r"x\.npy: is not the array that its index states"):
        check_array_file(path, np.dtype("<i4"), (5,))


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(MissingResourceError, match="Rebuild the package"):
        check_array_file(tmp_path / "x.npy", np.dtype("<i4"), (5,))


def test_a_large_array_is_put_aside_in_a_file_without_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    array = np.arange(3 << 17, dtype=np.int32).reshape(-1, 3)
    aside = put_aside(array)
    np.testing.assert_array_equal(aside, array)
    assert (aside.dtype, aside.flags.writeable, aside.flags.owndata) == (np.int32, False, False)
    assert resident_bytes([tmp_path]) == array.nbytes
    assert list(tmp_path.iterdir()) == []
    del aside
    assert resident_bytes([tmp_path]) == 0


def test_a_small_array_stays_in_memory_and_so_does_a_large_one_without_a_folder(tmp_path, monkeypatch):
    small, large = np.arange(100), np.arange(200_000)
    assert put_aside(small) is small
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert put_aside(large) is large
