"""31-mers: equal on both strands, without repeats and simple sequence, and what a stretch of them tells."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.audit import held_kmers
from genolewm_assets.audit.held_kmers import KmerTable, count_in_reference, keys_of
from genolewm_assets.audit.kmer_kernels import NO_KEY, densest_stretch, shared_kmers
from genolewm_assets.audit.reading.intervals import HeldSpans, Span
from genolewm_assets.audit.reading.reference import Reference, encode, reverse_complement
from genolewm_assets_tests.audit.compared import compare, held_table, sieved
from genolewm_assets_tests.audit.compared import held as held_of
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.rows import each_row


def simulate(seed: int, length: int) -> str:
    return "".join(np.random.default_rng(seed).choice(list("ACGT"), length))


def plain_kmers(text: str) -> set[str]:
    """Return the 31-mers of both strands, by slices."""
    return {strand[at : at + 31] for strand in (text, complement(text)) for at in range(len(text) - 30)}


def complement(text: str) -> str:
    return text.translate(str.maketrans("ACGT", "TGCA"))[::-1]


def test_keys_are_those_of_either_strand() -> None:
    codes = encode(simulate(1, 200))
    keys, other = keys_of(codes), keys_of(reverse_complement(codes))
    assert keys[:170].tolist() == other[:170][::-1].tolist()
    assert set(keys[170:].tolist()) == {int(NO_KEY)}
    assert len(set(keys[:170].tolist())) == 170


def test_a_sequence_is_compared_as_by_slices() -> None:
    held, other = simulate(2, 900), simulate(3, 300)
    table = sieved(encode(held))
    text = other[:100] + held[300:420] + "N" + complement(held[500:600]) + "N" + held[90:120] + held[700:731] + other
    found = held_of(text, table)
    expected = [text[at : at + 31] in plain_kmers(held) for at in range(len(text) - 30)]
    assert found.tolist() == [int(each) for each in expected]
    assert held_of(held[:30], table).size == 0


def test_unknown_masked_and_simple_bases_are_left_out() -> None:
    text = simulate(4, 61)
    assert (keys_of(encode(text[:40] + "N" + text[40:])) != NO_KEY).sum() == 40 - 30
    assert (keys_of(encode(text[:31] + text[31:].lower()), skip_masked=True) != NO_KEY).sum() == 1
    assert (keys_of(encode(text.lower())) == keys_of(encode(text))).all()
    assert (keys_of(encode("ACACAG" * 20), skip_simple=True) == NO_KEY).all()


def test_densest_stretch() -> None:
    held = np.zeros(500, dtype=np.uint8)
    held[[100, 101, 102, 140, 400]] = 1
    assert densest_stretch(held, 100) == (5, 3, 41, 4, 2)
    assert densest_stretch(np.zeros(0, dtype=np.uint8), 100) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(("equal_bp", "is_leak"), [(61, False), (62, True)])
def test_the_least_exact_stretch(equal_bp: int, is_leak: bool) -> None:
    held = simulate(5, 1_000)
    table = sieved(encode(held))
    # The bases beside the equal ones differ from those of the held-out sequence.
    text = simulate(6, 300)[:-1] + "ACGT"["ACGT".index(held[199]) - 1] + held[200 : 200 + equal_bp]
    text += "ACGT"["ACGT".index(held[200 + equal_bp]) - 1] + simulate(7, 600)
    assert compare(text, table)[0] is is_leak


@each_row(("identity", "least", "most"), [(0.95, 60, 60), (0.90, 54, 60), (0.80, 0, 5)])
def test_copies_by_identity(identity: float, least: int, most: int) -> None:
    rng, found = np.random.default_rng(9), 0
    for seed in range(60):
        codes = encode(simulate(100 + seed, 3_000))
        change = rng.random(codes.size) >= identity
        copy = np.where(change, (codes + rng.integers(1, 4, codes.size)) % 4, codes).astype(np.uint8)
        text = "".join("ACGT"[code] for code in copy)
        found += compare(text, sieved(codes))[0]
    assert least <= found <= most


@pytest.fixture
def repeated(tmp_path: Path) -> Path:
    unit = simulate(10, 200)
    text = simulate(11, 1_000) + "".join(unit + simulate(20 + at, 50) for at in range(9))
    return write_fasta(tmp_path / "genome.fa", {"chr1": text, "2": simulate(12, 500)})


def test_frequent_kmers_are_repeats(repeated: Path) -> None:
    with Reference(repeated) as reference:
        span = Span("chr1", 0, 1_250)
        everything = KmerTable.of(keys_of(reference.fetch(*span)))
        counts = count_in_reference(everything, reference)
        assert (counts.min(), counts.max()) == (1, 9)
        table = held_table(reference, [span]).kmers
        # The unit begins at base 1,000; what is near it counts as the same repeat.
        outside = keys_of(reference.fetch("chr1", 0, 1_000 - held_kmers.REPEAT_BP))
        assert table.keys.tolist() == np.unique(outside[:-30]).tolist()


def test_parts_hold_what_the_whole_holds(repeated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Reference(repeated) as reference:
        monkeypatch.setattr(held_kmers, "REPEAT_BP", 0)
        spans = [Span("chr1", 100, 1_250), Span("chr2", 0, 500)]
        whole = held_table(reference, spans)
        monkeypatch.setattr(held_kmers, "PART_BP", 300)
        parts = held_table(reference, spans)
        for one, other in zip(whole, parts, strict=True):
            assert one.keys.tolist() == other.keys.tolist()
            assert one.firsts.tolist() == other.firsts.tolist()


def test_an_empty_table_keeps_nothing_that_it_was_a_part_of() -> None:
    assert KmerTable.joined([np.arange(9, dtype=np.uint64)[:0]]).keys.base is None


def test_counting_goes_on_between_chunks(repeated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from genolewm_assets.audit.reading import reference as module

    monkeypatch.setattr(module, "_CHUNK_BP", 64)
    with Reference(repeated) as reference:
        table = KmerTable.of(keys_of(reference.fetch("chr2", 0, 500)))
        assert (count_in_reference(table, reference) == 1).all()


def test_held_spans_are_merged() -> None:
    held = HeldSpans([Span("chr1", 10, 20), Span("chr1", 15, 30), Span("chr1", 30, 31), Span("chr1", 40, 50)])
    assert list(held) == [Span("chr1", 10, 31), Span("chr1", 40, 50)]
    places = {(0, 10): 0, (0, 11): 1, (30, 41): 2, (31, 40): 0, (49, 60): 1, (50, 60): 0, (0, 99): 31}
    start, end = np.array(list(places)).T
    assert held.shared_bp(pa.array(["chr1"] * len(places)), start, end).tolist() == list(places.values())
    others = pa.array(["chr2", None, "chr1"])
    assert held.shared_bp(others, np.zeros(3, np.int64), np.full(3, 99)).tolist() == [0, 0, 31]


@given(spans=st.tuples(*[st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30)), max_size=6)] * 2))
def test_added_bases_are_those_of_31_mers_that_were_not_held_out(spans: tuple[list[tuple[int, int]], ...]) -> None:
    now, before = (HeldSpans(Span("chr1", at, at + size) for at, size in each) for each in spans)

    def kmers(held: Iterable[Span]) -> set[int]:
        return {at for _, start, end in held for at in range(start, end - 4)}

    assert kmers(now.added(before, 4)) == kmers(now) - kmers(before)
    assert kmers(now.added(HeldSpans([Span("chr2", 0, 120)]), 4)) == kmers(now)


def test_shared_31_mers_of_all_stretches_of_a_row_are_added() -> None:
    held, other = (encode("".join(np.random.default_rng(seed).choice(list("ACGT"), 200))) for seed in (1, 2))
    bases, shared = np.concatenate([held, other]), np.zeros(3, np.int64)
    spans = np.array([[0, 0, 40], [0, 100, 145], [1, 210, 300], [2, 160, 240]])
    shared_kmers(bases, spans, sieved(held), shared)
    assert shared.tolist() == [10 + 15, 0, 10]
