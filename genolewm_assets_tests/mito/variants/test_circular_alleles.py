from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from genolewm_assets.errors import AlleleError, IntervalError, ReferenceMismatchError
from genolewm_assets.genome import Variant, normalise
from genolewm_assets.mito.variants.circular_alleles import (
    ChangedBase,
    changed_bases,
    move_right_on_circle,
    normalise_on_circle,
)
from genolewm_assets_tests.referees.bcftools import bcftools_norm, read_alleles, write_fasta
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import circular_genomes, sequences, variants


def key(variant: Variant) -> tuple[int, str, str]:
    return variant.pos, variant.ref, variant.alt


def turned(reference: str, by: int) -> str:
    return reference[by:] + reference[:by]


def spliced(variant: Variant, reference: str) -> str:
    """Apply an allele to the circle, written from the allele's first base on."""
    line = turned(reference, variant.pos - 1)
    assert line.startswith(variant.ref)
    return variant.alt + line[len(variant.ref) :]


def least_turn(circle: str) -> str:
    return min(turned(circle, i) for i in range(len(circle)))


def cut_open(variant: Variant, reference: str, cut: int) -> str | None:
    """Apply an allele to the line that begins at base ``cut``; None where the allele reads across the cut."""
    start = (variant.pos - 1 - cut) % len(reference)
    line = turned(reference, cut)
    end = start + len(variant.ref)
    return None if end > len(line) else line[:start] + variant.alt + line[end:]


def same_haplotypes(alleles: Sequence[Variant], reference: str) -> list[int]:
    """Number the haplotypes of alleles: two are one if they are, on a line that neither reads across, or by others."""
    group = list(range(len(alleles)))

    def root(i: int) -> int:
        while group[i] != i:
            i = group[i]
        return i

    for cut in range(len(reference)):
        first: dict[str, int] = {}
        for i, allele in enumerate(alleles):
            line = cut_open(allele, reference, cut)
            if line is not None:
                group[root(i)] = root(first.setdefault(line, i))
    return [root(i) for i in range(len(alleles))]


def every_allele(reference: str, *, longest_ref: int, longest_alt: int) -> Iterable[Variant]:
    alts = ["".join(bases) for size in range(1, longest_alt + 1) for bases in itertools.product("AC", repeat=size)]
    for start, size, alt in itertools.product(range(len(reference)), range(1, longest_ref + 1), alts):
        ref = turned(reference, start)[:size]
        if alt != ref:
            yield Variant("chrM", start + 1, ref, alt)


@st.composite
def on_circle(draw: st.DrawFn) -> tuple[str, Variant]:
    """Return a circle that repeats nothing all the way round, and an allele of it that may read across the origin."""
    reference = draw(sequences(26, 60).filter(lambda bases: (bases + bases).find(bases, 1) == len(bases)))
    origin = draw(st.integers(0, len(reference) - 1))
    found = draw(variants(turned(reference, origin), chrom="chrM"))
    return reference, Variant("chrM", (found.pos - 1 + origin) % len(reference) + 1, found.ref, found.alt)


@each_row(
    ("reference", "longest_ref", "longest_alt"),
    [
        ("AACAC", 3, 3),
        ("AAACA", 3, 3),
        ("CACAAAC", 3, 3),
        ("AAAA", 2, 4),
        ("ACACAC", 3, 3),
        ("AAC", 2, 7),
        ("AC", 1, 7),
    ],
)
def test_equal_haplotypes_have_one_key_and_others_two(reference: str, longest_ref: int, longest_alt: int) -> None:
    """All alleles of a few bases: keys part them as their haplotypes do, on periodic and very short circles too."""
    alleles = list(every_allele(reference, longest_ref=longest_ref, longest_alt=longest_alt))
    keys = [key(normalise_on_circle(allele, reference.encode())) for allele in alleles]
    haplotypes = same_haplotypes(alleles, reference)
    by_key, by_haplotype = defaultdict(set), defaultdict(set)
    for its_key, haplotype in zip(keys, haplotypes, strict=True):
        by_key[its_key].add(haplotype)
        by_haplotype[haplotype].add(its_key)
    assert [its_key for its_key, found in by_key.items() if len(found) > 1] == []
    assert [found for found in by_haplotype.values() if len(found) > 1] == []


@given(on_circle())
def test_normal_form_spells_the_same_circle_and_is_its_own(case: tuple[str, Variant]) -> None:
    reference, variant = case
    normal = normalise_on_circle(variant, reference.encode())
    assert 1 <= normal.pos <= len(reference)
    assert normalise_on_circle(normal, reference.encode()) == normal
    assert least_turn(spliced(normal, reference)) == least_turn(spliced(variant, reference))


@given(on_circle(), st.integers(0, 59))
def test_a_turned_circle_turns_its_keys(case: tuple[str, Variant], by: int) -> None:
    reference, variant = case
    by %= len(reference)

    def moved(allele: Variant) -> Variant:
        return Variant(allele.chrom, (allele.pos - 1 - by) % len(reference) + 1, allele.ref, allele.alt)

    for form in (normalise_on_circle, move_right_on_circle):
        assert form(moved(variant), turned(reference, by).encode()) == moved(form(variant, reference.encode()))


@given(st.data())
def test_away_from_the_origin_the_form_is_the_linear_one(data: st.DataObject) -> None:
    reference = data.draw(circular_genomes(min_size=12))
    variant = data.draw(variants(reference.replace("N", "A")))
    assume(reference.startswith(variant.ref, variant.pos - 1))
    linear = normalise(variant, reference.encode())
    circular = normalise_on_circle(variant, reference.encode())
    if linear.pos > 1 or len(linear.ref) == len(linear.alt):
        assert circular == linear
    else:
        assert circular.pos <= len(reference)


@given(on_circle())
def test_moved_right_and_back_again(case: tuple[str, Variant]) -> None:
    reference, variant = case
    right = move_right_on_circle(variant, reference.encode())
    assert normalise_on_circle(right, reference.encode()) == normalise_on_circle(variant, reference.encode())
    if right.ref[0] == right.alt[0]:
        event = max(right.ref, right.alt, key=len)[1:]
        assert (spliced(right, reference) + right.alt)[len(right.alt)] != event[0]


def spelt_from(changes: Iterable[ChangedBase], reference: str) -> str:
    """Return the circle that has these bases, without the reference's placeholder."""
    bases = {(place, 0): base.strip("N") for place, base in enumerate(reference)}
    bases |= {(place, nth): base for place, nth, base in changes}
    return "".join(base for _, base in sorted(bases.items()))


@given(on_circle(), st.integers(0, 59))
def test_changed_bases_spell_the_allele_also_over_a_placeholder(case: tuple[str, Variant], placeholder: int) -> None:
    reference, variant = case
    placeholder %= len(reference)
    reference = f"{reference[:placeholder]}N{reference[placeholder + 1 :]}"
    ref = turned(reference, variant.pos - 1)[: len(variant.ref)]
    changes = changed_bases(Variant("chrM", variant.pos, ref, variant.alt), reference.encode())

    allele = variant.alt + turned(reference, variant.pos - 1)[len(ref) :]
    assert least_turn(spelt_from(changes, reference)) == least_turn(allele.replace("N", ""))
    assert len({(place, nth) for place, nth, _ in changes}) == len(changes)
    assert not any(place == placeholder and (nth or base) for place, nth, base in changes)


@each_row(
    ("pos", "ref", "alt", "changes"),
    [
        (9, "A", "G", [(8, 0, "G")]),
        (10, "N", "C", [(8, 1, "C")]),
        (9, "AN", "GCT", [(8, 0, "G"), (8, 1, "C"), (8, 2, "T")]),
        (9, "ANG", "CCCC", [(8, 0, "C"), (8, 1, "C"), (0, 0, "C"), (0, 1, "C")]),
        (9, "AN", "A", [(9, 0, "")]),
        (10, "N", "NC", [(8, 1, "C")]),
        (7, "CTA", "GC", [(6, 0, "G"), (7, 0, "C"), (8, 0, "")]),
    ],
)
def test_changed_bases_by_name(pos: int, ref: str, alt: str, changes: list[tuple[int, int, str]]) -> None:
    assert list(changed_bases(Variant("chrM", pos, ref, alt), b"GATTCCCTAN")) == changes


@each_row(
    ("pos", "ref", "alt", "normal"),
    [
        # G ATTC CCCT A
        (1, "G", "CG", (9, "A", "AC")),  # inserted before base 1
        (9, "AGA", "A", (8, "TAG", "T")),  # bases 1 and 2 deleted, or 9 and 1
        (1, "GAT", "T", (8, "TAG", "T")),
        (9, "AG", "A", (9, "AG", "A")),  # base 1 deleted
        (1, "GA", "A", (9, "AG", "A")),
        (1, "G", "AG", (8, "T", "TA")),  # rolls through the origin, past base 9
        (1, "G", "A", (1, "G", "A")),
        (9, "AG", "AT", (1, "G", "T")),
        (8, "TAGA", "CAGC", (8, "TAGA", "CAGC")),
        (7, "C", "CC", (4, "T", "TC")),
    ],
)
def test_normal_forms_round_the_origin(pos: int, ref: str, alt: str, normal: tuple[int, str, str]) -> None:
    assert key(normalise_on_circle(Variant("chrM", pos, ref, alt), b"GATTCCCTA")) == normal


@each_row(
    ("pos", "ref", "alt", "error", "message"),
    [
        (10, "A", "C", IntervalError, "chrM:10: pos is beyond the circle: expected 1 to 9, got 10"),
        (9, "AGATTCCCTA", "A", AlleleError, "ref is longer than the circle: expected up to 9 bases, got 10"),
        (9, "AC", "A", ReferenceMismatchError, "chrM:9: ref allele differs from the reference: expected 'AG', got "),
    ],
)
def test_alleles_that_no_circle_can_have(pos: int, ref: str, alt: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        normalise_on_circle(Variant("chrM", pos, ref, alt), b"GATTCCCTA")


def test_named_places_on_rcrs(rcrs: str) -> None:
    """Poly-C runs and the 9-bp repeat: left-most for keys, 3' for names."""
    bases = rcrs.encode()
    for pos, ref, alt, left, right in [
        (309, "C", "CC", (302, "A", "AC"), (309, "C", "CC")),
        (315, "C", "CC", (310, "T", "TC"), (315, "C", "CC")),
        (8280, "ACCCCCTCTA", "A", (8270, "CACCCCCTCT", "C"), (8280, "ACCCCCTCTA", "A")),
        (16569, "G", "GG", (16568, "T", "TG"), (1, "G", "GG")),
    ]:
        variant = Variant("chrM", pos, ref, alt)
        assert key(normalise_on_circle(variant, bases)) == left
        assert key(move_right_on_circle(variant, bases)) == right


def test_nothing_passes_the_placeholder_of_rcrs(rcrs: str) -> None:
    bases = rcrs.encode()
    assert rcrs[3104:3110] == "ACNTTC"
    assert key(normalise_on_circle(Variant("chrM", 3109, "T", "TT"), bases)) == (3107, "N", "NT")
    assert key(normalise_on_circle(Variant("chrM", 3107, "N", "NC"), bases)) == (3107, "N", "NC")
    assert key(move_right_on_circle(Variant("chrM", 3106, "C", "CC"), bases)) == (3106, "C", "CC")
    assert key(normalise_on_circle(Variant("chrM", 3106, "CN", "C"), bases)) == (3106, "CN", "C")


@pytest.mark.slow
def test_real_alleles_equal_bcftools_norm(shared_data: Path, rcrs: str, tmp_path: Path) -> None:
    """18,164 of gnomAD and 2,749 of ClinVar (one more changes nothing); and the same from another origin."""
    files = ["gnomad/release/3.1/vcf/genomes/gnomad.genomes.v3.1.sites.chrM.vcf.bgz"]
    files += ["clinvar/vcf_GRCh38/clinvar_20220525.chrM.vcf.gz"]
    alleles = [allele for file in files for allele in read_alleles(shared_data / file)]
    assert len(alleles) == 18_164 + 2_749
    theirs = bcftools_norm(write_fasta(tmp_path / "chrM.fa", {"chrM": rcrs}), alleles, tmp_path)
    ours = [normalise_on_circle(Variant(*allele), rcrs.encode()) for allele in alleles]
    assert [(each.chrom, *key(each)) for each in ours] == theirs
    rotated = turned(rcrs, 8_000).encode()
    back = [normalise_on_circle(Variant(c, (p - 8_001) % 16_569 + 1, r, a), rotated) for c, p, r, a in alleles]
    assert [(each.pos + 7_999) % 16_569 + 1 for each in back] == [each.pos for each in ours]
