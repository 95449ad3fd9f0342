from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.errors import EditError
from genolewm_assets.genome import (
    RelEdit,
    Variant,
    apply_edits,
    is_inset,
    normalise,
    pos_from_start,
    reverse_complement,
)
from genolewm_assets_tests.strategies import edit_lists, edits
from genolewm_assets_tests.worlds.lewm.stream_world import (
    CONTIG,
    WINDOW_BP,
    make_window,
    simulate_alleles,
    simulate_reference,
)

REFERENCE = simulate_reference()
START = 5_000
PLUS = EditPlace(make_window(REFERENCE, START))
MINUS = EditPlace(make_window(REFERENCE, START, strand="-"))


def on_genome(edit: RelEdit, place: EditPlace) -> Variant:
    """Spell a window's edit on the reference, then normalise it there: the referee."""
    ref, alt, at = edit.ref, edit.alt, edit.rel_pos
    if place is MINUS:
        ref, alt, at = reverse_complement(ref), reverse_complement(alt), WINDOW_BP - edit.rel_end
    return normalise(Variant(CONTIG, pos_from_start(START + at), ref, alt), REFERENCE)


@settings(max_examples=settings.default.max_examples * 5 // 2, deadline=None)
@given(st.sampled_from([PLUS, MINUS]), st.data())
def test_an_inset_edit_has_the_normal_form_of_the_whole_contig(place, data):
    edit = data.draw(edits(place.window.sequence))
    normal = place.normal_form(edit)
    reference_form = place.on_reference(normal)
    if not is_inset(normal, WINDOW_BP) or not is_inset(reference_form, WINDOW_BP):
        return
    spec, wanted = place.allele(reference_form), on_genome(edit, place)
    assert (spec.chrom, spec.pos, spec.ref, spec.alt) == (wanted.chrom, wanted.pos, wanted.ref, wanted.alt)
    assert place.normal_form(normal) == normal
    assert place.edit_of(spec.pos, spec.ref, spec.alt) == normal


@pytest.mark.parametrize("place", [PLUS, MINUS])
def test_alleles_of_the_reference_become_edits_of_the_window(place):
    table, found = simulate_alleles(REFERENCE, 3_000).to_pylist(), 0
    for row in table:
        edit = place.edit_of(row["pos"], row["ref"], row["alt"])
        inside = row["pos"] > START and row["pos"] - 1 + len(row["ref"]) <= START + WINDOW_BP
        assert (edit is not None) == inside
        if edit is None or not (is_inset(edit, WINDOW_BP) and is_inset(place.on_reference(edit), WINDOW_BP)):
            continue
        spec = place.allele(place.on_reference(edit))
        assert (spec.pos, spec.ref, spec.alt) == (row["pos"], row["ref"], row["alt"])
        found += 1
    assert found > 200


def test_an_allele_of_another_reference_is_no_edit():
    base = chr(REFERENCE[START + 100])
    other = "ACGT".replace(base, "")
    assert PLUS.edit_of(START + 101, base, other[0]) is not None
    assert PLUS.edit_of(START + 101, other[0], other[1]) is None


@pytest.mark.parametrize(
    ("place", "span"), [(PLUS, (START + 64, START + 100)), (MINUS, (START + WINDOW_BP - 100, START + WINDOW_BP - 64))]
)
def test_spans_on_the_reference(place, span):
    assert place.reference_span(64, 100) == (CONTIG, *span)


def test_a_window_without_a_place_has_no_alleles():
    place = EditPlace(make_window(REFERENCE, START, placed=False))
    assert not place.is_placed
    assert place.reference_span(64, 100) is None
    with pytest.raises(EditError, match="no place on the reference"):
        place.allele(RelEdit(100, "A", "C"))


@settings(max_examples=settings.default.max_examples * 6 // 5, deadline=None)
@given(st.data())
def test_joined_edits_make_the_haplotype_of_the_single_ones(data):
    window = PLUS.window
    several = tuple(sorted(data.draw(edit_lists(window.sequence))))
    change = sum(edit.length_change for edit in several)
    joined = PLUS.joined(several)
    if change < -len(window.right_flank):
        return
    one, many = (apply_edits(window.sequence, e, right_flank=window.right_flank) for e in ((joined,), several))
    assert one.sequence + one.right_flank == many.sequence + many.right_flank


@settings(max_examples=settings.default.max_examples * 6 // 5, deadline=None)
@given(st.sampled_from(["right_flank", "left_flank", "opposite"]), st.data())
def test_the_locus_is_the_first_base_that_differs(policy, data):
    window = PLUS.window
    several = data.draw(edit_lists(window.sequence))
    if abs(sum(edit.length_change for edit in several)) > 256:
        return
    flanks = {"right_flank": window.right_flank, "left_flank": window.left_flank}
    edited = apply_edits(window.sequence, several, policy=policy, **flanks)
    shift, first = edited.origin_shift, min(several).rel_pos
    wanted = None
    for at in range(first, WINDOW_BP):
        if 0 <= at + shift < WINDOW_BP and window.sequence[at] != edited.sequence[at + shift]:
            wanted = at
            break
    assert PLUS.locus_bp(edited) == wanted


def test_a_deletion_in_a_repeat_shows_where_the_repeat_ends():
    rng = np.random.default_rng(0)
    flank = "".join(rng.choice(list("ACGT"), 400))
    reference = (flank + "G" + "CA" * 300 + "T" + "".join(rng.choice(list("ACGT"), 4_000))).encode()
    place = EditPlace(make_window(reference, 300, window_bp=1_200))
    edit = place.normal_form(RelEdit(100 + 1 + 300, "CA" + "C", "C"))
    assert (edit.rel_pos, edit.ref, edit.alt) == (100, "GCA", "G")
    edited = apply_edits(place.window.sequence, (edit,), right_flank=place.window.right_flank)
    assert place.locus_bp(edited) == 101 + 598
