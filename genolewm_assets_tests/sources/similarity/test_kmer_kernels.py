"""Shared 21-mers, compared with a count over Python sets."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pysam
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import GRCH38, IntervalArray, reverse_complement
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity.held_part import HeldPart, HeldSpan, divide, encode

K = 21


def plain_kmers(bases: str) -> list[str | None]:
    """Return the smaller spelling of the 21-mer that begins at each base; None with a base other than ACGT."""
    whole = [bases[at : at + K].upper() for at in range(len(bases) - K + 1)]
    return [min(kmer, reverse_complement(kmer)) if set(kmer) <= set("ACGT") else None for kmer in whole]


def read_part(bases: str) -> HeldPart:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "genome.fa"
        path.write_text(f">chr17\n{bases}\n")
        pysam.faidx(str(path))
        with FastaReader(path, GRCH38) as reader:
            return HeldPart.read(reader, [HeldSpan("chr17", 0, len(bases))], soft_masked=True)


@given(st.integers(0, 2**32 - 1), st.integers(30, 400), st.integers(20, 60))
def test_shared_kmers_are_those_of_sets(seed: int, size: int, stretch: int) -> None:
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

    part = read_part(held)
    unique, unique_at, any_kind, any_at = part.find_shared(encode(sequence.encode()), stretch)
    assert (unique, any_kind) == (densest(outside), densest(known))
    for n, at in ((unique, unique_at), (any_kind, any_at)):
        assert (at >= 0) == (n > 0)
        if n:
            _, start = part.span_at(at)
            assert plain_kmers(held)[start] in mine


def test_bases_near_frequent_kmers_count_as_the_repeat(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    element = "".join("ACGT"[i] for i in rng.integers(0, 4, 100))
    spaced = "".join(element + "".join("ACGT"[i] for i in rng.integers(0, 4, 400)) for _ in range(9))
    path = tmp_path / "genome.fa"
    path.write_text(f">chr17\n{spaced}\n>chr20\n{spaced[:2_000]}\n")
    pysam.faidx(str(path))
    with FastaReader(path, GRCH38) as reader:
        part = HeldPart.read(reader, [HeldSpan("chr17", 0, len(spaced))], soft_masked=False)
    in_repeat = part.codes & 8 > 0
    assert in_repeat[500:600].all()
    assert in_repeat[450:650].all()
    assert not in_repeat[660:940].any()


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 900)), min_size=1, max_size=5),
    st.integers(150, 600),
    st.integers(10, 100),
)
def test_parts_hold_every_base_once_but_for_overlaps(
    gaps_and_sizes: list[tuple[int, int]], part_bp: int, overlap_bp: int
) -> None:
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
    spans = [span for part in parts for span in part]
    for one, two in pairwise(spans):
        assert two.start >= one.end or one.end - two.start == overlap_bp
