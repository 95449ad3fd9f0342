"""Generate a gnomAD-like VCF and the contig under it: wide INFO, one allele in twenty common."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pysam

from genolewm_assets.genome import Contig

CONTIG = Contig("chr21", 8_000_000)


def simulate_contig(seed: int = 1) -> bytes:
    """Return random upper-case bases of the benchmark's contig."""
    return np.frombuffer(b"ACGT", dtype=np.uint8)[np.random.default_rng(seed).integers(0, 4, CONTIG.length)].tobytes()


def write_vcf(path: Path, bases: bytes, *, records: int, record_bytes: int, seed: int = 2) -> None:
    """Write ``records`` SNVs in ascending order, each about ``record_bytes`` long, bgzipped."""
    rng = np.random.default_rng(seed)
    positions = np.sort(rng.choice(len(bases) - 2, records, replace=False)) + 1
    common = rng.random(records) < 0.05
    # More fillers than deflate's 32 kB window reaches back over, so that they do not compress away.
    fillers = [_filler(rng, max(0, record_bytes - 90)) for _ in range(64)]
    header = [
        "##fileformat=VCFv4.2",
        '##FILTER=<ID=PASS,Description="passed">',
        '##INFO=<ID=AC,Number=A,Type=Integer,Description="allele count">',
        '##INFO=<ID=AN,Number=1,Type=Integer,Description="allele number">',
        '##INFO=<ID=AF,Number=A,Type=Float,Description="allele frequency">',
        *(f'##INFO=<ID=field_{index},Number=1,Type=Integer,Description="filler">' for index in range(400)),
        f"##contig=<ID={CONTIG.name},length={CONTIG.length}>",
        "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO",
    ]
    plain = path.with_suffix(".plain")
    with plain.open("w") as handle:
        handle.write("\n".join(header) + "\n")
        for pos, is_common in zip(positions.tolist(), common.tolist(), strict=True):
            ref = chr(bases[pos - 1])
            alt = "ACGT"[("ACGT".index(ref) + 1 + pos % 3) % 4]
            ac = 20_000 if is_common else 3
            info = f"AC={ac};AN=152312;AF={ac / 152312:.6g};{fillers[pos % 64]}"
            handle.write(f"{CONTIG.name}\t{pos}\t.\t{ref}\t{alt}\t.\tPASS\t{info}\n")
    pysam.tabix_compress(str(plain), str(path), force=True)
    plain.unlink()


def _filler(rng: np.random.Generator, size: int) -> str:
    numbers = rng.integers(0, 10**7, 400).tolist()
    return ";".join(f"field_{index}={number}" for index, number in enumerate(numbers))[:size].rpartition(";")[0]
