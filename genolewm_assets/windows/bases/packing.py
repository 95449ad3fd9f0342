"""Bases of windows, flanks included, four a byte: the file beside a table of windows that trainers map."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Final, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Bases
from genolewm_assets.store.artefacts import Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.store.tables import read_batches
from genolewm_assets.windows.bases.array_file import HEADER_BYTES, REBUILD, ArrayWriter, map_array

#: File of the bases beside a table of windows, and the type of its numbers.
BASES_NAME, BASES_TYPE = "bases.npy", np.dtype("|u1")
#: Columns of the texts of a window, in the order of its bases in the file.
TEXTS: Final = ("left_flank", "sequence", "right_flank")
BASES_RIGHT = Check(
    "bases_right",
    f"The file `{BASES_NAME}`, which trainers map, has the flanks and the window of every row, base for base.",
    "Materialise this partition again; if the same rows come back, report them.",
)

#: Windows whose bases are packed at once: 13 MB of text.
_ROWS: Final = 1_024
_LETTERS: Final = np.frombuffer(b"ACGT", np.uint8)[(np.arange(256)[:, None] >> np.arange(0, 8, 2)) & 3]
_WORDS: Final = np.ascontiguousarray(_LETTERS).view("<u4").ravel()


class PackedTexts(NamedTuple):
    """Bases of some windows: uint8; first byte of each window: int64, (n,); bases of its three texts: int64, (n, 3)."""

    packed: NDArray[np.uint8]
    first: NDArray[np.int64]
    sizes: NDArray[np.int64]


def packed_sizes(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes that windows of some lengths in bases take: int64, shape (n,); each begins at a byte."""
    sizes: NDArray[np.int64] = (lengths + 3) // 4
    return sizes


def pack_texts(windows: pa.RecordBatch) -> PackedTexts:
    """Pack the columns :data:`TEXTS` of windows; another symbol than A, C, G and T is a CorruptResourceError."""
    from genolewm_assets.windows.bases.kernels import pack_rows

    parts = [windows.column(name) for name in TEXTS]
    sizes = np.stack([pc.binary_length(part).to_numpy(zero_copy_only=False) for part in parts], axis=1)
    joined = pc.binary_join_element_wise(*parts, "").cast(pa.large_string())
    _, _, data = joined.buffers()
    lengths = sizes.sum(axis=1, dtype=np.int64)
    at, ends = np.concatenate(([0], np.cumsum(lengths))), np.cumsum(packed_sizes(lengths))
    packed = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    first = ends - packed_sizes(lengths)
    text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    wrong = pack_rows(at, text, first, packed)
    if wrong >= 0:
        window = text[at[wrong] : at[wrong + 1]].tobytes().decode("ascii", "replace")
        raise CorruptResourceError(
            f"window {windows.column('window_id')[wrong]}",
            "a sequence or flank holds a base other than A, C, G and T",
            expected="windows inside ACGT runs",
            got=repr(next(base for base in window if base not in "ACGT")),
            remedy=REBUILD,
        )
    return PackedTexts(packed, first, sizes)


def write_bases(table: Path) -> None:
    """Write :data:`BASES_NAME` beside a Parquet file with the columns ``window_id`` and :data:`TEXTS`."""
    with ArrayWriter(table.with_name(BASES_NAME), BASES_TYPE) as writer:
        for batch in read_batches(table, _ROWS, ["window_id", *TEXTS]):
            writer.append(pack_texts(batch).packed)


def map_bases(path: Path) -> NDArray[np.uint8]:
    """Map the file of :func:`write_bases`, of whatever length; raises as :func:`map_array`."""
    n_bytes = path.stat().st_size - HEADER_BYTES if path.is_file() else 0
    mapped: NDArray[np.uint8] = map_array(path, BASES_TYPE, (n_bytes,))
    return mapped


def unpack_texts(
    packed: NDArray[np.uint8], first: NDArray[np.int64], n_bases: NDArray[np.int64], *, skipped: int
) -> pa.LargeBinaryArray:
    """Return windows, each from byte ``first`` on, as upper-case ASCII without the first ``skipped`` bases."""
    places = zip(first.tolist(), packed_sizes(n_bases).tolist(), n_bases.tolist(), strict=True)
    texts = [_WORDS[packed[at : at + n_bytes]].tobytes()[skipped:end] for at, n_bytes, end in places]
    return pa.array(texts, pa.large_binary())


class WindowBases:
    """A contig of which the bases of windows are read from the file of :func:`write_bases`, and others elsewhere.

    Parameters
    ----------
    packed
        The mapped file of a contig's windows.
    start, end
        The windows, flanks included, 0-based half-open and ascending: int64, shape (n_windows,).
    contig
        All bases of the contig; what lies in a window is not read from it.

    Raises
    ------
    CorruptResourceError
        If the file does not hold the bases of the windows.
    """

    def __init__(
        self, packed: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64], contig: Bases
    ) -> None:
        ends = np.cumsum(packed_sizes(end - start))
        if (got := len(packed)) != (size := int(ends[-1]) if len(ends) else 0):
            wanted = {"expected": f"{size:,} bytes", "got": f"{got:,} bytes"}
            raise CorruptResourceError(BASES_NAME, "does not hold the bases of the windows", remedy=REBUILD, **wanted)
        self._packed, self._contig, self._length = packed, contig, len(contig)
        self._start, self._end, self._ends = start.tolist(), end.tolist(), [0, *ends.tolist()]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> bytes: ...
    def __getitem__(self, at: int | slice, /) -> int | bytes:
        """Return one base as an integer, or a slice as ``bytes``; the step of a slice is ignored."""
        if not isinstance(at, slice):
            return self._contig[at]
        start, end, _ = at.indices(self._length)
        row = bisect_right(self._start, start) - 1
        if row < 0 or end > self._end[row]:
            return self._contig[start:end]
        first, skipped = divmod(start - self._start[row], 4)
        n_bases, first = max(0, end - start), first + self._ends[row]
        return _WORDS[self._packed[first : first + (skipped + n_bases + 3) // 4]].tobytes()[skipped:][:n_bases]


def check_bases(table: Path) -> CheckResult:
    """Unpack the file of :func:`write_bases` with NumPy alone, and compare it with the texts of the table."""
    wrong, row, at = RowsAtFault(), 0, 0
    stored = np.load(table.with_name(BASES_NAME), mmap_mode="r")
    for batch in read_batches(table, _ROWS, ["window_id", *TEXTS]):
        for window_id, *texts in zip(*(batch[name].to_pylist() for name in ("window_id", *TEXTS)), strict=True):
            text = "".join(texts).encode()
            end = at + -(-len(text) // 4)
            if _LETTERS[stored[at:end]].tobytes()[: len(text)] != text:
                wrong.add(row=row, window_id=window_id)
            row, at = row + 1, end
    if at != len(stored):
        wrong.add(row=row, window_id=f"{len(stored) - at} bytes more than the table has windows for")
    check = CheckResult(BASES_RIGHT, passed=not wrong, figures={"windows": row, "bytes": at}, rows=tuple(wrong))
    return stating_compared(check, row, "there are no windows", declared=not pq.read_metadata(table).num_rows)
