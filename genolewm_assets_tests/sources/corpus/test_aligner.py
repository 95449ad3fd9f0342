"""Sequences are placed where they are, by an index that is made once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import mappy
import pysam
import pytest

from genolewm_assets.errors import FastaError
from genolewm_assets.genome import reverse_complement
from genolewm_assets.sources.corpus.aligner import MappyAligner
from genolewm_assets.sources.corpus.genome_slices import GenomeSlices
from genolewm_assets.store.artefacts import DerivedFiles
from genolewm_assets.windows.corpus.placement import Placement
from genolewm_assets_tests.worlds.sources.corpus import BASES, CONTIGS, random_bases

#: An intron as the aligner expects it: GT at its start, AG at its end.
EXONS = ((20_000, 20_800), (23_000, 23_500), (27_000, 27_900))


def _with_introns(bases: bytes) -> bytes:
    edited = bytearray(bases)
    for (_, end), (start, _) in pairwise(EXONS):
        edited[end : end + 2], edited[start - 2 : start] = b"GT", b"AG"
    return bytes(edited)


# A contig of odd length is first.
REFERENCE = {"unplaced": random_bases(99, 5_001), "20": _with_introns(BASES["chr20"]), "chr21": BASES["chr21"]}


@pytest.fixture(scope="module")
def genome(tmp_path_factory: pytest.TempPathFactory) -> GenomeSlices:
    path = tmp_path_factory.mktemp("reference") / "genome.fa"
    path.write_text("".join(f">{name}\n{bases.decode()}\n" for name, bases in REFERENCE.items()))
    pysam.tabix_compress(str(path), f"{path}.gz")
    pysam.faidx(f"{path}.gz")
    return GenomeSlices(Path(f"{path}.gz"), CONTIGS, DerivedFiles(path.parent / "derived"))


def place(aligner: MappyAligner, bases: bytes) -> Placement | None:
    question = aligner.ask(bases)
    return aligner.answer()(question)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FastaError, match=r"genome.fa.gz: does not exist. Rebuild reference/genome"):
        GenomeSlices(tmp_path / "genome.fa.gz", CONTIGS, DerivedFiles(tmp_path))
    (tmp_path / "genome.fa.gz").write_bytes(b"")
    with pytest.raises(FastaError, match=r"genome.fa.gz.fai: does not exist"):
        GenomeSlices(tmp_path / "genome.fa.gz", CONTIGS, DerivedFiles(tmp_path))


@pytest.mark.parametrize("strand", ["+", "-"])
def test_a_stretch_is_found_where_it_is(genome: GenomeSlices, strand: str) -> None:
    bases = REFERENCE["20"][5_000:9_000]
    found = place(MappyAligner(genome, spliced=False), bases if strand == "+" else reverse_complement(bases))
    assert found is not None
    assert (found.contig, found.start, found.end, found.strand) == ("chr20", 5_000, 9_000, strand)
    assert (found.identity, found.coverage, found.spliced) == (1.0, 1.0, False)


@pytest.mark.parametrize("strand", ["+", "-"])
def test_a_transcript_is_found_across_its_introns(genome: GenomeSlices, strand: str) -> None:
    joined = b"".join(REFERENCE["20"][a:b] for a, b in EXONS)
    found = place(MappyAligner(genome, spliced=True), joined if strand == "+" else reverse_complement(joined))
    assert found is not None
    assert (found.contig, found.start, found.end) == ("chr20", 20_000, 27_900)
    assert (found.strand, found.spliced) == (strand, True)
    assert found.identity == 1.0


def test_what_is_found_partly_or_not_is_no_place(genome: GenomeSlices) -> None:
    aligner = MappyAligner(genome, spliced=False)
    bases = REFERENCE["20"][5_000:9_000]
    assert place(aligner, bases[:2_500] + random_bases(3, 1_500)) is None
    assert place(aligner, random_bases(4, 4_000)) is None
    assert place(aligner, REFERENCE["unplaced"]) is None


def test_a_repeat_has_no_one_place(tmp_path: Path) -> None:
    unit = random_bases(8, 5_000)
    path = tmp_path / "genome.fa"
    path.write_text(f">chr20\n{(unit + random_bases(9, 5_000) + unit).decode()}\n>chr21\n{'A' * 100}\n")
    pysam.faidx(str(path))
    aligner = MappyAligner(GenomeSlices(path, CONTIGS, DerivedFiles(tmp_path / "derived")), spliced=False)
    assert place(aligner, unit) is None
    assert place(aligner, unit[2_000:] + random_bases(9, 5_000)[:2_000]) is not None


def test_slices_are_those_of_the_fasta(genome: GenomeSlices) -> None:
    bases = REFERENCE["chr21"]
    for start, end in ((0, 7), (9_995, 10_004), (10_001, 10_002), (29_990, 40_000), (5, 5), (7, 3)):
        assert genome("chr21", start, end) == bases[start:end]
    assert genome("chr20", 39_998, 40_001) == REFERENCE["20"][39_998:]


def test_an_index_is_made_once_when_one_is_aligned(genome: GenomeSlices, monkeypatch: pytest.MonkeyPatch) -> None:
    derived = genome.derived.folder
    kept = DerivedFiles(derived.parent / "others")
    slices = GenomeSlices(genome.path, CONTIGS, kept)
    assert MappyAligner(slices, spliced=False).answer()(0) is None
    assert not kept.folder.exists()
    first = place(MappyAligner(slices, spliced=False), REFERENCE["20"][5_000:9_000])
    again = GenomeSlices(genome.path, CONTIGS, DerivedFiles(kept.folder))
    monkeypatch.setattr(MappyAligner, "_make_index", lambda *_: pytest.fail("made again"))
    assert place(MappyAligner(again, spliced=False), REFERENCE["20"][5_000:9_000]) == first
    assert [path.name for path in kept.folder.rglob("*.mmi")] == [f"asm10.minimap2-{mappy.__version__}.0.mmi"]
