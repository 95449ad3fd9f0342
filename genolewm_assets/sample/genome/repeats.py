"""Repeated sequence, written into a contig in place: dispersed families, tandem arrays and satellites.

``disperse_repeats``, ``insert_tandem_repeats`` and ``insert_satellite`` change ``codes`` (uint8, shape (bases,): A 0, C
1, G 2, T 3) and return the mask of the bases that they wrote (bool, shape (bases,)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sample.genome.blueprint import Span
from genolewm_assets.sample.genome.draws import Draws

Codes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

#: Length of the consensus in bases, G+C in per cent, and weight among the copies, of families like Alu, L1, a long
#: terminal repeat and a DNA transposon.
_FAMILIES = ((300, 60, 5), (6_000, 42, 3), (450, 48, 2), (250, 40, 1))
_DISPERSED_SPACING_BP = 1_300
_TANDEM_SPACING_BP = 5_000
_MONOMER_BP = 171


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenation of 0..n-1 for each n of ``lengths``, int64."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - lengths, lengths)


def substitute(codes: Codes, rates: NDArray[np.float64], draws: Draws) -> Codes:
    """Return a copy of ``codes`` in which each base is replaced by another with its probability in ``rates``."""
    changed = draws.uniform(codes.size) < rates
    shift = 1 + draws.below(3, codes.size)
    return np.where(changed, (codes + shift) % 4, codes).astype(np.uint8)


def _consensus(draws: Draws) -> list[Codes]:
    library = []
    for length, gc_percent, _ in _FAMILIES:
        gc = draws.uniform(length) * 100 < gc_percent
        strong = draws.uniform(length) < 0.5
        library.append(np.where(gc, np.where(strong, 1, 2), np.where(strong, 0, 3)).astype(np.uint8))
    library[0][-25:] = 0  # poly(A) tail of a short retrotransposon
    return library


def disperse_repeats(codes: Codes, draws: Draws, library_draws: Draws) -> Mask:
    """Insert copies of the repeat families on both strands, 1-20 % diverged; long ones are truncated at the 5' end."""
    library = _consensus(library_draws)
    n = codes.size // _DISPERSED_SPACING_BP
    family = draws.choose([weight for _, _, weight in _FAMILIES], n)
    full = np.array([c.size for c in library], dtype=np.int64)[family]
    kept = np.where(full > 1_000, 400 + (draws.uniform(n) * draws.uniform(n) * (full - 400)).astype(np.int64), full)
    starts = np.sort(draws.below(codes.size, n))
    fits = starts + kept < np.append(starts[1:], codes.size)
    family, full, kept, starts = family[fits], full[fits], kept[fits], starts[fits]
    offset = _offsets(kept)
    reverse = np.repeat(draws.uniform(starts.size) < 0.5, kept)
    consensus_start = np.cumsum([0, *[c.size for c in library[:-1]]])[family]
    forward_at = np.repeat(consensus_start + full - kept, kept) + offset
    reverse_at = np.repeat(consensus_start + full - 1, kept) - offset
    bases = np.concatenate(library)[np.where(reverse, reverse_at, forward_at)]
    bases = np.where(reverse, 3 - bases, bases).astype(np.uint8)
    divergence = np.repeat(0.01 + 0.19 * draws.uniform(starts.size), kept)
    return _lay(codes, np.repeat(starts, kept) + offset, substitute(bases, divergence, draws))


def insert_tandem_repeats(codes: Codes, draws: Draws) -> Mask:
    """Insert arrays of 1-6 bp units, 12 to 79 bp long (2 % of them 400 bp longer), with 1 % substitutions."""
    n = codes.size // _TANDEM_SPACING_BP
    unit = 1 + draws.choose([5, 8, 3, 4, 1, 1], n)
    lengths = draws.between(12, 80, n) + np.where(draws.uniform(n) < 0.02, 400, 0)
    units = draws.below(4, 6 * n).reshape(n, 6).astype(np.uint8)
    starts = draws.below(codes.size - 600, n)
    offset = _offsets(lengths)
    row = np.repeat(np.arange(n), lengths)
    bases = units[row, offset % unit[row]]
    return _lay(codes, starts[row] + offset, substitute(bases, np.full(bases.size, 0.01), draws))


def insert_satellite(codes: Codes, where: Span, draws: Draws) -> Mask:
    """Fill the interval ``where`` with repeats of twelve 171 bp monomers, like centromeric alpha satellite."""
    start, end = where
    monomer = draws.below(4, _MONOMER_BP).astype(np.uint8)
    block = substitute(np.tile(monomer, 12), np.full(12 * _MONOMER_BP, 0.25), draws)
    array = np.resize(block, end - start)
    at = np.arange(start, end, dtype=np.int64)
    return _lay(codes, at, substitute(array, np.full(array.size, 0.02), draws))


def _lay(codes: Codes, at: NDArray[np.int64], bases: Codes) -> Mask:
    codes[at] = bases
    mask = np.zeros(codes.size, dtype=np.bool_)
    mask[at] = True
    return mask
