"""A reference of two small contigs, an honest aligner for it, and records cut from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.genome import Contig, ContigSet, WindowProfile, reverse_complement
from genolewm_assets.windows.corpus.build import decide_corpus_windows
from genolewm_assets.windows.corpus.finish import finish_windows
from genolewm_assets.windows.corpus.placement import CorpusPlacer, Placement, PlacementHow
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource
from genolewm_assets.windows.corpus.windows import CorpusLedger, CorpusParams

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
    place = {"contig": contig, "span": (start, end), "strand": strand, "junctions": ()}
    values = {"source": CorpusSource.EUKARYOTE_GENERATOR, "record_id": "gene", "taxonomy": "Homo sapiens", **place}
    values["sequence"] = sequence if strand == "+" else reverse_complement(sequence)
    return CorpusRecord(**{**values, **more})  # type: ignore[arg-type]


class ExactAligner:
    """Finds sequences that stand in the reference once, on either strand, by searching for them."""

    def __init__(self) -> None:
        self._asked: list[bytes] = []

    def ask(self, sequence: bytes) -> int:
        self._asked.append(sequence)
        return len(self._asked) - 1

    def answer(self) -> Callable[[int], Placement | None]:
        return lambda question: self._find(self._asked[question])

    @staticmethod
    def _find(sequence: bytes) -> Placement | None:
        found = [
            Placement(PlacementHow.MAPPY, name, at, at + len(sequence), strand, identity=1.0, coverage=1.0)
            for name, bases in BASES.items()
            for strand, query in (("+", sequence), ("-", reverse_complement(sequence)))
            if (at := bases.find(query)) >= 0
        ]
        return found[0] if len(found) == 1 else None


def build_tables(
    records: Iterable[CorpusRecord], params: CorpusParams, placer: CorpusPlacer
) -> tuple[pa.Table, pa.Table, dict[str, int]]:
    """Build both tables in memory; return windows, skipped records and counts."""
    ledger, kept = CorpusLedger(), bytearray()

    def keep(sequence: bytes) -> int:
        kept.extend(sequence)
        return len(kept) - len(sequence)

    def read(firsts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
        pieces = (kept[first : first + size] for first, size in zip(firsts.tolist(), sizes.tolist(), strict=True))
        return np.frombuffer(b"".join(pieces), np.uint8)

    batches = list(decide_corpus_windows(records, params, placer, ledger, keep))
    answer = (placer.aligner or ExactAligner()).answer()
    tables = [
        finish_windows(batch.windows, read, answer, params=params, placer=placer, ledger=ledger) for batch in batches
    ]
    return pa.concat_tables(tables), pa.concat_tables([batch.skipped for batch in batches]), ledger.counts()


def build_rows(
    records: Iterable[CorpusRecord], params: CorpusParams, placer: CorpusPlacer
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, int]]:
    """Build both tables in memory; return their rows, and the counts."""
    windows, skipped, counts = build_tables(records, params, placer)
    return windows.to_pylist(), skipped.to_pylist(), counts
