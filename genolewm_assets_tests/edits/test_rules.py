from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import given

from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.rules import EditRules, Redraw, SamplingRules
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.genome import RelEdit, apply_edits
from genolewm_assets.states.pooling import Pooling, TupleKind
from genolewm_assets_tests.strategies import sequences
from genolewm_assets_tests.worlds.lewm.stream_world import (
    make_window,
    no_alleles,
    simulate_reference,
)

REFERENCE = simulate_reference()
NONE_HELD = AlleleIndex.of(no_alleles())


_SIDES, _BLOCK_TOKENS = st.sampled_from(["both", "right"]), st.sampled_from([1, 7, 64])
poolings = st.builds(Pooling, st.sampled_from(TupleKind), st.integers(0, 300), _SIDES, _BLOCK_TOKENS)


def first_difference(window: WindowRecord, edit: RelEdit) -> int:
    """Return the first base of the haplotype with this edit alone that is not the window's, base by base."""
    unedited = window.sequence + window.right_flank
    haplotype = unedited[: edit.rel_pos] + edit.alt + unedited[edit.rel_end :]
    return next(at for at in range(len(unedited)) if haplotype[at : at + 1] != unedited[at])


def pooled_tokens(pooling: Pooling, locus: int, n_tokens: int) -> set[int]:
    """Return the pooled tokens by the rule itself: every block that has a token in the neighbourhood of the locus."""
    near = {
        token
        for token in range(n_tokens)
        if pooling.kind is TupleKind.GLOBAL
        or (0 if pooling.side == "right" else -pooling.radius_tokens) <= token - locus <= pooling.radius_tokens
    }
    blocks = {token // pooling.block_tokens for token in near}
    return {token for token in range(n_tokens) if token // pooling.block_tokens in blocks}


@given(sequence=sequences(200, 300), data=st.data())
def test_the_first_difference_of_an_edit_is_found_in_repeats(sequence, data):
    window = WindowRecord("0" * 32, "x", sequence, "", "ACGTTGCA" * 4)
    at = data.draw(st.integers(0, len(sequence) - 10))
    ref = sequence[at : at + data.draw(st.integers(1, 9))]
    alt = data.draw(st.sampled_from([ref[:1], ref + ref, ref + "A", "T"]).filter(lambda alt: alt != ref))
    edit = RelEdit(at, ref, alt)
    assert EditPlace(window).first_difference(edit) == first_difference(window, edit)


def test_the_first_difference_of_a_deletion_in_a_repeat_is_at_its_end():
    """The deletion stands in block 1, its repeat ends in block 3: the pooled span of the SNV must reach block 3."""
    bases = REFERENCE[300:900].decode() + "CA" * 300 + REFERENCE[9_000:9_600].decode()
    window = WindowRecord("0" * 32, "x", bases, "C" * 256, "G" * 256)
    place = EditPlace(window)
    deletion = place.normal_form(RelEdit(700, "CAC", "C"))
    assert deletion.rel_pos < 605
    assert place.first_difference(deletion) >= 1_198
    snv = RelEdit(500, bases[500], "ACGT".replace(bases[500], "")[0])
    outcomes = {}
    for radius in (60, 120):
        rules = EditRules(SamplingRules(pooling=Pooling(radius_tokens=radius)), NONE_HELD)
        outcomes[radius] = rules.apply(place, (snv, deletion))
    assert outcomes[60] is Redraw.OUTSIDE_POOLED
    assert outcomes[120].locus_bp == 500


@given(block_tokens=st.sampled_from([1, 7, 64]), deleted=st.integers(1, 40), over=st.integers(-3, 3))
def test_all_that_one_of_several_edits_deletes_is_pooled(block_tokens, deleted, over):
    """A deletion may end at the last pooled base and no later; alone, it may be longer than the span."""
    bases = REFERENCE[300:3_372].decode()
    place = EditPlace(WindowRecord("0" * 32, "x", bases, "C" * 256, "G" * 256))
    rules = EditRules(SamplingRules(pooling=Pooling(radius_tokens=100, block_tokens=block_tokens)), NONE_HELD)
    end = 6 * (max(pooled_tokens(rules.limits.pooling, 500 // 6, 512)) + 1)
    at = end + over - deleted - 1
    deletion = place.normal_form(RelEdit(at, bases[at : at + deleted + 1], bases[at]))
    snv = RelEdit(500, bases[500], "ACGT".replace(bases[500], "")[0])
    outcome = rules.apply(place, (snv, deletion))
    if deletion.rel_pos + len(deletion.ref) > end:
        assert outcome is Redraw.OUTSIDE_POOLED
    elif first_difference(place.window, deletion) < end:
        assert outcome.edited.edits == (snv, deletion)
    assert rules.apply(place, (deletion,)) is not Redraw.OUTSIDE_POOLED


@given(pooling=poolings, n_tokens=st.integers(1, 700), data=st.data())
def test_the_reach_of_edits_is_where_one_more_is_pooled_with_them(pooling, n_tokens, data):
    first = data.draw(st.integers(0, n_tokens - 1))
    last = data.draw(st.integers(first, pooling.tokens(first, n_tokens)[1] - 1))
    together = {
        token
        for token in range(n_tokens)
        if {first, last, token} <= pooled_tokens(pooling, min(first, token), n_tokens)
    }
    assert set(range(*pooling.reach(first, last, n_tokens))) == together


def test_a_sequence_that_is_taken_is_a_duplicate():
    window = make_window(REFERENCE, 5_000)
    edit = RelEdit(700, window.sequence[700], "ACGT".replace(window.sequence[700], "")[0])
    rules, place = EditRules(SamplingRules(), NONE_HELD), EditPlace(window)
    made = apply_edits(window.sequence, (edit,), right_flank=window.right_flank).sequence
    assert rules.apply(place, (edit,), {made}) is Redraw.DUPLICATE
    assert rules.apply(EditPlace(replace(window)), (edit,)).edited.sequence == made
