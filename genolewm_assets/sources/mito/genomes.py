"""Collections of mitochondrial genomes, FASTA or GenBank flat files, plain or gzipped, one record at a time."""

from __future__ import annotations

import gzip
import io
import re
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from genolewm_assets.errors import InputError
from genolewm_assets.mito.genomes import GenomeRecord
from genolewm_assets.sources.files import Compression, check_local_file, detect_compression, has_bgzf_end

if TYPE_CHECKING:
    from Bio.SeqRecord import SeqRecord

#: Characters of one record that are still read: a GenBank record of a mitochondrial genome has some 60,000.
MAX_RECORD_CHARACTERS = 1 << 20
#: Longer lines are read in pieces.
_PIECE = 1 << 16
#: Longest line of a GenBank record, which has 80: Biopython takes the square of a line's length for some.
_LONGEST_LINE = 1_000
_END = "//"
_LOCUS = "LOCUS"
_FETCH_AGAIN = "Fetch the file again"
#: NCBI's source modifiers stand in brackets: [haplogroup=H2a2a1].
_IN_TITLE = re.compile(r"\[\s*haplogroup\s*=\s*([^\]]+)\]|\bhaplogroup\s*=\s*([^\s;,\]]+)", re.IGNORECASE)
_STUMBLES = (LookupError, AssertionError, AttributeError, TypeError)
_IN_NOTE = re.compile(r"\bhaplogroup\s*[:=]\s*([^\s;,]+)", re.IGNORECASE)


class CollectionFormat(StrEnum):
    """How a collection is written; the values are Biopython's names."""

    FASTA = "fasta"
    GENBANK = "genbank"


#: File name endings, those of compression taken off.
ENDINGS = {
    **dict.fromkeys((".fa", ".fasta", ".fas", ".fna", ".fsa"), CollectionFormat.FASTA),
    **dict.fromkeys((".gb", ".gbk", ".gbff", ".genbank"), CollectionFormat.GENBANK),
}


def find_format(name: str) -> CollectionFormat:
    """Return the format that a file name states.

    Raises
    ------
    InputError
        If it states none.
    """
    bare = re.sub(r"\.(gz|bgz)$", "", name.lower())
    ending = Path(bare).suffix
    if ending not in ENDINGS:
        expected = f"{', '.join(ENDINGS)}, or one of them with .gz or .bgz"
        remedy = "Rename the file or state its format: fasta or genbank"
        raise InputError(name, "the name does not tell the format", expected=expected, got=repr(ending), remedy=remedy)
    return ENDINGS[ending]


def read_genomes(
    path: Path,
    *,
    file_format: CollectionFormat | None = None,
    label: str | None = None,
    max_record_characters: int = MAX_RECORD_CHARACTERS,
) -> Iterator[GenomeRecord]:
    """Yield the genomes of a collection in the file's order.

    Parameters
    ----------
    path
        FASTA or GenBank, plain, gzipped or bgzipped (told by content).
    file_format
        Default: what the name says.
    label
        What records and errors call the file; default: the path.
    max_record_characters
        Of one record, title and all; what is longer is passed over and its record yielded with a ``problem``.

    Raises
    ------
    InputError
        If the file as a whole cannot be trusted: missing, of another format, without a record, truncated, damaged,
        with a NUL byte. What is wrong with one record alone is left to :mod:`~genolewm_assets.mito.genomes.qc`: such a
        record is yielded with its ``problem``, without a sequence, or with the symbols it has.

    Notes
    -----
    The haplogroup is taken from ``[haplogroup=X]`` or ``haplogroup=X`` in a FASTA title, and from the source feature's
    ``/haplogroup="X"`` or else ``/note="haplogroup: X"`` in GenBank.
    """
    where = label or str(path)
    kind = file_format or find_format(path.name)
    if not check_local_file(path, expected="a FASTA or GenBank file"):
        raise InputError(where, "the file is empty", remedy=_FETCH_AGAIN)
    split = _split_fasta if kind is CollectionFormat.FASTA else _split_genbank
    number = 0
    for number, text in enumerate(split(_read_pieces(path, where), where, max_record_characters), start=1):
        yield _parse(text, kind, where, number)
    if not number:
        raise InputError(where, "holds no record", expected=f"{kind} records", remedy=_FETCH_AGAIN)


@dataclass(slots=True)
class _RecordText:
    """Text of one record; ``pieces`` stop at the limit, ``size`` goes on counting."""

    limit: int
    pieces: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, piece: str) -> None:
        self.size += len(piece)
        if self.size <= self.limit or not self.pieces:
            self.pieces.append(piece)


class _Piece(NamedTuple):
    """A line, or a part of a long one; ``is_start`` where a line begins."""

    text: str
    is_start: bool


def _read_pieces(path: Path, where: str) -> Iterator[_Piece]:
    """Yield the text in pieces of 64 kB at most, whatever the line ends; what is no UTF-8 becomes U+FFFD."""
    with path.open("rb") as file:
        compression = detect_compression(file)
        if compression is Compression.BGZF and not has_bgzf_end(file):
            raise InputError(where, "truncated bgzip (no end block)", remedy=_FETCH_AGAIN)
    with path.open("rb") if compression is Compression.PLAIN else gzip.open(path, "rb") as raw:
        lines = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline=None)
        is_start, number = True, 1
        try:
            while text := lines.readline(_PIECE):
                if "\0" in text:
                    raise InputError(f"{where}:{number:,}", "NUL byte: not text, or damaged", remedy=_FETCH_AGAIN)
                yield _Piece(text, is_start)
                is_start = text.endswith("\n")
                number += is_start
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(where, f"truncated or corrupt {compression} ({error})", remedy=_FETCH_AGAIN) from error


def _split_fasta(pieces: Iterator[_Piece], where: str, limit: int) -> Iterator[_RecordText]:
    record: _RecordText | None = None
    for piece in pieces:
        if piece.is_start and piece.text.startswith(">"):
            if record is not None:
                yield record
            record = _RecordText(limit)
        if record is not None:
            record.add(piece.text)
        elif piece.text.strip():
            raise _not_in_format(where, "FASTA", "'>' first", piece.text)
    if record is not None:
        yield record


def _split_genbank(pieces: Iterator[_Piece], where: str, limit: int) -> Iterator[_RecordText]:
    record: _RecordText | None = None
    for piece in pieces:
        if piece.is_start and piece.text.startswith(_LOCUS):
            if record is not None:
                raise _cut_short(where, record)
            record = _RecordText(limit)
        if record is not None:
            record.add(piece.text)
            if piece.is_start and piece.text.rstrip() == _END:
                yield record
                record = None
        elif piece.text.strip():
            raise _not_in_format(where, "GenBank", f"{_LOCUS} first", piece.text)
    if record is not None:
        raise _cut_short(where, record)


def _not_in_format(where: str, kind: str, expected: str, text: str) -> InputError:
    remedy = "State the format if the name misleads: fasta or genbank"
    return InputError(where, f"not {kind}", expected=expected, got=repr(text.strip()[:20]), remedy=remedy)


def _cut_short(where: str, record: _RecordText) -> InputError:
    name = _name_in_first_line(record, CollectionFormat.GENBANK)
    return InputError(where, f"record {name!r} is cut short", expected=f"{_END} at its end", remedy=_FETCH_AGAIN)


def _parse(text: _RecordText, kind: CollectionFormat, where: str, number: int) -> GenomeRecord:
    problem = f"over {text.limit:,} characters: {text.size:,}"
    if kind is CollectionFormat.GENBANK and max(map(len, text.pieces)) > _LONGEST_LINE:
        problem = f"a line of over {_LONGEST_LINE:,} characters"
    elif text.size <= text.limit:
        found = _parse_with_biopython("".join(text.pieces), kind)
        if not isinstance(found, str):
            return _as_record(found, kind, where, number)
        problem = found
    return GenomeRecord(_name_in_first_line(text, kind), "", "", None, where, number, problem)


def _parse_with_biopython(text: str, kind: CollectionFormat) -> SeqRecord | str:
    """Return the record, or what is wrong with it."""
    from Bio import BiopythonParserWarning, BiopythonWarning, SeqIO

    with warnings.catch_warnings():
        # It reads on over oddities that do not matter here; a sequence cut short is one of its warnings too.
        warnings.simplefilter("ignore", BiopythonWarning)
        warnings.filterwarnings("error", "Expected sequence length", BiopythonParserWarning)
        try:
            record: SeqRecord = next(SeqIO.parse(io.StringIO(text), str(kind)))  # type: ignore[no-untyped-call]
        # The last four are what its parser runs into on a mutilated record.
        except (ValueError, BiopythonParserWarning, StopIteration, *_STUMBLES) as error:
            return f"not readable as {kind} ({' '.join(str(error).split())[:200] or type(error).__name__})"
    return record


def _as_record(found: SeqRecord, kind: CollectionFormat, where: str, number: int) -> GenomeRecord:
    title, name = found.description, found.id or ""
    if kind is CollectionFormat.FASTA:
        haplogroup, title = _stated(_IN_TITLE, title), title.strip()[len(name) :].strip()
    else:
        haplogroup = _haplogroup_of_source(found)
    return GenomeRecord(name, title, _sequence_of(found), haplogroup, where, number)


def _sequence_of(found: SeqRecord) -> str:
    """Return the bases; none where a GenBank record only names its parts (CONTIG) or has nothing."""
    from Bio.Seq import UndefinedSequenceError

    try:
        # As bytes: of text, other alphabets have letters whose upper case is a base.
        return bytes(found.seq or b"").upper().replace(b"U", b"T").decode("utf-8", "replace")
    except UndefinedSequenceError:
        return ""


def _haplogroup_of_source(found: SeqRecord) -> str | None:
    for source in (feature for feature in found.features if feature.type == "source"):
        for value in source.qualifiers.get("haplogroup", ()):
            if value.strip():
                return str(value.strip())
        for note in source.qualifiers.get("note", ()):
            if haplogroup := _stated(_IN_NOTE, note):
                return haplogroup
    return None


def _stated(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[match.lastindex or 0].strip(" \t\"'") or None if match else None


def _name_in_first_line(text: _RecordText, kind: CollectionFormat) -> str:
    words = text.pieces[0].removeprefix(">" if kind is CollectionFormat.FASTA else _LOCUS).split(None, 1)
    return words[0] if words else ""
