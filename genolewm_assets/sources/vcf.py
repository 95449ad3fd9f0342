"""Read VCF text: every data line becomes one record or one error, never silence.

The reader splits lines itself instead of going through htslib: INFO values are looked up only when they are asked
for (gnomAD has hundreds per record, of which a dozen are wanted), numbers keep double precision (htslib's ``Float``
is 32-bit, so that ``AF=0.01`` would fall under a bound of 0.01), every error can name its line, and no record can be
skipped. Accepts BGZF, plain gzip and plain text, whatever the file is called; sorted and indexed or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from io import BufferedIOBase
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, NoReturn, Self

from isal import igzip, igzip_lib

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.compression import Compression, detect_compression, has_bgzf_end
from genolewm_assets.sources.local_file import check_local_file
from genolewm_assets.sources.vcf_record import VcfInfo, VcfRecord
from genolewm_assets.store.progress import NO_PROGRESS, Progress

_BLOCK_BYTES = 1 << 22
_FIXED_COLUMNS = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO"]
_MAX_POS_DIGITS = 10
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ATTRIBUTE = re.compile(r'([^=,<>]+)=("(?:[^"\\]|\\.)*"|[^,]*)')


class InfoField(NamedTuple):
    """One ``##INFO`` declaration: ``Number`` and ``Type`` as written, and the description."""

    number: str
    type: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class VcfHeader:
    """What the header declares; ``contigs`` maps a name to its length in bp, None where no length is given."""

    version: str
    info: Mapping[str, InfoField]
    filters: frozenset[str]
    contigs: Mapping[str, int | None]
    file_date: date | None
    samples: tuple[str, ...]


class VcfReader:
    """Context manager over one VCF file; iterate it once.

    Parameters
    ----------
    path
        BGZF, gzip or plain text; told apart by content, not by name.
    named
        What errors call the file; default: the path.
    progress
        Told the compressed bytes read so far.

    Raises
    ------
    VcfError
        Naming file and line: missing, no regular file, empty, truncated, not UTF-8, with NUL bytes, no ``#CHROM`` line,
        no record, a line with another number of columns than ``#CHROM``, a POS that is no number. A byte order mark and
        blank lines at the end are passed over. A plain-text file may lack its last line end; a truncation inside such
        a line is then found only if columns are missing.
    """

    def __init__(self, path: Path, *, named: str | None = None, progress: Progress = NO_PROGRESS) -> None:
        self._named = named or str(path)
        self.records = 0
        self._progress = progress
        self._line = 0
        self._filters: dict[str, tuple[str, ...]] = {"PASS": ("PASS",), ".": ()}
        self._size = check_local_file(path, expected="a VCF file", error=VcfError)
        if not self._size:
            raise VcfError(self._named, "the file is empty", remedy="Fetch the file again")
        self._raw = path.open("rb")
        try:
            self._stream = self._open_stream()
            self._batches = self._line_batches()
            self.header, self._columns, self._pending = self._read_header()
        except BaseException:
            self._raw.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._raw.close()

    def __iter__(self) -> Iterator[VcfRecord]:
        source, columns, filters = self._named, self._columns, self._filters
        expected_parts = min(columns, 9)
        lines, self._pending = self._pending, []
        while True:
            for text in lines:
                self._line += 1
                parts = text.split("\t", 8)
                if len(parts) != expected_parts or (columns > 8 and text.count("\t") != columns - 1) or "" in parts:
                    if not text and self._only_blanks_follow(lines):
                        lines = []
                        break
                    self._bad_columns(text)
                chrom, pos, name, ref, alt, _, filter_text, info = parts[:8]
                if not (pos.isascii() and pos.isdigit() and len(pos) <= _MAX_POS_DIGITS):
                    self._fail("POS is not a number", expected="digits", got=repr(pos[:40]))
                passed = filters.get(filter_text)
                if passed is None:
                    passed = filters.setdefault(filter_text, tuple(filter_text.split(";")))
                self.records += 1
                yield VcfRecord(
                    source,
                    self._line,
                    chrom,
                    int(pos),
                    None if name == "." else name,
                    ref,
                    (alt,) if "," not in alt else tuple(alt.split(",")),
                    passed,
                    VcfInfo(info, source, self._line),
                )
            following = next(self._batches, None)
            if following is None:
                break
            lines = following
        if not self.records:
            raise VcfError(source, "the file holds no record", remedy="Fetch the file again")

    def _open_stream(self) -> BufferedIOBase:
        compression = detect_compression(self._raw)
        if compression is Compression.PLAIN:
            return self._raw
        if compression is Compression.BGZF and not has_bgzf_end(self._raw):
            self._truncated("the BGZF end-of-file block is missing")
        return igzip.IGzipFile(fileobj=self._raw, mode="rb")  # type: ignore[no-untyped-call]

    def _read_block(self) -> bytes:
        try:
            block = self._stream.read(_BLOCK_BYTES)
        except EOFError as err:
            self._truncated("the compressed data end in the middle", err)
        except (igzip_lib.error, OSError) as err:  # type: ignore[misc]  # The stub calls the class an instance.
            raise VcfError(
                f"{self._named}, after line {self._line}",
                f"the compressed data are damaged ({err})",
                remedy="Fetch the file again",
            ) from err
        self._progress.advance(min(self._raw.tell(), self._size), self._size, "bytes")
        return block

    def _line_batches(self) -> Iterator[list[str]]:
        """Yield the lines of one block after another, without their line ends."""
        rest = b""
        while block := self._read_block():
            cut = block.rfind(b"\n") + 1
            if not cut:
                rest += block
                continue
            yield self._lines_of(rest + block[:cut])
            rest = block[cut:]
        if rest:
            yield self._lines_of(rest)

    def _lines_of(self, data: bytes) -> list[str]:
        if self._line == 0:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        try:
            text = data.decode()
        except UnicodeDecodeError as err:
            self._bad_byte(data, err.start, "the text is not UTF-8", err)
        if "\0" in text:
            self._bad_byte(data, data.index(0), "the text holds a NUL byte")
        lines = text.removesuffix("\n").split("\n")
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines

    def _bad_byte(self, data: bytes, at: int, problem: str, cause: Exception | None = None) -> NoReturn:
        if self._line == 0 and not data.startswith(b"##"):
            raise VcfError(self._named, "not a VCF file, but binary data", remedy="Check the path") from cause
        raise VcfError(
            f"{self._named}, line {self._line + data.count(bytes([10]), 0, at) + 1}",
            problem,
            expected="UTF-8 without control characters (VCF 4.3, section 1.2)",
            got=f"byte 0x{data[at]:02x}",
            remedy="Fetch the file again, or make it plain UTF-8",
        ) from cause

    def _read_header(self) -> tuple[VcfHeader, int, list[str]]:
        meta: list[str] = []
        for lines in self._batches:
            for at, text in enumerate(lines):
                self._line += 1
                if self._line == 1 and not text.startswith("##fileformat=VCF"):
                    self._fail("not a VCF file", expected="'##fileformat=VCFv4...'", got=repr(text[:40]))
                if text.startswith("##"):
                    meta.append(text)
                    continue
                names = text.split("\t")
                if names[:8] != _FIXED_COLUMNS:
                    self._fail("no #CHROM line before the first record", got=repr(text[:60]))
                return parse_header(meta, tuple(names[9:])), len(names), lines[at + 1 :]
        raise VcfError(self._named, "the header has no #CHROM line", remedy="The file may be truncated: fetch it again")

    def _only_blanks_follow(self, lines: list[str]) -> bool:
        """Tell whether the first blank line of a batch is the end of the text but for other blank lines."""
        return not any(lines[lines.index("") :]) and not any(map(any, self._batches))

    def _bad_columns(self, text: str) -> NoReturn:
        if text.startswith("#"):
            self._fail("a header line stands among the records", got=repr(text[:60]))
        count = text.count("\t") + 1
        problem = "wrong number of columns" if count != self._columns else "a column is empty"
        self._fail(problem, expected=f"{self._columns} columns separated by tabs", got=f"{count}: {text[:60]!r}")

    def _fail(self, problem: str, *, expected: str | None = None, got: str | None = None) -> NoReturn:
        raise VcfError(
            f"{self._named}, line {self._line}",
            problem,
            expected=expected if expected or got is None else "a VCF 4 line",
            got=got,
            remedy="Check that the file is a complete VCF",
        )

    def _truncated(self, how: str, cause: BaseException | None = None) -> NoReturn:
        raise VcfError(self._named, f"the file is truncated: {how}", remedy="Fetch the file again") from cause


def parse_header(meta: list[str], samples: tuple[str, ...]) -> VcfHeader:
    """Parse the ``##`` lines of a VCF header; the first declaration of an identifier counts, as in htslib."""
    info: dict[str, InfoField] = {}
    filters: set[str] = set()
    contigs: dict[str, int | None] = {}
    plain: dict[str, str] = {}
    for text in meta:
        kind, _, value = text[2:].partition("=")
        if not value.startswith("<"):
            plain.setdefault(kind, value)
            continue
        attributes = {key: part.strip('"') for key, part in _ATTRIBUTE.findall(value.removesuffix(">"))}
        name = attributes.get("ID", "")
        if kind == "INFO":
            number, type_ = attributes.get("Number", "."), attributes.get("Type", "String")
            info.setdefault(name, InfoField(number, type_, attributes.get("Description", "")))
        elif kind == "FILTER":
            filters.add(name)
        elif kind == "contig":
            length = attributes.get("length", "")
            contigs.setdefault(name, int(length) if length.isascii() and length.isdigit() else None)
    version = plain.get("fileformat", "").removeprefix("VCF")
    return VcfHeader(version, info, frozenset(filters), contigs, parse_file_date(plain.get("fileDate", "")), samples)


def parse_file_date(text: str) -> date | None:
    """Return ``##fileDate`` as a date: ``2026-02-26`` or ``20260226``; None for anything else."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
