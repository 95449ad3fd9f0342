from __future__ import annotations

import pytest

from genolewm_assets.genome import reverse_complement
from genolewm_assets.lewm.corpus.placement import CorpusPlacer, Placement, PlacementHow, Verdict
from genolewm_assets.lewm.corpus.records import CorpusRecord, CorpusSource
from genolewm_assets_tests.worlds.sources.corpus import BASES, CONTIGS, ExactAligner, gene, random_bases, read_bases

PLACER = CorpusPlacer(CONTIGS, read_bases, ExactAligner())


def place(record: CorpusRecord, window: tuple[int, int] = (100, 700)) -> tuple[Verdict, Placement]:
    verdict, (placement,) = PLACER.place(record, [window])
    return verdict, placement


@pytest.mark.parametrize("strand", ["+", "-"])
def test_a_window_lies_where_its_bases_are(strand: str) -> None:
    record = gene("chr20", 5_000, 9_000, strand)
    windows = [(0, 600), (100, 700), (3_400, 4_000)]
    verdict, placements = PLACER.place(record, windows)
    assert verdict is Verdict.CONFIRMED
    for (start, end), placement in zip(windows, placements, strict=True):
        assert (placement.how, placement.exact, placement.strand) == (PlacementHow.COORDINATES, True, strand)
        genomic = BASES["chr20"][placement.start : placement.end]
        assert record.sequence[start:end] == (genomic if strand == "+" else reverse_complement(genomic))


def test_spellings_of_the_contig_are_resolved() -> None:
    assert place(gene("chr21", 12_000, 16_000, contig="NC_000021.9"))[1].contig == "chr21"


def test_a_changed_base_is_no_longer_exact_where_it_stands_only() -> None:
    true = gene("chr20", 5_000, 9_000)
    changed = true.sequence[:200] + (b"A" if true.sequence[200:201] != b"A" else b"C") + true.sequence[201:]
    verdict, (with_it, without) = PLACER.place(
        gene("chr20", 5_000, 9_000, sequence=changed), [(100, 700), (1_000, 1_600)]
    )
    assert (verdict, with_it.exact, without.exact) == (Verdict.CONFIRMED, False, True)


@pytest.mark.parametrize(
    ("span", "placed"),
    [
        ((5_500, 9_500), (5_100, 5_700)),  # true bases elsewhere: the alignment decides
        ((5_000, 9_001), (5_100, 5_700)),  # another length
        ((38_000, 42_000), (5_100, 5_700)),  # beyond the contig
    ],
)
def test_coordinates_that_the_reference_contradicts_are_not_believed(
    span: tuple[int, int], placed: tuple[int, int]
) -> None:
    verdict, placement = place(gene("chr20", 5_000, 9_000, span=span))
    assert verdict is Verdict.REFUTED
    assert (placement.how, placement.start, placement.end) == (PlacementHow.MAPPY, *placed)


def test_refuted_coordinates_without_an_alignment_leave_the_contig() -> None:
    record = gene("chr20", 5_000, 9_000, sequence=random_bases(5, 4_000))
    assert place(record) == (Verdict.REFUTED, Placement(PlacementHow.CONTIG_NAME, "chr20"))


def test_where_the_reference_is_unknown_coordinates_stand() -> None:
    record = gene("chr21", 2_000, 6_000, sequence=random_bases(6, 4_000))
    verdict, placement = place(record)
    assert (verdict, placement.how, placement.exact) == (Verdict.UNVERIFIABLE, PlacementHow.COORDINATES, False)


def test_a_contig_of_grch38_that_the_genome_lacks_is_kept_by_name() -> None:
    verdict, placement = place(gene("chr20", 5_000, 9_000, contig="NC_000007.14"))
    assert (verdict, placement.contig, placement.exact) == (Verdict.UNVERIFIABLE, "chr7", False)
    stated = place(gene("chr20", 5_000, 9_000, contig="7", span=None))
    assert stated == (Verdict.NOT_STATED, Placement(PlacementHow.CONTIG_NAME, "chr7"))


def test_a_contig_nobody_knows_is_no_contig_so_that_holdouts_fail_closed() -> None:
    record = gene("chr20", 5_000, 9_000, contig="NC_000021.8", sequence=random_bases(7, 4_000))
    assert place(record) == (Verdict.UNKNOWN_CONTIG, Placement(PlacementHow.NONE))


def test_other_organisms_are_not_placed_whatever_they_state() -> None:
    verdict, placement = place(gene("chr20", 5_000, 9_000, taxonomy="Mus musculus"))
    assert (verdict, placement) == (Verdict.NOT_STATED, Placement(PlacementHow.NONE))


def test_alignment_looks_only_at_the_contig_that_is_named() -> None:
    record = gene("chr20", 5_000, 9_000, span=None)
    assert place(record)[1].how is PlacementHow.MAPPY
    elsewhere = gene("chr20", 5_000, 9_000, span=None, contig="chr21")
    assert place(elsewhere)[1] == Placement(PlacementHow.CONTIG_NAME, "chr21")
    unnamed = gene("chr20", 5_000, 9_000, span=None, contig=None)
    assert place(unnamed)[1].contig == "chr20"
    alone = CorpusPlacer(CONTIGS, read_bases)
    assert alone.place(unnamed, [(0, 600)])[1] == [Placement(PlacementHow.NONE)]


def transcript(strand: str, /, **more: object) -> CorpusRecord:
    """Three exons of chr20:1,000-9,000."""
    exons = [(1_000, 1_400), (4_000, 4_300), (8_500, 9_000)]
    joined = b"".join(BASES["chr20"][a:b] for a, b in exons)
    sizes = [b - a for a, b in exons][:: 1 if strand == "+" else -1]
    values: dict[str, object] = {
        "source": CorpusSource.MRNA_SPLICE_EVO2,
        "sequence": joined if strand == "+" else reverse_complement(joined),
        "junctions": (sizes[0], sizes[0] + sizes[1]),
        "taxonomy": None,
    }
    return gene("chr20", 1_000, 9_000, strand, **{**values, **more})


@pytest.mark.parametrize("strand", ["+", "-"])
def test_a_transcript_covers_its_gene_once_its_outer_exons_are_there(strand: str) -> None:
    verdict, placement = place(transcript(strand))
    assert verdict is Verdict.CONFIRMED
    assert (placement.start, placement.end, placement.strand) == (1_000, 9_000, strand)
    assert (placement.spliced, placement.exact) == (True, False)


@pytest.mark.parametrize(
    "more",
    [{"strand": "-"}, {"span": (1_500, 9_500)}, {"junctions": (400, 5_000)}, {"span": (1_000, 1_900)}],
    ids=["other strand", "shifted", "junction beyond the end", "shorter than the transcript"],
)
def test_a_transcript_that_does_not_fit_its_coordinates_is_refuted(more: dict[str, object]) -> None:
    assert place(transcript("+", **more)) == (
        Verdict.REFUTED,
        Placement(PlacementHow.CONTIG_NAME, "chr20", spliced=True),
    )


def test_a_single_exon_is_placed_base_for_base() -> None:
    record = gene("chr20", 2_000, 5_000, "-", source=CorpusSource.MRNA_SPLICE_EVO2, taxonomy=None)
    verdict, placement = place(record, (100, 700))
    assert (verdict, placement.start, placement.end, placement.exact) == (Verdict.CONFIRMED, 4_300, 4_900, True)


def test_a_transcript_without_junctions_cannot_be_verified() -> None:
    assert place(transcript("+", junctions=None))[0] is Verdict.UNVERIFIABLE
