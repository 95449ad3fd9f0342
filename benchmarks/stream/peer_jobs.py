"""The peers, each in its own process: ``python -m benchmarks.stream.peer_jobs PEER FOLDER``.

``genvarloader`` reads haplotypes of random (region, sample) pairs; ``geno-lewm`` draws tuples from the windows and
alleles of a package. This module uses only the standard library, NumPy and Arrow besides the peer, because the peers'
environment has nothing else.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from itertools import count, islice
from pathlib import Path
from typing import Any

from benchmarks.stopwatch import serve

#: Haplotypes per batch, as many as tuples of a batch of 32 windows; pairs have two haplotypes each.
BATCH = 256
_BATCHES, _PLOIDY, _WINDOW_BP = 128, 2, 12_288
_LEWM_WINDOWS, _LEWM_RUN = 256, 64
#: Columns of the tables of a package that geno-lewm's windows and alleles are made of.
_WINDOW, _ALLELE = ["record_id", "origin", "contig", "start", "sequence", "window_id"], ["chrom", "pos", "ref", "alt"]


def _genvarloader(folder: Path) -> Callable[[], int]:
    os.environ["NUMBA_NUM_THREADS"] = "1"  # numba is imported next
    import genvarloader as gvl
    import numpy as np
    from genoray import VCF

    made = folder / "genvarloader"
    if not made.exists():
        variants = VCF(folder / "phased.vcf.gz")
        gvl.write(made, folder / "regions.bed", variants, max_jitter=0)
    opened = gvl.Dataset.open(made, gvl.Reference.from_path(folder / "phased.fa.gz"))
    haplotypes = opened.with_seqs("haplotypes").with_len(_WINDOW_BP)
    regions, samples = haplotypes.shape
    rng = np.random.default_rng(5)

    def run() -> int:
        read = 0
        for _ in range(_BATCHES):
            pairs = BATCH // _PLOIDY
            found = haplotypes[rng.integers(0, regions, pairs), rng.integers(0, samples, pairs)]
            bases = np.asarray(found)
            if bases.shape != (pairs, _PLOIDY, _WINDOW_BP):
                raise ValueError(f"haplotypes of another shape: {bases.shape}")
            read += pairs * _PLOIDY
        return read

    return run


def _geno_lewm(folder: Path) -> Callable[[], int]:
    import geno_lewm.data as lewm
    import pyarrow.parquet as pq
    from geno_lewm.action import EditSpec

    (package,) = (folder / "root" / "packages").glob("*/plain")
    (table,) = (package / "data").glob("train-00000-*.parquet")
    rows = [
        row for batch in pq.ParquetFile(table).iter_batches(_LEWM_WINDOWS, columns=_WINDOW) for row in batch.to_pylist()
    ][:: max(1, pq.ParquetFile(table).metadata.num_rows // _LEWM_WINDOWS)]
    windows = [
        lewm.WindowContext(
            record_id=row["record_id"] or row["window_id"],
            source=row["origin"],
            sequence=row["sequence"],
            start_bp=row["start"] if row["contig"] else 0,
            chrom=row["contig"],
        )
        for row in rows
    ]

    def edits(source: str, **wanted: object) -> Any:
        filters: list[Any] = [("source", "==", source), *((name, "in", value) for name, value in wanted.items())]
        found = pq.read_table(package / "variants" / "train.parquet", columns=_ALLELE, filters=filters)
        return lewm.variant_provider([EditSpec(**row) for row in found.to_pylist()])

    providers = {
        "gnomad_common": edits("gnomad"),
        "clinvar": edits("clinvar", label=["P", "LP"]),
        "synthetic_snv": lewm.synthetic_snv_provider,
        "synthetic_indel": lewm.synthetic_indel_provider,
    }

    def endless() -> Iterator[Any]:
        for epoch in count():
            yield from random.Random(epoch).sample(windows, len(windows))

    drawn = iter(lewm.GenoLeWMDataset(endless, providers, seed=0))
    return lambda: sum(1 for _ in islice(drawn, 8 * _LEWM_RUN))


PEERS = {"genvarloader": _genvarloader, "geno-lewm": _geno_lewm}


def main() -> None:
    peer, folder = sys.argv[1:]
    serve(PEERS[peer](Path(folder)), version=metadata.version(peer), out=Path(folder) / "peer_out")


if __name__ == "__main__":
    main()
