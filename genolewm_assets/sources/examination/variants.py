"""Look at VCFs and at the listing of ClinVar releases: headers and indexes, no record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from genolewm_assets.errors import FetchError, GenoLeWMError, MissingResourceError, VcfError
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.clinvar import read_listing
from genolewm_assets.sources.examination.finding import Answers
from genolewm_assets.sources.examination.places import ATTEMPTS, local_path
from genolewm_assets.sources.files import Compression, RangeFile, ask_remote, detect_compression, has_bgzf_end
from genolewm_assets.sources.gnomad import check_gnomad_release, detect_layout
from genolewm_assets.sources.vcf import INDEX_SUFFIXES, LocalVcf, VcfHeader, VcfScanner, check_assembly, check_blocked

#: Seconds after which a listing that has not arrived is a fault.
_LISTING_S = 60.0


def look_at_gnomad(contig: Contig, contigs: ContigSet, release: str, path: Path) -> Answers:
    """Look at the gnomAD VCF of a contig: assembly, contig, and fields of the declared release."""
    header = _read_header(path, contigs)
    yield from _find_absence(path, header, contig)
    detect_layout(header, where=str(path))
    check_gnomad_release(header, release, where=str(path))


def look_at_index(url: str) -> Answers:
    """Note that a remote VCF which is read in ranges has no index, without which all of it is read."""
    for suffix in INDEX_SUFFIXES:
        with suppress(FetchError):
            ask_remote(url + suffix, attempts=ATTEMPTS)
            return
    yield f"has no index ({' or '.join(INDEX_SUFFIXES)}) at {url}: the build will read the whole file"


def look_at_stream(url: str) -> Answers:
    """Look at the beginning of a remote VCF that is streamed: the server states its size, and it is BGZF."""
    if local_path(url) is None:
        with RangeFile(url, attempts=ATTEMPTS) as file:
            check_blocked(file)
    yield from ()


def look_at_phased(contig: Contig, contigs: ContigSet, path: Path) -> Answers:
    """Look at a VCF with phased genotypes of a contig: assembly, contig, samples."""
    header = _read_header(path, contigs)
    yield from _find_absence(path, header, contig)
    if not header.samples:
        yield VcfError(str(path), "has no samples", expected="sample columns with phased genotypes (GT)")


def look_at_listing(contigs: ContigSet, named: Iterable[str], wanted: Collection[str] | None, url: str) -> Answers:
    """Look at a listing of ClinVar releases, and at the headers of those that are local files."""
    listing = read_listing(url, attempts=ATTEMPTS, within_s=_LISTING_S)
    yield from (f"is left out until its upload is finished: {each}" for each in listing.unfinished.values())
    days = [file.day for file in listing.files]
    offered = f"one of the {len(days)} offered, such as {', '.join(days[-5:])}" if days else "a listed release"
    for key in sorted(named):
        if _day(key) not in days:
            yield MissingResourceError(url, "no such ClinVar release", expected=offered, got=repr(key))
    if not days:
        yield MissingResourceError(url, "offers no ClinVar release", expected="files named clinvar_YYYYMMDD.vcf.gz")
    for file in listing.files:
        path = local_path(file.url)
        if path is not None and (wanted is None or file.day in map(_day, wanted)):
            try:
                _read_header(path, contigs)
            except GenoLeWMError as error:
                yield error


def _day(key: str) -> str:
    """Return the day of a release key, without the number of a second file of that day."""
    return key.partition(".")[0]


def _read_header(path: Path, contigs: ContigSet) -> VcfHeader:
    """Return the header of a VCF whose end is there, and whose contigs have the lengths of the genome's."""
    file, _ = LocalVcf(path).open()
    with file:
        if detect_compression(file) is Compression.BGZF and not has_bgzf_end(file):
            raise VcfError(str(path), "truncated bgzip (no end block)", remedy="Fetch the file again")
    with VcfScanner(path, threads=1) as scanner:
        header = scanner.header
    check_assembly(header, contigs, where=str(path))
    return header


def _find_absence(path: Path, header: VcfHeader, contig: Contig) -> Iterator[VcfError]:
    """Yield an error if the index, or without one the header, does not name the contig."""
    index = LocalVcf(path).index()
    present = list(header.contigs if index is None else index.contigs)
    if (present or index is not None) and not {contig.name, *contig.aliases} & set(present):
        yield VcfError(
            str(path),
            f"the {'header' if index is None else 'index'} does not name {contig.name}",
            expected=repr(contig.name),
            got=", ".join(present[:6]) or "no contig",
            remedy="Check that this is the file of this contig",
        )
