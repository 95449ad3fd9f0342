"""The compiled loops of the search over 21-mers: a filter that misses none, what is shared, what is in a repeat."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Container
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from genolewm_assets.genome import GRCH38, reverse_complement
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity.candidates import QueryBatch, as_arrays, as_column
from genolewm_assets.sources.similarity.held_part import (
    LETTERS,
    HeldPart,
    HeldSpan,
    PresenceFilter,
    count_bases,
    encode,
)
from genolewm_assets.sources.similarity.kmer_kernels import NO_HASH, find_pairs, hash_kmers, mark_sampled
from genolewm_assets.sources.similarity.repeats import find_frequent, soft_mask
from genolewm_assets.sources.similarity.verdicts import STRETCH, TO_ALIGN, least_repeated
from genolewm_assets_tests.sources.similarity.genomes import query, random_bases, write_fasta
from genolewm_assets_tests.worlds.sources.queries import as_table

Row = dict[str, Any]
Int64s, Uint8s = NDArray[np.int64], NDArray[np.uint8]

WINDOW_BP = 12_544


K = 21


def plain_kmers(bases: str) -> list[str | None]:
    """Return the smaller spelling of the 21-mer that begins at each base; None with a base other than ACGT."""
    whole = [bases[at : at + K].upper() for at in range(len(bases) - K + 1)]
    return [min(kmer, reverse_complement(kmer)) if set(kmer) <= set("ACGT") else None for kmer in whole]


def read_part(fasta: Path, size: int) -> HeldPart:
    with FastaReader(fasta, GRCH38) as reader:
        return HeldPart.read(reader, [HeldSpan("chr17", 0, size)], soft_mask)


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
    unmasked = {kmer for at, kmer in enumerate(plain_kmers(held)) if kmer and held[at : at + K].isupper()}
    known = {kmer for kmer in plain_kmers(held) if kmer}
    mine = plain_kmers(sequence)

    def densest(kmers: set[str], chosen: Container[int] = range(10**6)) -> int:
        shared = [int(kmer in kmers and at in chosen) for at, kmer in enumerate(mine)]
        return max((sum(shared[at : at + stretch]) for at in range(len(shared))), default=0)

    # Between other windows, of which one is shorter than a 21-mer.
    windows = QueryBatch.of(as_table(query(name, name.encode()) for name in ("ACGT", sequence, "N" * 50)))
    with TemporaryDirectory() as name:
        part = read_part(write_fasta(Path(name) / "genome.fa", {"chr17": held.encode()}), len(held))
        most, hits, firsts = presence(part, Path(name)).screen(windows, stretch, 0)
    sampled = sample(sequence)
    assert most[1, 0] >= densest({kmer for kmer in known if kmer in unmasked}, sampled)
    assert most[1, 1] >= densest(known, sampled)
    assert most[[0, 2]].tolist() == [[0, 0, 0]] * 2
    pairs, runs = find(part, windows, hits, firsts, stretch)
    assert set(pairs[:, 0].tolist()) <= {1}
    assert [pairs[:, column].sum() for column in (2, 4)] == [densest(outside), densest(outside, sampled)]
    if densest(outside):
        assert plain_kmers(held)[pairs[0, 3]] in mine
    assert bool(most[1, 2]) >= any(all(kmer in unmasked for kmer in mine[at : at + 11]) for at in range(len(mine) - 10))
    longer = {sequence[at : at + 31] for start, n in runs.tolist() for at in range(start, start + n)}
    assert longer == {
        each
        for each in (sequence[at : at + 31] for at in range(len(sequence) - 30))
        if len({each[i : i + 3] for i in range(29)}) >= 12 and all(kmer in unmasked for kmer in plain_kmers(each))
    }


def sample(sequence: str) -> set[int]:
    """Return where sampled 21-mers begin: of every eleven one after another one of least hash, known ones only."""
    hashes = np.empty(len(sequence), np.uint64)
    hash_kmers(encode(sequence.encode()), hashes)
    sampled, hashes = np.empty(len(sequence), np.uint8), hashes[: len(sequence) - K + 1]
    mark_sampled(hashes, sampled)
    found = set(np.flatnonzero(sampled[: len(hashes)]).tolist())
    least = [hashes[at : at + 11].min() for at in range(len(hashes) - 10)]
    for at, value in enumerate(least):
        assert (value == NO_HASH) != any(hashes[of] == value for of in found & set(range(at, at + 11)))
    assert {hashes[at] for at in found} == {value for value in least if value != NO_HASH}
    return found


def find(part: HeldPart, windows: QueryBatch, hits: Uint8s, firsts: Int64s, stretch: int) -> tuple[Int64s, Int64s]:
    bits = as_arrays(pa.chunked_array([as_column(hits, firsts)]))
    given = windows.data, windows.offsets, LETTERS, *bits, part.codes, part.firsts, part.make_table(), stretch
    pairs, runs = find_pairs(*given, 0)
    return pairs, runs


def test_few_windows_of_other_sequence_are_candidates(fasta: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    other = QueryBatch.of(as_table(query(f"{n}", random_bases(rng, WINDOW_BP)) for n in range(300)))
    present = presence(read_part(fasta, 200_000), tmp_path)
    most, _, _ = present.screen(other, STRETCH, TO_ALIGN)
    assert np.count_nonzero((most[:, 0] >= TO_ALIGN) | (most[:, 2] > 0)) <= 9
    assert not (most[:, 1] >= least_repeated(other.sizes)).any()


def test_every_21mer_of_a_long_part_is_found(fasta: Path, contigs: dict[str, bytes], tmp_path: Path) -> None:
    part = read_part(fasta, 50_000)
    present = presence(part, tmp_path)
    windows = QueryBatch.of(as_table([query("whole", contigs["chr17"][:50_000])]))
    arrays = windows.data, windows.offsets, part.codes
    references = [sys.getrefcount(array) for array in arrays]
    most, hits, firsts = present.screen(windows, 10**6, 1)
    assert most.tolist() == [[len(sample(contigs["chr17"][:50_000].decode()))] * 2 + [1]]
    assert np.unpackbits(hits).sum() == 50_000 - K + 1
    pairs, runs = find(part, windows, hits, firsts, 10**6)
    assert pairs[0, [0, 1, 2]].tolist() == [0, 0, 50_000 - K + 1]
    assert runs.tolist() == [[0, 50_000 - 30]]
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
            marked = repeats(encode(spaced.encode())) & 8 > 0
    assert wanted.any()
    assert (marked == wanted).all()
