"""Look at the files of each source that holds no alleles of the genome: genome, corpus, mitochondria, forensic runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from genolewm_assets.errors import FastaError, GenoLeWMError, InputError, counted
from genolewm_assets.forensic import read_panel
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.catalog import Catalog, CorpusSourceEntry
from genolewm_assets.sources.corpus import list_corpus_files, look_at_corpus_file
from genolewm_assets.sources.examination.finding import Answers
from genolewm_assets.sources.examination.places import ATTEMPTS, READ_LIMIT_BYTES, local_path
from genolewm_assets.sources.files import Compression, ask_remote
from genolewm_assets.sources.mito import CollectionFormat, check_heteroplasmy_header, find_strangers, read_genomes
from genolewm_assets.sources.reference import FastaReader, check_fasta, read_bed_track, usable_index
from genolewm_assets.sources.run_folders import list_run_folders

#: Number of files of one source of the corpus whose columns are looked at.
MAX_FILES = 1_000


def look_at_fasta(contigs: ContigSet, path: Path) -> Answers:
    """Look at beginning and end of a FASTA, and at the lengths of its contigs if it has an index or is small."""
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


def look_at_track(contigs: ContigSet, path: Path) -> Answers:
    """Look at a BED file, which is read if it is small."""
    if path.stat().st_size <= READ_LIMIT_BYTES:
        read_bed_track(path, contigs)
    yield from ()


def look_at_corpus(source: CorpusSourceEntry, url: str) -> Answers:
    """Look at the footers of the Parquet files of a file, folder or pattern: readable, with the columns of a layout.

    Of files at the hub their number and size are stated, and it is asked whether the first may be downloaded.
    """
    if source.hub is not None:
        found = source.hub.find(source.files)
        found[0].check_readable()
        yield f"{counted(len(found), 'file')} of the hub, {sum(file.size_bytes for file in found):,} bytes"
        return
    files = list_corpus_files(url)[: source.files]
    for file in files[:MAX_FILES]:
        path = local_path(file)
        if path is not None:
            try:
                yield from look_at_corpus_file(path)
            except InputError as error:
                yield error
        elif file == url:
            # Folders and patterns were listed by the server.
            ask_remote(url, attempts=ATTEMPTS)
    if len(files) > MAX_FILES:
        yield f"{len(files) - MAX_FILES:,} of {len(files):,} files were not looked at"


def look_at_genomes(file_format: str | None, path: Path) -> Answers:
    """Look at a collection: its first record is read."""
    next(read_genomes(path, file_format=None if file_format is None else CollectionFormat(file_format)))
    yield from ()


def look_at_heteroplasmy(contig: Contig | None, path: Path) -> Answers:
    """Look at a heteroplasmy VCF: its header is read; without a contig, nothing is."""
    if contig is not None:
        check_heteroplasmy_header(path, contig)
    yield from ()


def look_at_samples(catalog: Catalog, root: Path, _: str) -> Answers:
    """Look at all genomes and heteroplasmy VCFs together: that each sample has a record of its name.

    Collections are read in full. A file that cannot be read is left to its own look.
    """
    contig = next((contig for contig in catalog.contigs if contig.circular), None)

    def place(url: str) -> Path | None:
        return local_path(catalog.resolve_url(url, root=root))

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


def look_at_runs(url: str) -> Answers:
    """Look at the folder of runs: that it is there, and how many run folders it has if it has none."""
    folder = local_path(url)
    if folder is not None and not list_run_folders(folder):
        yield "has no run folder yet"


def look_at_panels(resolve: Callable[[str], str], urls: tuple[str, ...], name: str | None, _: str) -> Answers:
    """Look at all panel files together: that they define the panel."""
    paths = [path for url in urls if (path := local_path(resolve(url))) is not None]
    read_panel(*paths, panel_name=name)
    yield from ()
