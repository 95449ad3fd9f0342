"""What building a catalogue downloads, and how much disk that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from genolewm_assets.sources.catalog import Catalog, CorpusSourceEntry
from genolewm_assets.sources.clinvar import RegisteredRelease, listed_releases, read_listing
from genolewm_assets.sources.corpus import list_corpus_files
from genolewm_assets.sources.examination.places import ATTEMPTS, local_path
from genolewm_assets.sources.files import ask_remote

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


#: Tells whether a root has an artefact, by asset and partition, as a build of now would make it.
Has: TypeAlias = Callable[[str, str | None], bool]


def list_downloads(catalog: Catalog, root: Path, has: Has) -> list[Download]:
    """Return what a build of a catalogue reads from servers: every file whose artefact is not current.

    Files of the corpus are always listed: :attr:`Keeping.HERE` if they are local, in the hub's cache, or divided. The
    encoder's weights are not listed. Several servers are asked for sizes at a time.

    Raises
    ------
    FetchError, InputError, MissingResourceError
        If a server cannot be reached, or has not what the catalogue names.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        asked = [pool.submit(ask) for ask in _questions(catalog, root, has)]
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


def _questions(catalog: Catalog, root: Path, has: Has) -> Iterator[Callable[[], Download | None]]:
    """Yield a function for each file that a build reads, and those of the corpus."""

    def ask(place: str, url: str, keeping: Keeping = Keeping.READ) -> Callable[[], Download | None]:
        return partial(_ask, place, catalog.resolve_url(url, root=root), keeping)

    if catalog.generator is not None:  # every file is written here
        return
    linear = [contig.name for contig in catalog.contigs if not contig.circular]
    if not has("reference/genome", None):
        yield ask("genome.fasta", catalog.genome.fasta)
    if not all(has("windows/index", name) for name in linear):
        yield from (ask(f"genome.tracks.{name}", url) for name, url in catalog.genome.tracks.urls.items())
    for name, source in catalog.gnomad.sources.items():
        if not has("gnomad/shard", name):
            keeping = Keeping.READ if source.read == "download" else Keeping.STREAMED
            yield ask(f"gnomad.sources.{name}", source.url, keeping)
    releases = _releases(catalog, root)
    for release in releases:
        if not has("clinvar/release", release.key):
            yield ask(f"clinvar {release.key}", release.url_at(catalog.clinvar.listing), Keeping.ROOT)
    packaged = catalog.clinvar.packaged
    if not all(has("holdouts/manifest", each.key) for each in releases if packaged is None or each.key in packaged):
        yield from (ask(f"haplotypes.sources.{name}", each.url) for name, each in catalog.haplotypes.sources.items())
    for name, entry in catalog.corpus.sources.items():
        url = catalog.resolve_url(entry.url, root=root)
        yield partial(_ask_corpus, f"corpus.sources.{name}", url, entry, here=has("corpus/records", name))
    if not has("mito/genomes", None):
        collections = [*catalog.mito.genomes, *catalog.mito.heteroplasmy]
        yield from (ask(f"mito[{at}]", each.url) for at, each in enumerate(collections))


def _ask(place: str, url: str, keeping: Keeping) -> Download | None:
    """Ask a server for the size of a file; a local one is no download."""
    return None if local_path(url) else Download(place, url, ask_remote(url, attempts=ATTEMPTS).size, keeping)


def _ask_corpus(place: str, url: str, entry: CorpusSourceEntry, *, here: bool) -> Download:
    """Ask for the sizes of the files of a source of the corpus: a server, or the hub."""
    if entry.hub is not None:
        found = entry.hub.find(entry.files)
        here = here or all(file.place != file.url for file in found)
        size = sum(file.size_bytes for file in found)
        return Download(place, entry.url, size, Keeping.HERE if here else Keeping.CACHE)
    files = list_corpus_files(url)[: entry.files]
    if local_path(url):
        return Download(place, url, sum(Path(file).stat().st_size for file in files), Keeping.HERE)
    sizes = [ask_remote(file, attempts=ATTEMPTS).size for file in files]
    total = None if None in sizes else sum(filter(None, sizes))
    return Download(place, url, total, Keeping.HERE if here else Keeping.READ)


def _releases(catalog: Catalog, root: Path) -> list[RegisteredRelease]:
    """Return the ClinVar releases that a build uses."""
    settings = catalog.clinvar
    listing = read_listing(catalog.resolve_url(settings.listing, root=root))
    listed = listed_releases(root, listing, newest_first=settings.newest_first)
    return [release for release in listed if settings.releases is None or release.key in settings.releases]
