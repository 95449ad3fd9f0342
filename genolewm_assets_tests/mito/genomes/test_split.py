"""Splits of genomes: near copies and relatives stay on one side, whatever the order they come in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Split
from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.genomes.differences import Difference, parse_names
from genolewm_assets.mito.genomes.haplogroups import call_branch, is_rcrs, majors
from genolewm_assets.mito.genomes.split import SplitPolicy, near_clusters, near_pairs, split_genomes
from genolewm_assets_tests.rows import each_row

_ENTRY = st.builds(
    lambda start, size, base: Difference(start, start + size, base if size < 2 else "") if size + len(base) else None,
    st.integers(1, 12),
    st.integers(0, 3),
    st.sampled_from(["A", "C", "N", ""]),
)


@st.composite
def _genomes(draw: st.DrawFn) -> list[tuple[Difference, ...]]:
    genomes = []
    for _ in range(draw(st.integers(1, 9))):
        found: list[Difference] = []
        for entry in sorted(e for e in draw(st.lists(_ENTRY, max_size=6)) if e is not None):
            if not found or (entry.start >= found[-1].end and entry.start > found[-1].start):
                found.append(entry)
        genomes.append(tuple(found))
    return genomes


def _differing(one: dict[object, str], other: dict[object, str]) -> int:
    both = [(one.get(key, ""), other.get(key, "")) for key in one.keys() | other.keys()]
    return sum(a != b and "N" not in a + b for a, b in both)


def _plain_distance(one: tuple[Difference, ...], other: tuple[Difference, ...]) -> int:
    """Count with dictionaries of text: insertions and deletions once, where they end, and base by base; the lesser."""
    counts = []
    for by_base in (False, True):
        entries: list[dict[object, str]] = [{}, {}]
        for genome, found in zip((one, other), entries, strict=True):
            for d in genome:
                if d.start == d.end or (not d.bases and not by_base):
                    found[d.end, "indel"] = found.get((d.end, "indel"), "") + "-" * (d.end - d.start) + d.bases
                else:
                    found.update(dict.fromkeys(range(d.start, d.end), d.bases or "-"))
        counts.append(_differing(*entries))
    return min(counts)


@settings(max_examples=200, deadline=None)
@given(genomes=_genomes(), limit=st.integers(0, 4))
def test_clusters_are_single_linkage(genomes: list[tuple[Difference, ...]], limit: int) -> None:
    label = list(range(len(genomes)))
    for _ in genomes:
        for i, j in itertools.combinations(range(len(genomes)), 2):
            if _plain_distance(genomes[i], genomes[j]) <= limit:
                label[i] = label[j] = min(label[i], label[j])
    assert near_clusters(genomes, limit) == label


@settings(max_examples=100, deadline=None)
@given(
    genomes=_genomes(),
    order=st.randoms(use_true_random=False),
    branches=st.lists(st.sampled_from(["H1", "H2", "L3e", "M7", None]), min_size=9, max_size=9),
    policy=st.builds(
        SplitPolicy,
        max_differences=st.integers(0, 3),
        validation=st.sampled_from([0, 0.2]),
        test=st.sampled_from([0, 0.3]),
        by_haplogroup=st.booleans(),
        seed=st.integers(0, 3),
    ),
)
def test_relatives_stay_together_in_any_order(
    genomes: list[tuple[Difference, ...]], order: object, branches: list[str | None], policy: SplitPolicy
) -> None:
    names = [f"genome{i}" for i in range(len(genomes))]
    rows = list(zip(names, genomes, branches, strict=False))
    sides = {}
    for _ in range(2):
        found = split_genomes(*map(list, zip(*rows, strict=True)), policy)
        sides[tuple(row[0] for row in rows)] = dict(zip((row[0] for row in rows), found.split, strict=True))
        order.shuffle(rows)  # type: ignore[attr-defined]
    first, *others = sides.values()
    assert all(other == first for other in others)
    for (one, a, branch), (other, b, second) in itertools.combinations(rows, 2):
        if _plain_distance(a, b) <= policy.max_differences or (
            policy.by_haplogroup and branch is not None and majors([branch]) == majors([second])
        ):
            assert first[one] == first[other]
    for side, share in ((Split.TEST, policy.test), (Split.VALIDATION, policy.validation)):
        assert list(first.values()).count(side) <= np.ceil(share * len(rows))


def least(genomes: Sequence[Sequence[Difference]], sides: Sequence[Split]) -> int | None:
    return near_pairs(genomes, sides, limit=-1, most=0)[0]


@settings(max_examples=200, deadline=None)
@given(genomes=_genomes(), sides=st.lists(st.sampled_from(Split), min_size=9, max_size=9))
def test_the_audit_counts_every_pair_of_two_sides(genomes: list[tuple[Difference, ...]], sides: list[Split]) -> None:
    parted = [(a, b) for (a, x), (b, y) in itertools.combinations(zip(genomes, sides, strict=False), 2) if x != y]
    expected = min((_plain_distance(a, b) for a, b in parted), default=None)
    assert least(genomes, sides[: len(genomes)]) == expected


@each_row(
    ("one", "other", "distance"),
    [
        (["309d"], ["308-309d"], 1),
        (["309d"], ["309.1C", "309.2C"], 1),
        (["523-524d"], ["521-524d"], 1),
        (["8281-8289d"], [], 1),
        (["101-110d"], ["101-105d", "107-110d"], 1),
        (["101-110d"], ["101-105d", "106N", "107-110d"], 0),
        (["249d"], ["249C"], 1),
        (["4R"], [], 0),
    ],
)
def test_two_lengths_of_one_run_are_one_difference(one: list[str], other: list[str], distance: int) -> None:
    genomes = [parse_names(names, where="genome") for names in (one, other)]
    for limit in range(3):
        assert near_clusters(genomes, limit) == [0, 0 if distance <= limit else 1]
    assert least(genomes, [Split.TRAIN, Split.TEST]) == distance


def test_a_genome_may_have_the_name_of_a_haplogroup() -> None:
    names, branches = ["H", "x", "L2"], [None, "H1", "L2a"]
    genomes = [(Difference(place, place + 1, "A"),) for place in (10, 20, 30)]
    found = split_genomes(names, genomes, branches, SplitPolicy(max_differences=0))
    assert len(found.split) == 3


@each_row(
    "given",
    [
        *({"validation": 0.5, "test": 0.5}, {"validation": -0.1}, {"test": -0.1}, {"validation": float("nan")}),
        *({"test": float("nan")}, {"max_differences": -1}),
    ],
)
def test_shares_that_leave_no_training_and_other_impossible_policies_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=r"^(validation|test|max_differences): "):
        SplitPolicy(**given)  # type: ignore[arg-type]
    assert SplitPolicy(validation=0, test=0, max_differences=0).test == 0


@pytest.fixture(scope="module")
def real_differences(rcrs: str, real_genomes: list[str]) -> list[tuple[Difference, ...]]:
    aligner = CircularAligner(rcrs)
    return [aligner.align(genome, where="genome").differences for genome in real_genomes]


@pytest.mark.slow
@pytest.mark.parametrize("by_haplogroup", [True, False])
def test_no_real_genome_has_a_near_copy_on_another_side(
    rcrs: str, real_names: list[str], real_differences: list[tuple[Difference, ...]], by_haplogroup: bool
) -> None:
    branches = [call_branch(found, rcrs) for found in real_differences]
    for seed in range(8):
        policy = SplitPolicy(by_haplogroup=by_haplogroup, seed=seed)
        found = split_genomes(real_names, real_differences, branches, policy)
        one, other = (real_names.index(name) for name in ("HG01119", "HG01284"))
        assert (found.split[one], found.cluster[one]) == (found.split[other], found.cluster[other])
        assert set(found.split) == set(Split)
        assert (least(real_differences, found.split) or 0) > 10
        if by_haplogroup:
            sides = set(zip(majors(branches), found.split, strict=True))
            assert len(sides) == len(set(majors(branches))), "a haplogroup has one side"


# Branches that the samples' own tables of variants leave no doubt about.
_KNOWN = {
    "HG00356": "T", "HG00599": "B", "HG01119": "A", "HG01284": "A", "HG01597": "F", "HG01871": "M7", "HG02275": "C",
    "HG02508": "L2", "HG03160": "L3", "HG04026": "W", "NA12282": "J", "NA12874": "J", "NA18648": "D", "NA19210": "L1",
}  # fmt: skip


@pytest.mark.slow
def test_real_branches(rcrs: str, real_names: list[str], real_differences: list[tuple[Difference, ...]]) -> None:
    called = dict(zip(real_names, (call_branch(d, rcrs) for d in real_differences), strict=True))
    assert {name: called[name] for name in _KNOWN} == _KNOWN
    assert call_branch([], rcrs) == "H"
    assert is_rcrs(rcrs)
    assert not is_rcrs(rcrs[1:] + rcrs[0])
