from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import reverse_complement
from genolewm_assets.sample.corpus import GENE_LAYOUT, TEXT_LAYOUT
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets_tests.referees.census import corpus_rows

Row = dict[str, object]


@pytest.fixture(scope="module")
def genes(sample_dir: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(sample_dir / "corpus" / "eukaryote_generator").to_pylist()
    return rows


def test_layouts_are_those_of_the_published_corpus(sample_dir: Path) -> None:
    for source, layout in (
        ("eukaryote_generator", GENE_LAYOUT),
        ("mrna_evo2", TEXT_LAYOUT),
        ("mrna_splice_evo2", TEXT_LAYOUT),
        ("prokaryote_evo2", TEXT_LAYOUT),
    ):
        assert pq.read_schema(sample_dir / "corpus" / source / "part-00000.parquet").equals(layout)


def test_layouts_are_those_of_the_real_files(sample_dir: Path, shared_data: Path) -> None:
    for folder in sorted((shared_data / "corpus").iterdir()):
        ours = pq.read_schema(sample_dir / "corpus" / folder.name / "part-00000.parquet")
        assert ours.equals(pq.read_schema(folder / "part-00000.parquet"))


def test_genes_are_the_reference_where_they_say(genes: list[Row], sequences: dict[str, str]) -> None:
    placed = [row for row in genes if row["start"] is not None]
    differing = set()
    for row in placed:
        genomic = sequences[str(row["chrom"])][row["start"] : row["end"]]  # type: ignore[misc]
        sense = genomic if row["strand"] == "+" else reverse_complement(genomic)
        if sense != row["sequence"]:
            differing.add(row["record_id"])
    assert differing == {"SIMGENE1", "SIMGENE2"}
    assert {row["chrom"] for row in placed} == {"chr17", "chr20", "chr21"}
    assert {row["strand"] for row in placed} == {"+", "-"}


def test_what_is_planted_among_the_genes_is_there(genes: list[Row]) -> None:
    by_id: dict[object, list[Row]] = {}
    for row in genes:
        by_id.setdefault(row["record_id"], []).append(row)
    assert [len(by_id["SIMGENE1"]), len(by_id["SIM1"])] == [2, 2]
    assert by_id["SIMGENE1"][0] == by_id["SIMGENE1"][1]
    assert by_id["SIM1"][0]["sequence"] != by_id["SIM1"][1]["sequence"]
    assert re.search("[acgt]N+[ACGT]", str(by_id["SIMGENE2"][0]["sequence"]))
    assert len(str(by_id["SIMGENE3"][0]["sequence"])) == 1_500
    assert by_id["SIMGENE4"][0]["taxonomy"] is None
    assert sum("|NC_0000" in str(name) for name in by_id) == 3
    assert sum(row["taxonomy"] not in (None, "Homo sapiens (simulated)") for row in genes) == 8


def test_spliced_transcripts_have_their_exon_borders(sample_dir: Path, sequences: dict[str, str]) -> None:
    rows = pq.read_table(sample_dir / "corpus" / "mrna_splice_evo2").to_pylist()
    singles = 0
    for row in rows:
        match = re.fullmatch(r"(chr\d+):(\d+)-(\d+)\(([+-])\) exons=(\d+) junctions=(\S+)", row["metadata"]["note"])
        assert match is not None
        contig, first, last, strand, exons, junctions = match.groups()
        gene = sequences[contig][int(first) - 1 : int(last)]
        gene = gene if strand == "+" else reverse_complement(gene)
        borders = [0, *([] if junctions == "." else map(int, junctions.split(","))), len(row["text"])]
        assert len(borders) == int(exons) + 1
        singles += len(borders) == 2
        assert gene.startswith(row["text"][: borders[1]])
        assert gene.endswith(row["text"][borders[-2] :])
        at = 0
        for start, end in pairwise(borders):
            at = gene.index(row["text"][start:end], at)
    assert singles == 24


def test_some_transcripts_name_no_contig_and_some_are_long(sample_dir: Path) -> None:
    rows = pq.read_table(sample_dir / "corpus" / "mrna_evo2").to_pylist()
    named = {row["metadata"]["note"].rpartition(", ")[2] for row in rows}
    assert named == {"chr17", "chr20", "chr21", "simulated transcript"}
    assert sum(row["metadata"]["note"] == "simulated transcript" for row in rows) >= 10
    assert sum(len(row["text"]) >= 12_800 for row in rows) == 6


def test_bacteria_come_in_pieces_and_code_densely(sample_dir: Path) -> None:
    rows = corpus_rows(sample_dir / "corpus" / "prokaryote_evo2" / "part-00000.parquet")
    assert [len(sequence) for _, sequence in rows] == [*[100_000] * 4, 5_000, *[100_000] * 4, 6_000]
    frames = re.findall("ATG(?:(?!TAA|TAG|TGA)...){140,500}TAA", rows[0][1])
    assert len(frames) > 20
    for (_, sequence), gc in zip((rows[0], rows[5]), (0.51, 0.57), strict=True):
        assert (sequence.count("G") + sequence.count("C")) / len(sequence) == pytest.approx(gc, abs=0.03)


def test_genes_of_every_contig_are_there(genes: list[Row], genome: Mapping[str, SimulatedContig]) -> None:
    symbols = {gene.plan.symbol for name in ("chr17", "chr20", "chr21") for gene in genome[name].genes}
    assert symbols <= {row["record_id"] for row in genes}
