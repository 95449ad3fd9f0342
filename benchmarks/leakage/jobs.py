"""One search for held-out sequence in a process: ``python -m benchmarks.leakage.jobs SEARCH FASTA WINDOWS``.

``FASTA`` has the contigs chr20, held out as a whole, and chr17, from which ``WINDOWS`` windows of 12,544 bp are cut at
any place, as often as needed. Every hundredth window holds a copy of 2,000 held-out bases, 95 % of them equal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.stopwatch import serve_tasks

WINDOW_BP, COPY_BP = 12_544, 2_000
_THREADS, _BATCH = 2, 512
_Item = TypeVar("_Item")


def windows(fasta: Path, number: int) -> Iterator[bytes]:
    """Yield windows of chr17, every hundredth with a copy of a piece of chr20."""
    import pysam

    with pysam.FastaFile(str(fasta)) as file:
        free, held = (file.fetch(name).upper().encode() for name in ("chr17", "chr20"))
    rng = np.random.default_rng(1)
    for at in range(number):
        start = int(rng.integers(0, len(free) - WINDOW_BP))
        window = free[start : start + WINDOW_BP]
        if at % 100 == 0:
            first = int(rng.integers(0, len(held) - COPY_BP))
            copy = np.frombuffer(held[first : first + COPY_BP], np.uint8).copy()
            at_random = rng.integers(0, COPY_BP, COPY_BP // 20)
            copy[at_random] = np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, at_random.size)]
            window = window[:4_000] + copy.tobytes() + window[4_000 + COPY_BP :]
        yield window


def _batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


def _filter(fasta: Path, number: int) -> Callable[[], int]:
    import pyarrow.compute as pc

    from genolewm_assets.genome import GRCH38, IntervalArray
    from genolewm_assets.holdouts import WindowKey
    from genolewm_assets.sources.reference import FastaReader
    from genolewm_assets.sources.similarity import SequenceSearch
    from genolewm_assets_tests.worlds.sources.queries import Query, as_pieces

    def work() -> int:
        with FastaReader(fasta, GRCH38) as reader:
            held = {"chr20": IntervalArray(np.array([0]), np.array([reader.contigs["chr20"]]))}
            rows = (Query(WindowKey("reference", "chr17", at), each) for at, each in enumerate(windows(fasta, number)))
            pieces = (each for batch in _batches(rows, _BATCH) for each in as_pieces(batch))
            found = SequenceSearch(reader)(held, pieces).similar
            return len(pc.unique(found["start"]))

    return work


def _audit(fasta: Path, number: int) -> Callable[[], int]:
    import pyarrow as pa

    from genolewm_assets.audit.held_kmers import held_table
    from genolewm_assets.audit.reading.intervals import Span
    from genolewm_assets.audit.reading.reference import Reference
    from genolewm_assets.audit.similarity import are_leaks, compare_all

    def work() -> int:
        found = set[int]()
        with Reference(fasta) as reference, ThreadPoolExecutor(_THREADS) as pool:
            spans = [Span("chr20", 0, reference.length("chr20"))]
            table = held_table(reference, spans, soft_masked=True)
            for batch in _batches(enumerate(windows(fasta, number)), _BATCH):
                columns = {"sequence": [bases.decode() for _, bases in batch], "right_flank": [""] * len(batch)}
                rows = compare_all(pa.RecordBatch.from_pydict(columns), table, pool)
                found |= {batch[at][0] for at in are_leaks(rows).nonzero()[0].tolist()}
        return len(found)

    return work


def _minimap2(fasta: Path, number: int) -> Callable[[], int]:
    import mappy
    import pysam

    def work() -> int:
        with pysam.FastaFile(str(fasta)) as file:
            aligner = mappy.Aligner(seq=file.fetch("chr20").upper(), preset="asm20", n_threads=_THREADS)

        def is_similar(bases: bytes) -> bool:
            hits = aligner.map(bases.decode())
            return any(hit.blen >= 1_000 and hit.mlen >= 0.9 * hit.blen for hit in hits)

        found = 0
        with ThreadPoolExecutor(_THREADS) as pool:
            for batch in _batches(windows(fasta, number), _BATCH):
                found += sum(pool.map(is_similar, batch))
        return found

    return work


SEARCHES = {"filter": _filter, "audit": _audit, "minimap2": _minimap2}


def main() -> None:
    search, fasta, number = sys.argv[1:]
    serve_tasks({"run": SEARCHES[search](Path(fasta), int(number))}, version=metadata.version("genolewm-assets"))


if __name__ == "__main__":
    main()
