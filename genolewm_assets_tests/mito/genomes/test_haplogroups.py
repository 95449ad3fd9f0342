"""Branches of the tree: each is reached by what defines it and what leads to it, and by nothing less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from genolewm_assets.mito.genomes.differences import Difference
from genolewm_assets.mito.genomes.haplogroups import _ROOT, _Branch, _branch, call_branch, majors


def _paths(branch: _Branch, *before: _Branch) -> Iterator[tuple[_Branch, ...]]:
    yield (*before, branch)
    for inner in branch.branches:
        yield from _paths(inner, *before, branch)


_PATHS = list(_paths(_ROOT))


def _sites(*branches: _Branch) -> dict[int, str]:
    """Return what branches have at each 1-based position; of two states of one the later."""
    return {pos: base for branch in branches for first, last, base in branch.states for pos in range(first, last + 1)}


def _differences(sites: dict[int, str]) -> list[Difference]:
    return [Difference(pos - 1, pos, base.strip("d")) for pos, base in sorted(sites.items())]


@pytest.fixture(scope="module")
def nowhere() -> dict[int, str]:
    """Return at every position that a branch looks at a base that no branch has there."""
    states = defaultdict(set)
    for path in _PATHS:
        for pos, base in _sites(path[-1]).items():
            states[pos].add(base)
    return {pos: next(base for base in "ACGT" if base not in known) for pos, known in states.items()}


@pytest.mark.parametrize("path", _PATHS, ids=lambda path: path[-1].name)
def test_a_branch_is_reached_by_its_states_and_those_that_lead_to_it(
    path: tuple[_Branch, ...], nowhere: dict[int, str]
) -> None:
    circle = "N" * 16_569
    states = {**nowhere, **_sites(*path)}

    assert call_branch(_differences(states), circle) == path[-1].name
    for lost in _sites(*path[-1:]) if len(path) > 1 else ():
        # One back mutation of four is forgiven; where a branch has fewer states, all have to be there.
        expected = path[-1].name if len(path[-1].states) >= 4 else path[-2].name
        assert call_branch(_differences({**states, lost: nowhere[lost]}), circle) == expected, lost


def test_the_tree_names_each_branch_once() -> None:
    names = [path[-1].name for path in _PATHS]
    assert len(set(names)) == len(names) == 34


@pytest.mark.parametrize("state", ["16189", "C16189", "16189X", "8281-d"])
def test_a_state_that_cannot_be_read_is_not_passed_over(state: str) -> None:
    with pytest.raises(ValueError, match=f"got '{state}'"):
        _branch("X", f"73G {state}")


def test_an_unknown_base_neither_makes_nor_breaks_a_branch(rcrs: str) -> None:
    # rCRS is H, which 2706A 7028C 11719G 14766C define.
    unknown = [Difference(place, place + 1, "N") for place in (2_705, 7_027)]
    lost = [Difference(place, place + 1, "T") for place in (2_705, 7_027)]

    beside = [Difference(place, place + 1, "T") for place in (2_704, 2_706, 7_026, 7_028)]

    assert call_branch(unknown, rcrs) == "H"
    assert call_branch(lost, rcrs) == "HV"
    assert call_branch(beside, rcrs) == "H"


def test_majors_are_the_letter_and_the_digit_after_an_l() -> None:
    assert majors(["H2a2a1", "HV0", "L0d1", "M7b", "", "?", None]) == ["H", "H", "L0", "M", None, None, None]
