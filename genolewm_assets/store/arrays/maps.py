"""Maps of the arrays of a store, whose pages a process can give back after it has read much."""

from __future__ import annotations

import mmap
import weakref
from typing import IO, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

#: Bytes that may become resident between two times that pages are given back.
KEPT_BYTES: Final = 64 << 20
#: What a page fault makes resident, at most (``fault_around_bytes`` of Linux).
_FAULT_BYTES: Final = 64 << 10


class _Pages:
    """Maps of this process whose pages are given back, and the bytes read through them since the last time."""

    maps: ClassVar[weakref.WeakSet[mmap.mmap]] = weakref.WeakSet()
    read_bytes = 0


def map_rows(
    handle: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], advice: int, *, keep_pages: bool
) -> npt.NDArray[Any]:
    """Map a file of rows, read-only; without ``keep_pages``, :func:`count_read` gives its pages back."""
    # Not numpy.memmap: slicing it takes ten times as long as slicing an ndarray.
    mapped = mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ)
    mapped.madvise(advice)
    if not keep_pages:
        _Pages.maps.add(mapped)
    return np.frombuffer(mapped, dtype).reshape(shape)


def count_read(n_bytes: int, n_places: int) -> None:
    """Count bytes that are read at some places of maps, and after :data:`KEPT_BYTES` give the pages of all maps back.

    They stay in the page cache of the system, and arrays stay valid: reading them maps their pages again.
    """
    _Pages.read_bytes += n_bytes + n_places * _FAULT_BYTES
    if _Pages.read_bytes > KEPT_BYTES:
        _Pages.read_bytes = 0
        for mapped in list(_Pages.maps):
            mapped.madvise(mmap.MADV_DONTNEED)
