"""A genome that is aligned in parts gives the places that one index of it gives."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pysam
import pytest

from genolewm_assets.genome import Contig, ContigSet, reverse_complement
from genolewm_assets.sources.corpus.aligner import MappyAligner
from genolewm_assets.sources.corpus.files import read_records
from genolewm_assets.sources.corpus.genome_slices import GenomeSlices, Stretch
from genolewm_assets.sources.corpus.parts import PART_BP, BestHits, Hit, divide, needs_parts
from genolewm_assets.sources.corpus.writing import write_corpus_windows
from genolewm_assets.store.artefacts import DerivedFiles
from genolewm_assets.windows.corpus.placement import CorpusPlacer, Placement
from genolewm_assets.windows.corpus.records import CorpusSource
from genolewm_assets.windows.corpus.windows import CorpusParams
from genolewm_assets_tests.worlds.sources.corpus import SMALL, random_bases
from genolewm_assets_tests.worlds.sources.corpus_files import text_row, write_rows

PART, OVERLAP = 40_000, 10_000
TWICE = random_bases(70, 4_000)
BASES = {
    "chr20": random_bases(71, 20_000) + TWICE + random_bases(72, 86_000),
    "chr21": random_bases(73, 9_000) + b"N" * 6_000 + random_bases(74, 4_000) + TWICE + random_bases(75, 7_000),
    "unplaced": random_bases(76, 6_000),
}
CONTIGS = ContigSet([Contig("chr20", len(BASES["chr20"])), Contig("chr21", len(BASES["chr21"]))])


@pytest.fixture(scope="module")
def genome(tmp_path_factory: pytest.TempPathFactory) -> GenomeSlices:
    path = tmp_path_factory.mktemp("reference") / "genome.fa"
    path.write_text("".join(f">{name}\n{bases.decode()}\n" for name, bases in BASES.items()))
    pysam.faidx(str(path))
    return GenomeSlices(path, CONTIGS, DerivedFiles(path.parent / "derived"))


def mutated(bases: bytes, share: float) -> bytes:
    """Return bases of which a share is replaced by the base that pairs with it."""
    changed = np.frombuffer(bases, np.uint8).copy()
    at = np.random.default_rng(5).random(len(bases)) < share
    changed[at] = np.frombuffer(bases.translate(bytes.maketrans(b"ACGT", b"TGCA")), np.uint8)[at]
    return changed.tobytes()


def transcripts() -> dict[str, bytes]:
    chr20, chr21 = BASES["chr20"], BASES["chr21"]
    # 28,000 and 55,000 are near the borders of parts.
    cut = {f"plain {at}": chr20[at : at + 5_000] for at in range(0, 105_000, 7_000)}
    return {
        **cut,
        "other strand": reverse_complement(chr20[50_000:56_000]),
        "across a border": chr20[37_000:43_000],
        "intron": chr20[60_000:62_000] + chr20[64_000:66_000],
        "changed": mutated(chr20[81_000:86_000], 0.03),
        "too much changed": mutated(chr20[91_000:96_000], 0.2),
        "in two parts": TWICE,
        "twice, and more": chr21[15_500:19_000] + TWICE,
        "not in the catalogue": BASES["unplaced"],
        "nowhere": random_bases(77, 5_000),
    }


def answers(aligner: MappyAligner, asked: dict[str, bytes]) -> dict[str, Placement | None]:
    questions = {name: aligner.ask(bases) for name, bases in asked.items()}
    answer = aligner.answer()
    return {name: answer(question) if question >= 0 else None for name, question in questions.items()}


@pytest.mark.parametrize("spliced", [False, True])
def test_parts_give_the_places_of_one_index(genome: GenomeSlices, *, spliced: bool) -> None:
    whole = answers(MappyAligner(genome, spliced=spliced), transcripts())
    divided = MappyAligner(genome, spliced=spliced, part_bp=PART, overlap_bp=OVERLAP)
    found = answers(divided, transcripts())
    assert found == whole
    placed = {name for name, place in found.items() if place is not None}
    unplaced = {"too much changed", "in two parts", "not in the catalogue", "nowhere"}
    assert placed == set(transcripts()) - unplaced - (set() if spliced else {"intron"})


def test_files_are_the_same_bytes(genome: GenomeSlices, tmp_path: Path) -> None:
    rows = [text_row(note="transcript", record=name, text=bases.decode()) for name, bases in transcripts().items()]
    path = write_rows(tmp_path / "part-0.parquet", *rows)
    whole = MappyAligner(genome, spliced=True)
    divided = MappyAligner(genome, spliced=True, part_bp=PART, overlap_bp=OVERLAP)
    written = []
    for name, aligner in (("whole", whole), ("divided", divided)):
        out = tmp_path / name
        report = write_corpus_windows(
            read_records([path], CorpusSource.MRNA_EVO2),
            params=CorpusParams(SMALL),
            placer=CorpusPlacer(CONTIGS, genome, aligner),
            out_dir=out,
        )
        assert report.counts["placed.mappy"] > 50
        written.append({file.name: file.read_bytes() for file in out.iterdir()})
        assert pq.read_metadata(out / "windows.parquet").num_row_groups == 1
    assert written[0] == written[1]
    assert set(written[1]) == {"windows.parquet", "skipped.parquet", "bases.npy"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_place_that_two_parts_share_is_unique_in_both(tmp_path: Path, order: tuple[int, int]) -> None:
    # One of the parts holds a second place that is as good, and minimap2 names the first.
    hits = [Hit("chr20", 30_000, 35_000, False, False, unique, 5_000, 5_000, 5_000, 5_000) for unique in (True, False)]
    best = BestHits(2, tmp_path)
    for part in order:
        best.add(0, hits[part])
        best.add(1, hits[0])
    assert [best.find(question) for question in (0, 1)] == [None, hits[0]]


def test_parts_cover_each_contig_and_share_their_borders() -> None:
    parts = divide({"a": 100, "b": 30, "c": 5, "d": 36, "e": 1}, part_bp=40, overlap_bp=10)
    assert parts == [
        (Stretch("a", 0, 40),),
        (Stretch("a", 30, 70),),
        (Stretch("a", 60, 100),),
        (Stretch("b", 0, 30), Stretch("c", 0, 5)),
        (Stretch("d", 0, 36), Stretch("e", 0, 1)),
    ]
    for length in range(1, 200):
        stretches = [stretch for part in divide({"a": length}, part_bp=40, overlap_bp=10) for stretch in part]
        assert (stretches[0].start, stretches[-1].end) == (0, length)
        assert all(stretch.end - stretch.start <= 40 for stretch in stretches)
        assert all(later.start == earlier.end - 10 for earlier, later in pairwise(stretches))


@pytest.mark.parametrize(("length", "needed"), [(PART_BP - 5, False), (PART_BP - 4, True)])
def test_a_genome_longer_than_a_part_is_known_from_its_index(tmp_path: Path, length: int, *, needed: bool) -> None:
    index = tmp_path / "genome.fa.fai"
    index.write_text(f"chr1\t{length}\t6\t80\t81\nchr2\t5\t9\t80\t81\n")
    assert needs_parts(index) == needed
