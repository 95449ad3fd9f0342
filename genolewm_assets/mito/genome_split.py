"""Training, validation and test genomes, such that no genome has a near copy, or a relative, on another side.

Genomes at most ``max_differences`` apart hang together (single linkage), and so do, unless told otherwise, all of one
haplogroup. What hangs together stays together. Not here: haplogroups as such (``haplogroups``).
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.mito.differences import Difference
from genolewm_assets.mito.haplogroups import majors

#: Code of a base that is not known: it differs from nothing.
_UNKNOWN = -1


class GenomeSplit(StrEnum):
    """Sides of the split."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class SplitPolicy:
    """How genomes are divided.

    Parameters
    ----------
    max_differences
        Two genomes with at most so many differences stay on one side. An insertion or deletion counts once, an
        ambiguous base not at all.
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
        If the shares leave nothing for training.
    """

    max_differences: int = 10
    validation: float = 0.1
    test: float = 0.1
    by_haplogroup: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.validation, self.test) < 0 or self.validation + self.test >= 1 or self.max_differences < 0:
            raise ConfigurationError(
                "split of genomes",
                "impossible",
                expected="shares that add up to less than 1, max_differences of 0 or more",
                got=f"validation {self.validation}, test {self.test}, max_differences {self.max_differences}",
            )


@dataclass(frozen=True, slots=True)
class SplitGenomes:
    """One entry per genome: its side, and the first genome of the near copies that it belongs to."""

    split: list[GenomeSplit]
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
    from genolewm_assets.mito.split_kernels import link_near

    first: list[int] = link_near(*_encoded(differences), max_differences).tolist()
    return first


def least_distance(differences: Sequence[Sequence[Difference]], split: Sequence[GenomeSplit]) -> int | None:
    """Return the fewest positions at which two genomes of different sides differ, up to 255; None with one side.

    Counted base by base over whole genomes, not as :func:`near_clusters` does: a deletion of nine bases is nine here,
    an insertion one, an ambiguous base none.
    """
    from genolewm_assets.mito.split_kernels import least_difference

    codes: dict[tuple[int, str], int] = {}
    filled = [
        (genome, 2 * place + (d.start < d.end), _code(codes, min(1, d.end - d.start), d.bases))
        for genome, found in enumerate(differences)
        for d in found
        for place in range(d.start, max(d.end, d.start + 1))
    ]
    rows, places, values = np.array(filled, dtype=np.int64).reshape(-1, 3).T
    columns, column = np.unique(places, return_inverse=True)
    bases = np.zeros((len(differences), len(columns)), dtype=np.int16)
    bases[rows, column] = values
    least = least_difference(bases, np.array([list(GenomeSplit).index(side) for side in split], dtype=np.int64), 255)
    return None if least < 0 else int(least)


def _code(codes: dict[tuple[int, str], int], size: int, bases: str) -> int:
    """Return the number, from 1 on, of what a genome has instead of ``size`` reference bases."""
    return _UNKNOWN if bases.strip("ACGT") else codes.setdefault((size, bases), len(codes) + 1)


def _encoded(
    differences: Sequence[Sequence[Difference]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where each genome's entries begin, their places (rising within a genome) and what is there."""
    codes: dict[tuple[int, str], int] = {}
    offsets = np.cumsum([0, *map(len, differences)], dtype=np.int64)
    flat = [difference for genome in differences for difference in sorted(genome)]
    # An insertion and a substitution may begin at one base.
    places = np.array([2 * d.start + (d.end > d.start) for d in flat], dtype=np.int64)
    return offsets, places, np.array([_code(codes, d.end - d.start, d.bases) for d in flat], dtype=np.int64)


def _groups(names: Sequence[str], cluster: Sequence[int], branches: Sequence[str | None]) -> dict[str, list[int]]:
    """Return genomes that may not be parted, by a name that does not depend on the order of genomes."""
    root: dict[object, object] = {}

    def find(item: object) -> object:
        while root.setdefault(item, item) != item:
            item = root[item]
        return item

    for first, branch in zip(cluster, branches, strict=True):
        root[find(first)] = find(branch if branch is not None else first)
    members = defaultdict(list)
    for genome, first in enumerate(cluster):
        members[find(first)].append(genome)
    return {
        min((b for i in m if (b := branches[i]) is not None), default=min(names[i] for i in m)): m
        for m in members.values()
    }


def _sides(groups: dict[str, list[int]], n_genomes: int, policy: SplitPolicy) -> dict[int, GenomeSplit]:
    room = {
        GenomeSplit.TEST: math.ceil(policy.test * n_genomes),
        GenomeSplit.VALIDATION: math.ceil(policy.validation * n_genomes),
        GenomeSplit.TRAIN: n_genomes,
    }
    sides = {}
    for name in sorted(groups, key=lambda name: hashlib.sha256(f"{policy.seed}:{name}".encode()).digest()):
        side = next(side for side, left in room.items() if len(groups[name]) <= left)
        room[side] -= len(groups[name])
        sides.update(dict.fromkeys(groups[name], side))
    return sides
