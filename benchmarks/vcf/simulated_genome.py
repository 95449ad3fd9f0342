"""Simulated contigs and their alleles: sorted, left-aligned, mostly SNVs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import Contig

_BASES = np.frombuffer(b"ACGT", dtype=np.uint8)
_LONGEST_COMMON = 60


class Site(NamedTuple):
    """POS (1-based), REF and ALT of a record; ``alts`` is comma-separated as in the file."""

    pos: int
    ref: str
    alts: str


def simulate_contig(contig: Contig, *, seed: int = 1) -> bytes:
    """Return random upper-case bases of a contig; equal seeds and lengths give equal bases."""
    return _BASES[np.random.default_rng([seed, contig.length]).integers(0, 4, contig.length, dtype=np.uint8)].tobytes()


def spread_positions(rng: np.random.Generator, contig: Contig, count: int, *, shared: float) -> NDArray[np.int64]:
    """Return ``count`` ascending 1-based positions over the whole contig.

    Parameters
    ----------
    shared
        Probability that a position repeats the previous one; no position occurs more than twice.
    """
    gap = (contig.length - 20_000) // count
    if gap < 1:
        raise ValueError(f"{contig.name} has {contig.length} bp: expected more than {count:,} positions")
    pos = 10_000 + np.cumsum(rng.integers(1, 2 * gap, count, endpoint=gap == 1))
    pos = np.minimum(pos, contig.length - 10_000 + np.arange(count) - count)
    repeats = rng.random(count) < shared
    repeats[0] = False
    repeats[1:] &= ~repeats[:-1]
    pos[repeats] = pos[np.flatnonzero(repeats) - 1]
    return pos


def snv(bases: bytes, pos: int, rank: int) -> Site:
    """Return an SNV to one of the three other bases; consecutive ranks give different bases."""
    ref = bases[pos - 1 : pos].decode()
    return Site(pos, ref, other_base(ref, rank))


def other_base(base: str, rank: int) -> str:
    """Return one of the three other bases, chosen by ``rank`` modulo 3."""
    return "ACGT"[("ACGT".index(base) + 1 + rank % 3) % 4]


def deletion(bases: bytes, pos: int, length: int) -> Site:
    """Return a left-aligned deletion of at least ``length`` bases after ``pos``."""
    while bases[pos + length - 1] == bases[pos - 1]:
        length += 1
    return Site(pos, bases[pos - 1 : pos + length].decode(), chr(bases[pos - 1]))


def insertion(bases: bytes, pos: int, length: int, rng: np.random.Generator) -> Site:
    """Return a left-aligned insertion of ``length`` random bases after ``pos``."""
    anchor = chr(bases[pos - 1])
    body = _BASES[rng.integers(0, 4, length - 1)].tobytes().decode()
    return Site(pos, anchor, anchor + body + other_base(anchor, length))


def indel_lengths(rng: np.random.Generator, count: int) -> list[int]:
    """Return ``count`` random lengths of 1 to 60 bases; one in three is 1, and more than nine in ten are below ten."""
    return np.minimum(rng.geometric(0.35, count) ** rng.choice([1, 2], count, p=[0.9, 0.1]), _LONGEST_COMMON).tolist()


def one_base_alleles(rng: np.random.Generator, pair: NDArray[np.uint8]) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """Return REF and ALT of left-aligned alleles: SNVs, and a tenth insertions and deletions of a base.

    Parameters
    ----------
    pair
        Upper-case bases at each position and behind it, shape (2, n_alleles).
    """
    here, behind = pair.view("S1").astype(str)
    code = np.searchsorted(_BASES, pair[0])
    other = _BASES[(code + rng.integers(1, 4, code.size)) % 4].view("S1").astype(str)
    kind = rng.choice(3, code.size, p=(0.9, 0.05, 0.05))
    # A deletion of a base that equals the one before it would not be left-aligned.
    deleted, inserted = (kind == 1) & (here != behind), kind == 2
    ref = np.where(deleted, np.char.add(here, behind), here)
    return ref, np.select([deleted, inserted], [here, np.char.add(here, other)], other)
