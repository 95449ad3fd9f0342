"""Nucleotide sequences as uint8 codes: A 0, C 1, G 2, T 3, any other IUPAC base 4."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import SequenceError
from genolewm_assets.genome.intervals import IntervalArray

Codes = NDArray[np.uint8]

#: Code of a base that is not A, C, G or T (U counts as T).
AMBIGUOUS = 4

#: Names of the strands of a contig: as it is written, and its reverse complement.
STRANDS: tuple[str, ...] = ("+", "-")

#: ``parts_around`` groups rows by the bin of this many bases in which they start.
_BIN_BP = 1 << 22
#: Bases that ``acgt_runs`` looks at in one step.
_STEP_BP = 1 << 20


class Bases(Protocol):
    """A contig as upper-case ASCII with 0-based indices: ``bytes``, or an object that reads pieces on demand."""

    def __len__(self) -> int:
        """Return the contig's length in bases."""

    @overload
    def __getitem__(self, at: int, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> bytes: ...


# NC-IUB 1984 (Cornish-Bowden 1985): symbol and complement; U is read as T.
_SYMBOLS, _COMPLEMENTS = b"ACGTURYSWKMBDHVN", b"TGCAAYRSWMKVHDBN"
_ALPHABET = _SYMBOLS + _SYMBOLS.lower()
_COMPLEMENT = bytes.maketrans(_ALPHABET, _COMPLEMENTS + _COMPLEMENTS.lower())
_CODES = dict(zip(_ALPHABET, [0, 1, 2, 3, 3, *[AMBIGUOUS] * 11] * 2, strict=True))
_ENCODE = bytes(_CODES.get(byte, AMBIGUOUS + 1) for byte in range(256))
_DECODE = bytes.maketrans(bytes(range(5)), b"ACGTN")
_COMPLEMENT_CODES = np.array([3, 2, 1, 0, AMBIGUOUS], dtype=np.uint8)


def encode_sequence(sequence: str | bytes) -> Codes:
    """Encode a sequence of IUPAC symbols in either case; U is read as T, ambiguity codes become 4.

    Returns
    -------
    ndarray
        uint8, shape (n_bases,), read-only.

    Raises
    ------
    SequenceError
        If a symbol, such as a gap ``-``, is outside the IUPAC nucleotide alphabet.
    """
    return _encode(sequence)


def decode_sequence(codes: Codes) -> str:
    """Decode codes, uint8, shape (n_bases,), values 0 to 4, into an upper-case sequence; 4 becomes N.

    Raises
    ------
    SequenceError
        If a code exceeds 4 or the dtype is not uint8.
    """
    return _as_codes(codes).tobytes().translate(_DECODE).decode("ascii")


@overload
def reverse_complement(sequence: str) -> str: ...
@overload
def reverse_complement(sequence: bytes) -> bytes: ...
@overload
def reverse_complement(sequence: Codes) -> Codes: ...
def reverse_complement(sequence: str | bytes | Codes) -> str | bytes | Codes:
    """Return the reverse complement (the other strand, 5' to 3') of text, ASCII bytes, or codes of shape (n_bases,).

    Returns
    -------
    str, bytes or ndarray
        Same type and length as the argument. Case is kept, ambiguity codes are complemented (R <-> Y), U is read as T.

    Raises
    ------
    SequenceError
        If a symbol is outside the IUPAC nucleotide alphabet, a code exceeds 4, or codes are not uint8.
    """
    if isinstance(sequence, np.ndarray):
        return _COMPLEMENT_CODES[_as_codes(sequence)[::-1]]
    turned = _checked(sequence).translate(_COMPLEMENT)[::-1]
    return turned.decode("ascii") if isinstance(sequence, str) else turned


def parts_around(bases: Bases, start: NDArray[np.int64], end: NDArray[np.int64]) -> Iterator[tuple[slice, int, bytes]]:
    """Read the sequence around groups of neighbouring intervals, one read per group.

    Parameters
    ----------
    start, end
        Bounds of the intervals, one per row: int64, shape (n_rows,), 0-based half-open. Bounds outside the contig are
        clipped to it.

    Yields
    ------
    rows
        Slice of consecutive rows. The slices come in order and cover every row once.
    first
        0-based position of the first base of ``part``.
    part
        Bases from the smallest ``start`` to the largest ``end`` of these rows.

    Notes
    -----
    A group ends where the next row starts in another bin of 4 Mi bases. Sorted rows give at most one group per bin; in
    the worst order every row is a group.
    """
    start, end = np.clip(start, 0, len(bases)), np.clip(end, 0, len(bases))
    cuts = np.flatnonzero(np.diff(start // _BIN_BP)) + 1
    for low, high in pairwise([0, *cuts.tolist(), len(start)] if len(start) else []):
        first = int(start[low:high].min())
        yield slice(low, high), first, bases[first : int(end[low:high].max())]


def acgt_runs(sequence: Bases | Codes) -> IntervalArray:
    """Find the maximal runs of A, C, G and T (U counts as T), disjoint and sorted.

    Parameters
    ----------
    sequence
        ASCII bases in either case, read from start to end one piece at a time, or uint8 codes of shape (n_bases,).

    Raises
    ------
    SequenceError
        If a symbol is outside the IUPAC nucleotide alphabet; codes are not checked.
    """
    edges: list[NDArray[np.int64]] = []
    is_known = False
    for first in range(0, len(sequence), _STEP_BP):
        step = sequence[first : first + _STEP_BP]
        known = (step if isinstance(step, np.ndarray) else _encode(step, first)) < AMBIGUOUS
        edges.append(np.flatnonzero(np.diff(known, prepend=is_known)) + first)
        is_known = bool(known[-1])
    if is_known:
        edges.append(np.array([len(sequence)]))
    bounds = np.concatenate(edges) if edges else np.zeros(0, np.int64)
    return IntervalArray(bounds[0::2], bounds[1::2])


def _encode(sequence: str | bytes, first: int = 0) -> Codes:
    """Return the codes of a sequence; an error counts bases from ``first``."""
    raw = sequence.encode() if isinstance(sequence, str) else sequence
    codes = np.frombuffer(raw.translate(_ENCODE), dtype=np.uint8)
    if codes.max(initial=0) > AMBIGUOUS:
        _checked(sequence, first)  # raises an error that names the symbol
    return codes


def _checked(sequence: str | bytes, first: int = 0) -> bytes:
    """Return the sequence as ASCII bytes; raise :class:`SequenceError` if a symbol is not an IUPAC code."""
    raw = sequence.encode("utf-8") if isinstance(sequence, str) else sequence
    if raw.translate(None, _ALPHABET):
        text = sequence if isinstance(sequence, str) else sequence.decode("latin-1")
        at, symbol = next((i, c) for i, c in enumerate(text) if c not in _ALPHABET.decode())
        raise SequenceError(
            f"base {first + at} (0-based)",
            "not a nucleotide symbol",
            expected="an IUPAC code (ACGTU RYSWKMBDHVN)",
            got=repr(symbol),
        )
    return raw


def _as_codes(codes: Codes) -> Codes:
    if codes.dtype != np.uint8 or codes.max(initial=0) > AMBIGUOUS:
        raise SequenceError(
            "base codes",
            "not valid codes",
            expected=f"uint8 from 0 to {AMBIGUOUS}",
            got=f"{codes.dtype} up to {codes.max(initial=0)}",
        )
    return codes
