"""Held-out alleles told by their bases: against brute force on text, and as a rule of sampling."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from genolewm_assets.edits import held_sequences, kmer_kernels
from genolewm_assets.edits.allele_index import AlleleIndex
from genolewm_assets.edits.held_sequences import HeldSequences
from genolewm_assets.edits.placed_edits import EditPlace
from genolewm_assets.edits.rules import EditRules, Redraw, SamplingRules
from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.genome import (
    RelEdit,
    Variant,
    encode_sequence,
    normalise,
    reverse_complement,
    reverse_complement_edit,
)
from genolewm_assets.package_build.rows import context_tables
from genolewm_assets.windows.bases import kernels
from genolewm_assets_tests.referees.sampling.rules_by_bases import RulesByBases
from genolewm_assets_tests.strategies import sequences
from genolewm_assets_tests.worlds.lewm.mapped_world import map_windows
from genolewm_assets_tests.worlds.lewm.stream_world import as_batch, no_alleles

NONE_HELD = AlleleIndex.of(no_alleles())
PAD = "".join("ACGT"[(at * at * 3 + at // 2) % 4] for at in range(102))
Allele = tuple[int, str, str]


def contexts(reference: str, alleles: list[Allele]) -> list[pa.RecordBatch]:
    pos, ref, alt = (list(column) for column in zip(*alleles, strict=True)) if alleles else ([], [], [])
    text = pa.string()
    columns = {"pos": pa.array(pos, pa.int64()), "ref": pa.array(ref, text), "alt": pa.array(alt, text)}
    table = pa.table({"chrom": pa.array(["chr1"] * len(pos), text)} | columns)
    return [b for t in context_tables(table, lambda _: reference.encode()) for b in t.to_batches()]


def kmers(text: str) -> set[str]:
    """Return the 31-mers of a text, each as the smaller of its two strands."""
    found = {text[at : at + 31] for at in range(len(text) - 30)}
    return {min(kmer, reverse_complement(kmer)) for kmer in found}


def made(reference: str, allele: Allele) -> set[str]:
    """Return the 31-mers that an allele makes and the reference there lacks."""
    pos, ref, alt = allele
    left, right = reference[max(0, pos - 31) : pos - 1], reference[pos - 1 + len(ref) : pos + 29 + len(ref)]
    return kmers(left + alt + right) - kmers(left + ref + right)


@st.composite
def references(draw: st.DrawFn) -> str:
    """Draw sequence with a tandem repeat, in which indels have several spellings."""
    unit, times = draw(sequences(1, 4)), draw(st.integers(0, 12))
    return draw(sequences(120, 160)) + unit * times + draw(sequences(120, 160))


@st.composite
def alleles_of(draw: st.DrawFn, reference: str) -> Allele:
    at, size = draw(st.integers(1, len(reference) - 12)), draw(st.integers(1, 8))
    ref = reference[at : at + size]
    alt = draw(
        st.sampled_from([ref[0], ref + ref, *"ACGT", ref[0] + draw(sequences(1, 40))]).filter(lambda a: a != ref)
    )
    variant = normalise(Variant("chr1", at + 1, ref, alt), reference.encode())
    return variant.pos, variant.ref, variant.alt


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_texts_with_a_31_mer_of_an_allele_are_told(data):
    reference = data.draw(references())
    alleles = [data.draw(alleles_of(reference)) for _ in range(data.draw(st.integers(0, 3)))]
    # More than these bytes wait in a file.
    with mock.patch.object(held_sequences, "_MOST_BYTES", data.draw(st.sampled_from([0, 400, 1 << 20]))):
        held = HeldSequences(batch for allele in alleles for batch in contexts(reference, [allele]))
    expected = set().union(*(made(reference, a) for a in alleles))
    assert len(held) == len(expected)
    seeds = np.zeros_like(held.table.seeds)
    for kmer in expected:
        for codes in (encode_sequence(kmer[at : at + 16]) for at in range(16)):
            key, bits = kmer_kernels._seed_at(codes, 0)
            seeds[key >> int(held.table.shift)] |= np.uint64(bits)
    np.testing.assert_array_equal(held.table.seeds, seeds)
    pos, ref, alt = data.draw(st.sampled_from(alleles)) if alleles else (50, reference[49], "A")
    haplotype = reference[: pos - 1] + alt + reference[pos - 1 + len(ref) :]
    for text in (reference, haplotype, reverse_complement(haplotype), haplotype[pos - 20 :], haplotype[: pos + 10]):
        assert (text in held) == bool(kmers(text) & expected)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_seeds_tell_what_every_31_mer_tells(data):
    """Texts with a copy of a 31-mer, on either strand, or of all but one base of it; also where notes have no room."""
    reference = data.draw(references())
    held = HeldSequences(contexts(reference, [data.draw(alleles_of(reference)) for _ in range(3)]))
    kmer = data.draw(st.sampled_from([*sorted(unmixed(held)), "ACGGTCA" * 4 + "TTT"]))
    copy = data.draw(st.sampled_from([kmer, reverse_complement(kmer), kmer[1:], f"{kmer[:15]}A{kmer[16:]}"]))
    text = data.draw(sequences(0, 90)) + copy + data.draw(sequences(0, 90))
    codes = encode_sequence(text)
    assert kmer_kernels.has_key_of_codes(codes, held.table) == (text in held)
    notes = np.zeros((data.draw(st.integers(0, 20)), 2), dtype=np.uint64)
    noted = kmer_kernels.note_seeds(codes, held.table, notes, 0)
    assert kmer_kernels.has_noted(held.table, notes, noted) >= (text in held)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_packed_rows_with_a_31_mer_of_an_allele_are_marked(data):
    reference = data.draw(references())
    held = HeldSequences(contexts(reference, [data.draw(alleles_of(reference)) for _ in range(3)]))
    kmers_held = st.sampled_from([*sorted(unmixed(held)), "ACGGTCA" * 4 + "TTT"])
    texts = []
    for _ in range(data.draw(st.integers(0, 6))):
        kmer = data.draw(kmers_held)
        copy = data.draw(st.sampled_from([kmer, reverse_complement(kmer), kmer[1:], ""]))
        texts.append(data.draw(sequences(0, 40)) + copy + data.draw(sequences(0, 40)))
    assert marked(texts, held) == [bool(kmers(text) & {*unmixed(held)}) for text in texts]


def test_a_31_mer_is_told_wherever_a_seed_of_it_is_looked_up():
    rng = np.random.default_rng(5)
    reference = "".join(rng.choice(list("ACGT"), 200))
    haplotype = f"{reference[:99]}{'ACGT'['ACGT'.index(reference[99]) - 1]}{reference[100:]}"
    held = HeldSequences(contexts(reference, [(100, reference[99], haplotype[99])]))
    # The bases beside the copy are not the haplotype's, so that the seeds beside those of the copy are none of these.
    before, behind = (next(base for base in "ACGT" if base not in haplotype[at : at + 2]) * 40 for at in (84, 115))
    for shorter in (0, 1):
        texts = [before[:at] + haplotype[85 : 116 - shorter] + behind for at in range(32)]
        assert marked(texts, held) == [not shorter] * len(texts)


def marked(texts: list[str], held: HeldSequences) -> list[bool]:
    """Return which packed texts ``mark_spelling`` marks."""
    n_bases = np.array([len(text) for text in texts], dtype=np.int64)
    ends = np.cumsum([0, *n_bases])
    first = np.cumsum([0, *(-(-n_bases // 4))])
    packed = np.zeros(first[-1], dtype=np.uint8)
    kernels.pack_rows(ends, np.frombuffer("".join(texts).encode(), np.uint8), first[:-1], packed)
    marks = np.ones(len(texts), dtype=np.bool_)
    # As mapped arrays are, for which the loop is compiled.
    for array in (held.table.keys, held.table.seeds):
        array.flags.writeable = False
    kmer_kernels.mark_spelling(packed, first[:-1], n_bases, held.table, marks)
    found: list[bool] = marks.tolist()
    return found


def test_seeds_of_other_texts_are_seldom_told():
    rng = np.random.default_rng(3)
    reference = "".join(rng.choice(list("ACGT"), 5_000))
    snvs = [(at, reference[at - 1], "ACGT"["ACGT".index(reference[at - 1]) - 1]) for at in range(100, 4_900, 10)]
    held, notes = HeldSequences(contexts(reference, snvs)), np.zeros((9, 2), dtype=np.uint64)
    codes = rng.integers(0, 4, (5_000, 61), dtype=np.uint8)
    noted = (kmer_kernels.note_seeds(text, held.table, notes, 0) for text in codes)
    assert 0 < sum(kmer_kernels.has_noted(held.table, notes, n) for n in noted) < 500


@pytest.mark.parametrize("windows_at_once", [1, 3, 5])
def test_windows_that_spell_a_held_out_allele_are_marked(tmp_path, windows_at_once):
    rng = np.random.default_rng(4)
    reference = "".join(rng.choice(list("ACGT"), 2_000))
    around = contexts(reference, [(1_000, reference[999], "ACGT"["ACGT".index(reference[999]) - 1])])
    (*_, kmer) = unmixed(HeldSequences(around))
    windows = []
    for number, copy in enumerate((kmer, kmer, reverse_complement(kmer), kmer[:30], kmer)):
        # The last one lies across the end of the window; the first one is in a window with a place.
        at = 290 if number == 4 else 40 * number
        text = "".join(rng.choice(list("ACGT"), 372))
        text = text[:at] + copy + text[at + len(copy) :]
        placed = {} if number else {"contig": "chr1", "start": 7, "strand": "+"}
        windows.append(WindowRecord(f"{number:032x}", "mrna_evo2", text[36:-36], text[:36], text[-36:], **placed))
    parts = [windows[at : at + windows_at_once] for at in range(0, len(windows), windows_at_once)]
    mapped = map_windows(tmp_path / "train", [as_batch(part) for part in parts], around)
    assert mapped.split.spells_held(np.arange(len(windows))).tolist() == [False, True, True, False, True]


def unmixed(held: HeldSequences) -> list[str]:
    """Return the 31-mers of a table, which the keys stand for one to one."""
    mixed = [int(key) * pow(0x9E3779B97F4A7C15, -1, 1 << 64) % (1 << 64) for key in held.table.keys]
    numbers = [number ^ number >> 31 ^ number >> 62 for number in mixed]
    return ["".join("ACGT"[number >> 2 * at & 3] for at in reversed(range(31))) for number in numbers]


@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_an_edit_that_makes_a_held_out_allele_with_its_flanks_is_refused(data):
    """The window reads along either strand, and the edit is the allele in the window's own spelling."""
    reference = data.draw(references())
    allele = pos, ref, alt = data.draw(alleles_of(reference))
    # The window begins and ends beside what is drawn, so that edges and sizes refuse nothing.
    bases = (PAD + reference + PAD)[: (len(reference) + 2 * len(PAD)) // 6 * 6]
    edit = RelEdit(len(PAD) + pos - 1, ref, alt)
    if data.draw(st.booleans(), label="reverse"):
        bases, edit = reverse_complement(bases), reverse_complement_edit(edit, len(bases))
    place = EditPlace(WindowRecord("0" * 32, "x", bases, "A" * 96, "C" * 96))
    edit = place.normal_form(edit)
    held = HeldSequences(contexts(reference, [allele]))
    free = EditRules(SamplingRules(), NONE_HELD).apply(place, (edit,))
    filtered = RulesByBases(SamplingRules(), NONE_HELD, held).apply(place, (edit,))
    if isinstance(free, Redraw):
        assert filtered is free
        return
    shown, made_here = free.edited.sequence, made(reference, allele)
    if (kmers(shown) - kmers(bases)) & made_here:
        assert filtered is Redraw.HELD_OUT
    elif not (kmers(shown) | kmers(bases)) & made_here:
        assert filtered == free
    whole = reference[max(0, pos - 31) : pos - 1] + alt + reference[pos - 1 + len(ref) : pos + 29 + len(ref)]
    if made_here and not {whole, reverse_complement(whole)} & set(windows_of(bases, len(whole))):
        assert filtered is Redraw.HELD_OUT


def windows_of(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(len(text) - size + 1))


def test_taking_a_held_out_allele_back_is_refused_and_other_edits_are_not():
    reference = "".join("ACGT"[(at * at + at // 3) % 4] for at in range(400))
    allele = (201, reference[200], "ACGT".replace(reference[200], "")[0])
    rules = RulesByBases(SamplingRules(), NONE_HELD, HeldSequences(contexts(reference, [allele])))
    carried = reference[:200] + allele[2] + reference[201:]
    back = EditPlace(WindowRecord("0" * 32, "x", carried, "", "C" * 96))
    assert rules.apply(back, (RelEdit(200, allele[2], allele[1]),)) is Redraw.HELD_OUT
    place = EditPlace(WindowRecord("0" * 32, "x", reference, "", "C" * 96))
    assert rules.apply(place, (RelEdit(200, allele[1], allele[2]),)) is Redraw.HELD_OUT
    for at, step in ((200, 1), (200, 2), (199, 0), (201, 0), (300, 0)):
        alt = "ACGT".replace(reference[at], "")[step]
        assert not isinstance(rules.apply(place, (RelEdit(at, reference[at], alt),)), Redraw)


def test_repeated_alleles_and_other_bases_give_no_31_mers():
    reference = "N" * 20 + "".join("ACGT"[(at * 7 + at * at // 5) % 4] for at in range(200))
    allele = (41, reference[40], "ACGT".replace(reference[40], "")[0])
    held = HeldSequences(contexts(reference, [allele, allele]))
    # 31-mers with one of the first 20 bases are not of A, C, G and T.
    assert len(held) == 21
    assert "N" not in held
    assert "A" * 31 not in held
