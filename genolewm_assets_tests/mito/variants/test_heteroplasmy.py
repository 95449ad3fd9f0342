from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import InputError
from genolewm_assets.genome import Variant
from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.genomes.differences import CirclePlacement, Difference, lay_out
from genolewm_assets.mito.variants.circular_alleles import normalise_on_circle
from genolewm_assets.mito.variants.heteroplasmy import CallDrop, HeteroplasmyCall, levels_of_genome
from genolewm_assets_tests.mito.judged import levels_on_reference
from genolewm_assets_tests.rows import each_row

#: 1-based: G1 A2 T3 T4 C5 C6 C7 T8 A9; base 10 is a placeholder.
CIRCLE = "GATTCCCTAN"
BASES = CIRCLE.encode()


def call(pos: int, ref: str, alt: str, level: float, state: str = "PASS", *, sample: str = "S1") -> HeteroplasmyCall:
    return HeteroplasmyCall(sample, pos, ref, alt, level, state)


def levels(genome: CirclePlacement, *calls: HeteroplasmyCall) -> list[float]:
    found, dropped = levels_of_genome(calls, BASES, genome)
    assert found.dtype == np.float32
    assert found.shape == (len(genome.sequence),)
    assert not dropped
    return [round(float(level), 6) for level in found]


def genome(*differences: Difference) -> CirclePlacement:
    return lay_out(CIRCLE, differences)


def changed(n_bases: int, **at: float) -> list[float]:
    """Return n zeros but for the bases ``b0``, ``b1``, ..."""
    found = [0.0] * n_bases
    for name, level in at.items():
        found[int(name[1:])] = level
    return found


REFERENCE = genome()


def test_without_calls_everything_is_homoplasmic() -> None:
    assert levels(REFERENCE) == [0.0] * 9
    assert levels_on_reference([], BASES)[0].tolist() == [0.0] * 10


def test_level_says_how_many_copies_differ_from_the_genomes_own_base() -> None:
    carried = genome(Difference(1, 2, "G"))
    assert levels(REFERENCE, call(2, "A", "G", 0.2)) == changed(9, b1=0.2)
    assert levels(carried, call(2, "A", "G", 0.9)) == changed(9, b1=0.1)
    assert levels(carried, call(2, "A", "G", 1.0)) == [0.0] * 9


def test_several_alternates_add_up_and_stop_at_one() -> None:
    calls = call(2, "A", "G", 0.2), call(2, "A", "T", 0.3), call(1, "GA", "GC", 0.1)
    assert levels(REFERENCE, *calls) == changed(9, b1=0.6)
    assert levels(genome(Difference(1, 2, "T")), *calls) == changed(9, b1=0.7)
    assert levels(REFERENCE, *calls, call(2, "AT", "GC", 0.8)) == changed(9, b1=1.0, b2=0.8)


def test_base_that_no_call_names_differs_in_the_copies_of_the_others() -> None:
    uncalled = genome(Difference(1, 2, "C"))
    assert levels(uncalled) == [0.0] * 9
    assert levels(uncalled, call(2, "A", "G", 0.3)) == changed(9, b1=0.3)
    assert levels(genome(Difference(1, 2, "R")), call(2, "A", "G", 0.4)) == changed(9, b1=0.4)


@each_row("spelt", [(4, "TC", "T"), (6, "CC", "C"), (5, "CCC", "CC"), (7, "CT", "T")])
def test_deletion_stands_where_names_put_it_however_it_is_spelt(spelt: tuple[int, str, str]) -> None:
    assert levels(REFERENCE, call(*spelt, 0.25)) == changed(9, b6=0.25)
    lacking = genome(Difference(6, 7, ""))
    assert lacking.sequence == "GATTCCTA"
    assert levels(lacking, call(*spelt, 0.75)) == changed(8, b5=0.25)


@each_row("spelt", [(4, "T", "TC"), (7, "C", "CC"), (6, "CC", "CCC")])
def test_insertion_is_of_its_base_where_carried_else_of_the_base_before(spelt: tuple[int, str, str]) -> None:
    assert levels(REFERENCE, call(*spelt, 0.25)) == changed(9, b6=0.25)
    carrying = genome(Difference(7, 7, "C"))
    assert carrying.sequence == "GATTCCCCTA"
    assert levels(carrying, call(*spelt, 0.875)) == changed(10, b7=0.125)


@pytest.mark.parametrize(("substituted", "inserted"), [(0.5, 0.25), (0.25, 0.5)])
def test_base_before_an_insertion_has_the_higher_of_both_levels(substituted: float, inserted: float) -> None:
    calls = [call(7, "C", "G", substituted), call(7, "C", "CC", inserted)]
    assert levels(REFERENCE, *calls) == levels(REFERENCE, *reversed(calls)) == changed(9, b6=0.5)


def test_longer_and_shorter_insertions_at_one_place() -> None:
    calls = call(7, "C", "CC", 0.5), call(7, "C", "CCC", 0.25)
    carrying = genome(Difference(7, 7, "CC"))
    assert levels(carrying, *calls) == changed(11, b7=0.25, b8=0.75)


def test_indels_at_the_origin() -> None:
    """Base 1 deleted, spelt across the origin; a base inserted before the first has the last one before it."""
    circle = CIRCLE.rstrip("N")
    full = lay_out(circle, [])
    for spelt in ((9, "AG", "A"), (1, "GA", "A")):
        found, _ = levels_of_genome([call(*spelt, 0.5)], circle.encode(), full)
        assert found.tolist() == changed(9, b0=0.5)
        without, _ = levels_of_genome([call(*spelt, 0.75)], circle.encode(), lay_out(circle, [Difference(0, 1, "")]))
        assert without.tolist() == changed(8, b7=0.25)
    found, _ = levels_of_genome([call(1, "G", "CG", 0.5)], circle.encode(), full)
    assert found.tolist() == changed(9, b8=0.5)


def test_placeholder_is_no_base() -> None:
    assert levels(REFERENCE, call(9, "AN", "A", 0.99)) == [0.0] * 9
    assert levels(REFERENCE, call(10, "N", "NC", 0.5)) == levels(REFERENCE, call(9, "A", "AC", 0.5))
    assert levels(REFERENCE, call(9, "A", "AC", 0.5)) == changed(9, b8=0.5)
    assert levels(genome(Difference(9, 9, "C")), call(10, "N", "NC", 0.75)) == changed(10, b9=0.25)
    # A caller that reads a base over it means one that is inserted, as alignment does.
    assert levels(genome(Difference(9, 9, "C")), call(10, "N", "C", 0.75)) == changed(10, b9=0.25)
    written = CirclePlacement(CIRCLE, np.arange(10, dtype=np.int32), np.zeros(10, dtype=np.int16))
    assert levels(written, call(9, "AN", "A", 0.99)) == [0.0] * 10


def test_order_of_a_genomes_bases_does_not_matter() -> None:
    turned = genome(Difference(7, 7, "C"))
    order = np.roll(np.arange(10), 4)
    bases = "".join(turned.sequence[i] for i in order)
    rolled = CirclePlacement(bases, turned.coordinates[order], turned.insertion[order])
    calls = call(7, "C", "CC", 0.9), call(1, "G", "A", 0.3), call(9, "AN", "CN", 0.2)
    assert levels(rolled, *calls) == [levels(turned, *calls)[i] for i in order]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from("ACGT"), st.floats(0, 1)), unique_by=lambda given: given[:2])
)
def test_substitutions_against_a_count_of_copies(given: list[tuple[int, str, float]]) -> None:
    given = [(pos, alt, level) for pos, alt, level in given if CIRCLE[pos - 1] != alt]
    expected = np.zeros(10)
    for pos, _, level in given:
        expected[pos - 1] += level
    found, dropped = levels_on_reference([call(p, CIRCLE[p - 1], alt, level) for p, alt, level in given], BASES)
    assert not dropped
    np.testing.assert_allclose(found, np.minimum(expected, 1), atol=1e-6)


def test_what_does_not_count_is_counted_by_reason() -> None:
    calls = [call(2, "A", "G", math.nan, "weak_evidence"), call(3, "T", "C", 0.5, "."), call(2, "AT", "AC", 0.5)]
    calls[1:1] = [call(2, "A", alt, 0.5) for alt in ("*", "<DEL>", "A", "R")]
    found, dropped = levels_on_reference(calls, BASES)
    assert found.tolist() == changed(10, b2=0.5)
    assert dropped == {CallDrop.FILTERED: 1, CallDrop.NOT_A_SEQUENCE: 4, CallDrop.DUPLICATE: 1}


def test_the_mean_of_levels_counts_whatever_their_order() -> None:
    calls = [call(3, "T", "C", 0.5, "."), call(2, "AT", "AC", 0.25)]
    for given_calls in (calls, calls[::-1]):
        found, dropped = levels_on_reference(given_calls, BASES)
        assert found.tolist() == changed(10, b2=0.375)
        assert dropped == {CallDrop.CONFLICTING_RECORDS: 1}


@each_row(
    ("wrong", "message"),
    [
        (call(2, "A", "G", 1.01), "sample 'S1', 2 A>G: heteroplasmy level out of range: expected 0 to 1, got 1.01."),
        (call(2, "A", "G", -0.1), "got -0.1"),
        (call(2, "A", "G", math.nan), "got nan"),
        (call(2, "C", "G", 0.5), "sample 'S1', 2 C>G: ref allele differs from the reference: expected 'A', got 'C'"),
        (call(11, "A", "G", 0.5), "sample 'S1', 11 A>G: pos is beyond the circle: expected 1 to 10, got 11"),
        (call(0, "A", "G", 0.5), "sample 'S1', 0 A>G: not a 1-based position"),
        (call(2, "A", "G", 0.5, sample="S2"), "are of two samples: expected 'S1', got 'S2'"),
    ],
)
def test_calls_that_cannot_be(wrong: HeteroplasmyCall, message: str) -> None:
    with pytest.raises(InputError) as caught:
        levels_on_reference([call(1, "G", "A", 0.1), wrong], BASES)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@each_row(
    ("coordinates", "insertion", "message"),
    [
        ([0, 1], [0, 0, 0], "not one place per base"),
        ([0, 1, 10], [0, 0, 0], "beyond the circle"),
        ([0, 1, 2], [0, 0, -1], "beyond the circle"),
        ([0, 1, 1], [0, 0, 0], "bases 1 and 2 .0-based. have the same place"),
    ],
)
def test_coordinates_that_cannot_be(coordinates: list[int], insertion: list[int], message: str) -> None:
    placed = CirclePlacement("GAT", np.array(coordinates, dtype=np.int32), np.array(insertion, dtype=np.int16))
    with pytest.raises(InputError, match=message):
        levels_of_genome([], BASES, placed)


def test_a_genome_without_bases() -> None:
    nothing = CirclePlacement("", np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int16))
    assert levels(nothing, call(2, "A", "G", 0.5)) == []


def test_poly_c_of_rcrs_meets_the_names_of_the_field(rcrs: str) -> None:
    """309.1C at 0.9, called as VCF writes it at 302; the 9-bp deletion at 0.75, called at 8270."""
    placed = lay_out(rcrs, [Difference(309, 309, "C"), Difference(8_280, 8_289, "")])
    calls = [call(302, "A", "AC", 0.875), call(8_270, "CACCCCCTCT", "C", 0.75), call(16_569, "G", "A", 0.5)]
    found, dropped = levels_of_genome(calls, rcrs.encode(), placed)
    assert not dropped
    assert found[309] == 0.125
    assert (int(placed.coordinates[309]), int(placed.insertion[309])) == (308, 1)
    before_gap = int(np.flatnonzero(placed.coordinates == 8_279)[0])
    assert np.flatnonzero(found).tolist() == [309, before_gap, len(placed.sequence) - 1]
    assert found[before_gap] == 0.25


@pytest.mark.nightly
def test_real_genomes_differ_from_themselves_where_they_differ_from_rcrs(rcrs: str, real_genomes: list[str]) -> None:
    """Call all that alignment finds at 0.875, left-aligned as VCF has it: 0.125 there and nowhere else."""
    aligner, bases = CircularAligner(rcrs), rcrs.encode()
    n_calls = 0
    for number, sequence in enumerate(real_genomes):
        aligned = aligner.align(sequence, where=f"genome {number}")
        placed = aligned.placement
        places = list(zip(placed.coordinates.tolist(), placed.insertion.tolist(), strict=True))
        calls, expected = [], np.zeros(len(sequence), dtype=np.float32)
        for start, end, inserted in ((each.start, each.end, each.bases) for each in aligned.differences):
            if rcrs[start:end] == "N":
                continue
            anchor = "" if end > start and inserted else rcrs[start - 1]
            spelt = Variant("chrM", start + 1 - len(anchor), anchor + rcrs[start:end], anchor + inserted)
            normal = normalise_on_circle(spelt, bases)
            calls.append(call(normal.pos, normal.ref, normal.alt, 0.875))
            if end > start:
                expected[max(i for i, place in enumerate(places) if place < (start + bool(inserted), 0))] = 0.125
            for n in range(1, len(inserted) + 1 if end == start else 1):
                expected[places.index((start - 1, n))] = 0.125
        found, dropped = levels_of_genome(calls, bases, placed)
        assert not dropped
        np.testing.assert_array_equal(found, expected)
        n_calls += len(calls)
    assert n_calls > 1_000
