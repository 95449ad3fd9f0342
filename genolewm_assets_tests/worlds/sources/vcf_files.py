"""VCF files written for tests, plain or compressed."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import pysam

COLUMNS = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO"


def vcf_text(
    records: Iterable[tuple[object, ...]], *, info: Iterable[str] = (), meta: Iterable[str] = (), end: str = "\n"
) -> str:
    """Return a VCF whose records are (chrom, pos, id, ref, alt, filter, info); ``info`` is ``ID:Number:Type``."""
    declared = []
    for item in info:
        name, number, kind = item.split(":")
        declared.append(f'##INFO=<ID={name},Number={number},Type={kind},Description="{name}, of a test">')
    lines = ["##fileformat=VCFv4.2", *meta, *declared, COLUMNS]
    lines += ["\t".join(map(str, (*record[:5], ".", *record[5:]))) for record in records]
    return "".join(line + end for line in lines)


def write_text(path: Path, text: str | bytes, how: str = "plain") -> Path:
    """Write text as it is, as plain gzip, or as BGZF."""
    data = text.encode() if isinstance(text, str) else text
    if how == "bgzip":
        with pysam.BGZFile(str(path), "w", None) as out:
            out.write(data)
    else:
        path.write_bytes(gzip.compress(data) if how == "gzip" else data)
    return path
