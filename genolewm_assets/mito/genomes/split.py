"""Divide genomes into training, validation and test so that near copies, and by default relatives, share a split.

Genomes at most ``max_differences`` apart are one group (single linkage), and by default all of a haplogroup.
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

#: Code of an ambiguous base, which differs from no other base.
_UNKNOWN = -1

#: Differences by position key, which rises along the circle: number of reference bases replaced, and their replacement.
_Entries: TypeAlias = dict[int, tuple[int, str]]


#: Name of a group, and whether it is the name of a haplogroup: a genome may also be called H.
_Group: TypeAlias = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class SplitPolicy:
    """Parameters of the division of genomes into splits.

    Raises
    ------
    ConfigurationError
        If the shares leave nothing for training, or a value is negative.
    """

    #: Two genomes with at most this many differences share a split. Each insertion or deletion counts once, or base by
    #: base, whichever total is less; ambiguous bases do not count. Differences are compared by name, so a pair whose
    #: runs end at different positions (309T 310C and 315.1C) may have one or two more than the minimum.
    max_differences: int = 10
    #: Largest share of the genomes in validation, 0 to 1, rounded up to whole genomes. The actual share is smaller if
    #: groups are too large to fit.
    validation: float = 0.1
    #: The same for test.
    test: float = 0.1
    #: If true, each haplogroup (its letter; L0 to L6) stays in one split, so that validation and test are branches that
    #: training does not contain. If false, only near copies stay together.
    by_haplogroup: bool = True
    #: Seed of the random order in which groups are assigned.
    seed: int = 0

    def __post_init__(self) -> None:
        # Written so that NaN, which compares as false, is caught too.
        for name in ("max_differences", "validation", "test"):
            if not (value := getattr(self, name)) >= 0:
                raise ConfigurationError(name, "out of range", expected="at least 0", got=f"{value}")
        if not (taken := self.validation + self.test) < 1:
            raise ConfigurationError(
                "validation", "leaves nothing for training", expected="with test under 1", got=f"{taken:g}"
            )


@dataclass(frozen=True, slots=True)
class SplitGenomes:
    """Split of each genome, and the index of the first genome of its group of near copies, its own if it has none."""

    split: list[Split]
    cluster: list[int]


def split_genomes(
    names: Sequence[str],
    differences: Sequence[Sequence[Difference]],
    haplogroups: Sequence[str | None],
    policy: SplitPolicy,
) -> SplitGenomes:
    """Divide genomes into splits; the split of a genome does not depend on the order of genomes.

    ``names`` are unique, ``differences`` from the reference sorted; a genome with the haplogroup None is grouped with
    its near copies only.
    """
    cluster = near_clusters(differences, policy.max_differences)
    groups = _groups(names, cluster, majors(haplogroups) if policy.by_haplogroup else [None] * len(names))
    splits = _assign_splits(groups, len(names), policy)
    return SplitGenomes([splits[i] for i in range(len(names))], cluster)


def near_clusters(differences: Sequence[Sequence[Difference]], max_differences: int) -> list[int]:
    """Return the index of the first genome of each genome's group; pairs with few enough differences are linked."""
    # Compiled code is imported where it is used, because the asset definitions import this module.
    from genolewm_assets.mito.genomes.split_kernels import link_near

    first = np.arange(len(differences))
    for entries in _COUNTS:
        link_near(first, *_encoded(map(entries, differences)), max_differences)
    return first.tolist()


def near_pairs(
    differences: Sequence[Sequence[Difference]], split: Sequence[Split], *, limit: int, most: int
) -> tuple[int | None, list[tuple[int, int, int]]]:
    """Return the fewest differences between two genomes of different splits, and the pairs with at most ``limit``.

    None if there is only one split. The pairs, at most ``most``, are two indices and the number of differences, sorted.
    """
    from genolewm_assets.mito.genomes.split_kernels import least_difference

    sides = np.array([list(Split).index(side) for side in split], dtype=np.int64)
    found, pairs = [], dict[tuple[int, int], int]()
    for entries in _COUNTS:
        near = np.full((most, 3), -1, dtype=np.int64)
        found.append(least_difference(*_encoded(map(entries, differences)), sides, limit, near))
        for one, other, n in near[near[:, 0] >= 0].tolist():
            pairs[one, other] = min(n, pairs.get((one, other), n))
    nearest = [(one, other, n) for (one, other), n in sorted(pairs.items())[:most]]
    return None if min(found) < 0 else int(min(found)), nearest


def _events(genome: Iterable[Difference]) -> _Entries:
    """Return one entry per difference; the key of an insertion or deletion is its end.

    Runs of one base that differ in length therefore have one entry each, at the same key.
    """
    found: _Entries = {}
    for d in genome:
        key = 2 * d.end - (d.start < d.end and d.bases != "")
        size, bases = found.get(key, (0, ""))
        found[key] = size + d.end - d.start, bases + d.bases
    return found


def _bases(genome: Iterable[Difference]) -> _Entries:
    """Return one entry per replaced or deleted base of the reference, and one per insertion."""
    found: _Entries = {}
    for d in genome:
        if d.start == d.end:
            found[2 * d.end] = 0, d.bases
        found |= {2 * base - 1: (1, d.bases) for base in range(d.start + 1, d.end + 1)}
    return found


#: The distance of two genomes is the lesser of the two counts. The second is less, for example, if deletions overlap.
_COUNTS = (_events, _bases)


def _encoded(genomes: Iterable[_Entries]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the entries of genomes as int64 arrays: offsets, rising keys by genome, codes (-1: ambiguous base)."""
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
    """Return the indices of genomes that must share a split, by the first of their haplogroups or of their names."""
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


def _assign_splits(groups: dict[_Group, list[int]], n_genomes: int, policy: SplitPolicy) -> dict[int, Split]:
    """Assign every group, in hashed order, to the first of test, validation and training with room for it."""
    room = {
        Split.TEST: math.ceil(policy.test * n_genomes),
        Split.VALIDATION: math.ceil(policy.validation * n_genomes),
        Split.TRAIN: n_genomes,
    }
    splits = {}
    for group in sorted(
        groups, key=lambda group: (hashlib.sha256(f"{policy.seed}:{group[0]}".encode()).digest(), group)
    ):
        split = next(split for split, left in room.items() if len(groups[group]) <= left)
        room[split] -= len(groups[group])
        splits.update(dict.fromkeys(groups[group], split))
    return splits
