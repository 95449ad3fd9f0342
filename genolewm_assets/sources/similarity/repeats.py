"""What in held-out sequence is a repeat: lower case, or 21-mers that the genome holds often.

The genome is read a fixed number of times, whatever is held out: once to tell whether lower case marks its repeats and,
if it does not, twice to count 21-mers, first roughly and then exactly those that may be frequent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity.held_part import (
    Codes,
    HeldPart,
    HeldSpan,
    PresenceFilter,
    Repeats,
    count_bases,
    encode,
)

#: Without a soft-masked FASTA, a 21-mer that the genome holds more often is in a repeat, and so are the bases so near
#: it, in which its copies differ.
MOST_COPIES, REPEAT_BP = 8, 50

#: Shares of a FASTA's bases from which on, and up to which, lower case is taken for its repeats.
MASKED_SHARES = 0.05, 0.9

_READ_BP = 1 << 22
_K = 21


def soft_mask(codes: Codes) -> Codes:
    """Return the codes as they are: lower case marks repeats."""
    return codes


def _mark_frequent(keys: NDArray[np.uint64], codes: Codes) -> Codes:
    """Return codes with the bases of the 21-mers of a hash table, and those near, marked; lower case marks none."""
    from genolewm_assets.sources.similarity.presence_kernels import mark_repeats

    codes = codes & np.uint8(7)
    mark_repeats(codes, keys, REPEAT_BP)
    return codes


def is_soft_masked(reader: FastaReader) -> bool:
    """Tell whether lower case marks the repeats of the FASTA: it does unless too few or nearly all bases have it."""
    most, upper, lower = sum(reader.contigs.values()), 0, 0
    for piece in _pieces(reader, 0):
        cases = encode(piece) & 12
        found = int(np.count_nonzero(cases == 0)), int(np.count_nonzero(cases == 8))
        upper, lower = upper + found[0], lower + found[1]
        # At most so many bases are A, C, G and T; what is not read yet cannot change the answer then.
        most -= len(piece) - sum(found)
        if 0 < MASKED_SHARES[0] * most <= lower and most - upper <= MASKED_SHARES[1] * most:
            return True
    return False


def find_frequent(reader: FastaReader, parts: Sequence[Sequence[HeldSpan]], folder: Path) -> Repeats:
    """Return the rule by which 21-mers that the genome holds more than :data:`MOST_COPIES` times mark repeats."""
    from genolewm_assets.sources.similarity import presence_kernels as kernels

    n_bases = count_bases(parts)
    unmarked = partial(_mark_frequent, hash_table(np.empty(0, dtype=np.uint64)))
    held = PresenceFilter(folder / "all", n_bases)
    for spans in parts:
        held.add(HeldPart.read(reader, spans, unmarked))
    rough = np.asarray(np.memmap(folder / "counts", dtype=np.uint8, mode="w+", shape=(n_bases,)))
    for piece in _pieces(reader, _K - 1):
        kernels.count_roughly(encode(piece), held.words, rough)
    listed = [np.empty(0, dtype=np.uint64)]
    for spans in parts:
        codes = HeldPart.read(reader, spans, unmarked).codes
        found = np.empty(codes.size, dtype=np.uint64)
        listed.append(np.unique(found[: kernels.list_frequent(codes, rough, MOST_COPIES, found)]))
    keys = hash_table(np.unique(np.concatenate(listed)))
    counts = np.zeros(keys.size, dtype=np.uint8)
    for piece in _pieces(reader, _K - 1):
        kernels.count_keys(encode(piece), keys, counts)
    return partial(_mark_frequent, hash_table(keys[counts > MOST_COPIES]))


def hash_table(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a table with open addressing of some hashes; see ``presence_kernels.add_keys``."""
    from genolewm_assets.sources.similarity.kmer_kernels import NO_HASH
    from genolewm_assets.sources.similarity.presence_kernels import add_keys

    keys = np.full(16 + 2 * hashes.size, NO_HASH, dtype=np.uint64)
    add_keys(hashes, keys)
    return keys


def _pieces(reader: FastaReader, overlap: int) -> Iterator[bytes]:
    """Yield the bases of all contigs in pieces; each but a contig's first repeats ``overlap`` bases."""
    for contig, length in reader.contigs.items():
        for start in range(0, length, _READ_BP):
            yield reader.read_as_written(contig, max(0, start - overlap), min(length, start + _READ_BP))
