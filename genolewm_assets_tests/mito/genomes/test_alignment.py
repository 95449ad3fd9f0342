"""Genomes laid along the circle: planted differences come back by name, whatever the cut, the strand or the place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from genolewm_assets.errors import InputError
from genolewm_assets.genome import reverse_complement
from genolewm_assets.mito.genomes.alignment import AlignedGenome, CircularAligner
from genolewm_assets.mito.genomes.differences import Difference, names_of
from genolewm_assets_tests.rows import each_row

_PLACEHOLDER = 3106
_RNG = np.random.default_rng(11)
_BASES = "".join("ACGT"[code] for code in _RNG.integers(0, 4, 16_569))
CIRCLE = _BASES[:_PLACEHOLDER] + "N" + _BASES[_PLACEHOLDER + 1 :]


@pytest.fixture(scope="module")
def aligner() -> CircularAligner:
    return CircularAligner(CIRCLE)


@pytest.fixture(scope="module")
def rcrs_aligner(rcrs: str) -> CircularAligner:
    return CircularAligner(rcrs)


def _edited(reference: str, *edits: tuple[int, int, str]) -> str:
    """Replace 0-based half-open stretches, right to left, and drop the placeholder."""
    for start, end, bases in sorted(edits, reverse=True):
        reference = reference[:start] + bases + reference[end:]
    return reference.replace("N", "")


# In the reference of the field: what is planted (0-based) and the names it has to get.
_PLANTED = {
    "one more C after 309": ([(302, 302, "C")], ["309.1C"]),
    "two more C after 309": ([(305, 305, "CC")], ["309.1C", "309.2C"]),
    "one more C after 315": ([(310, 310, "C")], ["315.1C"]),
    "both tracts": ([(303, 303, "C"), (312, 312, "C")], ["309.1C", "315.1C"]),
    "a transition that joins the tracts": ([(16_188, 16_189, "C")], ["16189C"]),
    "the same, and one C more": ([(16_188, 16_189, "CC")], ["16189C", "16193.1C"]),
    "the first copy of the 9-bp repeat": ([(8_271, 8_280, "")], ["8281-8289d"]),
    "9 bp between the copies": ([(8_275, 8_284, "")], ["8281-8289d"]),
    "three in the tract": ([(16_181, 16_183, "CC"), (16_188, 16_189, "C")], ["16182C", "16183C", "16189C"]),
    "a CA less": ([(513, 515, "")], ["523-524d"]),
    "a CA more": ([(513, 513, "CA")], ["524.1A", "524.2C"]),
    "one base less": ([(248, 249, "")], ["249d"]),
    "another base where there is a C": ([(3_105, 3_106, "T")], ["3106T"]),
    "a base at the placeholder": ([(3_106, 3_107, "C")], ["3106.1C"]),
}


@each_row("what", _PLANTED)
def test_planted_differences_have_the_names_of_the_field(rcrs: str, rcrs_aligner: CircularAligner, what: str) -> None:
    edits, names = _PLANTED[what]
    genome = _edited(rcrs, *edits)
    aligned = rcrs_aligner.align(genome, where=what)
    assert names_of(aligned.differences) == names
    behind = aligned.placement.coordinates > 16_300
    assert aligned.placement.sequence.endswith(rcrs[16_301:])
    assert aligned.placement.coordinates[behind].tolist() == list(range(16_301, 16_569))


@each_row(("lost", "names"), [((-2, 3), ["1-3d", "16568-16569d"]), ((0, 4), ["1-4d"]), ((-4, 0), ["16566-16569d"])])
def test_deletions_at_the_origin(aligner: CircularAligner, lost: tuple[int, int], names: list[str]) -> None:
    first, last = lost
    genome = CIRCLE[max(last, 0) : len(CIRCLE) + min(first, 0)].replace("N", "")
    aligned = aligner.align(genome, where="genome")
    assert names_of(aligned.differences) == names
    assert aligned.placement.coordinates[100] == 100 + max(last, 0)


def test_an_insertion_at_the_origin_follows_the_last_base_whichever_end_shows_it(aligner: CircularAligner) -> None:
    # Neither end of the inserted bases repeats a neighbour: CIRCLE begins and ends otherwise.
    added = next(a + b for a in "ACGT" for b in "ACGT" if a != CIRCLE[0] and b != CIRCLE[-1] and a != b)
    at_end, at_start, parted = CIRCLE + added, added + CIRCLE, added[1] + CIRCLE + added[0]
    found = [aligner.align(genome.replace("N", ""), where="genome") for genome in (at_end, at_start, parted)]
    assert {tuple(names_of(f.differences)) for f in found} == {(f"16569.1{added[0]}", f"16569.2{added[1]}")}
    assert {f.placement.sequence for f in found} == {at_end.replace("N", "")}
    assert found[0].placement.coordinates[-3:].tolist() == [16_568] * 3
    assert found[0].placement.insertion[-3:].tolist() == [0, 1, 2]


def _moved_3_prime(turned: str, start: int, size: int, added: str) -> tuple[int, str]:
    """Return where an event that begins at ``start`` ends up: one step at a time, while the whole genome stays."""
    while True:
        here = turned[:start] + added + turned[start + size :]
        longer = added[1:] + turned[start] if added else ""
        if turned[: start + 1] + longer + turned[start + 1 + size :] != here:
            return start, added
        start, added = start + 1, longer


@st.composite
def _events(draw: st.DrawFn) -> list[tuple[int, int, str]]:
    # 60 bases apart, so that no two can be told as one.
    places = draw(st.lists(st.integers(0, 16_568 // 60 - 1), min_size=1, max_size=12, unique=True))
    events = []
    for place in places:
        start = 60 * place + draw(st.integers(0, 30))
        kind = draw(st.sampled_from("sid"))
        if start <= _PLACEHOLDER <= start + 12:
            continue
        if kind == "s":
            events.append((start, 1, draw(st.sampled_from([b for b in "ACGT" if b != CIRCLE[start]]))))
        else:
            size = draw(st.integers(1, 9))
            added = draw(st.text("ACGT", min_size=size, max_size=size))
            events.append((start, 0, added) if kind == "i" else (start, size, ""))
    return events


@settings(max_examples=60, deadline=None)
@given(events=_events(), cut=st.integers(0, 16_000), is_reversed=st.booleans())
def test_any_events_come_back_whatever_the_cut_and_the_strand(
    aligner: CircularAligner, events: list[tuple[int, int, str]], cut: int, is_reversed: bool
) -> None:
    # Away from the origin, where the plain shift above would need a circle of its own.
    events = [(start, size, added) for start, size, added in events if 100 < start < 16_400]
    genome = _edited(CIRCLE, *((start, start + size, added) for start, size, added in events))
    turned = genome[cut % len(genome) :] + genome[: cut % len(genome)]
    expected = []
    for start, size, added in events:
        if size and added:
            expected.append(Difference(start, start + 1, added))
        else:
            at, bases = _moved_3_prime(CIRCLE, start, size, added)
            expected.append(Difference(at, at + size, bases))
    aligned = aligner.align(reverse_complement(turned) if is_reversed else turned, where="genome")
    assert aligned.differences == tuple(sorted(expected))
    assert aligned.is_reversed == is_reversed
    assert aligned.placement.sequence == genome
    assert (turned + turned)[aligned.first_base :].startswith(genome)
    _assert_bases_are_where_they_belong(CIRCLE, aligned)


def _assert_bases_are_where_they_belong(reference: str, aligned: AlignedGenome) -> None:
    replaced = {d.start: d.bases for d in aligned.differences if d.bases and d.end > d.start}
    inserted = {d.start: d.bases for d in aligned.differences if d.end == d.start}
    sequence, coordinates, insertion = aligned.placement
    seen = set()
    for base, place, nth in zip(sequence, coordinates.tolist(), insertion.tolist(), strict=True):
        assert (place, nth) not in seen
        seen.add((place, nth))
        assert base == (inserted[place + 1][nth - 1] if nth else replaced.get(place, reference[place]))


@pytest.mark.slow
def test_every_base_of_a_real_genome_has_a_place(
    rcrs: str, rcrs_aligner: CircularAligner, real_genomes: list[str]
) -> None:
    assert len(real_genomes) == 40
    for number, genome in enumerate(real_genomes):
        aligned = rcrs_aligner.align(genome, where=f"genome {number}")
        assert aligned.placement.sequence == genome
        assert 3_106 not in aligned.placement.coordinates.tolist()
        _assert_bases_are_where_they_belong(rcrs, aligned)
        cut = 997 * number % len(genome)
        turned = aligner_input = genome[cut:] + genome[:cut]
        if number % 2:
            aligner_input = reverse_complement(turned)
        assert rcrs_aligner.align(aligner_input, where="turned").differences == aligned.differences


def test_rcrs_has_no_difference_with_or_without_its_placeholder(rcrs: str, rcrs_aligner: CircularAligner) -> None:
    aligned = rcrs_aligner.align(rcrs, where="rCRS")
    assert (aligned.differences, aligned.placeholders, aligned.placement.sequence) == ((), (3_107,), rcrs)
    assert aligned.placement.coordinates.tolist() == list(range(16_569))
    without = rcrs_aligner.align(rcrs.replace("N", ""), where="rCRS")
    assert (without.differences, without.placeholders) == ((), ())


@each_row(("start", "end"), [(3_105, 3_108), (3_106, 3_120), (3_090, 3_107), (3_000, 3_160)])
def test_n_over_the_placeholder_shift_nothing(rcrs: str, rcrs_aligner: CircularAligner, start: int, end: int) -> None:
    genome = rcrs[:start] + "N" * (end - start) + rcrs[end:]
    aligned = rcrs_aligner.align(genome, where="genome")
    assert names_of(aligned.differences) == [f"{pos}N" for pos in range(start + 1, end + 1) if pos != 3_107]
    assert aligned.placement.coordinates.tolist() == list(range(16_569))


def test_of_a_reference_with_a_run_of_placeholders_none_is_a_difference() -> None:
    # As RSRS has at 523 and 524.
    reference = f"{_BASES[:1_500]}NN{_BASES[1_502:4_000]}"
    aligned = CircularAligner(reference).align(reference, where="genome")
    assert (aligned.differences, aligned.placeholders) == ((), (1_501, 1_502))
    assert aligned.placement.coordinates.tolist() == list(range(4_000))


def test_rsrs_is_converted_by_alignment(rcrs: str, rcrs_aligner: CircularAligner) -> None:
    # RSRS keeps rCRS's numbering by N at 523, 524 and 3,107 (Behar et al. 2012); these are some of its other bases.
    names = ["73G", "146C", "152C", "195C", "247A", "263G", "523N", "524N", "769A", "825A", "1018A", "2706G"]
    rsrs = list(rcrs)
    for name in names:
        rsrs[int(name[:-1]) - 1] = name[-1]
    aligned = rcrs_aligner.align("".join(rsrs), where="RSRS")
    assert names_of(aligned.differences) == names
    assert aligned.placement.coordinates.tolist() == list(range(16_569))


def test_ambiguous_bases_are_stated_as_they_are(aligner: CircularAligner) -> None:
    genome = _edited(CIRCLE, (500, 501, "R"), (900, 902, "YY"))
    assert names_of(aligner.align(genome, where="genome").differences) == ["501R", "901Y", "902Y"]


@each_row(
    "genome",
    [
        "".join("ACGT"[code] for code in np.random.default_rng(3).integers(0, 4, 16_569)),
        CIRCLE[:8_000] + reverse_complement(CIRCLE[8_000:]),
        "ACGT",
        "",
    ],
    ids=["another species", "half of it turned round", "four bases", "nothing"],
)
def test_what_does_not_align_is_refused(aligner: CircularAligner, genome: str) -> None:
    with pytest.raises(InputError, match="genome 7: does not align"):
        aligner.align(genome.replace("N", ""), where="genome 7")


def test_a_large_deletion_is_one(aligner: CircularAligner) -> None:
    genome = CIRCLE[:8_481] + CIRCLE[13_458:]
    at, _ = _moved_3_prime(CIRCLE, 8_481, 4_977, "")
    assert names_of(aligner.align(genome.replace("N", ""), where="genome").differences) == [f"{at + 1}-{at + 4_977}d"]


@pytest.mark.parametrize("lost_bp", [-1_000, 1_000])
def test_a_large_gap_beside_the_cut_is_found(aligner: CircularAligner, lost_bp: int) -> None:
    # Every 300 bases one is another, so that the cut is in the middle of 299 shared ones, 150 from the gap.
    codes = [base if place % 300 else "ACGT"["TGCA".index(base)] for place, base in enumerate(_BASES)]
    codes[6_590:6_615] = _BASES[6_590:6_615]
    genome = "".join(codes)
    genome = genome[:6_660] + genome[6_660 + lost_bp :]
    gaps = [d for d in aligner.align(genome, where="genome").differences if d.end - d.start != 1 or not d.bases]
    assert [max(d.end - d.start, len(d.bases)) for d in gaps if d.start != _PLACEHOLDER] == [1_000]


@each_row("cut", [0, 5_000, 9_000, 13_000])
@each_row("is_reversed", [False, True])
def test_of_equal_scores_one_is_chosen_whatever_the_cut(aligner: CircularAligner, cut: int, is_reversed: bool) -> None:
    # Of two copies in a row, either may be the one that is inserted.
    genome = _edited(CIRCLE, (700, 700, CIRCLE[500:560] + "T" + CIRCLE[561:700]), (640, 641, "C"), (530, 531, "N"))
    turned = genome[cut:] + genome[:cut]
    turned = reverse_complement(turned) if is_reversed else turned
    aligned = aligner.align(turned, where="genome")
    assert aligned.differences == aligner.align(genome, where="genome").differences
    assert aligned.is_reversed == is_reversed


def test_a_reference_without_bases_is_refused() -> None:
    with pytest.raises(InputError, match="too short"):
        CircularAligner("N" * 1_000)


@njit  # type: ignore[misc]
def _best_score(ref: NDArray[np.uint8], query: NDArray[np.uint8], band: int) -> int:
    """Return the best global score of two sequences near the diagonal (Gotoh 1982), with the aligner's scores."""
    low = -(10**9)
    n = len(query)
    best = np.full(n + 1, low)
    deletion, deletion_2 = np.full(n + 1, low), np.full(n + 1, low)
    for j in range(min(n, band) + 1):
        best[j] = 0 if j == 0 else max(-9 - 3 * j, -24 - j)
    for i in range(1, len(ref) + 1):
        first = max(1, i - band)
        before = best[first - 1]
        best[first - 1] = max(-9 - 3 * i, -24 - i) if first == 1 else low
        insertion = insertion_2 = low
        for j in range(first, min(n, i + band) + 1):
            deletion[j] = max(deletion[j] - 3, best[j] - 12)
            deletion_2[j] = max(deletion_2[j] - 1, best[j] - 25)
            insertion = max(insertion - 3, best[j - 1] - 12)
            insertion_2 = max(insertion_2 - 1, best[j - 1] - 25)
            here = before + (1 if ref[i - 1] == query[j - 1] else -9)
            before = best[j]
            best[j] = max(here, deletion[j], deletion_2[j], insertion, insertion_2)
    return best[n]


@pytest.mark.slow
def test_no_other_alignment_scores_better(rcrs: str, rcrs_aligner: CircularAligner, real_genomes: list[str]) -> None:
    bases = rcrs.replace("N", "")
    ref = np.frombuffer(bases.encode(), dtype=np.uint8)
    for genome in real_genomes:
        score = len(bases)
        for d in rcrs_aligner.align(genome, where="genome").differences:
            size = len(d.bases) or d.end - d.start
            if d.bases and d.end > d.start:
                score -= 10
            else:
                score -= min(9 + 3 * size, 24 + size) + (0 if d.bases else size)
        # minimap2 has nothing better to offer than a plain dynamic programme.
        assert score == _best_score(ref, np.frombuffer(genome.encode(), dtype=np.uint8), 64)
