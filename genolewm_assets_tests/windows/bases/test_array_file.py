from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.windows.bases.array_file import HEADER_BYTES, ArrayWriter, map_array
from genolewm_assets.windows.bases.kernels import pack_rows
from genolewm_assets.windows.bases.packing import WindowBases
from genolewm_assets_tests.referees.sampling.plain_windows import pack_bases
from genolewm_assets_tests.rows import each_row


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
    mapped = map_array(path, kind, (n, 3))
    assert (mapped == rows).all()
    assert (type(mapped), mapped.flags.writeable) == (np.ndarray, False)


def test_a_lossy_type_and_another_shape_are_refused(tmp_path):
    with ArrayWriter(tmp_path / "x.npy", np.dtype("<i4")) as writer:
        with pytest.raises(TypeError, match="same_kind"):
            writer.append(np.array([0.5]))
        with pytest.raises(ValueError, match="rows have shape"):
            writer.append(np.zeros((2, 2), np.int32))
        with pytest.raises(ValueError, match="numbers that int32 cannot"):
            writer.append(np.array([2**32]))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"\x92NUMPY" + data[6:],
        lambda data: data.replace(b"<i4", b"<u4"),
        lambda data: data[: HEADER_BYTES - 1],
        lambda data: data.replace(b"False", b"[][]}"),
        lambda data: data.replace(b"shape", b'sh"pe'),
        lambda data: b"PK\x03\x04" + data[4:],
        lambda data: pickle.dumps(np.arange(5)),
        lambda data: b"",
    ],
)
def test_another_header_or_size_is_found_without_reading(tmp_path, change):
    path = tmp_path / "x.npy"
    with ArrayWriter(path, np.dtype("<i4")) as writer:
        writer.append(np.arange(5, dtype=np.int32))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CorruptResourceError, match=r"x\.npy: is not the array that its index states"):
        map_array(path, np.dtype("<i4"), (5,))


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(MissingResourceError, match="Rebuild the package"):
        map_array(tmp_path / "x.npy", np.dtype("<i4"), (5,))


def pack(texts: list[str]) -> tuple[int, np.ndarray, list[int]]:
    at = np.concatenate(([0], np.cumsum([len(text) for text in texts], dtype=np.int64)))
    sizes = [-(-len(text) // 4) for text in texts]
    ends = np.cumsum(sizes, dtype=np.int64)
    packed = np.full(int(ends[-1]) if sizes else 0, 255, np.uint8)
    text = np.frombuffer("".join(texts).encode(), np.uint8)
    return pack_rows(at, text, ends - np.array(sizes, np.int64), packed), packed, ends.tolist()


@given(st.lists(st.text("ACGT", max_size=13), max_size=5))
def test_rows_are_packed_as_the_plain_code_packs_them(texts):
    wrong, packed, _ = pack(texts)
    assert wrong == -1
    assert packed.tobytes() == b"".join(pack_bases(text).tobytes() for text in texts)


@each_row("letter", "NacgtU\0\xff".encode("latin-1"))
@each_row("place", [0, 3, 4, 6])
def test_another_symbol_is_found(letter, place):
    at = np.array([0, 4, 11])
    text = np.frombuffer(b"ACGTACGTACG", np.uint8).copy()
    text[4 + place] = letter
    assert pack_rows(at, text, np.array([0, 1]), np.zeros(3, np.uint8)) == 1


@given(st.data())
def test_bases_of_a_contig_with_packed_windows_are_those_of_the_contig(data):
    contig = bytes(data.draw(st.lists(st.sampled_from(b"ACGTN"), min_size=1, max_size=60)))
    spans = st.tuples(st.integers(0, len(contig)), st.integers(0, 20)).map(lambda one: (one[0], sum(one)))
    # Windows hold no unknown base.
    windows = sorted(
        w for w in data.draw(st.lists(spans, max_size=5)) if w[1] <= len(contig) and b"N" not in contig[slice(*w)]
    )
    windows = [w for at, w in enumerate(windows) if not at or w[1] >= windows[at - 1][1]]
    start, end = np.array(windows, np.int64).reshape(-1, 2).T
    packed = np.concatenate([np.zeros(0, np.uint8), *(pack_bases(contig[slice(*w)].decode()) for w in windows)])
    bases = WindowBases(packed, start, end, contig)
    assert len(bases) == len(contig)
    assert [bases[at] for at in range(-len(contig), len(contig))] == 2 * list(contig)
    bounds = st.none() | st.integers(-70, 70)
    for low, high in data.draw(st.lists(st.tuples(bounds, bounds), min_size=8, max_size=8)) + windows:
        assert bases[low:high] == contig[low:high]


def test_what_lies_in_a_window_is_not_read_from_the_contig_and_another_file_is_refused():
    class Unread:
        def __len__(self):
            return 40

    ends = np.array([4], np.int64), np.array([14], np.int64)
    bases = WindowBases(pack_bases("ACGTTGCAAC"), *ends, Unread())
    assert (bases[4:14], bases[7:9], bases[13:14]) == (b"ACGTTGCAAC", b"TT", b"C")
    with pytest.raises(TypeError):
        bases[3:5]
    with pytest.raises(CorruptResourceError, match=r"expected 3 bytes, got 4"):
        WindowBases(np.zeros(4, np.uint8), *ends, b"A" * 40)
