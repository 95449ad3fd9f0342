"""Differences of a genome from the reference circle, their standard names, and reference coordinates of its bases.

Names are 1-based and refer to the reference strand: ``16189C`` (substitution), ``309.1C`` (first base inserted after
309), ``249d`` and ``8281-8289d`` (deletions) (Carracedo et al. 2000; Parson et al. 2014). An N of the reference is a
placeholder that keeps old numbers valid: rCRS has one at 3,107, where genomes have no base. A genome written with that
N has no difference there; its positions are stated beside the differences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import InputError

#: Symbol of the reference for a position at which genomes have no base.
PLACEHOLDER = "N"
_NAME = re.compile(r"(?P<pos>[1-9]\d*)(?:\.(?P<nth>[1-9]\d*)(?P<added>[A-Z])|(?P<base>[A-Z])|(?:-(?P<last>\d+))?d)")


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One substitution, deletion or insertion: the interval replaced, 0-based half-open, and the genome's bases there.

    An insertion is between ``start - 1`` and ``start``, which is its ``end`` too; at the origin ``start`` equals the
    reference's length. ``bases`` are empty for a deletion.
    """

    start: int
    end: int
    bases: str

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the difference: one per inserted base of an insertion, else one."""
        if self.start == self.end:
            return tuple(f"{self.start}.{n}{base}" for n, base in enumerate(self.bases, 1))
        if self.bases:
            return (f"{self.end}{self.bases}",)
        return (f"{self.end}d" if self.end - self.start == 1 else f"{self.start + 1}-{self.end}d",)


class CirclePlacement(NamedTuple):
    """A genome with the reference coordinates of its bases."""

    #: Upper case, from the base at the lowest reference position to the last base or insertion.
    sequence: str
    #: int32, shape (n_bases,): 0-based position on the reference, non-decreasing; for an inserted base, the position
    #: that it follows.
    coordinates: NDArray[np.int32]
    #: int16, shape (n_bases,): 0 for a base at its own position, n for the n-th base inserted after it.
    insertion: NDArray[np.int16]


def names_of(differences: Iterable[Difference]) -> list[str]:
    """Return the names of differences, sorted by position."""
    return [name for difference in sorted(differences) for name in difference.names]


def parse_names(names: Sequence[str], *, where: str) -> tuple[Difference, ...]:
    """Parse the names that :func:`names_of` returns, in order of position.

    Raises
    ------
    InputError
        If a name has another form, or the bases of an insertion are not numbered 1, 2, 3, ...
    """
    found = []
    for (start, is_insertion), group in groupby((_parsed(name, where) for name in names), key=lambda p: p[:2]):
        parts = list(group)
        if not is_insertion:
            found += [Difference(start, end, bases) for _, _, end, bases in parts]
            continue
        if [nth for _, _, nth, _ in parts] != list(range(1, len(parts) + 1)):
            numbers = ", ".join(f"{start}.{nth}" for _, _, nth, _ in parts)
            raise InputError(where, "inserted bases are misnumbered", expected=f"{start}.1 onwards", got=numbers)
        found.append(Difference(start, start, "".join(base for *_, base in parts)))
    return tuple(found)


def _parsed(name: str, where: str) -> tuple[int, bool, int, str]:
    """Return start, whether the name is of an inserted base, end (or number of the inserted base), and the base."""
    match = _NAME.fullmatch(name)
    if match is None:
        expected = "such as 16189C, 309.1C, 249d or 8281-8289d"
        raise InputError(where, "not the name of a difference", expected=expected, got=repr(name))
    pos = int(match["pos"])
    if match["nth"]:
        return pos, True, int(match["nth"]), match["added"]
    return pos - 1, False, int(match["last"] or pos), match["base"] or ""


def lay_out(reference: str, differences: Iterable[Difference], placeholders: Iterable[int] = ()) -> CirclePlacement:
    """Return sequence and coordinates of the genome that has the given differences, in any order, from the reference.

    Parameters
    ----------
    reference
        One turn of the circle, upper case.
    placeholders
        1-based positions of the reference's placeholders at which the genome has an N too.

    Raises
    ------
    InputError
        If a difference is outside the reference, or two differences overlap.
    """
    bases: list[str] = ["" if base == PLACEHOLDER else base for base in reference]
    for pos in placeholders:
        bases[pos - 1] = PLACEHOLDER
    inserted: dict[int, str] = {}
    done = 0
    for difference in sorted(differences):
        start, end = difference.start, difference.end
        if not done <= start <= end <= len(reference) or (start == end and (start in inserted or start == 0)):
            where, expected = f"differences, {' '.join(difference.names)}", f"after {done} and up to {len(reference)}"
            problem = "overlaps the difference before it or extends beyond the reference"
            raise InputError(where, problem, expected=expected, got=f"{start + 1} to {end}")
        if start == end:
            inserted[start] = difference.bases
        else:
            bases[start:end] = [difference.bases, *[""] * (end - start - 1)]
        done = end
    for start, added in inserted.items():
        bases[start - 1] += added
    counts = np.fromiter(map(len, bases), dtype=np.int64, count=len(bases))
    coordinates = np.repeat(np.arange(len(bases), dtype=np.int32), counts)
    insertion = np.zeros(len(coordinates), dtype=np.int16)
    ends = np.cumsum(counts)
    for start, added in inserted.items():
        insertion[ends[start - 1] - len(added) : ends[start - 1]] = np.arange(1, len(added) + 1)
    return CirclePlacement("".join(bases), coordinates, insertion)
