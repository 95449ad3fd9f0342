"""The reference genome: a checked FASTA, its indexes and what its contigs measure."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq
import pysam
from pysam.utils import SamtoolsError

from genolewm_assets.errors import FastaError, UnknownContigError
from genolewm_assets.genome.contigs import Contig, ContigSet
from genolewm_assets.genome.sequence import acgt_runs
from genolewm_assets.lewm.schema import GENOME_CONTIGS
from genolewm_assets.store.progress import NO_PROGRESS, Progress

FASTA_NAME = "genome.fa.gz"
CONTIGS_NAME = "contigs.parquet"

#: Bases and ambiguity codes of IUPAC, upper-case.
_IUPAC = b"ACGTURYKMSWBDHVN"
#: The empty block that ends every complete BGZF file (SAM specification, section 4.1.2).
_BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_CHUNK_BYTES = 1 << 22


class Compression(StrEnum):
    """How a text file is packed."""

    BGZF = "bgzf"
    GZIP = "gzip"
    PLAIN = "plain"


class FastaReader:
    """Read whole contigs of a FASTA file, plain or bgzipped.

    Parameters
    ----------
    path
        The FASTA. ``.fai`` (and ``.gzi``) beside it are used when present and not older; else an index is built in
        a temporary folder.
    contigs
        Gives contigs their canonical names: the file may spell ``chr21`` as ``21`` or ``NC_000021.9``.

    Raises
    ------
    FastaError
        If the file is missing, empty, truncated, not FASTA, or gzipped without blocks; or if two of its records are
        the same contig.
    """

    def __init__(self, path: Path, contigs: ContigSet | None = None) -> None:
        self.path = path
        if check_fasta(path) is Compression.GZIP:
            raise FastaError(str(path), "gzip without blocks has no random access", remedy="Compress it with bgzip")
        with tempfile.TemporaryDirectory() as folder, _quiet_htslib():
            fai, gzi = _usable_index(path) or _write_index(path, Path(folder) / "index")
            try:
                self._file = pysam.FastaFile(str(path), str(fai), str(gzi) if gzi else None)
            except (OSError, ValueError) as error:
                raise FastaError(str(path), f"cannot be opened ({error})", remedy="Remove its index files") from error
            self._spelling = _canonical_names(path, self._file.references, contigs)

    @property
    def contigs(self) -> Mapping[str, int]:
        """Length in bases of each contig, in the file's order."""
        return {name: self._file.get_reference_length(spelt) for name, spelt in self._spelling.items()}

    def read_contig(self, name: str) -> bytes:
        """Return a contig's sequence: ASCII, upper-case, only IUPAC codes.

        Raises
        ------
        UnknownContigError
            If the file has no such contig.
        FastaError
            If the sequence is cut short, corrupt or holds anything but IUPAC codes.
        """
        if name not in self._spelling:
            raise UnknownContigError(str(self.path), "no such contig", expected=_some(self._spelling), got=repr(name))
        where = f"{self.path} ({name})"
        with _quiet_htslib():
            try:
                sequence = self._file.fetch(self._spelling[name]).encode("latin-1").upper()
            except (OSError, ValueError, KeyError) as error:
                raise FastaError(where, f"cannot be read ({error})", remedy="Fetch the file again") from error
        if len(sequence) != self.contigs[name]:
            expected, got = f"{self.contigs[name]:,} bases by its index", f"{len(sequence):,}"
            raise FastaError(where, "length", expected=expected, got=got, remedy="Remove the index files")
        foreign = sequence.translate(None, _IUPAC)
        if foreign:
            base = sequence.index(foreign[:1]) + 1
            raise FastaError(f"{where}:{base:,}", "not a nucleotide", expected="IUPAC codes", got=repr(chr(foreign[0])))
        return sequence

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> FastaReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_fasta(path: Path) -> Compression:
    """Return how a FASTA is packed.

    Raises
    ------
    FastaError
        If it is missing, a folder, empty, truncated, or does not begin with ``>``.
    """
    if not path.is_file():
        problem = "is a folder, not a FASTA" if path.is_dir() else "no such file"
        raise FastaError(str(path), problem, remedy="Give the path of a FASTA file")
    with path.open("rb") as file:
        head = file.read(18)
        if not head:
            raise FastaError(str(path), "empty file", expected="FASTA", got="0 bytes")
        compression = _compression(head)
        if compression is Compression.BGZF:
            file.seek(max(0, path.stat().st_size - len(_BGZF_END)))
            if file.read() != _BGZF_END:
                raise FastaError(str(path), "truncated bgzip (no end block)", remedy="Fetch the file again")
    first = next(_text(path, compression), b"")
    if not first.lstrip().startswith(b">"):
        raise FastaError(str(path), "not FASTA", expected="'>' first", got=repr(first[:20].decode("latin-1")))
    return compression


def prepare_genome(source: Path, out: Path, contigs: ContigSet, *, progress: Progress = NO_PROGRESS) -> pa.Table:
    """Write a genome's files and measure its contigs.

    Parameters
    ----------
    source
        FASTA; bgzipped input is copied as it is, plain or gzipped input is packed with bgzip.
    out
        Existing folder; gets ``genome.fa.gz``, its ``.fai`` and ``.gzi``, and ``contigs.parquet``.
    contigs
        The contigs to measure; others stay in the FASTA and are not measured.

    Returns
    -------
    pyarrow.Table
        Schema ``GENOME_CONTIGS``: the contigs that the FASTA has, in the order of ``contigs``. Whether they are the
        pinned ones is for :func:`compare_contigs` to say.

    Raises
    ------
    FastaError
        If the source is not a FASTA that can be indexed. ``out`` then holds unfinished files.
    """
    compression = check_fasta(source)
    fasta = out / FASTA_NAME
    records = _pack(source, compression, fasta, progress)
    with _quiet_htslib():
        fai, _ = _write_index(fasta, fasta, reported_as=source)
    # htslib indexes the first of several records of one name and drops the others.
    if (indexed := len(fai.read_bytes().splitlines())) != records:
        expected, got = f"{records} names", f"{indexed}"
        raise FastaError(str(source), "two records have one name", expected=expected, got=got)
    with FastaReader(fasta, contigs) as reader:
        present = [contig for contig in contigs if contig.name in reader.contigs]
        rows, done = [], 0
        for contig in present:
            rows.append(_measure(contig, reader.read_contig(contig.name)))
            done += reader.contigs[contig.name]
            progress.advance(done, sum(reader.contigs[c.name] for c in present), "bp")
    table = pa.Table.from_pylist(rows, schema=GENOME_CONTIGS.arrow)
    pq.write_table(table, out / CONTIGS_NAME, compression="zstd")
    return table


def compare_contigs(measured: pa.Table, contigs: ContigSet) -> list[str]:
    """Return what differs between a FASTA and the pinned contigs, one line each; empty when it is the same genome.

    Parameters
    ----------
    measured
        What :func:`prepare_genome` returned.
    contigs
        The catalogue's; a contig without ``md5`` is compared by length alone.
    """
    rows = {row["contig"]: row for row in measured.to_pylist()}
    differences = []
    for contig in contigs:
        row = rows.get(contig.name)
        if row is None:
            differences.append(f"{contig.name}: not in the FASTA")
        elif row["length"] != contig.length:
            differences.append(f"{contig.name}: length: expected {contig.length:,}, got {row['length']:,}")
        elif contig.md5 is not None and row["md5"] != contig.md5:
            differences.append(f"{contig.name}: MD5: expected {contig.md5}, got {row['md5']}")
    return differences


def _measure(contig: Contig, sequence: bytes) -> dict[str, object]:
    runs = acgt_runs(sequence)
    return {
        "contig": contig.name,
        "length": len(sequence),
        "circular": contig.circular,
        "md5": hashlib.md5(sequence, usedforsecurity=False).hexdigest(),
        "acgt_bases": int((runs.end - runs.start).sum()),
        "acgt_runs": len(runs),
    }


def _compression(head: bytes) -> Compression:
    if not head.startswith(b"\x1f\x8b"):
        return Compression.PLAIN
    # BGZF is gzip whose first extra subfield is BC (SAM specification, section 4.1).
    return Compression.BGZF if head[3:4] == b"\x04" and head[12:14] == b"BC" else Compression.GZIP


def _text(path: Path, compression: Compression) -> Iterator[bytes]:
    """Yield the decompressed text in chunks."""
    with path.open("rb") if compression is Compression.PLAIN else gzip.open(path, "rb") as file:
        try:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            problem = f"truncated or corrupt {compression} ({error})"
            raise FastaError(str(path), problem, remedy="Fetch the file again") from error


def _pack(source: Path, compression: Compression, target: Path, progress: Progress) -> int:
    """Copy bgzipped input as it is, bgzip any other; return how many records the text has."""
    if compression is Compression.BGZF:
        shutil.copyfile(source, target)
        return _count_records(_ascii_text(source, compression, progress))
    with pysam.BGZFile(str(target), "wb", None) as out:
        return _count_records(_tee(_ascii_text(source, compression, progress), out))


def _ascii_text(source: Path, compression: Compression, progress: Progress) -> Iterator[bytes]:
    done = 0
    for chunk in _text(source, compression):
        if not chunk.isascii():
            at = next(index for index, byte in enumerate(chunk) if byte > 0x7F)
            raise FastaError(str(source), "not ASCII", got=f"byte {chunk[at]:#04x} at offset {done + at:,}")
        done += len(chunk)
        progress.advance(done, None, "bytes")
        yield chunk


def _tee(chunks: Iterable[bytes], out: pysam.BGZFile) -> Iterator[bytes]:
    for chunk in chunks:
        out.write(chunk)
        yield chunk


def _count_records(chunks: Iterable[bytes]) -> int:
    count, before = 0, b"\n"
    for chunk in chunks:
        count += chunk.count(b"\n>") + (before == b"\n" and chunk.startswith(b">"))
        before = chunk[-1:]
    return count


def _usable_index(path: Path) -> tuple[Path, Path | None] | None:
    """Return the index files beside a FASTA unless one is missing or older than the FASTA."""
    fai, gzi = path.with_name(f"{path.name}.fai"), path.with_name(f"{path.name}.gzi")
    with path.open("rb") as file:
        needed = [fai, gzi] if _compression(file.read(18)) is Compression.BGZF else [fai]
    changed = path.stat().st_mtime
    if all(index.is_file() and index.stat().st_mtime >= changed for index in needed):
        return fai, gzi if gzi in needed else None
    return None


def _write_index(path: Path, stem: Path, *, reported_as: Path | None = None) -> tuple[Path, Path | None]:
    fai, gzi = stem.with_name(f"{stem.name}.fai"), stem.with_name(f"{stem.name}.gzi")
    where = str(reported_as or path)
    try:
        # gzi is written for bgzipped files only
        pysam.faidx(str(path), "--fai-idx", str(fai), "--gzi-idx", str(gzi))
    except SamtoolsError as error:
        detail = " ".join(str(error).split())
        remedy = "Check that it is complete and that all lines of a record but the last have one length"
        raise FastaError(where, f"cannot be indexed ({detail})", remedy=remedy) from error
    if not fai.read_bytes().isascii():
        raise FastaError(where, "contig name is not ASCII", remedy="Rename the records")
    return fai, gzi if gzi.exists() else None


def _canonical_names(path: Path, spellings: Sequence[str], contigs: ContigSet | None) -> dict[str, str]:
    """Map each contig's name to the file's spelling; records unknown to ``contigs`` keep theirs."""
    names: dict[str, str] = {}
    for spelt in spellings:
        name = spelt
        if contigs is not None:
            try:
                name = contigs.resolve(spelt).name
            except UnknownContigError:
                name = spelt
        if name in names:
            raise FastaError(str(path), f"contig {name!r} is there twice", got=f"{names[name]!r} and {spelt!r}")
        names[name] = spelt
    return names


def _some(names: Mapping[str, str]) -> str:
    first = list(names)[:5]
    return f"one of {', '.join(first)}{', ...' if len(names) > len(first) else ''}"


@contextmanager
def _quiet_htslib() -> Iterator[None]:
    """Keep htslib from writing to stderr; what it found reaches the caller as an error."""
    before = pysam.set_verbosity(0)
    try:
        yield
    finally:
        pysam.set_verbosity(before)
