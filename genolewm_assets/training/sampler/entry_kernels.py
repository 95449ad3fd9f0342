"""The compiled functions that Python calls, cached on disk. Import inside functions only: importing numba is slow.

Numba caches a function by the file that it stands in, and would go on using it after a change of a kernel that it calls
in another file. The entries are closures over a digest of all kernels, which numba makes part of the cache's key; they
refer to nothing else by closure, because a pickled kernel differs between processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from genolewm_assets.edits import compiling, draws, entry, kmer_kernels
from genolewm_assets.training.sampler import order_kernels, sampling_kernels, token_kernels


class Entries(NamedTuple):
    """Compiled functions; parameters are those of the kernels of the same name."""

    count_alleles: Callable[..., int]
    sample_windows: Callable[..., tuple[int, int, int]]
    show_alleles: Callable[..., int]
    unpack_windows: Callable[..., None]
    write_edited_windows: Callable[..., None]
    write_visits: Callable[..., None]


@cache
def entries() -> Entries:
    """Return the compiled functions of this process."""
    digest = _source_digest()

    @entry
    def count_alleles(windows: Any, limits: Any, alleles: Any) -> Any:
        _ = digest
        return sampling_kernels.count_alleles(windows, limits, alleles)

    @entry
    def sample_windows(
        windows: Any, plan: Any, of_epoch: Any, limits: Any, sources: Any, held: Any, room: Any, dice: Any, drawn: Any
    ) -> Any:
        _ = digest
        return sampling_kernels.sample_windows(windows, plan, of_epoch, limits, sources, held, room, dice, drawn)

    @entry
    def show_alleles(
        windows: Any, begins: Any, rows: Any, limits: Any, alleles: Any, held: Any, room: Any, drawn: Any, refused: Any
    ) -> Any:
        _ = digest
        return sampling_kernels.show_alleles(windows, begins, rows, limits, alleles, held, room, drawn, refused)

    @entry
    def unpack_windows(packed: Any, first: Any, at: Any, codes: Any) -> None:
        _ = digest
        token_kernels.unpack_windows(packed, first, at, codes)

    @entry
    def write_edited_windows(
        codes: Any, at: Any, sizes: Any, window: Any, n_edits: Any, shift: Any, edits: Any, pool: Any,
        letters: Any, own: Any, text: Any,
    ) -> None:  # fmt: skip
        _ = digest
        token_kernels.write_edited_windows(codes, at, sizes, window, n_edits, shift, edits, pool, letters, own, text)

    @entry
    def write_visits(
        seed: Any, epoch: Any, ends: Any, firsts: Any, starts: Any, by_stratum: Any, ordinals: Any, rows: Any,
        again: Any,
    ) -> None:  # fmt: skip
        _ = digest
        order_kernels.write_visits(seed, epoch, ends, firsts, starts, by_stratum, ordinals, rows, again)

    return Entries(count_alleles, sample_windows, show_alleles, unpack_windows, write_edited_windows, write_visits)


def _source_digest() -> int:
    """Return a number that changes with the text of any kernel."""
    folder = Path(__file__).parent
    files = [
        *sorted(folder.glob("*_kernels.py")),
        *(Path(str(own.__file__)) for own in (compiling, draws, kmer_kernels)),
    ]
    text = b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "big")
