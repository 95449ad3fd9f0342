"""Look at the FASTA of a genome and at its BED tracks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from genolewm_assets.errors import FastaError
from genolewm_assets.genome import ContigSet
from genolewm_assets.sources.examination.finding import Answers
from genolewm_assets.sources.examination.places import READ_LIMIT_BYTES
from genolewm_assets.sources.files import Compression
from genolewm_assets.sources.reference import FastaReader, check_fasta, read_bed_track, usable_index


def look_at_fasta(contigs: ContigSet) -> Callable[[Path], Answers]:
    """Return a look at a FASTA: its beginning and end, and the lengths of its contigs in its index.

    Without a usable index a small file is indexed; of a larger one the contigs are not looked at.
    """

    def look(path: Path) -> Answers:
        packed = check_fasta(path)
        indexed = usable_index(path) is not None or path.stat().st_size <= READ_LIMIT_BYTES
        if packed is Compression.GZIP or not indexed:
            yield "contig names and lengths were not compared: the file has no index (.fai; .gzi if it is bgzipped)"
            return
        with FastaReader(path, contigs) as reader:
            lengths = dict(reader.contigs)
        for contig in contigs:
            where = f"{path} ({contig.name})"
            if contig.name not in lengths:
                names = list(lengths)[:6]
                got = ", ".join(names) + (", ..." if len(lengths) > len(names) else "")
                yield FastaError(where, "no such contig", expected=repr(contig.name), got=got)
            elif lengths[contig.name] != contig.length:
                expected, length = f"{contig.length:,} bp, as in the catalogue", f"{lengths[contig.name]:,} bp"
                yield FastaError(where, "wrong length", expected=expected, got=length)

    return look


def look_at_track(contigs: ContigSet) -> Callable[[Path], Answers]:
    """Return a look at a BED file, which is read if it is small."""

    def look(path: Path) -> Answers:
        if path.stat().st_size <= READ_LIMIT_BYTES:
            read_bed_track(path, contigs)
        yield from ()

    return look
