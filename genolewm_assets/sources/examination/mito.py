"""Look at mitochondrial genomes and heteroplasmy VCFs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.genome import Contig
from genolewm_assets.sources.catalog import Catalog
from genolewm_assets.sources.examination.finding import Answers
from genolewm_assets.sources.examination.places import local_path
from genolewm_assets.sources.mito import CollectionFormat, check_heteroplasmy_header, find_strangers, read_genomes


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


def look_at_samples(catalog: Catalog, root: Path) -> Callable[[str], Answers]:
    """Return a look at all genomes and heteroplasmy VCFs together: that each sample has a record of its name.

    Collections are read in full. A file that cannot be read is left to its own look.
    """
    contig = next((contig for contig in catalog.contigs if contig.circular), None)

    def place(url: str) -> Path | None:
        return local_path(catalog.resolve_url(url, root=root))

    def look(_: str) -> Answers:
        names: dict[str, None] = {}
        for collection in catalog.mito.genomes:
            path, stated = place(collection.url), collection.format
            if path is None:
                yield "samples were not compared with genomes, because a collection is on a server"
                return
            try:
                records = read_genomes(path, file_format=None if stated is None else CollectionFormat(stated))
                names |= dict.fromkeys(record.name for record in records)
            except GenoLeWMError:
                return
        for calls in catalog.mito.heteroplasmy:
            path = place(calls.url)
            with suppress(GenoLeWMError):
                samples = () if path is None or contig is None else check_heteroplasmy_header(path, contig)
                if (error := find_strangers(str(path), samples, names)) is not None:
                    yield error

    return look
