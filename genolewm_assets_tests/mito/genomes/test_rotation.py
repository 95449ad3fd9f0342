from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import SequenceError
from genolewm_assets.genome import reverse_complement
from genolewm_assets.mito.genomes.rotation import canonical_rotation

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


def test_real_genomes_have_one_whatever_the_cut(real_genomes: list[str]) -> None:
    for at, genome in enumerate(real_genomes):
        turned = genome[at * 400 + 1 :] + genome[: at * 400 + 1]
        assert canonical_rotation(reverse_complement(turned)) == canonical_rotation(genome)
    assert len({canonical_rotation(genome) for genome in real_genomes}) == len(set(real_genomes)) == 40


def test_one_base_all_round_and_no_base() -> None:
    assert canonical_rotation("T" * 16_569) == "A" * 16_569
    assert canonical_rotation("") == ""


@pytest.mark.parametrize("foreign", ["-", "X", "\ufffd"])
def test_other_symbols_are_refused(foreign: str) -> None:
    with pytest.raises(SequenceError):
        canonical_rotation(f"ACG{foreign}T")
