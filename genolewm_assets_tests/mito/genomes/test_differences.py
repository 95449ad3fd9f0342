"""Names of differences, genomes laid out from them, branches of the tree, and genomes that do not align."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import InputError, SequenceError
from genolewm_assets.genome import reverse_complement
from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.genomes.differences import Difference, lay_out, names_of, parse_names
from genolewm_assets.mito.genomes.haplogroups import _ROOT, _Branch, _branch, call_branch, majors
from genolewm_assets.mito.genomes.records import GenomeRecord
from genolewm_assets.mito.genomes.rotation import canonical_rotation
from genolewm_assets.mito.genomes.table import place_genomes
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.mito.genome_world import GENOMES, QC, REFERENCE, chimera

_CIRCLE = "GATCNCAGGT"


def test_names_are_1_based_and_insertions_have_one_for_each_base() -> None:
    differences = [Difference(8, 8, "CT"), Difference(1, 2, "G"), Difference(2, 3, ""), Difference(5, 8, "")]
    names = names_of(differences)
    assert names == ["2G", "3d", "6-8d", "8.1C", "8.2T"]
    assert parse_names(names, where="genome") == tuple(sorted(differences))


def test_a_genome_is_laid_out_base_by_base() -> None:
    placement = lay_out(_CIRCLE, parse_names(["2G", "3d", "7.1C", "7.2T", "10.1A"], where="genome"))
    assert placement.sequence == "GGCCACTGGTA"
    assert placement.coordinates.tolist() == [0, 1, 3, 5, 6, 6, 6, 7, 8, 9, 9]
    assert placement.insertion.tolist() == [0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1]
    assert (placement.coordinates.dtype, placement.insertion.dtype) == ("int32", "int16")


def test_the_placeholder_is_a_base_only_where_it_is_stated() -> None:
    assert lay_out(_CIRCLE, []).sequence == "GATCCAGGT"
    assert lay_out(_CIRCLE, [Difference(4, 5, "N")]).sequence == _CIRCLE
    inserted = lay_out(_CIRCLE, [Difference(4, 4, "T")])
    assert (inserted.sequence, inserted.coordinates.tolist()[3:6]) == ("GATCTCAGGT", [3, 3, 5])
    assert lay_out(_CIRCLE, [Difference(3, 6, "")]).coordinates.tolist() == [0, 1, 2, 6, 7, 8, 9]


def test_an_insertion_after_a_deletion_follows_the_position_it_names() -> None:
    placement = lay_out(_CIRCLE, [Difference(5, 8, ""), Difference(8, 8, "AC")])
    assert placement.sequence == "GATCACGT"
    assert placement.coordinates.tolist() == [0, 1, 2, 3, 7, 7, 8, 9]
    assert placement.insertion.tolist() == [0, 0, 0, 0, 1, 2, 0, 0]


@each_row("name", ["C309", "309.C", "309.0C", "0A", "", "8281-8289", "309+C", "309c"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="genome 3: not the name of a difference"):
        parse_names([name], where="genome 3")


def test_misnumbered_insertions_are_refused() -> None:
    with pytest.raises(InputError, match=r"misnumbered: expected 309\.1 onwards, got 309\.2, 309\.3"):
        parse_names(["309.2C", "309.3C"], where="genome 3")


@each_row(
    "differences",
    [
        [Difference(2, 5, ""), Difference(4, 5, "A")],
        [Difference(9, 11, "")],
        [Difference(0, 0, "A")],
        [Difference(3, 3, "A"), Difference(3, 3, "C")],
    ],
    ids=["overlapping", "past the end", "before the first base", "two at one place"],
)
def test_impossible_differences_are_refused(differences: list[Difference]) -> None:
    with pytest.raises(InputError, match="overlaps the difference before it or extends beyond the reference"):
        lay_out(_CIRCLE, differences)


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
def test_a_branch_is_reached_by_its_own_and_inherited_states(
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


@each_row("state", ["16189", "C16189", "16189X", "8281-d"])
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


def test_a_chimera_takes_up_neither_a_name_nor_a_circle() -> None:
    whole = GENOMES[0].spell()
    given = [("h1", chimera()), ("h1", whole), ("twin", chimera()), ("h1", whole)]
    records = [GenomeRecord(name, "", seq, None, "a.fa", number) for number, (name, seq) in enumerate(given, start=1)]
    found = place_genomes(records, CircularAligner(REFERENCE), QC)
    assert [(genome.record.name, genome.record.number) for genome in found.genomes] == [("h1", 2)]
    rejected = {each.number: each.reason for each in found.rejected}
    assert rejected == {1: "not_alignable", 3: "not_alignable", 4: "duplicate_name"}


# Few letters and periods of any size make ties that last; sixteen bases are compared at once.
CIRCLES = st.builds(
    lambda unit, times, tail: unit * times + tail,
    st.text("AC", min_size=1, max_size=20) | st.text("ABCDGHKMNRSTVWY", min_size=1, max_size=40),
    st.integers(1, 6),
    st.text("ACT", max_size=3),
)


def spellings(circle: str) -> set[str]:
    strands = (circle, reverse_complement(circle))
    return {strand[at:] + strand[:at] for strand in strands for at in range(len(strand))}


@given(CIRCLES)
def test_it_is_the_least_of_all_spellings(circle: str) -> None:
    assert canonical_rotation(circle) == min(spellings(circle))


@given(CIRCLES, st.data())
def test_every_spelling_has_it_and_no_other_circle(circle: str, data: st.DataObject) -> None:
    same = data.draw(st.sampled_from(sorted(spellings(circle))))
    assert canonical_rotation(same) == canonical_rotation(circle)
    other = data.draw(CIRCLES)
    assert (canonical_rotation(other) == canonical_rotation(circle)) == (other in spellings(circle))


def test_one_base_all_round_and_no_base() -> None:
    assert canonical_rotation("T" * 16_569) == "A" * 16_569
    assert canonical_rotation("") == ""


@each_row("foreign", ["-", "X", "\ufffd"])
def test_other_symbols_are_refused(foreign: str) -> None:
    with pytest.raises(SequenceError):
        canonical_rotation(f"ACG{foreign}T")
