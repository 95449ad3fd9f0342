"""Read collections of mitochondrial genomes (FASTA or GenBank flat files, plain or gzipped), one record at a time."""

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
from genolewm_assets.store.files import text_encoding

if TYPE_CHECKING:
    from Bio.SeqRecord import SeqRecord

#: Longest record that is read, in characters; a GenBank record of a mitochondrial genome has about 60,000.
MAX_RECORD_CHARACTERS = 1 << 20
#: Longest piece of a line, in characters; longer lines are read in several pieces.
_PIECE = 1 << 16
#: Longest allowed line of a GenBank record, in characters; the format has 80. Biopython's time is quadratic in the
#: length of some lines.
_LONGEST_LINE = 1_000
_END = "//"
_NO_TEXT = "\N{REPLACEMENT CHARACTER}"
_LOCUS = "LOCUS"
_FETCH_AGAIN = "Fetch the file again"
#: Haplogroup in a FASTA title; NCBI writes source modifiers in brackets, such as [haplogroup=H2a2a1].
_IN_TITLE = re.compile(r"\[\s*haplogroup\s*=\s*([^\]]+)\]|\bhaplogroup\s*=\s*([^\s;,\]]+)", re.IGNORECASE)
#: Errors besides ValueError that Biopython's parsers raise on a damaged record.
_PARSER_ERRORS = (LookupError, AssertionError, AttributeError, TypeError)
_IN_NOTE = re.compile(r"\bhaplogroup\s*[:=]\s*([^\s;,]+)", re.IGNORECASE)


class CollectionFormat(StrEnum):
    """File format of a collection; the values are Biopython's names."""

    FASTA = "fasta"
    GENBANK = "genbank"


#: Format by file name ending, without the ending of compression.
ENDINGS = {
    **dict.fromkeys((".fa", ".fasta", ".fas", ".fna", ".fsa"), CollectionFormat.FASTA),
    **dict.fromkeys((".gb", ".gbk", ".gbff", ".genbank"), CollectionFormat.GENBANK),
}


def find_format(name: str) -> CollectionFormat:
    """Return the format of a file by the ending of its name."""
    bare = re.sub(r"\.(gz|bgz)$", "", name.lower())
    ending = Path(bare).suffix
    if ending not in ENDINGS:
        expected = f"{', '.join(ENDINGS)}, or one of them with .gz or .bgz"
        remedy = "Rename the file or state its format: fasta or genbank"
        raise InputError(name, "unknown file name ending", expected=expected, got=repr(ending), remedy=remedy)
    return ENDINGS[ending]


def read_genomes(
    path: Path,
    *,
    file_format: CollectionFormat | None = None,
    label: str | None = None,
    max_record_characters: int = MAX_RECORD_CHARACTERS,
) -> Iterator[GenomeRecord]:
    """Yield the genomes of a FASTA or GenBank file, plain, gzipped or bgzipped (detected by content), in its order.

    Parameters
    ----------
    file_format
        Format of the file; None: determined by the ending of its name.
    label
        Name of the file in records and errors; None: the path.
    max_record_characters
        Longest record that is parsed, in characters, title included. A longer record is yielded without a sequence and
        with a ``problem``.

    Raises
    ------
    InputError
        If the file is unusable as a whole: missing, of another format, without a record, truncated, damaged, or with a
        NUL byte. A fault of one record does not raise: the record is yielded with a ``problem``, without a sequence, or
        with its invalid symbols, and :mod:`~genolewm_assets.mito.genomes.qc` rejects it.

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
    """Text of one record; ``pieces`` are stored up to ``limit`` characters, ``size`` counts all characters."""

    limit: int
    pieces: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, piece: str) -> None:
        """Count a piece, and store it if it is the first or within the limit."""
        self.size += len(piece)
        if self.size <= self.limit or not self.pieces:
            self.pieces.append(piece)


class _Piece(NamedTuple):
    """A line, or a part of a long line; ``is_start`` is true for the first part."""

    text: str
    is_start: bool


def _read_pieces(path: Path, where: str) -> Iterator[_Piece]:
    """Yield lines, or pieces of at most 65,536 characters, with line feeds; undecodable bytes become U+FFFD."""
    with path.open("rb") as file:
        compression = detect_compression(file)
        if compression is Compression.BGZF and not has_bgzf_end(file):
            raise InputError(where, "truncated bgzip (no end block)", remedy=_FETCH_AGAIN)
    with path.open("rb") if compression is Compression.PLAIN else gzip.open(path, "rb") as raw:
        is_start, number = True, 1
        try:
            lines = io.TextIOWrapper(raw, encoding=text_encoding(raw.peek(2)), errors="replace", newline=None)
            while text := lines.readline(_PIECE):
                if "\0" in text:
                    remedy = "Save it as UTF-8, or fetch it again"
                    raise InputError(f"{where}:{number:,}", "NUL byte: not UTF-8, or damaged", remedy=remedy)
                yield _Piece(text, is_start)
                is_start = text.endswith("\n")
                number += is_start
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(where, f"truncated or corrupt {compression} ({error})", remedy=_FETCH_AGAIN) from error


def _split_fasta(pieces: Iterator[_Piece], where: str, limit: int) -> Iterator[_RecordText]:
    """Yield the records of a FASTA file; raise if text precedes the first ``>``."""
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
    """Yield the records of a GenBank file, LOCUS to ``//``; raise on other text and on a record without ``//``."""
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
    remedy = "State the format if the file name is wrong: fasta or genbank"
    return InputError(where, f"not {kind}", expected=expected, got=repr(text.strip()[:20]), remedy=remedy)


def _cut_short(where: str, record: _RecordText) -> InputError:
    name = _name_in_first_line(record, CollectionFormat.GENBANK)
    return InputError(where, f"record {name!r} is truncated", expected=f"{_END} at its end", remedy=_FETCH_AGAIN)


def _parse(text: _RecordText, kind: CollectionFormat, where: str, number: int) -> GenomeRecord:
    """Return the genome of a record, or a genome without sequence and with a problem if it cannot be parsed."""
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
    """Return the parsed record, or a description of the problem."""
    from Bio import BiopythonParserWarning, BiopythonWarning, SeqIO

    with warnings.catch_warnings():
        # Biopython warns of irregularities that do not matter here. One of its warnings reports a truncated sequence.
        warnings.simplefilter("ignore", BiopythonWarning)
        warnings.filterwarnings("error", "Expected sequence length", BiopythonParserWarning)
        try:
            record: SeqRecord = next(SeqIO.parse(io.StringIO(text), str(kind)))  # type: ignore[no-untyped-call]
        except (ValueError, BiopythonParserWarning, StopIteration, *_PARSER_ERRORS) as error:
            return f"not readable as {kind} ({' '.join(str(error).split())[:200] or type(error).__name__})"
    return record


def _as_record(found: SeqRecord, kind: CollectionFormat, where: str, number: int) -> GenomeRecord:
    """Convert a parsed record; the name is removed from the start of a FASTA title."""
    title, name = found.description, found.id or ""
    if kind is CollectionFormat.FASTA:
        stated, title = _stated(_IN_TITLE, title), title.strip()[len(name) :].strip()
    else:
        stated = _haplogroups_of_source(found)
    problem = ""
    if _NO_TEXT in "".join((name, title, *stated)):
        problem = "its title has bytes that are not UTF-8; save the file as UTF-8"
    elif len(stated) > 1:
        problem = f"states several haplogroups: {', '.join(map(repr, stated[:3]))}"
    if problem:
        return GenomeRecord(name, title, "", None, where, number, problem)
    return GenomeRecord(name, title, _sequence_of(found), next(iter(stated), None), where, number)


def _sequence_of(found: SeqRecord) -> str:
    """Return the bases in upper case, U as T; empty if a GenBank record has no sequence, or only parts (CONTIG)."""
    from Bio.Seq import UndefinedSequenceError

    try:
        # Converted as bytes: the upper case of some non-ASCII letters is an ASCII letter.
        return bytes(found.seq or b"").upper().replace(b"U", b"T").decode("utf-8", "replace")
    except UndefinedSequenceError:
        return ""


def _haplogroups_of_source(found: SeqRecord) -> list[str]:
    """Return the haplogroups of the GenBank source features: of qualifiers ``haplogroup``, else of ``note``."""
    sources = [feature.qualifiers for feature in found.features if feature.type == "source"]
    stated = [value.strip() for source in sources for value in source.get("haplogroup", ()) if value.strip()]
    noted = [name for source in sources for note in source.get("note", ()) for name in _stated(_IN_NOTE, note)]
    return list(dict.fromkeys(stated or noted))


def _stated(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the last matched groups of a pattern in a text, each once, without quotes, white space and empty ones."""
    names = (match[match.lastindex or 0].strip(" \t\"'") for match in pattern.finditer(text))
    return list(dict.fromkeys(name for name in names if name))


def _name_in_first_line(text: _RecordText, kind: CollectionFormat) -> str:
    """Return the first word after ``>`` or LOCUS in the first line; empty if there is none."""
    words = text.pieces[0].removeprefix(">" if kind is CollectionFormat.FASTA else _LOCUS).split(None, 1)
    return words[0] if words else ""
