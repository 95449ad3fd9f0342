"""Look at mitochondrial genomes and heteroplasmy VCFs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from genolewm_assets.genome import Contig
from genolewm_assets.sources.examination.finding import Answers
from genolewm_assets.sources.mito import CollectionFormat, check_heteroplasmy_header, read_genomes


def look_at_genomes(file_format: str | None) -> Callable[[Path], Answers]:
    """Return a look at a collection: its first record is read."""

    def look(path: Path) -> Answers:
        next(read_genomes(path, file_format=None if file_format is None else CollectionFormat(file_format)))
        yield from ()

    return look


def look_at_heteroplasmy(contig: Contig | None) -> Callable[[Path], Answers]:
    """Return a look at a heteroplasmy VCF: its header is read; without a contig, nothing is."""

    def look(path: Path) -> Answers:
        if contig is not None:
            check_heteroplasmy_header(path, contig)
        yield from ()

    return look
