"""What building a catalogue downloads, and how much disk that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from genolewm_assets.sources.catalog import Catalog, CorpusSourceEntry
from genolewm_assets.sources.clinvar import RegisteredRelease, listed_releases, read_listing
from genolewm_assets.sources.corpus import list_corpus_files
from genolewm_assets.sources.examination.places import ATTEMPTS, local_path
from genolewm_assets.sources.files import ask_remote
from genolewm_assets.store.files import is_published_link

_THREADS = 16
#: Bytes that a root takes on disk, rounded up: for a base of the genome, and of the corpus; for a window (22 kB at a
#: tenth of the genome) and its states (1,024 values of 2 bytes for each of 32 blocks); and for Dagster's history.
_BY_BASE, _BY_CORPUS_BASE, _BY_WINDOW, _BY_STATE, _HISTORY = 0.35, 0.35, 25_000, 32 * 1_024 * 2, 200_000_000
#: Bases in a byte of the corpus's Parquet files, as its publisher states them.
_BASES_IN_A_BYTE = 2.3


class Keeping(StrEnum):
    """Where the bytes of a download lie, and for how long."""

    STREAMED = "never stored"
    READ = "while it is read"
    ROOT = "in the root"
    CACHE = "in the hub's cache"
    HERE = "there already"


@dataclass(frozen=True, slots=True)
class Download:
    """A file on a server, or several of one repository of the hub.

    Attributes
    ----------
    place, url
        Key of the catalogue, and where it is.
    size_bytes
        Size that the server states; None if it states none.
    """

    place: str
    url: str
    size_bytes: int | None
    keeping: Keeping

    @property
    def host(self) -> str:
        """The server's name; the hub's repository for ``hf://``."""
        parts = urlsplit(self.url)
        return parts.netloc if parts.scheme != "hf" else self.url.partition("@")[0]


@dataclass(frozen=True, slots=True)
class DiskNeeds:
    """Bytes that a build takes at most: published in the root, while files are read, and in the hub's cache."""

    root: int
    while_read: int
    cache: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.root + self.while_read + self.cache


def list_downloads(catalog: Catalog, root: Path) -> list[Download]:
    """Return what a build of a catalogue reads from servers: every file whose artefact a root does not have.

    What the hub's cache has is :attr:`Keeping.HERE`. The encoder's weights are not among it. Several servers are asked
    for sizes at a time.

    Raises
    ------
    FetchError, InputError, MissingResourceError
        If a server cannot be reached, or has not what the catalogue names.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        asked = [pool.submit(ask) for ask in _questions(catalog, root)]
        return [each for answer in asked if (each := answer.result()) is not None]


def disk_needs(catalog: Catalog, downloads: Sequence[Download], *, with_states: bool) -> DiskNeeds:
    """Return the disk that a build takes, from the lengths of contigs and the sizes of downloads."""
    corpus = sum(each.size_bytes or 0 for each in downloads if each.place.startswith("corpus.")) * _BASES_IN_A_BYTE
    bases = sum(contig.length for contig in catalog.contigs)
    windows = (bases + corpus * catalog.corpus.slice_fraction) / catalog.window_profile.stride_bp
    kept, read, cached = (
        [each.size_bytes or 0 for each in downloads if each.keeping is keeping]
        for keeping in (Keeping.ROOT, Keeping.READ, Keeping.CACHE)
    )
    own = bases * _BY_BASE + corpus * _BY_CORPUS_BASE + windows * (_BY_WINDOW + _BY_STATE * with_states) + _HISTORY
    return DiskNeeds(int(own) + sum(kept), max(read, default=0), sum(cached))


def _questions(catalog: Catalog, root: Path) -> Iterator[Callable[[], Download | None]]:
    """Yield a function for each file that a build reads and the root does not have."""

    def has(*folders: str) -> bool:
        return all(is_published_link(root / folder) for folder in folders)

    def ask(place: str, url: str, keeping: Keeping = Keeping.READ) -> Callable[[], Download | None]:
        return partial(_ask, place, catalog.resolve_url(url, root=root), keeping)

    linear = [contig.name for contig in catalog.contigs if not contig.circular]
    if not has(f"reference/{catalog.genome_digest[:12]}"):
        yield ask("genome.fasta", catalog.genome.fasta)
    if not has(*(f"windows/{catalog.window_profile.name}/{name}" for name in linear)):
        yield from (ask(f"genome.tracks.{name}", url) for name, url in catalog.genome.tracks.urls.items())
    for name, source in catalog.gnomad.sources.items():
        if not has(f"gnomad/{source.release}/{name}"):
            keeping = Keeping.READ if source.read == "download" else Keeping.STREAMED
            yield ask(f"gnomad.sources.{name}", source.url, keeping)
    releases = _releases(catalog, root)
    for release in releases:
        if not has(f"clinvar/{release.key}/vcf"):
            yield ask(f"clinvar {release.key}", release.url_at(catalog.clinvar.listing), Keeping.ROOT)
    if not has(*(f"holdouts/{release.key}" for release in releases)):
        yield from (ask(f"haplotypes.sources.{name}", each.url) for name, each in catalog.haplotypes.sources.items())
    for name, entry in catalog.corpus.sources.items():
        if not has(f"corpus/records/{name}"):
            place = f"corpus.sources.{name}"
            url = catalog.resolve_url(entry.url, root=root)
            yield partial(_ask_all, place, url, entry) if entry.hub is None else partial(_ask_hub, place, entry)
    if not has("mito/genomes"):
        collections = [*catalog.mito.genomes, *catalog.mito.heteroplasmy]
        yield from (ask(f"mito[{at}]", each.url) for at, each in enumerate(collections))


def _ask(place: str, url: str, keeping: Keeping) -> Download | None:
    """Ask a server for the size of a file; a local one is no download."""
    return None if local_path(url) else Download(place, url, ask_remote(url, attempts=ATTEMPTS).size, keeping)


def _ask_all(place: str, url: str, entry: CorpusSourceEntry) -> Download | None:
    """Ask a server for the sizes of the files of a source; local ones are no download."""
    if local_path(url):
        return None
    files = list_corpus_files(url)[: entry.files]
    return Download(place, url, sum(ask_remote(file, attempts=ATTEMPTS).size or 0 for file in files), Keeping.READ)


def _ask_hub(place: str, entry: CorpusSourceEntry) -> Download:
    """Ask the hub for the size of the files of a source, or its cache if it has them all."""
    assert entry.hub is not None
    files = entry.hub.find(entry.files)
    here = all(file.place != file.url for file in files)
    size = sum(file.size_bytes for file in files)
    return Download(place, entry.url, size, Keeping.HERE if here else Keeping.CACHE)


def _releases(catalog: Catalog, root: Path) -> list[RegisteredRelease]:
    """Return the ClinVar releases that a build uses; none of a listing that is not written yet."""
    settings = catalog.clinvar
    if catalog.generator is not None:
        return []
    listing = read_listing(catalog.resolve_url(settings.listing, root=root))
    listed = listed_releases(root, listing, newest_first=settings.newest_first)
    return [release for release in listed if settings.releases is None or release.key in settings.releases]
