"""The search for held-out sequence: every kind of copy is found, and nothing else; 21-mers are those of sets."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.audit.held_kmers import held_table
from genolewm_assets.audit.reading.intervals import Span
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.genome import GRCH38, IntervalArray, reverse_complement
from genolewm_assets.holdouts import Similarity, SimilarReason, WindowKey
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity import SequenceSearch
from genolewm_assets.sources.similarity.held_part import LETTERS, HeldPart, HeldSpan, count_bases, divide, encode
from genolewm_assets.sources.similarity.kmer_kernels import find_shared
from genolewm_assets.sources.similarity.presence import PresenceFilter
from genolewm_assets.sources.similarity.query_batch import QueryBatch, as_arrays, as_column
from genolewm_assets.sources.similarity.repeats import SoftMask, find_frequent
from genolewm_assets.sources.similarity.search import STRETCH, least_shared
from genolewm_assets_tests.audit.compared import compare
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.queries import Query, as_table

WINDOW_BP = 12_544
#: Held out: two genes of chr17 with sequence between them that is not held out.
HELD = {"chr17": IntervalArray(np.array([20_000, 120_000]), np.array([80_000, 160_000]))}
EXONS = ((21_000, 21_400), (25_000, 25_250), (40_000, 40_600), (61_000, 61_350), (78_000, 78_900))


def random_bases(rng: np.random.Generator, n: int) -> bytes:
    return bytes(np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, n)])


def changed(rng: np.random.Generator, bases: bytes, identity: float) -> bytes:
    """Return bases of which a share of ``1 - identity`` is substituted."""
    out = np.frombuffer(bases, np.uint8).copy()
    at = np.flatnonzero(rng.random(out.size) >= identity)
    out[at] = [
        ord("ACGT".replace(chr(base), "")[pick])
        for base, pick in zip(out[at], rng.integers(0, 3, at.size), strict=True)
    ]
    return out.tobytes()


@pytest.fixture(scope="module")
def contigs() -> dict[str, bytes]:
    rng = np.random.default_rng(17)
    return {name: random_bases(rng, 200_000) for name in ("chr17", "chr20")}


def write_fasta(path: Path, contigs: dict[str, bytes]) -> Path:
    path.write_bytes(b"".join(b">%s\n%s\n" % (name.encode(), bases) for name, bases in contigs.items()))
    pysam.faidx(str(path))
    return path


@pytest.fixture(scope="module")
def fasta(tmp_path_factory: pytest.TempPathFactory, contigs: dict[str, bytes]) -> Path:
    return write_fasta(tmp_path_factory.mktemp("similarity") / "genome.fa", contigs)


def search(fasta: Path, queries: Sequence[Query], held: object = HELD, **options: int) -> dict[str, list[Similarity]]:
    """Return what is similar, by the record of the query."""
    found: dict[str, list[Similarity]] = {}
    with FastaReader(fasta, GRCH38) as reader:
        for similarity in SequenceSearch(reader, **options)(held, iter([as_table(queries)])):  # type: ignore[arg-type]
            found.setdefault(similarity.key.record_id, []).append(similarity)
    return found


def query(name: str, bases: bytes, *, transcribed: bool = False) -> Query:
    return Query(WindowKey("eukaryote_generator", record_id=name), bases, transcribed)


@each_row("strand", ["+", "-"])
@each_row("identity", [1.0, 0.95, 0.948, 0.92, 0.90, 0.85])
def test_copies_of_a_window_are_found(fasta: Path, contigs: dict[str, bytes], identity: float, strand: str) -> None:
    rng = np.random.default_rng(int(identity * 1_000))
    copy = changed(rng, contigs["chr17"][50_000 : 50_000 + WINDOW_BP], identity)
    (found,) = search(fasta, [query("copy", copy if strand == "+" else reverse_complement(copy))])["copy"]
    best = found.places[0]
    assert found.reason is not SimilarReason.REPEATS
    assert found.reason is SimilarReason.ALIGNED or identity <= 0.9
    assert (best.contig, best.strand) == ("chr17", strand)
    assert best.start == pytest.approx(50_000, abs=200)
    assert best.end == pytest.approx(50_000 + WINDOW_BP, abs=200)
    assert best.identity == pytest.approx(identity, abs=0.015)
    assert found.share > 0.95


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
    (found,) = search(fasta, [query("chimera", chimera)])["chimera"]
    assert found.reason is SimilarReason.ALIGNED
    assert found.places[0][:3] == ("chr17", 130_000, 136_000)


@each_row("strand", ["+", "-"])
@each_row("identity", [1.0, 0.949])
def test_a_spliced_transcript_is_found(fasta: Path, contigs: dict[str, bytes], identity: float, strand: str) -> None:
    spliced = b"".join(contigs["chr17"][start:end] for start, end in EXONS)
    spliced = changed(np.random.default_rng(9), spliced if strand == "+" else reverse_complement(spliced), identity)
    (found,) = search(fasta, [query("transcript", spliced, transcribed=True)])["transcript"]
    assert found.reason in (SimilarReason.ALIGNED, SimilarReason.CHAINED)
    assert found.share > 0.8
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
        table = held_table(reference, spans, soft_masked=False)
        counted = {each.key.record_id for each in queries if compare(each.bases.decode(), table)[0]}
    found = search(fasta, queries, part_bp=30_000, overlap_bp=1_000)
    assert 50 < len(counted) < 250
    assert set(found) == counted
    assert {each.reason for similar in found.values() for each in similar} == {SimilarReason.SHARED_KMERS}
    assert all(each.places[0].contig == "chr17" for similar in found.values() for each in similar)


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
    found = search(write_fasta(tmp_path / "genome.fa", genome), [query("repeat", window), query("copy", held_copy)])
    assert [each.reason for each in found["repeat"]] == [SimilarReason.REPEATS]
    assert [each.reason for each in found["copy"]] == [SimilarReason.ALIGNED]
    # Repeats are left out of what is aligned.
    assert found["copy"][0].places[0].aligned_bp < 10_500


def test_parts_find_what_the_whole_finds(fasta: Path, contigs: dict[str, bytes]) -> None:
    rng = np.random.default_rng(4)
    starts = range(20_500, 66_000, 5_000)
    queries = [query(f"{at}", changed(rng, contigs["chr17"][at : at + 8_000], 0.93)) for at in starts]
    queries += [query(f"other{n}", random_bases(rng, 8_000)) for n in range(20)]
    whole, parts = search(fasta, queries), search(fasta, queries, part_bp=30_000, overlap_bp=9_000)
    assert set(whole) == set(parts) == {f"{at}" for at in starts}


def test_n_and_contigs_that_the_fasta_lacks_hold_nothing(fasta: Path, contigs: dict[str, bytes]) -> None:
    held = {**HELD, "chr21": IntervalArray(np.array([0]), np.array([46_709_983]))}
    assert search(fasta, [query("n", b"N" * 5_000), query("none", b"")], held) == {}
    assert search(fasta, [query("n", b"N" * 5_000)], {"chr21": held["chr21"]}) == {}
    assert "copy" in search(fasta, [query("copy", contigs["chr17"][30_000:34_000])], held)


K = 21


def plain_kmers(bases: str) -> list[str | None]:
    """Return the smaller spelling of the 21-mer that begins at each base; None with a base other than ACGT."""
    whole = [bases[at : at + K].upper() for at in range(len(bases) - K + 1)]
    return [min(kmer, reverse_complement(kmer)) if set(kmer) <= set("ACGT") else None for kmer in whole]


def read_part(fasta: Path, size: int) -> HeldPart:
    with FastaReader(fasta, GRCH38) as reader:
        return HeldPart.read(reader, [HeldSpan("chr17", 0, size)], SoftMask())


def presence(part: HeldPart, folder: Path) -> PresenceFilter:
    present = PresenceFilter(folder / "present", count_bases([part.spans]))
    present.add(part)
    return present


@given(st.integers(0, 2**32 - 1), st.integers(30, 400), st.integers(20, 60))
def test_shared_kmers_are_those_of_sets_and_the_filter_misses_none(seed: int, size: int, stretch: int) -> None:
    rng = np.random.default_rng(seed)
    letters = np.frombuffer(b"ACGTacgtN", np.uint8)
    held = letters[rng.choice(9, size, p=[0.2, 0.2, 0.2, 0.2, 0.04, 0.04, 0.04, 0.04, 0.04])].tobytes().decode()
    piece = held[rng.integers(0, size // 2) :]
    sequence = (piece if seed % 2 else reverse_complement(piece)).upper() + "ACGTTGCA" + held[: size // 3].upper()
    outside = {
        kmer
        for at, kmer in enumerate(plain_kmers(held))
        if kmer and held[at : at + K].isupper() and len({kmer[i : i + 3] for i in range(K - 2)}) >= 5
    }
    known = {kmer for kmer in plain_kmers(held) if kmer}
    mine = plain_kmers(sequence)

    def densest(kmers: set[str]) -> int:
        shared = [int(kmer in kmers) for kmer in mine]
        return max((sum(shared[at : at + stretch]) for at in range(len(shared))), default=0)

    # Between other windows, of which one is shorter than a 21-mer.
    windows = QueryBatch.of(as_table(query(name, name.encode()) for name in ("ACGT", sequence, "N" * 50)))
    with TemporaryDirectory() as name:
        part = read_part(write_fasta(Path(name) / "genome.fa", {"chr17": held.encode()}), len(held))
        most, hits, firsts = presence(part, Path(name)).find_dense(windows, stretch)
    assert most[1, 0] >= densest(outside)
    assert most[1, 1] >= densest(known)
    assert most[[0, 2]].tolist() == [[0, 0]] * 2
    found, long, long_at = np.empty((3, 4), np.int32), np.zeros(200, np.uint8), np.array([-1, 7, -1])
    bits = as_arrays(pa.chunked_array([as_column(hits, firsts)]))
    find_shared(
        windows.data, windows.offsets, LETTERS, *bits, part.codes, part.make_table(), stretch, found, long, long_at
    )
    assert found[[0, 2]].tolist() == [[0, -1, 0, -1]] * 2
    unique, unique_at, any_kind, any_at = found[1].tolist()
    assert (unique, any_kind) == (densest(outside), densest(known))
    for n, at in ((unique, unique_at), (any_kind, any_at)):
        assert (at >= 0) == (n > 0)
        if n:
            _, start = part.span_at(at)
            assert plain_kmers(held)[start] in mine


def test_few_windows_of_other_sequence_are_candidates(fasta: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    other = QueryBatch.of(as_table(query(f"{n}", random_bases(rng, WINDOW_BP)) for n in range(300)))
    present = presence(read_part(fasta, 200_000), tmp_path)
    most, _, _ = present.find_dense(other, STRETCH)
    assert np.count_nonzero((most >= least_shared(other.sizes)).any(axis=1)) <= 9


def test_every_21mer_of_a_long_part_is_found(fasta: Path, contigs: dict[str, bytes], tmp_path: Path) -> None:
    part = read_part(fasta, 50_000)
    present = presence(part, tmp_path)
    windows = QueryBatch.of(as_table([query("whole", contigs["chr17"][:50_000])]))
    arrays = windows.data, windows.offsets, part.codes
    references = [sys.getrefcount(array) for array in arrays]
    most, hits, firsts = present.find_dense(windows, 10**6)
    assert most.tolist() == [[50_000 - K + 1] * 2]
    assert np.unpackbits(hits).sum() == 50_000 - K + 1
    found, long = np.empty((1, 4), np.int32), (np.zeros(0, np.uint8), np.array([-1]))
    bits = as_arrays(pa.chunked_array([as_column(hits, firsts)]))
    find_shared(windows.data, windows.offsets, LETTERS, *bits, part.codes, part.make_table(), 10**6, found, *long)
    assert found[0, [0, 2]].tolist() == [50_000 - K + 1] * 2
    # A generator of numba never lets go of its arrays, and every batch of windows would stay in memory.
    assert [sys.getrefcount(array) for array in arrays] == references


@given(st.integers(0, 2**32 - 1))
def test_bases_near_frequent_kmers_count_as_the_repeat(seed: int) -> None:
    rng = np.random.default_rng(seed)
    elements = ["".join("ACGT"[i] for i in rng.integers(0, 4, 60)) for _ in range(3)]
    copies = [elements[0]] * 9 + [reverse_complement(elements[1])] * 3 + [elements[1]] * 6 + [elements[2]] * 8
    spaced = "".join(copy + "".join("ACGT"[i] for i in rng.integers(0, 4, 200)) for copy in copies)
    counts = Counter(kmer for text in (spaced, spaced[:2_000].lower()) for kmer in plain_kmers(text) if kmer)
    wanted = np.zeros(len(spaced), dtype=bool)
    for at, kmer in enumerate(plain_kmers(spaced)):
        if kmer and counts[kmer] > 8:
            wanted[max(0, at - 50) : at + K + 50] = True
    with TemporaryDirectory() as name:
        genome = {"chr17": spaced.encode(), "chr20": spaced[:2_000].lower().encode()}
        path = write_fasta(Path(name) / "genome.fa", genome)
        # Spans end inside an element, too: what is counted is the genome, not what is held out.
        parts = [[HeldSpan("chr17", 0, 2_030)], [HeldSpan("chr17", 2_030, len(spaced))]]
        with FastaReader(path, GRCH38) as reader:
            repeats = find_frequent(reader, parts, Path(name))
            marked = repeats.mark(encode(spaced.encode())) & 8 > 0
    assert wanted.any()
    assert (marked == wanted).all()


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 900)), min_size=1, max_size=5),
    st.integers(150, 600),
    st.integers(10, 100),
)
def test_parts_hold_every_base_or_overlap(gaps_and_sizes: list[tuple[int, int]], part_bp: int, overlap_bp: int) -> None:
    starts = np.cumsum([gap for gap, _ in gaps_and_sizes]) + np.cumsum([0, *(n for _, n in gaps_and_sizes[:-1])])
    ends = starts + [size for _, size in gaps_and_sizes]
    parts = list(divide({"chr17": IntervalArray(starts, ends)}, part_bp, overlap_bp))
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
