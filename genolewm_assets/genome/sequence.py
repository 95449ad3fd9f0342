"""Nucleotide sequences as uint8 codes: A 0, C 1, G 2, T 3, every other base 4."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import SequenceError
from genolewm_assets.genome.intervals import IntervalArray

Codes = NDArray[np.uint8]

#: Code of every base that is not A, C, G or T.
AMBIGUOUS = 4

#: Rows that begin in one stretch of this length are looked at together.
_TOGETHER_BP = 1 << 22


class Bases(Protocol):
    """A contig as upper-case ASCII, 0-based: ``bytes``, or what reads them piece by piece as they are asked for."""

    def __len__(self) -> int:
        """Return the contig's length in bases."""
        ...

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
    """Encode a sequence; lower case counts as upper, U as T, IUPAC ambiguity as 4.

    Returns
    -------
    ndarray
        uint8, shape (n_bases,), read-only.

    Raises
    ------
    SequenceError
        On a symbol outside the IUPAC nucleotide alphabet (a gap ``-`` included).
    """
    raw = sequence.encode() if isinstance(sequence, str) else sequence
    codes = np.frombuffer(raw.translate(_ENCODE), dtype=np.uint8)
    if codes.max(initial=0) > AMBIGUOUS:
        _checked(sequence)  # says which symbol it is
    return codes


def decode_sequence(codes: Codes) -> str:
    """Return the upper-case sequence of codes; 4 becomes N.

    Raises
    ------
    SequenceError
        On a code above 4.
    """
    return _as_codes(codes).tobytes().translate(_DECODE).decode("ascii")


@overload
def reverse_complement(sequence: str) -> str: ...
@overload
def reverse_complement(sequence: bytes) -> bytes: ...
@overload
def reverse_complement(sequence: Codes) -> Codes: ...
def reverse_complement(sequence: str | bytes | Codes) -> str | bytes | Codes:
    """Return the other strand, 5' to 3', in the type that came in.

    Case is kept, ambiguity codes are complemented (R <-> Y), U counts as T.

    Raises
    ------
    SequenceError
        On a symbol outside the IUPAC nucleotide alphabet, or a code above 4.
    """
    if isinstance(sequence, np.ndarray):
        return _COMPLEMENT_CODES[_as_codes(sequence)[::-1]]
    turned = _checked(sequence).translate(_COMPLEMENT)[::-1]
    return turned.decode("ascii") if isinstance(sequence, str) else turned


def parts_around(bases: Bases, start: NDArray[np.int64], end: NDArray[np.int64]) -> Iterator[tuple[slice, int, bytes]]:
    """Yield rows that lie near one another, where the part of a contig begins that holds them all, and the part.

    Parameters
    ----------
    start, end
        Of each row, 0-based half-open, int64, shape (rows,); what of them is outside of the contig is in no part.

    Yields
    ------
    tuple
        Rows that follow one another, in the order given: all of them come, each once. Rows that lie in order need as
        many parts as there are stretches of 4 Mbp; in the worst case each has its own.
    """
    start, end = np.clip(start, 0, len(bases)), np.clip(end, 0, len(bases))
    cuts = np.flatnonzero(np.diff(start // _TOGETHER_BP)) + 1
    for low, high in pairwise([0, *cuts.tolist(), len(start)] if len(start) else []):
        first = int(start[low:high].min())
        yield slice(low, high), first, bases[first : int(end[low:high].max())]


def acgt_runs(sequence: bytes | Codes) -> IntervalArray:
    """Return the maximal runs of A, C, G and T (either case), 0-based half-open.

    Raises
    ------
    SequenceError
        On a symbol outside the IUPAC nucleotide alphabet.
    """
    codes = sequence if isinstance(sequence, np.ndarray) else encode_sequence(sequence)
    known = codes < AMBIGUOUS
    edges = np.flatnonzero(known[1:] != known[:-1]) + 1
    bounds = np.concatenate(([0] * bool(known[:1].any()), edges, [known.size] * bool(known[-1:].any())))
    return IntervalArray(bounds[0::2], bounds[1::2])


def _checked(sequence: str | bytes) -> bytes:
    """Return ASCII bytes, all of them IUPAC symbols."""
    raw = sequence.encode("utf-8") if isinstance(sequence, str) else sequence
    if raw.translate(None, _ALPHABET):
        text = sequence if isinstance(sequence, str) else sequence.decode("latin-1")
        at, symbol = next((i, c) for i, c in enumerate(text) if c not in _ALPHABET.decode())
        raise SequenceError(
            f"base {at} (0-based)",
            "not a nucleotide symbol",
            expected="an IUPAC code (ACGTU RYSWKMBDHVN)",
            got=repr(symbol),
        )
    return raw


def _as_codes(codes: Codes) -> Codes:
    if codes.dtype != np.uint8 or codes.max(initial=0) > AMBIGUOUS:
        raise SequenceError(
            "base codes",
            "not base codes",
            expected=f"uint8 from 0 to {AMBIGUOUS}",
            got=f"{codes.dtype} up to {codes.max(initial=0)}",
        )
    return codes
