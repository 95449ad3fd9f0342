"""The search for held-out sequence: every kind of copy is found, and nothing else; 21-mers are those of sets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from genolewm_assets.audit.reading.intervals import Span
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.genome import GRCH38, IntervalArray, reverse_complement
from genolewm_assets.holdouts import Compared, Held, Kept, SimilarReason
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity import SequenceSearch, repeats
from genolewm_assets.sources.similarity.held_part import divide, pack
from genolewm_assets_tests.audit.compared import compare, held_table
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.sources.similarity.genomes import changed, query, random_bases, write_fasta
from genolewm_assets_tests.worlds.sources.queries import Query, as_pieces

Row = dict[str, Any]
Int64s, Uint8s = NDArray[np.int64], NDArray[np.uint8]


WINDOW_BP = 12_544
#: Held out: two genes of chr17 with sequence between them that is not held out.
HELD: Held = {"chr17": IntervalArray(np.array([20_000, 120_000]), np.array([80_000, 160_000]))}
EXONS = ((21_000, 21_400), (25_000, 25_250), (40_000, 40_600), (61_000, 61_350), (78_000, 78_900))


def compare_all(
    fasta: Path, queries: Sequence[Query], held: Held = HELD, kept: Kept | None = None, **options: int
) -> Compared:
    with FastaReader(fasta, GRCH38) as reader:
        return SequenceSearch(reader, **options)(held, as_pieces(queries), kept)


def search(fasta: Path, queries: Sequence[Query], held: Held = HELD, **options: int) -> dict[str, list[Row]]:
    """Return the similar places, by the record of the query, the best of each interval first."""
    found: dict[str, list[Row]] = {}
    for row in compare_all(fasta, queries, held, **options).similar.to_pylist():
        found.setdefault(row["record_id"], []).append(row)
    return found


@each_row("strand", ["+", "-"])
@each_row("identity", [1.0, 0.95, 0.948, 0.92, 0.90, 0.85])
def test_copies_of_a_window_are_found(fasta: Path, contigs: dict[str, bytes], identity: float, strand: str) -> None:
    rng = np.random.default_rng(int(identity * 1_000))
    copy = changed(rng, contigs["chr17"][50_000 : 50_000 + WINDOW_BP], identity)
    best = search(fasta, [query("copy", copy if strand == "+" else reverse_complement(copy))])["copy"][0]
    assert best["reason"] == SimilarReason.ALIGNED or identity <= 0.9
    assert (best["held_contig"], best["strand"]) == ("chr17", strand)
    assert best["held_start"] == pytest.approx(50_000, abs=200)
    assert best["held_end"] == pytest.approx(50_000 + WINDOW_BP, abs=200)
    assert best["identity"] == pytest.approx(identity, abs=0.015)
    assert best["share"] > 0.95


@each_row("identity", [1.0, 0.95, 0.92])
def test_a_copy_of_1000_bp_in_other_sequence_is_found(fasta: Path, contigs: dict[str, bytes], identity: float) -> None:
    rng = np.random.default_rng(5)
    queries = []
    for number, start in enumerate(range(20_000, 70_000, 2_500)):
        copy = changed(rng, contigs["chr17"][start : start + 1_100], identity)
        queries.append(query(f"{number}", random_bases(rng, 7_000) + copy + random_bases(rng, 4_000)))
    assert len(search(fasta, queries)) == len(queries)


def test_a_chimera_of_train_and_held_out_is_found(fasta: Path, contigs: dict[str, bytes]) -> None:
    chimera = contigs["chr20"][:6_000] + contigs["chr17"][130_000:136_000]
    found = search(fasta, [query("chimera", chimera)])["chimera"][0]
    assert found["reason"] == SimilarReason.ALIGNED
    assert (found["held_contig"], found["held_start"], found["held_end"]) == ("chr17", 130_000, 136_000)


@each_row("strand", ["+", "-"])
@each_row("identity", [1.0, 0.949])
def test_a_spliced_transcript_is_found(fasta: Path, contigs: dict[str, bytes], identity: float, strand: str) -> None:
    spliced = b"".join(contigs["chr17"][start:end] for start, end in EXONS)
    spliced = changed(np.random.default_rng(9), spliced if strand == "+" else reverse_complement(spliced), identity)
    found = search(fasta, [query("transcript", spliced, transcribed=True)])["transcript"][0]
    assert found["reason"] in (SimilarReason.ALIGNED, SimilarReason.CHAINED)
    assert found["share"] > 0.8
    # As one exon in the genome: a copy that was made from the transcript.
    assert search(fasta, [query("retrocopy", contigs["chr20"][:5_000] + spliced + contigs["chr20"][5_000:9_000])])


def test_shared_31mers_exclude_what_the_audit_counts_and_nothing_else(fasta: Path, contigs: dict[str, bytes]) -> None:
    """Windows with one to four short pieces, also of different parts, against the audit's own search."""
    rng = np.random.default_rng(6)
    queries = []
    for number in range(300):
        window = bytearray(random_bases(rng, 6_000))
        for _ in range(rng.integers(1, 5)):
            size, at = int(rng.integers(28, 66)), int(rng.integers(2_000, 3_100))
            start = int(rng.choice([25_000, 60_000, 130_000]) + rng.integers(0, 9_000))
            piece = contigs["chr17"][start : start + size]
            window[at : at + size] = piece if rng.random() < 0.5 else reverse_complement(piece)
        queries.append(query(f"{number}", bytes(window)))
    spans = [Span("chr17", start, end) for start, end in HELD["chr17"]]
    with Reference(fasta) as reference:
        table = held_table(reference, spans)
        counted = {each.key.record_id for each in queries if compare(each.bases.decode(), table)[0]}
    found = search(fasta, queries, part_bp=30_000, overlap_bp=1_000)
    assert 50 < len(counted) < 250
    assert set(found) == counted
    assert {each["reason"] for similar in found.values() for each in similar} == {SimilarReason.SHARED_KMERS}


@each_row(("bp", "is_found"), [(62, True), (61, False)])
def test_62_equal_bases_are_enough(fasta: Path, contigs: dict[str, bytes], bp: int, is_found: bool) -> None:
    rng = np.random.default_rng(bp)
    piece = contigs["chr17"][70_000 - 1 : 70_000 + bp + 1]
    # The bases on both sides differ from those of the held-out sequence.
    edges = (bytes([b"CGTA"[b"ACGT".index(piece[at])]]) for at in (0, -1))
    window = random_bases(rng, 8_000) + next(edges) + piece[1:-1] + next(edges) + random_bases(rng, 4_000)
    assert bool(search(fasta, [query("equal", window)])) == is_found


def test_a_thousand_windows_of_other_sequence_are_not_similar(fasta: Path, contigs: dict[str, bytes]) -> None:
    rng = np.random.default_rng(3)
    other = [query(f"{n}", random_bases(rng, WINDOW_BP)) for n in range(1_000)]
    # What is not held out of the same contig is not similar either.
    other += [query("between", contigs["chr17"][85_000:97_544]), query("next", contigs["chr20"][:WINDOW_BP])]
    assert search(fasta, other) == {}


def repeated(rng: np.random.Generator, contigs: dict[str, bytes], *, masked: bool) -> tuple[dict[str, bytes], bytes]:
    """Return contigs with thirty copies of an element, 97 % equal, some of them held out; and the element."""
    element = random_bases(rng, 3_000)
    genome = {}
    for name, bases in contigs.items():
        out = bytearray(bases)
        for start in range(3_000, 195_000, 13_000):
            copy = changed(rng, element, 0.97)
            out[start : start + len(copy)] = copy.lower() if masked else copy
        genome[name] = bytes(out)
    return genome, element


@pytest.mark.parametrize("masked", [True, False])
def test_repeats_alone_are_told_and_exclude_nothing(tmp_path: Path, contigs: dict[str, bytes], masked: bool) -> None:
    rng = np.random.default_rng(31)
    genome, element = repeated(rng, contigs, masked=masked)
    window = random_bases(rng, 5_000) + changed(rng, element, 0.97) + random_bases(rng, 4_000)
    held_copy = genome["chr17"][40_000:52_000].upper()
    path, queries = write_fasta(tmp_path / "genome.fa", genome), [query("repeat", window), query("copy", held_copy)]
    assert compare_all(path, queries).by_repeats == {"eukaryote_generator": 1}
    found = search(path, queries)
    assert set(found) == {"copy"}
    assert {each["reason"] for each in found["copy"]} == {SimilarReason.ALIGNED}
    # Repeats are left out of what is aligned.
    assert found["copy"][0]["aligned_bp"] < 10_500


def test_parts_find_what_the_whole_finds(fasta: Path, contigs: dict[str, bytes]) -> None:
    rng = np.random.default_rng(4)
    starts = range(20_500, 66_000, 5_000)
    queries = [query(f"{at}", changed(rng, contigs["chr17"][at : at + 8_000], 0.93)) for at in starts]
    queries += [query(f"other{n}", random_bases(rng, 8_000)) for n in range(20)]
    whole, parts = search(fasta, queries), search(fasta, queries, part_bp=30_000, overlap_bp=9_000)
    assert set(whole) == set(parts) == {f"{at}" for at in starts}


def test_n_and_contigs_that_the_fasta_lacks_hold_nothing(fasta: Path, contigs: dict[str, bytes]) -> None:
    held = {**HELD, "chr21": IntervalArray(np.array([0]), np.array([46_709_983]))}
    assert search(fasta, [query("none", b"")], held) == {}
    assert search(fasta, [query("other", b"ACGT" * 1_250)], {"chr21": held["chr21"]}) == {}
    assert "copy" in search(fasta, [query("copy", contigs["chr17"][30_000:34_000])], held)


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 900)), min_size=1, max_size=5),
    st.integers(150, 600),
    st.integers(10, 100),
)
def test_parts_hold_every_base_or_overlap(gaps_and_sizes: list[tuple[int, int]], part_bp: int, overlap_bp: int) -> None:
    starts = np.cumsum([gap for gap, _ in gaps_and_sizes]) + np.cumsum([0, *(n for _, n in gaps_and_sizes[:-1])])
    ends = starts + [size for _, size in gaps_and_sizes]
    parts = pack(divide({"chr17": IntervalArray(starts, ends)}, part_bp, overlap_bp), part_bp)
    assert all(sum(span.end - span.start for span in part) <= max(part_bp, overlap_bp) for part in parts)
    seen = np.zeros(int(ends[-1]), int)
    for span in (span for part in parts for span in part):
        seen[span.start : span.end] += 1
    wanted = np.zeros(int(ends[-1]), bool)
    for start, end in zip(starts, ends, strict=True):
        wanted[start:end] = True
    assert ((seen > 0) == wanted).all()
    for one, two in pairwise([span for part in parts for span in part]):
        assert two.start >= one.end or one.end - two.start == overlap_bp


@given(runs=st.lists(st.tuples(st.sampled_from("ACGTNacgtn"), st.integers(0, 40)), max_size=8))
@example(runs=[("N", 40), ("a", 1), ("A", 10)])
def test_lower_case_marks_repeats_if_some_bases_and_not_nearly_all_have_it(runs):
    text = "".join(letter * n for letter, n in runs)
    given = {"chr1": text[: len(text) // 3], "chr2": text[len(text) // 3 :]}
    reader = SimpleNamespace(
        contigs={name: len(bases) for name, bases in given.items()},
        read_as_written=lambda name, start, end: given[name][start:end].encode(),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "_READ_BP", 7)
        found = repeats.is_soft_masked(cast("FastaReader", reader))
    lower, known = (sum(map(text.count, letters)) for letters in ("acgt", "ACGTacgt"))
    assert found == (lower > 0 and 0.05 <= lower / known <= 0.9)
