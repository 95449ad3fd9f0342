"""The screen stops no sequence that could be placed, and those that could not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pysam
import pytest

from genolewm_assets.errors import FastaError
from genolewm_assets.genome import reverse_complement
from genolewm_assets.sources.corpus.aligner import GenomeSlices, MappyAligner
from genolewm_assets.sources.corpus.parts import KmerScreen, _sample
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.corpus import BASES, CONTIGS, random_bases

#: An intron as the aligner expects it: GT at its start, AG at its end.
EXONS = ((20_000, 20_800), (23_000, 23_500), (27_000, 27_900))


def _with_introns(bases: bytes) -> bytes:
    edited = bytearray(bases)
    for (_, end), (start, _) in pairwise(EXONS):
        edited[end : end + 2], edited[start - 2 : start] = b"GT", b"AG"
    return bytes(edited)


REFERENCE = {"20": _with_introns(BASES["chr20"]), "chr21": BASES["chr21"], "unplaced": random_bases(99, 5_000)}


@pytest.fixture(scope="module")
def genome(tmp_path_factory: pytest.TempPathFactory) -> GenomeSlices:
    path = tmp_path_factory.mktemp("reference") / "genome.fa"
    path.write_text("".join(f">{name}\n{bases.decode()}\n" for name, bases in REFERENCE.items()))
    pysam.tabix_compress(str(path), f"{path}.gz")
    pysam.faidx(f"{path}.gz")
    return GenomeSlices(Path(f"{path}.gz"), CONTIGS)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FastaError, match=r"genome.fa.gz: does not exist. Rebuild reference/genome"):
        GenomeSlices(tmp_path / "genome.fa.gz", CONTIGS)
    (tmp_path / "genome.fa.gz").write_bytes(b"")
    with pytest.raises(FastaError, match=r"genome.fa.gz.fai: does not exist"):
        GenomeSlices(tmp_path / "genome.fa.gz", CONTIGS)


@pytest.mark.parametrize("strand", ["+", "-"])
def test_a_stretch_is_found_where_it_is(genome: GenomeSlices, strand: str) -> None:
    bases = REFERENCE["20"][5_000:9_000]
    found = MappyAligner(genome, spliced=False).align(bases if strand == "+" else reverse_complement(bases))
    assert found is not None
    assert (found.contig, found.start, found.end, found.strand) == ("chr20", 5_000, 9_000, strand)
    assert (found.identity, found.coverage, found.spliced) == (1.0, 1.0, False)


@pytest.mark.parametrize("strand", ["+", "-"])
def test_a_transcript_is_found_across_its_introns(genome: GenomeSlices, strand: str) -> None:
    joined = b"".join(REFERENCE["20"][a:b] for a, b in EXONS)
    found = MappyAligner(genome, spliced=True).align(joined if strand == "+" else reverse_complement(joined))
    assert found is not None
    assert (found.contig, found.start, found.end) == ("chr20", 20_000, 27_900)
    assert (found.strand, found.spliced) == (strand, True)
    assert found.identity == 1.0


def test_what_is_found_partly_or_not_is_no_place(genome: GenomeSlices) -> None:
    aligner = MappyAligner(genome, spliced=False)
    bases = REFERENCE["20"][5_000:9_000]
    assert aligner.align(bases[:2_500] + random_bases(3, 1_500)) is None
    assert aligner.align(random_bases(4, 4_000)) is None
    assert aligner.align(REFERENCE["unplaced"]) is None


def test_a_repeat_has_no_one_place(tmp_path: Path) -> None:
    unit = random_bases(8, 5_000)
    path = tmp_path / "genome.fa"
    path.write_text(f">chr20\n{(unit + random_bases(9, 5_000) + unit).decode()}\n>chr21\n{'A' * 100}\n")
    pysam.faidx(str(path))
    aligner = MappyAligner(GenomeSlices(path, CONTIGS), spliced=False)
    assert aligner.align(unit) is None
    assert aligner.align(unit[2_000:] + random_bases(9, 5_000)[:2_000]) is not None


def test_the_index_is_made_only_when_one_is_aligned(genome: GenomeSlices, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("mappy.Aligner", refuse)
    aligner = MappyAligner(genome, spliced=True)
    with pytest.raises(AssertionError):
        aligner.align(b"ACGT")


HELD = random_bases(31, 2_000_000)


@pytest.fixture(scope="module")
def screen() -> KmerScreen:
    made = KmerScreen()
    for start in range(0, len(HELD), 500_000):
        made.add(HELD[start : start + 500_000])
    return made


def with_errors(bases: bytes, every: int) -> bytes:
    """Return bases of which every ``every``-th is replaced: the worst way to distribute errors."""
    changed = np.frombuffer(bases, np.uint8).copy()
    changed[::every] = np.frombuffer(bases.translate(bytes.maketrans(b"ACGT", b"TGCA")), np.uint8)[::every]
    return changed.tobytes()


@each_row("length", [2_048, 12_288])
@each_row("every", [10_000, 20])
def test_what_can_be_placed_is_let_through(screen: KmerScreen, length: int, every: int) -> None:
    for start in range(0, len(HELD) - length, 97_001):
        bases = with_errors(HELD[start : start + length], every)
        # One tenth need not be in the part.
        bases = bases[: length * 9 // 10] + random_bases(start, length - length * 9 // 10)
        assert screen.may_hold(bases)
        assert screen.may_hold(reverse_complement(bases))


@pytest.mark.parametrize("length", [2_048, 12_288])
def test_what_is_elsewhere_is_stopped(screen: KmerScreen, length: int) -> None:
    assert not any(screen.may_hold(random_bases(seed, length)) for seed in range(20))


def test_chance_is_as_rare_as_the_part_is_small(screen: KmerScreen) -> None:
    # 2 million bases on two strands are 0.4 % of all 15-mers; a hash that is not one-to-one gives several times that.
    assert np.mean(screen._held) == pytest.approx(2 * len(HELD) / 4**15, rel=0.05)
    places = _sample(random_bases(32, 2_000_000))
    assert np.mean(screen._held[places]) == pytest.approx(2 * len(HELD) / 4**15, rel=0.1)
