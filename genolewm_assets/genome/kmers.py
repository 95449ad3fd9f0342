"""K-mers as lexicographic indices over ACGT."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import SequenceError
from genolewm_assets.genome.sequence import AMBIGUOUS, Codes

#: Index of a k-mer that holds a base other than A, C, G and T.
NO_KMER = -1
MAX_K = 12


def encode_kmers(codes: Codes, *, k: int, stride: int = 1, circular: bool = False) -> NDArray[np.int32]:
    """Index the k-mers of a sequence.

    Parameters
    ----------
    codes
        uint8 base codes, shape (n_bases,).
    k
        Bases per k-mer, 1 to 12.
    stride
        Step between k-mer starts in bases; starts are 0, stride, ...
    circular
        Wrap the last k-mers round the origin, so that every start below ``n_bases`` has one.

    Returns
    -------
    ndarray
        int32, shape (n_kmers,): the rank of the k-mer among all ``4**k`` in lexicographic order, -1 where a base
        is not A, C, G or T. A sequence shorter than k has no k-mer.

    Raises
    ------
    SequenceError
        If k or stride is out of range, or a circular sequence is shorter than k.
    """
    _check_k(k)
    if stride < 1:
        raise SequenceError("k-mers", "impossible stride", expected="at least 1", got=f"{stride}")
    if circular:
        if len(codes) < k:
            raise SequenceError(
                "k-mers", "circular sequence too short", expected=f"at least {k} bp", got=f"{len(codes)} bp"
            )
        codes = np.concatenate((codes, codes[: k - 1]))
    n_starts = max(0, len(codes) - k + 1)
    index = np.zeros(-(-n_starts // stride), dtype=np.int32)
    for offset in range(k):
        index <<= 2
        index += codes[offset : offset + n_starts : stride]
    if codes.max(initial=0) >= AMBIGUOUS:
        strange = np.concatenate(([0], np.cumsum(codes >= AMBIGUOUS, dtype=np.int32)))
        index[strange[k : k + n_starts : stride] != strange[:n_starts:stride]] = NO_KMER
    return index


def decode_kmer(index: int, k: int) -> str:
    """Return the k-mer of an index.

    Raises
    ------
    SequenceError
        If the index is not in ``[0, 4**k)``.

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
