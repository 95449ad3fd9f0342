"""A pretraining corpus of four sources: records cut from the generated genome, and random ones of other organisms."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.genome.bases import SEED, Bases, Genome, mutated, random_bases, reverse_complement
from benchmarks.genome.shapes import KINDS, Shape

_GENES = pa.schema(
    [(name, pa.string()) for name in ("record_id", "sequence", "taxonomy", "chrom", "strand")]
    + [("start", pa.int64()), ("end", pa.int64())]
)
_TEXTS = pa.schema(
    [(name, pa.string()) for name in ("record", "text")]
    + [("metadata", pa.struct([("source", pa.string()), ("note", pa.string())]))]
)
#: Schema of each source, and the kinds of its records.
_SOURCES = {
    "eukaryote_generator": (_GENES, ("placed", "unplaced", "exempt")),
    "mrna_evo2": (_TEXTS, ("mrna",)),
    "mrna_splice_evo2": (_TEXTS, ("spliced",)),
    "prokaryote_evo2": (_TEXTS, ("prokaryote",)),
}
SOURCES = tuple(_SOURCES)
_TAXA = ("Mus musculus", "Danio rerio", "Arabidopsis thaliana", "Gallus gallus")
#: A record of k windows has at least 12,800 + 8,192 (k - 1) bases: window, stride and margins of the default profile.
_WINDOW_BP, _STRIDE_BP = 12_800, 8_192
_PROKARYOTE_BP = 100_000
_ROW_GROUP = 500
#: Share of bases of an aligned record that are drawn anew.
_MUTATED = 0.003

Row = dict[str, object]


def write_corpus(folder: Path, shape: Shape, genome: Genome) -> None:
    """Write ``SOURCE/part-00000.parquet`` for each source, a row group at a time."""
    for number, (name, (schema, kinds)) in enumerate(_SOURCES.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng([SEED, 4, number])
        rows = (row for kind in kinds for row in _rows(rng, kind, round(KINDS[kind] * shape.corpus_windows), genome))
        with pq.ParquetWriter(folder / name / "part-00000.parquet", schema, compression="zstd") as writer:
            for group in _groups(rows):
                writer.write_table(pa.Table.from_pylist(group, schema))


def _groups(rows: Iterator[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        group.append(row)
        if len(group) == _ROW_GROUP:
            yield group
            group = []
    if group:
        yield group


def _rows(rng: np.random.Generator, kind: str, windows: int, genome: Genome) -> Iterator[Row]:
    """Yield records of a kind until they make the wanted number of windows."""
    done = 0
    for number in count():
        if done >= windows:
            return
        record = f"{kind}{number}"
        if kind in {"placed", "unplaced", "exempt"}:
            made = min(int(rng.integers(1, 5)), windows - done)
            size = _WINDOW_BP + _STRIDE_BP * (made - 1) + int(rng.integers(0, 4_000))
            yield _gene(rng, kind, record, size, genome)
        elif kind == "prokaryote":
            made = 1 + (_PROKARYOTE_BP - _WINDOW_BP) // _STRIDE_BP
            metadata = {"source": f"bacteria_{number // 40}.1", "note": "simulated genome"}
            yield {"record": record, "text": _text(random_bases(rng, _PROKARYOTE_BP)), "metadata": metadata}
        else:
            made = 1
            contig, bases = _transcript(rng, genome)
            metadata = {"source": f"simulated_{kind}_{contig}", "note": f"simulated transcript, {contig}"}
            yield {"record": record, "text": _text(mutated(rng, bases, _MUTATED)), "metadata": metadata}
        done += made


def _gene(rng: np.random.Generator, kind: str, record: str, size: int, genome: Genome) -> Row:
    """Return a gene: with the coordinates that it was cut at, without any and mutated, or of another organism."""
    if kind == "exempt":
        taxon = _TAXA[int(rng.integers(0, len(_TAXA)))]
        return {"record_id": record, "sequence": _text(random_bases(rng, size)), "taxonomy": taxon}
    contig, start = next(genome.places(rng, size))
    bases, strand = genome.cut(contig, start, size), "+-"[int(rng.integers(0, 2))]
    bases = reverse_complement(bases) if strand == "-" else bases
    row: Row = {"record_id": record, "taxonomy": "Homo sapiens"}
    if kind == "unplaced":
        return row | {"sequence": _text(mutated(rng, bases.copy(), _MUTATED))}
    return row | {"sequence": _text(bases), "chrom": contig, "start": start, "end": start + size, "strand": strand}


def _transcript(rng: np.random.Generator, genome: Genome) -> tuple[str, Bases]:
    """Return the contig and bases of three to nine exons, 2,100 to 12,000 bases in all, of a locus of up to 60 kb.

    Each exon is at the place, of eight, with the fewest soft-masked bases: exons hold few repeats.
    """
    exons = int(rng.integers(3, 10))
    sizes = rng.multinomial(int(rng.integers(2_100, 12_000)), np.full(exons, 1 / exons)).tolist()
    room = int(rng.integers(3_000, 6_000))
    contig, start = next(genome.places(rng, sum(sizes) + exons * room))
    bases, cut = genome.bases[contig], []
    for size in sizes:
        places = (start + rng.integers(0, room, 8)).tolist()
        best = min(places, key=lambda at, n=size: _masked(bases[at : at + n]))
        cut.append(genome.cut(contig, best, size))
        start += size + room
    spliced = np.concatenate(cut)
    return contig, reverse_complement(spliced) if rng.random() < 0.5 else spliced


def _masked(bases: Bases) -> int:
    return int(np.count_nonzero(bases >= ord("a")))


def _text(bases: Bases) -> str:
    return bases.tobytes().decode("ascii")
