"""The reference genome: check, index and read a FASTA file, and measure its contigs."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, overload

import pyarrow as pa
import pyarrow.parquet as pq
import pysam
from pysam.utils import SamtoolsError

from genolewm_assets.errors import FastaError, UnknownContigError
from genolewm_assets.genome import Bases, Contig, ContigSet, acgt_runs
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.files import Compression, check_local_file, detect_compression, has_bgzf_end
from genolewm_assets.windows.reference import GENOME_CONTIGS

# htslib writes nothing to stderr: its errors are raised. Not set and reset by call: a catalogue is checked in threads.
pysam.set_verbosity(0)

FASTA_NAME = "genome.fa.gz"
CONTIGS_NAME = "contigs.parquet"

#: Bases and ambiguity codes of IUPAC, upper-case.
_IUPAC = b"ACGTURYKMSWBDHVN"
_CHUNK_BYTES = 1 << 22


class FastaReader:
    """Reads contigs of a FASTA file, plain or bgzipped.

    Parameters
    ----------
    path
        The FASTA. Indexes beside it are used if they are not older; else they are built in a temporary folder.
    contigs
        Maps names in the file, such as ``21`` or ``NC_000021.9``, to canonical names; None: names are not changed.
    label
        Name of the file in errors; default: the path.

    Raises
    ------
    FastaError
        If the file is missing, empty, truncated, not FASTA or compressed with gzip, or two records are one contig.
    """

    def __init__(self, path: Path, contigs: ContigSet | None = None, *, label: str | None = None) -> None:
        self.path = path
        self._label = where = label or str(path)
        if check_fasta(path) is Compression.GZIP:
            raise FastaError(where, "gzip does not allow random access", remedy="Compress it with bgzip")
        with tempfile.TemporaryDirectory() as folder:
            fai, gzi = usable_index(path) or _write_index(path, Path(folder) / "index", label=where)
            try:
                self._file = pysam.FastaFile(str(path), str(fai), str(gzi) if gzi else None)
            except (OSError, ValueError) as error:
                raise FastaError(where, f"cannot be opened ({error})", remedy="Remove its index files") from error
            self._spelling = _canonical_names(where, self._file.references, contigs)

    @property
    def contigs(self) -> Mapping[str, int]:
        """Length in bases of each contig, in the file's order."""
        return {name: self._file.get_reference_length(spelt) for name, spelt in self._spelling.items()}

    def read_contig(self, name: str) -> bytes:
        """Return a contig's sequence: ASCII, upper-case, only IUPAC codes.

        Raises
        ------
        UnknownContigError, FastaError
            If the file has no such contig, or its sequence is cut short, corrupt or holds anything but IUPAC codes.
        """
        return self.read_as_written(name, 0, self._length(name)).upper()

    def open_contig(self, contig: Contig) -> ContigPieces:
        """Return a contig that is read on demand, by one thread only and while the reader is open.

        Errors are those of :meth:`read_contig`, raised when the bases are read. Both ends are read immediately, to find
        an index that does not fit the file.
        """
        pieces = ContigPieces(self._length(contig.name), partial(self.read_as_written, contig.name))
        _ = pieces[:1] + pieces[-1:]
        return pieces

    def _length(self, name: str) -> int:
        if name not in self._spelling:
            raise self._unknown(name)
        return int(self._file.get_reference_length(self._spelling[name]))

    def _unknown(self, name: str) -> UnknownContigError:
        expected = _first_names(self._spelling)
        return UnknownContigError(self._label, "no such contig", expected=expected, got=repr(name))

    def read_as_written(self, name: str, start: int, end: int) -> bytes:
        """Return ``[start, end)``, 0-based, in the case of the file; errors are those of :meth:`read_contig`."""
        if name not in self._spelling:
            raise self._unknown(name)
        where = f"{self._label} ({name})"
        try:
            sequence = self._file.fetch(self._spelling[name], start, end).encode("latin-1")
        except (OSError, ValueError, KeyError) as error:
            raise FastaError(where, f"cannot be read ({error})", remedy="Fetch the file again") from error
        if len(sequence) != end - start:
            expected, got = f"{end:,} bases, as its index states", f"{start + len(sequence):,}"
            raise FastaError(where, "wrong length", expected=expected, got=got, remedy="Remove the index files")
        foreign = sequence.translate(None, _IUPAC + _IUPAC.lower())
        if foreign:
            base = start + sequence.index(foreign[:1]) + 1
            raise FastaError(f"{where}:{base:,}", "not a nucleotide", expected="IUPAC codes", got=repr(chr(foreign[0])))
        return sequence

    def __enter__(self) -> FastaReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def check_fasta(path: Path) -> Compression:
    """Return the compression of a FASTA file.

    Raises
    ------
    FastaError
        If the file is missing, not a regular file, empty or truncated, or does not begin with ``>``.
    """
    if not check_local_file(path, expected="a FASTA file", error=FastaError):
        raise FastaError(str(path), "the file is empty", remedy="Fetch the file again")
    with path.open("rb") as file:
        compression = detect_compression(file)
        if compression is Compression.BGZF and not has_bgzf_end(file):
            raise FastaError(str(path), "truncated bgzip (no end block)", remedy="Fetch the file again")
    first = next(_text(path, compression), b"")
    if not first.lstrip().startswith(b">"):
        raise FastaError(str(path), "not FASTA", expected="'>' first", got=repr(first[:20].decode("latin-1")))
    return compression


def prepare_genome(source: Path, out: Path, contigs: ContigSet, *, progress: Progress = NO_PROGRESS) -> pa.Table:
    """Write the files of a genome, measure its contigs, and return those that the FASTA has, as ``GENOME_CONTIGS``.

    Parameters
    ----------
    source
        FASTA file; a bgzipped one is copied unchanged, a plain or gzipped one is compressed with bgzip.
    out
        Existing folder; ``genome.fa.gz``, its ``.fai`` and ``.gzi``, and ``contigs.parquet`` are written to it.
    contigs
        The contigs to measure; others stay in the FASTA and are not measured.

    Raises
    ------
    FastaError
        If the source is not a FASTA file that can be indexed. ``out`` may then contain incomplete files.
    """
    compression = check_fasta(source)
    fasta = out / FASTA_NAME
    records = _pack(source, compression, fasta, progress)
    fai, _ = _write_index(fasta, fasta, label=str(source))
    # htslib indexes the first of several records of one name and drops the others.
    if (indexed := len(fai.read_bytes().splitlines())) != records:
        expected, got = f"{records} names", f"{indexed}"
        raise FastaError(str(source), "two records have one name", expected=expected, got=got)
    with FastaReader(fasta, contigs, label=str(source)) as reader:
        present = [contig for contig in contigs if contig.name in reader.contigs]
        rows, done = [], 0
        for contig in present:
            rows.append(_measure(contig, reader.open_contig(contig)))
            done += reader.contigs[contig.name]
            progress.advance(done, sum(reader.contigs[c.name] for c in present), "bp checked")
    table = pa.Table.from_pylist(rows, schema=GENOME_CONTIGS.arrow)
    pq.write_table(table, out / CONTIGS_NAME, compression="zstd")
    return table


class ContigDifference(NamedTuple):
    """What differs between a contig of a FASTA and its pin in the catalogue, as texts."""

    contig: str
    what: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.contig}: {self.what}: expected {self.expected}, got {self.got}"


def compare_contigs(measured: pa.Table, contigs: ContigSet) -> list[ContigDifference]:
    """Return how a table of :func:`prepare_genome` differs from the pinned contigs, by length and, if any, MD5."""
    rows = {row["contig"]: row for row in measured.to_pylist()}
    differences = []
    for contig in contigs:
        row = rows.get(contig.name, {"length": "not in the FASTA"})
        if row["length"] != contig.length:
            differences.append(ContigDifference(contig.name, "length", str(contig.length), str(row["length"])))
        elif contig.md5 is not None and row["md5"] != contig.md5:
            differences.append(ContigDifference(contig.name, "MD5", contig.md5, row["md5"]))
    return differences


def _measure(contig: Contig, sequence: Bases) -> dict[str, object]:
    """Return a row of ``GENOME_CONTIGS``; the contig is read twice, one piece at a time."""
    runs = acgt_runs(sequence)
    md5 = hashlib.md5(usedforsecurity=False)
    for start in range(0, len(sequence), _CHUNK_BYTES):
        md5.update(sequence[start : start + _CHUNK_BYTES])
    return {
        "contig": contig.name,
        "length": len(sequence),
        "circular": contig.circular,
        "md5": md5.hexdigest(),
        "acgt_bases": int((runs.end - runs.start).sum()),
        "acgt_runs": len(runs),
    }


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
    """Copy a bgzipped file, compress any other with bgzip; return the number of FASTA records."""
    if compression is Compression.BGZF:
        shutil.copyfile(source, target)
        return _count_records(_ascii_text(source, compression, progress))
    with pysam.BGZFile(str(target), "wb", None) as out:
        return _count_records(_tee(_ascii_text(source, compression, progress), out))


def _ascii_text(source: Path, compression: Compression, progress: Progress) -> Iterator[bytes]:
    """Yield the decompressed text in chunks; a byte that is not ASCII is an error."""
    done = 0
    for chunk in _text(source, compression):
        if not chunk.isascii():
            at = next(index for index, byte in enumerate(chunk) if byte > 0x7F)
            raise FastaError(str(source), "not ASCII", got=f"byte {chunk[at]:#04x} at offset {done + at:,}")
        done += len(chunk)
        progress.advance(done, None, "bytes of FASTA copied")
        yield chunk


def _tee(chunks: Iterable[bytes], out: pysam.BGZFile) -> Iterator[bytes]:
    """Yield each chunk after writing it to ``out``."""
    for chunk in chunks:
        out.write(chunk)
        yield chunk


def _count_records(chunks: Iterable[bytes]) -> int:
    """Count the lines that begin with ``>``."""
    count, before = 0, b"\n"
    for chunk in chunks:
        count += chunk.count(b"\n>") + (before == b"\n" and chunk.startswith(b">"))
        before = chunk[-1:]
    return count


def usable_index(path: Path) -> tuple[Path, Path | None] | None:
    """Return the index files beside a FASTA; None if one of them is missing or older than the FASTA."""
    fai, gzi = path.with_name(f"{path.name}.fai"), path.with_name(f"{path.name}.gzi")
    with path.open("rb") as file:
        needed = [fai, gzi] if detect_compression(file) is Compression.BGZF else [fai]
    changed = path.stat().st_mtime
    if all(index.is_file() and index.stat().st_mtime >= changed for index in needed):
        return fai, gzi if gzi in needed else None
    return None


def _write_index(path: Path, stem: Path, *, label: str) -> tuple[Path, Path | None]:
    """Write ``<stem>.fai`` and, for a bgzipped file, ``<stem>.gzi``; return their paths."""
    fai, gzi = stem.with_name(f"{stem.name}.fai"), stem.with_name(f"{stem.name}.gzi")
    try:
        # The .gzi is written for bgzipped files only.
        pysam.faidx(str(path), "--fai-idx", str(fai), "--gzi-idx", str(gzi))
    except SamtoolsError as error:
        detail = " ".join(str(error).split())
        remedy = "Check that it is complete and that all lines of a record but the last have one length"
        raise FastaError(label, f"cannot be indexed ({detail})", remedy=remedy) from error
    if not fai.read_bytes().isascii():
        raise FastaError(label, "contig name is not ASCII", remedy="Rename the records")
    return fai, gzi if gzi.exists() else None


def _canonical_names(where: str, spellings: Sequence[str], contigs: ContigSet | None) -> dict[str, str]:
    """Map canonical names to the names in the file; names unknown to ``contigs`` are not changed."""
    names: dict[str, str] = {}
    for spelt in spellings:
        contig = contigs and contigs.find(spelt)
        name = contig.name if contig else spelt
        if name in names:
            raise FastaError(where, f"contig {name!r} occurs twice", got=f"{names[name]!r} and {spelt!r}")
        names[name] = spelt
    return names


def _first_names(names: Mapping[str, str]) -> str:
    """Return the first five names, for an error message."""
    first = list(names)[:5]
    return f"one of {', '.join(first)}{', ...' if len(names) > len(first) else ''}"


#: Pieces of a contig kept in memory; average number of reads per piece after which all pieces read are kept.
_PIECES_KEPT, _READS = 8, 8


class ContigPieces:
    """Bases of a contig in upper case, indexed from 0, read on demand in pieces of which eight are kept in memory.

    If access out of order reads pieces again and again, all pieces read from then on are kept, so that the contig is
    read at most nine times.
    """

    def __init__(self, length: int, read: Callable[[int, int], bytes], *, piece_bp: int = 1 << 20) -> None:
        self._length, self._piece_bp, self._read = length, piece_bp, read
        self._kept: dict[int, bytes] = {}
        self._reads_left = _READS * -(-length // piece_bp)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int, /) -> int: ...
    @overload
    def __getitem__(self, at: slice, /) -> bytes: ...
    def __getitem__(self, at: int | slice, /) -> int | bytes:
        """Return one base as an integer, or a slice as ``bytes``; the step of a slice is ignored."""
        if not isinstance(at, slice):
            number, place = divmod(range(self._length)[at], self._piece_bp)
            return self._piece(number)[place]
        start, end, _ = at.indices(self._length)
        if start >= end:
            return b""
        numbers = range(start // self._piece_bp, (end - 1) // self._piece_bp + 1)
        first = numbers[0] * self._piece_bp
        return b"".join(map(self._piece, numbers))[start - first : end - first]

    def _piece(self, number: int) -> bytes:
        if number not in self._kept:
            self._reads_left -= 1
            if len(self._kept) >= _PIECES_KEPT and self._reads_left >= 0:
                del self._kept[next(iter(self._kept))]
            start = number * self._piece_bp
            self._kept[number] = self._read(start, min(start + self._piece_bp, self._length)).upper()
        return self._kept[number]
