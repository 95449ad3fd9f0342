from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from genolewm_assets.errors import AlleleError, EditError, IntervalError, ReferenceMismatchError
from genolewm_assets.genome import (
    EditSpec,
    EditType,
    LengthPolicy,
    RelEdit,
    apply_edit,
    apply_edits,
    is_inset,
    reverse_complement,
    reverse_complement_edit,
)
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import edit_lists, sequences

POLICIES: list[LengthPolicy] = ["right_flank", "left_flank", "opposite"]
MIRROR = dict(zip(POLICIES, ("left_flank", "right_flank", "opposite"), strict=True))
FLANK = 40
flanks = st.text("ACGT", min_size=FLANK, max_size=FLANK)
windows = sequences(24, 150)

WINDOW = "ACGTTGCAACGGTTAACCGGTCATGCATTACG"
LEFT, RIGHT = "GATTACA", "CCTAGGT"


def edited_haplotype(window: str, edits: tuple[RelEdit, ...]) -> str:
    """Rebuild the edited sequence base by base, left to right: the plain referee."""
    out, at = [], 0
    for edit in sorted(edits, key=lambda e: e.rel_pos):
        out += [window[at : edit.rel_pos], edit.alt]
        at = edit.rel_pos + len(edit.ref)
    return "".join([*out, window[at:]])


@given(st.data(), windows, flanks, flanks, st.sampled_from(POLICIES))
def test_edited_window_is_a_cut(data: st.DataObject, window: str, left: str, right: str, policy: LengthPolicy) -> None:
    edits = data.draw(edit_lists(window))
    edited = apply_edits(window, edits, right_flank=right, left_flank=left, policy=policy)
    haplotype = left + edited_haplotype(window, edits) + right
    change = len(haplotype) - len(left + window + right)
    assert len(edited.sequence) == len(window)
    assert edited.left_flank + edited.sequence + edited.right_flank == haplotype
    assert edited.length_change == change
    assert edited.frame_shift == change % 6
    assert edited.edits == tuple(sorted(edits))
    if policy == "right_flank":
        assert (edited.left_flank, edited.origin_shift) == (left, 0)
    if policy == "left_flank":
        assert (edited.right_flank, edited.origin_shift) == (right, -change)
    first = edited.edits[0].rel_pos
    start = len(edited.left_flank) + edited.origin_shift
    assert haplotype[start : start + first] == window[:first]


@given(st.data(), windows, flanks, flanks, st.sampled_from(POLICIES))
def test_reverse_complement_commutes_with_applying(
    data: st.DataObject, window: str, left: str, right: str, policy: LengthPolicy
) -> None:
    edits = data.draw(edit_lists(window))
    centred = min(e.rel_pos for e in edits) + max(e.rel_end for e in edits) == len(window)
    assume(not (policy == "opposite" and centred))
    edited = apply_edits(window, edits, right_flank=right, left_flank=left, policy=policy)
    mirrored = [reverse_complement_edit(edit, len(window)) for edit in edits]
    flanks = {"right_flank": reverse_complement(left), "left_flank": reverse_complement(right)}
    turned = apply_edits(reverse_complement(window), mirrored, policy=MIRROR[policy], **flanks)
    assert turned.sequence == reverse_complement(edited.sequence)
    assert turned.left_flank == reverse_complement(edited.right_flank)
    assert turned.right_flank == reverse_complement(edited.left_flank)
    assert turned.length_change == edited.length_change


def test_bases_inserted_behind_the_window_are_refused() -> None:
    behind = RelEdit(31, WINDOW[31], WINDOW[31] + "GGGG")
    with pytest.raises(EditError, match="behind the last base of the window"):
        apply_edit(WINDOW, behind, right_flank=RIGHT)
    assert apply_edit(WINDOW, RelEdit(31, WINDOW[31], WINDOW[31]), right_flank=RIGHT).sequence == WINDOW
    shown = apply_edit(WINDOW, behind, right_flank="", left_flank=LEFT, policy="left_flank")
    assert shown.sequence == WINDOW[4:] + "GGGG"


@pytest.mark.parametrize(
    ("rel_pos", "sequence"), [(14, WINDOW[:15] + WINDOW[17:] + RIGHT[:2]), (15, LEFT[-2:] + WINDOW[:16] + WINDOW[18:])]
)
def test_opposite_policy_keeps_the_near_side(rel_pos: int, sequence: str) -> None:
    edit = RelEdit(rel_pos, WINDOW[rel_pos : rel_pos + 3], WINDOW[rel_pos])
    edited = apply_edit(WINDOW, edit, right_flank=RIGHT, left_flank=LEFT, policy="opposite")
    assert edited.sequence == sequence


@each_row("policy", ["right_flank", "left_flank"])
@each_row("flank", ["", "CC", "CCN", "NCC"])
def test_flank_that_cannot_give_is_an_error(policy: LengthPolicy, flank: str) -> None:
    edit = RelEdit(0, WINDOW[:4], WINDOW[0])
    side = "left" if policy == "left_flank" else "right"
    with pytest.raises(EditError, match=f"the {side} flank cannot replace the deleted bases: expected 3 ACGT bases"):
        apply_edit(WINDOW, edit, right_flank=flank, left_flank=flank, policy=policy)


def test_only_the_bases_pulled_must_be_known() -> None:
    edit = RelEdit(0, WINDOW[:3], WINDOW[0])
    assert apply_edit(WINDOW, edit, right_flank="CCN").right_flank == "N"
    assert apply_edit(WINDOW, edit, right_flank="", left_flank="NCC", policy="left_flank").left_flank == "N"


def test_ref_that_differs_from_the_window_is_an_error() -> None:
    with pytest.raises(ReferenceMismatchError, match=r"edit 0:T>A: ref .* expected 'A', got 'T'"):
        apply_edit(WINDOW, RelEdit(0, "T", "A"), right_flank=RIGHT)


@each_row("rel_pos", [31, 32, 400])
def test_edit_that_leaves_the_window_is_an_error(rel_pos: int) -> None:
    with pytest.raises(EditError, match="reaches past the end of the window: expected an end of at most 32"):
        apply_edit(WINDOW, RelEdit(rel_pos, "GA", "G"), right_flank=RIGHT)
    with pytest.raises(EditError, match="reaches past the end of the window"):
        reverse_complement_edit(RelEdit(rel_pos, "GA", "G"), 32)


def test_edits_need_a_token_between_them() -> None:
    def snv(rel_pos: int) -> RelEdit:
        return RelEdit(rel_pos, WINDOW[rel_pos], "A" if WINDOW[rel_pos] != "A" else "C")

    apply_edits(WINDOW, [snv(10), snv(3)], right_flank="")
    for second in (3, 4, 9):
        with pytest.raises(EditError, match=f"expected at least 6 bases between them, got {second - 4}"):
            apply_edits(WINDOW, [snv(second), snv(3)], right_flank="")


@each_row(
    ("rel_pos", "ref", "alt", "inside"),
    [
        *((63, "A", "C", False), (64, "A", "C", True), (12_223, "A", "C", True), (12_224, "A", "C", False)),
        *((12_222, "AC", "A", True), (12_223, "AC", "A", False), (12_222, "A", "AC", True)),
        (12_223, "A", "AC", False),
    ],
)
def test_inset_counts_both_sides_and_both_alleles(rel_pos: int, ref: str, alt: str, inside: bool) -> None:
    edit = RelEdit(rel_pos, ref, alt)
    assert is_inset(edit, 12_288) is inside


@given(st.integers(0, 10**8), st.integers(0, 12_287))
def test_relative_and_absolute_are_inverse(window_start: int, rel_pos: int) -> None:
    relative = RelEdit(rel_pos, "A", "AC")
    absolute = relative.absolute("chr17", window_start)
    assert absolute == EditSpec("chr17", window_start + rel_pos + 1, "A", "AC")
    assert absolute.relative_to(window_start) == relative
    assert (relative.rel_end, relative.length_change, relative.kind) == (rel_pos + 1, 1, EditType.INS)


def test_edit_left_of_the_window_is_an_error() -> None:
    spec = EditSpec("chr17", 101, "A", "C")
    assert spec.relative_to(100).rel_pos == 0
    with pytest.raises(EditError, match="starts left of the window: expected rel_pos >= 0, got -1"):
        spec.relative_to(101)


def test_alleles_of_edits_are_upper_cased_and_checked() -> None:
    assert EditSpec("chr1", 5, "a", "c") == EditSpec("chr1", 5, "A", "C")
    with pytest.raises(AlleleError):
        EditSpec("chr1", 5, "A", "")
    with pytest.raises(IntervalError):
        EditSpec("chr1", 0, "A", "C")
    with pytest.raises(AlleleError):
        RelEdit(5, "", "A")
