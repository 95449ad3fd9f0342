"""A small simulated pretraining corpus: four sources in the two Parquet layouts of the published corpus.

Genes and transcripts come from the simulated genome, so that holdouts find windows to exclude. Some records are
irregular on purpose: too short, with unknown bases, in lower case, duplicated, without coordinates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from genolewm_assets.sample.genome import (
    AMINO_ACIDS,
    LINEAR_CONTIGS,
    Draws,
    Gene,
    SimulatedContig,
    Transcript,
    read_sense,
    splice,
)

Codes = NDArray[np.uint8]
Row = dict[str, object]

GENE_LAYOUT = pa.schema(
    [(name, pa.string()) for name in ("record_id", "sequence", "taxonomy", "species_type", "gene_type", "chrom")]
    + [("start", pa.int64()), ("end", pa.int64()), ("strand", pa.string())]
)
TEXT_LAYOUT = pa.schema(
    [
        ("text", pa.string()),
        ("record", pa.string()),
        ("metadata", pa.struct([("source", pa.string()), ("note", pa.string())])),
    ]
)
_LETTERS = np.frombuffer(b"ACGTN", dtype=np.uint8)
_KEY = 61
_HUMAN = "Homo sapiens (simulated)"
#: Accessions of GRCh38 contigs, used in the ids of records without coordinates.
_ACCESSIONS = {"chr17": "NC_000017.11", "chr20": "NC_000020.11", "chr21": "NC_000021.9"}
_OTHER_SPECIES = ("Saccharomyces simulata", "Arabidopsis simulata", "Mus simulatus", "Danio simulata")
_BACTERIA = (("SIMBAC1.1", "Simulatibacter primus", 51), ("SIMBAC2.1", "Simulatibacter secundus", 57))
_PIECE_BP = 100_000
_PIECES = 4
_ISOFORMS = 4


def simulate_corpus(contigs: Mapping[str, SimulatedContig]) -> Iterator[tuple[str, pa.Table]]:
    """Yield path, relative to the sample's folder, and rows of each corpus file, in GENE_LAYOUT or TEXT_LAYOUT."""
    rows: Mapping[str, tuple[pa.Schema, Iterator[Row]]] = {
        "eukaryote_generator": (GENE_LAYOUT, _genes(contigs)),
        "mrna_evo2": (TEXT_LAYOUT, _transcripts(contigs)),
        "mrna_splice_evo2": (TEXT_LAYOUT, _spliced_transcripts(contigs)),
        "prokaryote_evo2": (TEXT_LAYOUT, _bacteria()),
    }
    for source, (schema, made) in rows.items():
        yield f"corpus/{source}/part-00000.parquet", pa.Table.from_pylist(list(made), schema=schema)


def table_lines(table: pa.Table) -> bytes:
    """Return the rows as JSON lines, whose digest does not depend on the release of the Parquet library."""
    return "".join(f"{json.dumps(row, sort_keys=True)}\n" for row in table.to_pylist()).encode("ascii")


def write_corpus_file(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet with zstd compression, and create its folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", compression_level=9)


def _text(codes: Codes) -> str:
    return _LETTERS[codes].tobytes().decode("ascii")


def _all_genes(contigs: Mapping[str, SimulatedContig]) -> Iterator[tuple[SimulatedContig, Gene]]:
    for plan in LINEAR_CONTIGS:
        for gene in contigs[plan.name].genes:
            yield contigs[plan.name], gene


def _genes(contigs: Mapping[str, SimulatedContig]) -> Iterator[Row]:
    """Yield the 5' part of every gene, a short piece of every second one, unplaced genes, genes of other species."""
    for contig, gene in _all_genes(contigs):
        long_bp, short_bp, inward = (
            int(x) for x in Draws(_KEY, 1, gene.plan.gene_id).uniform(3) * (30_000, 8_500, 10_000)
        )
        yield _gene_row(contig, gene, gene.plan.symbol, 0, 30_000 + long_bp)
        if gene.plan.gene_id % 2:
            yield _gene_row(contig, gene, f"{gene.plan.symbol}-AS1", 40_000 + inward, 3_000 + short_bp)
    yield from _unplaced_genes(contigs)
    yield from _foreign_genes()


def _gene_row(contig: SimulatedContig, gene: Gene, record_id: str, offset: int, size: int) -> Row:
    """Return the record of up to ``size`` bases of a gene that begin ``offset`` bases after its 5' end."""
    start, end = gene.span
    size = min(size, end - start - offset)
    span = (start + offset, start + offset + size) if gene.plan.strand == "+" else (end - offset - size, end - offset)
    sequence = _text(read_sense(contig, span, gene.plan.strand))
    return {
        "record_id": record_id,
        "sequence": sequence,
        "taxonomy": _HUMAN,
        "species_type": "vertebrate_mammalian",
        "gene_type": "protein_coding",
        "chrom": contig.name,
        "start": span[0],
        "end": span[1],
        "strand": gene.plan.strand,
    }


def _unplaced_genes(contigs: Mapping[str, SimulatedContig]) -> Iterator[Row]:
    """Yield human genes without coordinates or with wrong ones, and irregular copies."""
    for plan in LINEAR_CONTIGS:
        contig = contigs[plan.name]
        row = _gene_row(
            contig, contig.genes[1], f"{contig.genes[1].plan.symbol}|{_ACCESSIONS[plan.name]}", 60_000, 7_000
        )
        yield row | {"chrom": None, "start": None, "end": None, "strand": None}
    first, second = contigs["chr17"].genes[0], contigs["chr20"].genes[0]
    whole = _gene_row(contigs["chr17"], first, "SIMGENE1", 30_000, 15_000)
    sequence = str(whole["sequence"])
    yield whole | {"start": int(str(whole["start"])) + 500_000, "end": int(str(whole["end"])) + 500_000}
    yield whole | {"record_id": "SIMGENE2", "sequence": sequence[:5_000].lower() + "N" * 137 + sequence[5_137:]}
    yield whole | {"record_id": "SIMGENE3", "sequence": sequence[:1_500], "end": None, "start": None}
    yield _gene_row(contigs["chr17"], first, first.plan.symbol, 0, 20_000)
    yield whole | {"start": int(str(whole["start"])) + 500_000, "end": int(str(whole["end"])) + 500_000}
    yield _gene_row(contigs["chr20"], second, "SIMGENE4", 20_000, 14_000) | {"taxonomy": None}


def _foreign_genes() -> Iterator[Row]:
    for number, species in enumerate(_OTHER_SPECIES):
        for copy, size in enumerate(Draws(_KEY, 2, number).between(5_000, 8_000, 2).tolist()):
            yield {
                "record_id": f"SIMX{number}{copy}|SIM_{number:06d}.1",
                "sequence": _text(Draws(_KEY, 3, number, copy).choose([31, 19, 19, 31], size).astype(np.uint8)),
                "taxonomy": species,
                "species_type": "eukaryote",
                "gene_type": "protein_coding",
            }


def _isoforms(contig: SimulatedContig, gene: Gene, key: int) -> Iterator[Transcript]:
    """Yield four transcripts of a gene: the first has every exon, the others lack one or two inner exons."""
    count = len(gene.exons)
    for number in range(_ISOFORMS):
        draws = Draws(_KEY, key, gene.plan.gene_id, number)
        left_out = set((1 + draws.below(count - 2, 2)).tolist()) if number else set()
        exons = [exon for exon in range(count) if exon not in left_out]
        utr5, utr3 = (int(x) for x in draws.uniform(2) * (400, 2_000))
        yield splice(contig, gene, exons, 100 + utr5, 300 + utr3)


def _transcripts(contigs: Mapping[str, SimulatedContig]) -> Iterator[Row]:
    """Yield transcripts without coordinates, most with the contig, a fragment per gene and some unspliced ones."""
    serial = 0
    for contig, gene in _all_genes(contigs):
        for transcript in _isoforms(contig, gene, 4):
            serial += 1
            yield _transcript_row(serial, _text(transcript.codes), contig.name if serial % 6 else None)
        serial += 1
        fragment = splice(contig, gene, [0, 1, 2], 60, 0)
        yield _transcript_row(serial, _text(fragment.codes), contig.name)
        if gene.plan.gene_id % 4 == 0:
            serial += 1
            stretch = gene.exons[0][0], gene.exons[0][0] + 20_000
            yield _transcript_row(serial, _text(read_sense(contig, stretch, gene.plan.strand)), contig.name)


def _transcript_row(serial: int, sequence: str, contig: str | None) -> Row:
    source, note = ("simulated_mrna", "simulated transcript")
    if contig is not None:
        source, note = f"{source}_{contig}", f"{note}, {contig}"
    return {"text": sequence, "record": f"SIMT{serial:011d}", "metadata": {"source": source, "note": note}}


def _spliced_transcripts(contigs: Mapping[str, SimulatedContig]) -> Iterator[Row]:
    """Yield transcripts with coordinates and junctions, and one single-exon transcript of each gene."""
    for contig, gene in _all_genes(contigs):
        made = [*_isoforms(contig, gene, 5), splice(contig, gene, [0], 90, 2_300)]
        for number, transcript in enumerate(made, start=1):
            (start, end), junctions = transcript.span, ",".join(map(str, transcript.junctions)) or "."
            place = f"{contig.name}:{start + 1}-{end}({gene.plan.strand})"
            note = f"{place} exons={len(transcript.junctions) + 1} junctions={junctions}"
            metadata = {"source": f"simulated_spliced_mrna.{contig.name}", "note": note}
            yield {"text": _text(transcript.codes), "record": f"{gene.plan.symbol}.{number}", "metadata": metadata}


def _bacteria() -> Iterator[Row]:
    """Yield two bacterial genomes in pieces of 100 kb, each with a plasmid shorter than a full window."""
    for number, (accession, name, gc_percent) in enumerate(_BACTERIA):
        metadata = {"source": f"bacteria_{accession}", "note": f"{name}, simulated genome"}
        genome = _bacterial_genome(_PIECES * _PIECE_BP, gc_percent, number)
        for at in range(0, genome.size, _PIECE_BP):
            record = f"{accession}:{at}-{at + _PIECE_BP}"
            yield {"text": _text(genome[at : at + _PIECE_BP]), "record": record, "metadata": metadata}
        plasmid = _bacterial_genome(5_000 + 1_000 * number, gc_percent, 10 + number)
        yield {"text": _text(plasmid), "record": f"{accession}p:0-{plasmid.size}", "metadata": metadata}


def _bacterial_genome(size: int, gc_percent: int, number: int) -> Codes:
    """Return a chromosome as base codes; open reading frames on both strands fill most of it, as in bacteria."""
    weights = [100 - gc_percent, gc_percent, gc_percent, 100 - gc_percent]
    codes = Draws(_KEY, 6, number).choose(weights, size).astype(np.uint8)
    draws = Draws(_KEY, 7, number)
    stops = np.array([i for i, acid in enumerate(AMINO_ACIDS) if acid == "*"])
    at = 150
    for codons, gap, reverse in zip(
        draws.between(150, 500, size // 600).tolist(),
        draws.between(20, 250, size // 600).tolist(),
        (draws.uniform(size // 600) < 0.5).tolist(),
        strict=True,
    ):
        end = at + 3 * codons
        if end + 150 > size:
            break
        frame = codes[at:end].reshape(-1, 3)
        number_of = frame[:, 0].astype(np.int64) * 16 + frame[:, 1] * 4 + frame[:, 2]
        # TAA, TAG and TGA inside the frame become CAA, CAG and CGA, which are sense codons.
        frame[np.isin(number_of, stops), 0] = 1
        frame[0], frame[-1] = (0, 3, 2), (3, 0, 0)
        if reverse:
            codes[at:end] = (3 - codes[at:end])[::-1]
        at = end + gap
    return codes
