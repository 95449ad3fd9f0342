"""Similarity on real sequence: the copy of BRCA1's first exons beside it, and what the audit finds by other code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genolewm_assets.audit.reading.intervals import Span
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.genome import GRCH38, IntervalArray
from genolewm_assets.holdouts import SimilarReason, WindowKey
from genolewm_assets.holdouts.schema import REFERENCE
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity import SequenceSearch
from genolewm_assets_tests.audit.compared import compare, held_table
from genolewm_assets_tests.worlds.sources.queries import Query, as_pieces

#: BRCA1 (NCBI Gene 672), and its pseudogene BRCA1P1 (394269), which shares the first exons; GRCh38, 0-based.
BRCA1, PSEUDOGENE = (43_044_294, 43_125_364), (43_168_000, 43_178_000)
STEP_BP, WINDOW_BP = 6_144, 12_544


@pytest.fixture(scope="module")
def fasta(shared_data: Path) -> Path:
    return shared_data / "reference" / "GRCh38.slices.fa.gz"


#: Held out: the gene; and the beginnings of two slices, of which one has segmental duplications.
REGIONS = {
    "BRCA1": Span("chr17", *BRCA1),
    "chr20": Span("chr20", 60_000, 2_000_000),
    "chr21": Span("chr21", 5_010_000, 6_500_000),
}


def cut(fasta: Path, held: Span) -> Iterator[Query]:
    """Yield windows of all slices that do not overlap what is held out."""
    with FastaReader(fasta, GRCH38) as reader:
        for contig in ("chr17", "chr20", "chr21"):
            bases = reader.open_contig(GRCH38[contig])
            for start in range(0, len(bases) - WINDOW_BP, STEP_BP):
                sequence = bases[start : start + WINDOW_BP]
                near = contig == held.contig and start < held.end and held.start < start + WINDOW_BP
                if not near and set(sequence) <= set(b"ACGT"):
                    yield Query(WindowKey(REFERENCE, contig, start), sequence)


def compared(fasta: Path, held: Span, windows: list[Query]) -> list[dict[str, Any]]:
    spans = {held.contig: IntervalArray(np.array([held.start]), np.array([held.end]))}
    with FastaReader(fasta, GRCH38) as reader:
        return SequenceSearch(reader)(spans, as_pieces(windows)).similar.to_pylist()


def test_the_pseudogene_of_a_held_out_gene_leaves_training(fasta: Path) -> None:
    similar = compared(fasta, REGIONS["BRCA1"], list(cut(fasta, REGIONS["BRCA1"])))
    there = [
        row
        for row in similar
        if row["contig"] == "chr17" and row["start"] < PSEUDOGENE[1] and PSEUDOGENE[0] < row["start"] + WINDOW_BP
    ]
    assert len({row["start"] for row in there}) >= 2
    best = max(there, key=lambda row: row["aligned_bp"])
    # The first exons of BRCA1 are at its right end: the gene is on the strand -.
    assert BRCA1[1] - 10_000 < best["held_start"] < best["held_end"] <= BRCA1[1]
    assert best["identity"] > 0.8


@pytest.mark.parametrize("name", REGIONS)
def test_what_the_audit_finds_is_excluded_and_else_only_what_aligns(fasta: Path, name: str) -> None:
    held = REGIONS[name]
    windows = list(cut(fasta, held))
    reasons = {
        WindowKey(REFERENCE, row["contig"], row["start"]): row["reason"] for row in compared(fasta, held, windows)
    }
    with Reference(fasta) as reference:
        table = held_table(reference, [held])
        leaks = {each.key for each in windows if compare(each.bases.decode(), table)[0]}
    assert leaks
    assert leaks <= set(reasons)
    assert {key for key, reason in reasons.items() if reason == SimilarReason.SHARED_KMERS} <= leaks
