"""Statistics of tokenised genomes: number and frequency of k-mers, unknown tokens, and k-mer entropy per position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import InputError
from genolewm_assets.mito.tokens.plan import TokenRow
from genolewm_assets.mito.tokens.vocabulary import FIRST_KMER_ID, PAD_ID, UNK_ID, KmerVocabulary


@dataclass(frozen=True, slots=True, eq=False)
class TokenStatistics:
    """Statistics over all tokens except padding."""

    n_genomes: int
    n_tokens: int
    n_unknown: int
    n_kmers: int
    n_kmers_seen: int
    #: K-mers and their counts, ties in alphabetical order.
    most_frequent: tuple[tuple[str, int], ...]
    #: Shannon entropy of the k-mers that begin at each position, over the genomes, shape (length,): 0 if all agree, NaN
    #: if no genome has a k-mer there.
    entropy_bits: NDArray[np.float64]

    @property
    def unknown_rate(self) -> float:
        """Share of tokens that are ``[UNK]``, 0 to 1; 0 without tokens."""
        return self.n_unknown / self.n_tokens if self.n_tokens else 0.0


def describe_tokens(
    genomes: Iterable[TokenRow], vocabulary: KmerVocabulary, *, length: int, most: int = 10
) -> TokenStatistics:
    """Compute statistics of genomes, which are read one at a time.

    Parameters
    ----------
    length
        Number of positions on the circle.
    most
        Number of most frequent k-mers to list.

    Raises
    ------
    InputError
        If a position is not on the circle, or an id is not in the vocabulary.
    """
    counts = np.zeros(len(vocabulary), dtype=np.int64)
    columns = _Columns(length, len(vocabulary))
    n_genomes = 0
    for row in genomes:
        positions = np.arange(len(row.input_ids)) if row.position_ids is None else row.position_ids
        for what, values, end in (("position", positions, length), ("token id", row.input_ids, len(vocabulary))):
            if values.size and not (values.min() >= 0 and values.max() < end):
                where, got = f"genome of {len(values)} tokens", f"{values.min()} to {values.max()}"
                raise InputError(where, f"a {what} out of range", expected=f"0 to {end - 1}", got=got)
        counts += np.bincount(row.input_ids, minlength=len(vocabulary))
        columns.add(row.input_ids, positions)
        n_genomes += 1
    kmers = counts[FIRST_KMER_ID:]
    order = np.argsort(-kmers, kind="stable")[:most]
    named = [(vocabulary.decode(int(rank) + FIRST_KMER_ID), int(kmers[rank])) for rank in order if kmers[rank]]
    return TokenStatistics(
        n_genomes=n_genomes,
        n_tokens=int(counts.sum() - counts[PAD_ID]),
        n_unknown=int(counts[UNK_ID]),
        n_kmers=vocabulary.n_kmers,
        n_kmers_seen=int(np.count_nonzero(kmers)),
        most_frequent=tuple(named),
        entropy_bits=columns.entropy_bits(),
    )


class _Columns:
    """Counts of the k-mers that begin at each position: of the first one seen there, and of others one by one."""

    def __init__(self, length: int, n_ids: int) -> None:
        self._n_ids = n_ids
        self._usual = np.full(length, UNK_ID, dtype=np.int64)
        self._agreeing = np.zeros(length, dtype=np.int64)
        self._others: list[NDArray[np.int64]] = []

    def add(self, ids: NDArray[np.signedinteger], positions: NDArray[np.signedinteger]) -> None:
        """Count the k-mers of one genome; special tokens are ignored."""
        known = ids >= FIRST_KMER_ID
        ids, positions = ids[known], positions[known]
        fresh = self._usual[positions] == UNK_ID
        self._usual[positions[fresh]] = ids[fresh]
        agrees = ids == self._usual[positions]
        self._agreeing += np.bincount(positions[agrees], minlength=len(self._usual))
        self._others.append(positions[~agrees].astype(np.int64) * self._n_ids + ids[~agrees])

    def entropy_bits(self) -> NDArray[np.float64]:
        """Return the entropy per position; see :class:`TokenStatistics`."""
        keys, times = np.unique(np.concatenate([np.zeros(0, np.int64), *self._others]), return_counts=True)
        at = np.concatenate((np.flatnonzero(self._agreeing), keys // self._n_ids))
        times = np.concatenate((self._agreeing[self._agreeing > 0], times))
        total = np.bincount(at, weights=times, minlength=len(self._usual))
        share = times / total[at]
        entropy = np.bincount(at, weights=-share * np.log2(share), minlength=len(self._usual))
        return np.where(total > 0, np.maximum(entropy, 0.0), np.nan)
