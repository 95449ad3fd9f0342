from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import reverse_complement
from genolewm_assets.windows.corpus.placement import CorpusPlacer, Placement, PlacementHow, Verdict
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.corpus import BASES, CONTIGS, ExactAligner, gene, random_bases, read_bases

ALIGNER = ExactAligner()
PLACER = CorpusPlacer(CONTIGS, read_bases, ALIGNER)


def place(record: CorpusRecord, window: tuple[int, int] = (100, 700)) -> tuple[Verdict, Placement]:
    (found,) = place_all(record, [window])
    return found


def place_all(record: CorpusRecord, windows: list[tuple[int, int]]) -> list[tuple[Verdict, Placement]]:
    placed, answer = PLACER.place(record, windows), ALIGNER.answer()
    found = []
    for (verdict, placement, question), window in zip(placed, windows, strict=True):
        answered = answer(question) if question >= 0 else None
        bases = record.sequence[slice(*window)]
        found.append((verdict, PLACER.with_answer(placement, answered, bases) if answered else placement))
    return found


@pytest.mark.parametrize("strand", ["+", "-"])
def test_a_window_lies_where_its_bases_are(strand: str) -> None:
    record = gene("chr20", 5_000, 9_000, strand)
    windows = [(0, 600), (100, 700), (3_400, 4_000)]
    for (start, end), (verdict, placement) in zip(windows, place_all(record, windows), strict=True):
        assert verdict is Verdict.CONFIRMED
        assert (placement.how, placement.exact, placement.strand) == (PlacementHow.COORDINATES, True, strand)
        genomic = BASES["chr20"][placement.start : placement.end]
        assert record.sequence[start:end] == (genomic if strand == "+" else reverse_complement(genomic))


def test_spellings_of_the_contig_are_resolved() -> None:
    assert place(gene("chr21", 12_000, 16_000, contig="NC_000021.9"))[1].contig == "chr21"


@each_row(
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


@pytest.mark.parametrize(("contig", "span"), [("chr21", (2_000, 6_000)), ("NC_000007.14", (5_000, 9_000))])
def test_coordinates_on_unknown_bases_do_not_hide_where_the_bases_stand(contig: str, span: tuple[int, int]) -> None:
    verdict, placement = place(gene("chr20", 5_000, 9_000, "-", contig=contig, span=span))
    assert verdict is Verdict.UNVERIFIABLE
    assert (placement.how, placement.contig, placement.exact) == (PlacementHow.MAPPY, "chr20", True)
    assert (placement.start, placement.end) == (8_300, 8_900)
    name = {"chr21": "chr21"}.get(contig, "chr7")
    stated = placement.stated_contig, placement.stated_start, placement.stated_end
    assert stated == (name, span[1] - 700, span[1] - 100)


@each_row(
    ("known_bp", "verdict", "how"),
    [
        (540, Verdict.CONFIRMED, PlacementHow.COORDINATES),
        (539, Verdict.UNVERIFIABLE, PlacementHow.STATED),
        (0, Verdict.UNVERIFIABLE, PlacementHow.STATED),
    ],
)
def test_nine_tenths_of_a_window_must_be_known(known_bp: int, verdict: Verdict, how: PlacementHow) -> None:
    # chr21 is known from 10,000 on.
    start = 10_000 - (600 - known_bp)
    sequence = random_bases(8, 600 - known_bp) + BASES["chr21"][10_000 : 10_000 + known_bp]
    record = gene("chr21", start, start + 600, sequence=sequence)
    assert place(record, (0, 600)) == (verdict, Placement(how, "chr21", start, start + 600, "+"))


def test_a_contig_of_grch38_that_the_genome_lacks_is_kept_by_name() -> None:
    unknown = random_bases(9, 4_000)
    verdict, placement = place(gene("chr20", 5_000, 9_000, contig="NC_000007.14", sequence=unknown))
    assert (verdict, placement.how) == (Verdict.UNVERIFIABLE, PlacementHow.STATED)
    assert (placement.contig, placement.start, placement.exact) == ("chr7", 5_100, False)
    stated = place(gene("chr20", 5_000, 9_000, contig="7", span=None, sequence=unknown))
    assert stated == (Verdict.NOT_STATED, Placement(PlacementHow.CONTIG_NAME, "chr7"))


def test_a_contig_nobody_knows_is_no_contig_so_that_holdouts_fail_closed() -> None:
    record = gene("chr20", 5_000, 9_000, contig="NC_000021.8", sequence=random_bases(7, 4_000))
    assert place(record) == (Verdict.UNKNOWN_CONTIG, Placement(PlacementHow.NONE))


def test_other_organisms_are_not_placed_whatever_they_state() -> None:
    verdict, placement = place(gene("chr20", 5_000, 9_000, taxonomy="Mus musculus"))
    assert (verdict, placement) == (Verdict.NOT_STATED, Placement(PlacementHow.NONE))


@each_row("source", CorpusSource)
@each_row("taxonomy", ["human", "9606", "H. sapiens", "homo_sapiens", "Hominidae", "unknown", None])
def test_any_spelling_of_humans_and_any_source_is_placed(source: CorpusSource, taxonomy: str | None) -> None:
    record = gene("chr20", 5_000, 9_000, source=source, taxonomy=taxonomy)
    assert place(record)[1].how is PlacementHow.COORDINATES


@each_row(
    ("contig", "span", "verdict"),
    [
        ("chr21", None, Verdict.NOT_STATED),
        ("chr13", None, Verdict.NOT_STATED),
        ("chr21", (12_000, 16_000), Verdict.REFUTED),
        ("chr21", (28_000, 32_000), Verdict.REFUTED),
    ],
)
def test_another_contig_that_is_stated_does_not_hide_where_the_bases_stand(
    contig: str, span: tuple[int, int] | None, verdict: Verdict
) -> None:
    found, placement = place(gene("chr20", 5_000, 9_000, contig=contig, span=span))
    assert found is verdict
    assert (placement.how, placement.contig, placement.start) == (PlacementHow.MAPPY, "chr20", 5_100)
    # What is stated stays in doubt, because the alignment may be to a copy.
    assert (placement.stated_contig, placement.stated_start) == (contig, None)


SPANS = st.tuples(st.sampled_from(["chr20", "chr21", "chr7"]), st.integers(0, 26_000), st.sampled_from("+-"))


@given(st.integers(0, 36_000), SPANS, st.booleans())
def test_a_window_is_where_its_bases_are_whatever_its_record_states(
    at: int, stated: tuple[str, int, str], named_only: bool
) -> None:
    contig, start, strand = stated
    record = gene("chr20", at, at + 4_000, contig=contig, span=None if named_only else (start, start + 4_000))
    placement = place(replace(record, strand=strand))[1]
    assert (placement.contig, placement.start, placement.end) == ("chr20", at + 100, at + 700)
    true = (contig, start, strand) == ("chr20", at, "+") and not named_only
    assert placement.how is (PlacementHow.COORDINATES if true else PlacementHow.MAPPY)


def transcript(strand: str, /, **more: object) -> CorpusRecord:
    """Three exons of chr20:1,000-9,000."""
    exons = [(1_000, 1_400), (4_000, 4_300), (8_500, 9_000)]
    joined = b"".join(BASES["chr20"][a:b] for a, b in exons)
    sizes = [b - a for a, b in exons][:: 1 if strand == "+" else -1]
    values: dict[str, object] = {"source": CorpusSource.MRNA_SPLICE_EVO2, "taxonomy": None}
    values["sequence"] = joined if strand == "+" else reverse_complement(joined)
    values["junctions"] = (sizes[0], sizes[0] + sizes[1])
    return gene("chr20", 1_000, 9_000, strand, **{**values, **more})


@pytest.mark.parametrize("strand", ["+", "-"])
def test_a_transcript_covers_its_gene_once_its_outer_exons_are_there(strand: str) -> None:
    verdict, placement = place(transcript(strand))
    assert verdict is Verdict.CONFIRMED
    assert (placement.start, placement.end, placement.strand) == (1_000, 9_000, strand)
    assert (placement.spliced, placement.exact) == (True, False)


@each_row(
    "more",
    [{"strand": "-"}, {"span": (1_500, 9_500)}, {"junctions": (400, 5_000)}, {"span": (1_000, 1_900)}],
    ids=["other strand", "shifted", "junction beyond the end", "shorter than the transcript"],
)
def test_a_transcript_that_does_not_fit_its_coordinates_is_refuted(more: dict[str, object]) -> None:
    assert place(transcript("+", **more)) == (
        Verdict.REFUTED,
        Placement(PlacementHow.CONTIG_NAME, "chr20", spliced=True),
    )


def test_a_transcript_without_junctions_cannot_be_verified() -> None:
    assert place(transcript("+", junctions=None))[0] is Verdict.UNVERIFIABLE


def test_a_transcript_whose_outer_exons_are_a_small_part_of_it_cannot_be_verified() -> None:
    exons = [(1_000, 1_200), (4_000, 4_401), (8_800, 9_000)]
    joined = b"".join(BASES["chr20"][a:b] for a, b in exons)
    verdict, placement = place(transcript("+", sequence=joined, junctions=(200, 601)))
    assert verdict is Verdict.UNVERIFIABLE
    assert placement == Placement(PlacementHow.STATED, "chr20", 1_000, 9_000, "+", spliced=True)
    just = place(transcript("+", sequence=joined[:400] + joined[401:], junctions=(200, 600)))
    assert just[0] is Verdict.CONFIRMED
