"""Read BED tracks as merged intervals per contig."""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from genolewm_assets.errors import InputError
from genolewm_assets.genome import Contig, ContigSet, IntervalArray

_SKIPPED = (b"#", b"track", b"browser")


def read_bed_track(path: Path, contigs: ContigSet) -> dict[str, IntervalArray]:
    """Read a BED file, plain or gzipped, with columns separated by tabs or spaces.

    Returns
    -------
    dict
        Canonical contig name to intervals, for every contig of ``contigs`` in its order: 0-based half-open, sorted,
        disjoint; no intervals for a contig that the track does not mention. Other contigs (alternates, decoys) are left
        out.

    Raises
    ------
    InputError
        If a line has too few columns, coordinates that are not numbers, ``end < start`` or an interval outside its
        contig, if the file is missing or truncated, or if no line is on a known contig. The message names the file and,
        for a line, its number.
    """
    starts = {contig.name: array("q") for contig in contigs}
    ends = {contig.name: array("q") for contig in contigs}
    resolved: dict[bytes, Contig | None] = {}
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip() or line.startswith(_SKIPPED):
            continue
        fields = (line.split(b"\t", 3) if b"\t" in line else line.split(None, 3))[:3]
        spelt = fields[0]
        if spelt not in resolved:
            resolved[spelt] = contigs.find(spelt.decode("utf-8", "replace"))
        contig = resolved[spelt]
        if contig is not None:
            start, end = _coordinates(fields, contig, f"{path}:{number}")
            starts[contig.name].append(start)
            ends[contig.name].append(end)
    if not any(resolved.values()):
        names = ", ".join(sorted(name.decode("utf-8", "replace") for name in resolved)[:3])
        raise InputError(
            str(path),
            "no line is on a contig of the genome",
            expected=", ".join(contigs.names),
            got=names or "no lines",
        )
    return {name: IntervalArray.from_unsorted(np.array(starts[name]), np.array(ends[name])).merge() for name in starts}


def _coordinates(fields: list[bytes], contig: Contig, where: str) -> tuple[int, int]:
    """Return start and end of a BED line, 0-based half-open."""
    try:
        start, end = int(fields[1]), int(fields[2])
    except (IndexError, ValueError) as error:
        got = repr(b"\t".join(fields).decode("utf-8", "replace"))
        raise InputError(where, "not a BED line", expected="contig, start, end", got=got) from error
    if not 0 <= start <= end <= contig.length:
        raise InputError(
            where,
            f"interval is not inside {contig.name}",
            expected=f"0 <= start <= end <= {contig.length:,}",
            got=f"{start}-{end}",
            remedy="Check that the track is for this assembly",
        )
    return start, end


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, plain or gzipped."""
    if not path.is_file():
        raise InputError(str(path), "is a folder, not a BED file" if path.is_dir() else "no such file")
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as file:
        try:
            yield from file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(str(path), f"truncated or corrupt gzip ({error})", remedy="Fetch it again") from error
