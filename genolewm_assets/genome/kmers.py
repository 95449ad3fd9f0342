"""K-mers over ACGT as integers: ranks in lexicographic order."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import SequenceError
from genolewm_assets.genome.sequence import AMBIGUOUS, Codes

#: Rank given to a k-mer that contains a base other than A, C, G and T.
NO_KMER = -1
#: Largest k supported.
MAX_K = 12
#: Largest k whose ranks fit int16.
MAX_K_INT16 = 7

_Ranks = TypeVar("_Ranks", np.int16, np.int32)


@overload
def encode_kmers(codes: Codes, *, k: int, stride: int = 1, circular: bool = False) -> NDArray[np.int32]: ...
@overload
def encode_kmers(
    codes: Codes, *, k: int, stride: int = 1, circular: bool = False, dtype: type[_Ranks]
) -> NDArray[_Ranks]: ...
def encode_kmers(
    codes: Codes, *, k: int, stride: int = 1, circular: bool = False, dtype: Any = np.int32
) -> NDArray[Any]:
    """Compute the ranks of the k-mers of a sequence.

    Parameters
    ----------
    codes
        uint8 base codes, shape (n_bases,).
    k, stride
        Bases per k-mer, 1 to 12, and step between k-mer starts, at least 1; starts are 0, stride, ...
    circular
        Treat the sequence as circular: k-mers may wrap around the origin, and every multiple of the stride below
        ``n_bases`` is a start.
    dtype
        ``int32``, or ``int16`` if k is at most 7.

    Returns
    -------
    ndarray
        ``dtype``, shape (n_kmers,): rank of each k-mer among all ``4**k`` in lexicographic order, or -1 if the k-mer
        contains a base other than A, C, G and T. Empty if a linear sequence is shorter than k.

    Raises
    ------
    SequenceError
        If k or stride is out of range, or a circular sequence is shorter than k.
    """
    _check_k(k)
    if dtype is np.int16 and k > MAX_K_INT16:
        raise SequenceError("k-mers", "k out of range for int16", expected=f"1 to {MAX_K_INT16}", got=f"{k}")
    if stride < 1:
        raise SequenceError("k-mers", "impossible stride", expected="at least 1", got=f"{stride}")
    if circular:
        if len(codes) < k:
            raise SequenceError(
                "k-mers", "circular sequence too short", expected=f"at least {k} bp", got=f"{len(codes)} bp"
            )
        codes = np.concatenate((codes, codes[: k - 1]))
    if len(codes) < k:
        return np.zeros(0, dtype=dtype)
    # Use the narrowest dtype that can hold the ranks: memory bandwidth limits the speed.
    narrow = np.int16 if k <= MAX_K_INT16 else np.int32
    index = np.ascontiguousarray(_join(codes.astype(narrow), k, bits=2)[::stride], dtype=dtype)
    if codes.max() >= AMBIGUOUS:
        ambiguous = _join((codes >= AMBIGUOUS).view(np.uint8), k, bits=0)[::stride]
        index[np.flatnonzero(ambiguous.view(np.bool_))] = NO_KMER
    return index


def _join(values: NDArray[np.integer[Any]], k: int, *, bits: int) -> NDArray[np.integer[Any]]:
    """Combine each k values into one of ``k * bits`` bits, the first in the highest; by bitwise OR if these are 0."""
    # The width doubles (1, 2, 4, ...), so k = 6 takes three steps; NumPy shifts more slowly than it multiplies.
    joined, width = values, 1
    for digit in f"{k:b}"[1:]:
        joined = joined[:-width] * (1 << bits * width) | joined[width:]
        width *= 2
        if digit == "1":
            joined = joined[:-1] * (1 << bits) | values[width:]
            width += 1
    return joined


def decode_kmer(index: int, k: int) -> str:
    """Return the k-mer with a given rank among those of :func:`encode_kmers`.

    Raises
    ------
    SequenceError
        If the rank is not in ``[0, 4**k)`` or k is not 1 to 12.

    Examples
    --------
    >>> decode_kmer(1, 6)
    'AAAAAC'
    """
    _check_k(k)
    if not 0 <= index < 4**k:
        raise SequenceError("k-mer index", f"no such {k}-mer", expected=f"0 to {4**k - 1}", got=f"{index}")
    return "".join("ACGT"[index >> shift & 3] for shift in range(2 * k - 2, -2, -2))


def _check_k(k: int) -> None:
    if not 1 <= k <= MAX_K:
        raise SequenceError("k-mers", "k out of range", expected=f"1 to {MAX_K}", got=f"{k}")
