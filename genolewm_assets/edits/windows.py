"""Windows as records and, packed at two bits per base, as arrays. Not here: those of a split (``memory_mapped``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import TOKEN_BP


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """One window of a split."""

    #: First 32 hex digits of the SHA-256 of ``sequence``; not unique.
    window_id: str
    #: ``reference`` or the corpus source.
    origin: str
    #: ``sequence``, ``left_flank``, ``right_flank``: upper-case ACGT on the window's own strand; the flanks are
    #: adjacent to the window.
    sequence: str
    left_flank: str
    right_flank: str
    #: ``contig``, ``start``, ``strand``: reference contig, 0-based start and strand of the interval that equals
    #: ``sequence`` base for base (``-``: its reverse complement); all None if the window has no exact placement.
    contig: str | None = None
    start: int | None = None
    strand: str | None = None
    #: ``cache_key``, ``cache_row``: state cache and row that hold the window's states; None if the package has no
    #: states for the window.
    cache_key: str | None = None
    cache_row: int | None = None

    @property
    def n_tokens(self) -> int:
        """Number of DNA tokens (6-mers) of the window."""
        return len(self.sequence) // TOKEN_BP


@dataclass(frozen=True, slots=True, eq=False)
class PackedWindows:
    """Some windows of a split as arrays, one row per window."""

    #: uint8: left flank, window and right flank of each window: A 0, C 1, G 2, T 3, four bases a byte, the first in the
    #: lowest bits; each window begins at a byte.
    packed: NDArray[np.uint8]
    #: int64, shape (n,): first byte of each window in ``packed``.
    first: NDArray[np.int64]
    #: int32, shape (n, 3): bases of left flank, window and right flank.
    sizes: NDArray[np.int32]
    #: Bytes (S32), shape (n,): first 32 hex digits of the SHA-256 of the window.
    window_ids: NDArray[np.bytes_]
    #: str, shape (n,): ``reference`` or the corpus source.
    origins: NDArray[np.str_]
    #: Names of contigs, which ``contig`` numbers.
    contigs: tuple[str, ...]
    #: ``contig``, ``start``, ``is_reverse``: int32, index in ``contigs``, -1 without an exact placement; int64,
    #: 0-based, -1 without; bool, True for a window of the reverse strand. Each of shape (n,).
    contig: NDArray[np.int32]
    start: NDArray[np.int64]
    is_reverse: NDArray[np.bool_]
    #: bool, shape (n,): whether the bases of a window without an exact placement, flanks included, spell one of the
    #: 31-mers by which held-out alleles are told; True also where this is not known.
    spells_held: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.sizes)

    @staticmethod
    def concatenate(parts: Sequence[PackedWindows]) -> PackedWindows:
        """Return the windows of several, one after the other."""
        contigs = tuple(dict.fromkeys(name for part in parts for name in part.contigs))
        firsts = np.cumsum([0, *(len(part.packed) for part in parts)])
        codes = [np.array([*map(contigs.index, part.contigs), -1], dtype=np.int32)[part.contig] for part in parts]
        plain = ("packed", "sizes", "window_ids", "origins", "start", "is_reverse", "spells_held")
        return PackedWindows(
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in plain},
            first=np.concatenate([part.first + first for part, first in zip(parts, firsts[:-1], strict=True)]),
            contigs=contigs,
            contig=np.concatenate(codes),
        )
