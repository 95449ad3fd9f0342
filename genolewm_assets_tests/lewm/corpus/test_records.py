from __future__ import annotations

import pytest

from genolewm_assets.lewm.corpus.records import CorpusRecord, CorpusSource


@pytest.mark.parametrize(
    ("source", "taxonomy", "expected"),
    [
        ("eukaryote_generator", "Homo sapiens", True),
        ("eukaryote_generator", "Saccharomyces cerevisiae", False),
        ("eukaryote_generator", None, True),
        ("mrna_evo2", None, True),
        ("prokaryote_evo2", None, True),
        ("prokaryote_evo2", "human", True),
        ("prokaryote_evo2", "d__Bacteria;p__Pseudomonadota;c__Gammaproteobacteria", False),
    ],
)
def test_what_states_no_listed_organism_may_be_human_whatever_its_source(
    source: str, taxonomy: str | None, expected: bool
) -> None:
    assert CorpusRecord(CorpusSource(source), "x", b"A", taxonomy=taxonomy).maybe_human is expected


@pytest.mark.parametrize(
    ("source", "junctions", "expected"),
    [
        ("mrna_evo2", None, True),
        ("mrna_splice_evo2", (3, 5), True),
        ("mrna_splice_evo2", (), False),
        ("eukaryote_generator", None, False),
    ],
)
def test_transcripts_count_as_spliced_unless_they_are_one_exon(
    source: str, junctions: tuple[int, ...] | None, expected: bool
) -> None:
    assert CorpusRecord(CorpusSource(source), "x", b"ACGTACGT", junctions=junctions).spliced is expected
