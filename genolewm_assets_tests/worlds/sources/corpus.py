"""A reference of two small contigs, an honest aligner for it, and records cut from it."""

from __future__ import annotations

import numpy as np

from genolewm_assets.genome import Contig, ContigSet, WindowProfile, reverse_complement
from genolewm_assets.windows.corpus.placement import Placement, PlacementHow
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource

SMALL = WindowProfile("small", window_bp=1_200, stride_bp=600, margin_bp=60)
CONTIGS = ContigSet(
    [Contig("chr20", 40_000, aliases=("20", "NC_000020.11")), Contig("chr21", 30_000, aliases=("21", "NC_000021.9"))]
)


def random_bases(seed: int, size: int) -> bytes:
    return np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(seed).integers(0, 4, size)].tobytes()


BASES = {"chr20": random_bases(20, 40_000), "chr21": b"N" * 10_000 + random_bases(21, 20_000)}


def read_bases(contig: str, start: int, end: int) -> bytes:
    return BASES[contig][start:end]


def gene(contig: str, start: int, end: int, strand: str = "+", /, **more: object) -> CorpusRecord:
    """A record with true coordinates."""
    sequence = BASES[contig][start:end]
    values: dict[str, object] = {
        "source": CorpusSource.EUKARYOTE_GENERATOR,
        "record_id": "gene",
        "sequence": sequence if strand == "+" else reverse_complement(sequence),
        "taxonomy": "Homo sapiens",
        "contig": contig,
        "span": (start, end),
        "strand": strand,
        "junctions": (),
    }
    return CorpusRecord(**{**values, **more})  # type: ignore[arg-type]


class ExactAligner:
    """Finds sequences that stand in the reference once, on either strand, by searching for them."""

    def align(self, sequence: bytes) -> Placement | None:
        found = [
            Placement(PlacementHow.MAPPY, name, at, at + len(sequence), strand, identity=1.0, coverage=1.0)
            for name, bases in BASES.items()
            for strand, query in (("+", sequence), ("-", reverse_complement(sequence)))
            if (at := bases.find(query)) >= 0
        ]
        return found[0] if len(found) == 1 else None
