"""One sequence compared with held-out 31-mers, as an audit compares windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.audit.held_kmers import KmerTable, SievedTable, held_31mers, keys_of
from genolewm_assets.audit.kmer_kernels import K, held_kmers
from genolewm_assets.audit.reading.intervals import Span
from genolewm_assets.audit.reading.reference import Codes, Reference, encode
from genolewm_assets.audit.reading.window_bases import Bases
from genolewm_assets.audit.similarity import are_leaks, compare_rows


def compare(sequence: str, table: SievedTable) -> tuple[bool, bool]:
    """Tell whether a sequence is held-out sequence or a copy, and whether it counts as searched."""
    rows = compare_rows(Bases.of(pa.array([sequence])), Bases.of(pa.array([""])), np.arange(1), table)
    return bool(are_leaks(rows)[0]), bool(rows[0, -1])


def held(sequence: str, table: SievedTable) -> NDArray[np.uint8]:
    """Return 1 where the 31-mer that begins at a base is in the table: shape (n_bases - 30,)."""
    codes = encode(sequence)
    keys, found = np.empty(codes.size, np.uint64), np.empty(codes.size, np.uint8)
    held_kmers(codes, table, keys, found)
    return found[: max(0, codes.size - K + 1)]


def sieved(codes: Codes) -> SievedTable:
    """Return the table of the 31-mers of a sequence."""
    return SievedTable.of(KmerTable.of(keys_of(codes)))


def held_table(reference: Reference, spans: Sequence[Span]) -> SievedTable:
    """Return the table of the 31-mers of held-out spans of a FASTA whose lower case does not mark repeats."""
    return SievedTable.of(KmerTable.joined(held_31mers(reference, spans, soft_masked=False)))
