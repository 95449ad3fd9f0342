"""Names of differences, and genomes laid out from them."""

from __future__ import annotations

import pytest

from genolewm_assets.errors import InputError
from genolewm_assets.mito.genomes.differences import Difference, lay_out, names_of, parse_names

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


@pytest.mark.parametrize("name", ["C309", "309.C", "309.0C", "0A", "", "8281-8289", "309+C", "309c"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="genome 3: not the name of a difference"):
        parse_names([name], where="genome 3")


def test_misnumbered_insertions_are_refused() -> None:
    with pytest.raises(InputError, match=r"misnumbered: expected 309\.1 onwards, got 309\.2, 309\.3"):
        parse_names(["309.2C", "309.3C"], where="genome 3")


@pytest.mark.parametrize(
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
