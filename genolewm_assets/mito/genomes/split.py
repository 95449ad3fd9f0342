"""Training, validation and test genomes, such that no genome has a near copy, or a relative, on another side.

Genomes at most ``max_differences`` apart hang together (single linkage), and so do, unless told otherwise, all of one
haplogroup. What hangs together stays together. Not here: haplogroups as such (``haplogroups``).
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Split, connect
from genolewm_assets.mito.genomes.differences import Difference
from genolewm_assets.mito.genomes.haplogroups import majors

#: Code of a base that is not known: it differs from nothing.
_UNKNOWN = -1

#: By place, rising along the circle: bases of the reference that are gone, and what stands there instead.
_Entries: TypeAlias = dict[int, tuple[int, str]]


#: Its name, and whether that is a haplogroup's: a genome may be called H.
_Group: TypeAlias = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class SplitPolicy:
    """How genomes are divided.

    Parameters
    ----------
    max_differences
        Two genomes with at most so many differences stay on one side. An insertion or deletion counts once, or base by
        base where that is less, an ambiguous base not at all. What differs is told by the names: beside a run that
        ends elsewhere in two genomes (309T 310C and 315.1C) these may be one or two more than the least possible.
    validation, test
        Share of the genomes that each holdout may have, 0 to 1; it gets less where groups are too large to fit.
    by_haplogroup
        Keep each haplogroup (its letter; L0 to L6) on one side, so that holdouts are branches that training has not
        seen. Else only near copies stay together.
    seed
        Another one gives another division.

    Raises
    ------
    ConfigurationError
        If the shares leave nothing for training, or a value is impossible.
    """

    max_differences: int = 10
    validation: float = 0.1
    test: float = 0.1
    by_haplogroup: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        # Written so that NaN, which compares as false, is caught too.
        for name in ("max_differences", "validation", "test"):
            if not (value := getattr(self, name)) >= 0:
                raise ConfigurationError(name, "impossible", expected="at least 0", got=f"{value}")
        if not (taken := self.validation + self.test) < 1:
            raise ConfigurationError(
                "validation", "leaves nothing for training", expected="with test under 1", got=f"{taken:g}"
            )


@dataclass(frozen=True, slots=True)
class SplitGenomes:
    """One entry per genome: its side, and the first genome of the near copies that it belongs to."""

    split: list[Split]
    cluster: list[int]


def split_genomes(
    names: Sequence[str],
    differences: Sequence[Sequence[Difference]],
    haplogroups: Sequence[str | None],
    policy: SplitPolicy,
) -> SplitGenomes:
    """Divide genomes; the same for any order of them.

    Parameters
    ----------
    names
        Unique.
    differences
        Of each genome from the reference, sorted.
    haplogroups
        Of each genome; one without a haplogroup is kept with its near copies only.
    """
    cluster = near_clusters(differences, policy.max_differences)
    groups = _groups(names, cluster, majors(haplogroups) if policy.by_haplogroup else [None] * len(names))
    sides = _sides(groups, len(names), policy)
    return SplitGenomes([sides[i] for i in range(len(names))], cluster)


def near_clusters(differences: Sequence[Sequence[Difference]], max_differences: int) -> list[int]:
    """Return for each genome the first genome of its group under single linkage."""
    # Compiled code is loaded where it is used: definitions import this module.
    from genolewm_assets.mito.genomes.split_kernels import link_near

    first = np.arange(len(differences))
    for entries in _COUNTS:
        link_near(first, *_encoded(map(entries, differences)), max_differences)
    return first.tolist()


def least_distance(differences: Sequence[Sequence[Difference]], split: Sequence[Split]) -> int | None:
    """Return the fewest differences between two genomes of different sides; None with one side.

    Every such pair is counted to the end, which :func:`near_clusters` does not do.
    """
    from genolewm_assets.mito.genomes.split_kernels import least_difference

    sides = np.array([list(Split).index(side) for side in split], dtype=np.int64)
    found = [least_difference(*_encoded(map(entries, differences)), sides) for entries in _COUNTS]
    return None if min(found) < 0 else int(min(found))


def _events(genome: Iterable[Difference]) -> _Entries:
    """Return what is at each place, an insertion or deletion once, where it ends.

    Runs of one unit that differ in length so have one entry each, at one place: ``309d``, ``308-309d``, ``309.1C``.
    """
    found: _Entries = {}
    for d in genome:
        place = 2 * d.end - (d.start < d.end and d.bases != "")
        size, bases = found.get(place, (0, ""))
        found[place] = size + d.end - d.start, bases + d.bases
    return found


def _bases(genome: Iterable[Difference]) -> _Entries:
    """Return what is at each base of the reference, and what is inserted behind it."""
    found: _Entries = {}
    for d in genome:
        if d.start == d.end:
            found[2 * d.end] = 0, d.bases
        found |= {2 * base - 1: (1, d.bases) for base in range(d.start + 1, d.end + 1)}
    return found


#: Two genomes are as far apart as the lesser count says: deletions that overlap are many events of few bases.
_COUNTS = (_events, _bases)


def _encoded(genomes: Iterable[_Entries]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where each genome's entries begin, their places (rising within a genome) and numbers of what is there."""
    codes: dict[tuple[int, str], int] = {}
    offsets, places, values = array("q", [0]), array("q"), array("q")
    for entries in genomes:
        for place, (size, bases) in sorted(entries.items()):
            places.append(place)
            known = not bases.strip("ACGT")
            values.append(codes.setdefault((size, bases), len(codes) + 1) if known else _UNKNOWN)
        offsets.append(len(places))
    return np.array(offsets), np.array(places), np.array(values)


def _groups(names: Sequence[str], cluster: Sequence[int], branches: Sequence[str | None]) -> dict[_Group, list[int]]:
    """Return genomes that may not be parted, by a name that does not depend on the order of genomes."""
    links: list[tuple[int | str, int | str]] = [
        (first, first if branch is None else branch) for first, branch in zip(cluster, branches, strict=True)
    ]
    group, members = connect(links), defaultdict(list)
    for genome, first in enumerate(cluster):
        members[group[first]].append(genome)
    return {
        min(((b, True) for i in m if (b := branches[i]) is not None), default=(min(names[i] for i in m), False)): m
        for m in members.values()
    }


def _sides(groups: dict[_Group, list[int]], n_genomes: int, policy: SplitPolicy) -> dict[int, Split]:
    room = {
        Split.TEST: math.ceil(policy.test * n_genomes),
        Split.VALIDATION: math.ceil(policy.validation * n_genomes),
        Split.TRAIN: n_genomes,
    }
    sides = {}
    for group in sorted(
        groups, key=lambda group: (hashlib.sha256(f"{policy.seed}:{group[0]}".encode()).digest(), group)
    ):
        side = next(side for side, left in room.items() if len(groups[group]) <= left)
        room[side] -= len(groups[group])
        sides.update(dict.fromkeys(groups[group], side))
    return sides
