"""A catalogue with one simulated contig, and a corpus source of transcripts that state no coordinates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.vcf.memory_tables import write_fasta
from benchmarks.vcf.simulated_genome import simulate_contig
from genolewm_assets.genome import Contig

SOURCE = "mrna_evo2"
_INTRON_BP = 4_000
_LONGEST_BP = 20_000


def write_catalog(folder: Path, contig: Contig, *, records: int) -> Path:
    """Write FASTA, corpus and catalogue into a folder, and return the path of the catalogue.

    Four stretches of a sixtieth of the contig are N. Every second record is cut from the contig, without an intron of
    4,000 bp; the others are random. Records have 13 to 20 kb, so each gives one window. The corpus has one row group.
    """
    folder.mkdir(parents=True, exist_ok=True)
    bases = bytearray(simulate_contig(contig))
    gap = contig.length // 60
    for share in (0.0, 0.3, 0.5, 0.9):
        start = int(contig.length * share)
        bases[start : start + gap] = b"N" * gap
    sequence = bytes(bases)
    write_fasta(folder / "genome.fa.gz", [(contig.name, sequence)])
    (folder / SOURCE).mkdir(exist_ok=True)
    texts = list(_transcripts(sequence, records))
    names = [f"T{number:06d}" for number in range(records)]
    metadata = [{"source": "simulated", "note": "simulated transcript"}] * records
    table = pa.table({"text": texts, "record": names, "metadata": metadata})
    pq.write_table(table, folder / SOURCE / "part-00000.parquet", compression="zstd", row_group_size=max(1, records))
    catalog = folder / "catalog.yaml"
    md5 = hashlib.md5(sequence, usedforsecurity=False).hexdigest()
    genome = {"name": "simulated", "fasta": "genome.fa.gz"}
    section = {**genome, "contigs": [{"name": contig.name, "length": contig.length, "md5": md5}]}
    sources = {"sources": {SOURCE: {"url": SOURCE}}}
    stated = {"name": "memory", "genome": section, "gnomad": {"sources": {}}, "clinvar": {"listing": "clinvar"}}
    catalog.write_text(yaml.safe_dump({**stated, "corpus": sources}))
    return catalog


def _transcripts(sequence: bytes, records: int) -> Iterator[str]:
    rng = np.random.default_rng(3)
    acgt = np.frombuffer(b"ACGT", np.uint8)
    for number in range(records):
        length = int(rng.integers(13_000, _LONGEST_BP))
        if number % 2:
            yield acgt[rng.integers(0, 4, length)].tobytes().decode()
            continue
        start = int(rng.integers(len(sequence) // 50, len(sequence) - _LONGEST_BP - _INTRON_BP))
        middle, resumed = start + length // 2, start + length // 2 + _INTRON_BP
        yield (sequence[start:middle] + sequence[resumed : resumed + length // 2]).decode()
