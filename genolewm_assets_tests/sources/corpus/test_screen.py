"""The screen names each part that can hold the place of a sequence, and few others."""

from __future__ import annotations

import numpy as np
import pysam
import pytest
from numpy.typing import NDArray

from genolewm_assets.genome import Contig, ContigSet, encode_kmers, encode_sequence, reverse_complement
from genolewm_assets.sources.corpus.genome_slices import GenomeSlices, Stretch
from genolewm_assets.sources.corpus.screen import PartScreen
from genolewm_assets.store.artefacts import DerivedFiles
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.corpus import random_bases

SIZE = 1_000_000
REPEAT = random_bases(90, 5_000)
#: Part 9 holds a repeat of part 0; its mask is in the second byte.
PARTS = [random_bases(31 + part, SIZE) for part in range(9)] + [REPEAT + b"N" * 500 + random_bases(50, SIZE)]
HELD = PARTS[0] = REPEAT + PARTS[0]


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> PartScreen:
    folder = tmp_path_factory.mktemp("screen")
    path = folder / "genome.fa"
    path.write_text("".join(f">{number}\n{bases.decode()}\n" for number, bases in enumerate(PARTS)))
    pysam.faidx(str(path))
    contigs = ContigSet([Contig(str(number), len(bases)) for number, bases in enumerate(PARTS)])
    genome = GenomeSlices(path, contigs, DerivedFiles(folder / "derived"))
    # Two stretches of a contig share no 15-mer across their border.
    parts = [(Stretch(str(number), 0, 70_001), Stretch(str(number), 60_000, len(b))) for number, b in enumerate(PARTS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("genolewm_assets.sources.corpus.screen._READ_BP", 100_003)
        PartScreen.write(folder / "screen", parts, genome)
    return PartScreen(folder / "screen", len(parts))


def sampled(bases: bytes) -> NDArray[np.uint32]:
    """Return the rows of the sampled 15-mers of a sequence, by NumPy."""
    codes = encode_sequence(bases)
    left, right = encode_kmers(codes, k=8), encode_kmers(codes[8:], k=7)
    left = left[: len(right)]
    known = (left >= 0) & (right >= 0)
    ranks = (left[known].astype(np.uint32) << np.uint32(14)) | right[known].astype(np.uint32)
    hashes = (ranks * np.uint32(0x9E3779B1)) & np.uint32((1 << 30) - 1)
    return hashes[hashes < (1 << 26)]


@pytest.mark.parametrize("part", [0, 9])
def test_the_rows_of_a_part_are_its_sampled_15_mers_on_both_strands(screen: PartScreen, part: int) -> None:
    expected = np.unique(np.concatenate([sampled(PARTS[part]), sampled(reverse_complement(PARTS[part]))]))
    assert np.array_equal(np.flatnonzero(screen._held[:, part // 8] >> (part % 8) & 1), expected)


def with_errors(bases: bytes, every: int) -> bytes:
    """Return bases of which every ``every``-th is replaced: the worst way to distribute errors."""
    changed = np.frombuffer(bases, np.uint8).copy()
    changed[::every] = np.frombuffer(bases.translate(bytes.maketrans(b"ACGT", b"TGCA")), np.uint8)[::every]
    return changed.tobytes()


@each_row("length", [2_048, 12_288])
@each_row("every", [10_000, 20])
def test_the_part_that_holds_a_sequence_is_named(screen: PartScreen, length: int, every: int) -> None:
    for start in range(0, SIZE - length, 97_001):
        bases = with_errors(HELD[start : start + length], every)
        # One tenth need not be in the part.
        bases = bases[: length * 9 // 10] + random_bases(start, length - length * 9 // 10)
        assert 0 in screen.find(bases)
        assert 0 in screen.find(reverse_complement(bases))


@pytest.mark.parametrize("length", [2_048, 12_288])
def test_what_is_elsewhere_has_no_part(screen: PartScreen, length: int) -> None:
    assert not any(screen.find(random_bases(seed, length)) for seed in range(20))


def test_a_repeat_does_not_name_a_part_but_a_copy_does(screen: PartScreen) -> None:
    assert screen.find(HELD[:12_000]) == [0]
    assert screen.find(REPEAT) == [0, 9]
    assert screen.find(with_errors(REPEAT, 100)) == [0, 9]
