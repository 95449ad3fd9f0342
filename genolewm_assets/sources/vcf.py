"""Read VCF text: every data line becomes one record or one error, never silence.

The reader splits lines itself instead of going through htslib: INFO values are looked up only when they are asked
for (gnomAD has hundreds per record, of which a dozen are wanted), numbers keep double precision (htslib's ``Float``
is 32-bit, so that ``AF=0.01`` would fall under a bound of 0.01), every error can name its line, and no record can be
skipped. Accepts BGZF, plain gzip and plain text, whatever the file is called; sorted and indexed or not.
"""

from __future__ import annotations

import math
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
from genolewm_assets.store.progress import NO_PROGRESS, Progress

#: The empty block that ends every complete BGZF file (SAM specification, section 4.1.2).
BGZF_EOF = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_BLOCK_BYTES = 1 << 22
_FIXED_COLUMNS = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO"]
_MAX_POS_DIGITS = 10
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


class VcfInfo:
    """INFO column of one record, searched on demand; ``.`` counts as absent."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = f";{text};"

    def get(self, key: str) -> str | None:
        """Return the text of a value, or None where the key is absent, a flag, or ``.``."""
        text = self._text
        at = text.find(f";{key}=")
        if at < 0:
            return None
        at += len(key) + 2
        value = text[at : text.index(";", at)]
        return None if value in {".", ""} else value

    def values(self) -> dict[str, str]:
        """Return every value that is there, by key: cheaper than ``get`` where most of a short INFO is wanted."""
        parts = (item.partition("=") for item in self._text[1:-1].split(";"))
        return {key: value for key, _, value in parts if value not in {".", ""}}

    def __contains__(self, key: object) -> bool:
        return f";{key};" in self._text or f";{key}=" in self._text


class VcfRecord(NamedTuple):
    """One data line; ``line`` is 1-based in the decompressed file, ``pos`` 1-based, alleles as written.

    ``filters`` is ``("PASS",)``, the failed filters, or ``()`` for ``.``; ``alts`` without an allele is ``(".",)``.
    """

    source: str
    line: int
    chrom: str
    pos: int
    id: str | None
    ref: str
    alts: tuple[str, ...]
    filters: tuple[str, ...]
    info: VcfInfo

    @property
    def where(self) -> str:
        """File and line, as errors name them."""
        return f"{self.source}, line {self.line}"

    def allele_text(self, key: str, index: int) -> str | None:
        """Return the part of a ``Number=A`` value that belongs to ``alts[index]``, None where it is missing."""
        value = self.info.get(key)
        if value is None:
            return None
        if len(self.alts) == 1 and "," not in value:
            return value
        parts = value.split(",")
        if len(parts) != len(self.alts):
            raise VcfError(
                self.where,
                f"INFO/{key} does not have one value per ALT allele",
                expected=f"{len(self.alts)} values",
                got=repr(value),
                remedy="Fetch the file again or report it to its publisher",
            )
        return None if parts[index] == "." else parts[index]

    def allele_int(self, key: str, index: int) -> int | None:
        """Return a ``Number=A`` count of ``alts[index]``."""
        return self._integer(key, self.allele_text(key, index))

    def allele_share(self, key: str, index: int) -> float | None:
        """Return a ``Number=A`` frequency of ``alts[index]``, 0 to 1; ``nan`` counts as missing."""
        return self._share(key, self.allele_text(key, index))

    def site_int(self, key: str) -> int | None:
        """Return a ``Number=1`` count of the record."""
        return self._integer(key, self.info.get(key))

    def parse_share(self, key: str, text: str) -> float | None:
        """Return one number of a packed value as a share, 0 to 1."""
        return self._share(key, None if text in {".", ""} else text)

    def _integer(self, key: str, text: str | None) -> int | None:
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            self._bad_number(key, text, "a count")
        return int(text)

    def _share(self, key: str, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            self._bad_number(key, text, "a number from 0 to 1")
        if math.isnan(value):
            return None
        if not 0.0 <= value <= 1.0:
            self._bad_number(key, text, "a number from 0 to 1")
        return value

    def _bad_number(self, key: str, text: str, expected: str) -> NoReturn:
        raise VcfError(
            self.where,
            f"INFO/{key} cannot be read",
            expected=expected,
            got=repr(text),
            remedy="Fetch the file again or report it to its publisher",
        )


class VcfReader:
    """Context manager over one VCF file; iterate it once.

    Parameters
    ----------
    path
        BGZF, gzip or plain text; told apart by content, not by name.
    progress
        Told the compressed bytes read so far.

    Raises
    ------
    VcfError
        Naming file and line: missing, a directory, empty, truncated, not UTF-8, no ``#CHROM`` line, a line with
        another number of columns than ``#CHROM``, a POS that is no number. A plain-text file may lack its last line
        end; a truncation inside such a line is then found only if columns are missing.
    """

    def __init__(self, path: Path, *, progress: Progress = NO_PROGRESS) -> None:
        self.path = path
        self.records = 0
        self._progress = progress
        self._line = 0
        self._filters: dict[str, tuple[str, ...]] = {"PASS": ("PASS",), ".": ()}
        self._size = _check_file(path)
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
        source, columns, filters = str(self.path), self._columns, self._filters
        expected_parts = min(columns, 9)
        lines, self._pending = self._pending, []
        while True:
            for text in lines:
                self._line += 1
                parts = text.split("\t", 8)
                if len(parts) != expected_parts or (columns > 8 and text.count("\t") != columns - 1) or "" in parts:
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
                    VcfInfo(info),
                )
            following = next(self._batches, None)
            if following is None:
                return
            lines = following

    def _open_stream(self) -> BufferedIOBase:
        start = self._raw.read(18)
        self._raw.seek(0)
        if start[:2] != b"\x1f\x8b":
            return self._raw
        # BGZF is gzip with a 'BC' extra field; only it says where the file should end.
        if start[3] & 4 and start[12:14] == b"BC":
            self._raw.seek(max(0, self._size - len(BGZF_EOF)))
            complete = self._raw.read() == BGZF_EOF
            self._raw.seek(0)
            if not complete:
                self._truncated("the BGZF end-of-file block is missing")
        return igzip.IGzipFile(fileobj=self._raw, mode="rb")  # type: ignore[no-untyped-call]

    def _read_block(self) -> bytes:
        try:
            block = self._stream.read(_BLOCK_BYTES)
        except EOFError as err:
            self._truncated("the compressed data end in the middle", err)
        except (igzip_lib.error, OSError) as err:  # type: ignore[misc]  # The stub calls the class an instance.
            raise VcfError(
                f"{self.path}, after line {self._line}",
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
        try:
            text = data.decode()
        except UnicodeDecodeError as err:
            if self._line == 0 and not data.startswith(b"##"):
                raise VcfError(str(self.path), "not a VCF file, but binary data", remedy="Check the path") from err
            line = self._line + data.count(b"\n", 0, err.start) + 1
            raise VcfError(
                f"{self.path}, line {line}",
                "the text is not UTF-8",
                expected="UTF-8 (VCF 4.3, section 1.2)",
                got=f"byte 0x{data[err.start]:02x}",
                remedy="Fetch the file again, or convert it with iconv",
            ) from err
        lines = text.removesuffix("\n").split("\n")
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines

    def _read_header(self) -> tuple[VcfHeader, int, list[str]]:
        meta: list[str] = []
        for lines in self._batches:
            for at, text in enumerate(lines):
                self._line += 1
                if self._line == 1 and not text.removeprefix("\ufeff").startswith("##fileformat=VCF"):
                    self._fail("not a VCF file", expected="'##fileformat=VCFv4...'", got=repr(text[:40]))
                if text.startswith("##"):
                    meta.append(text)
                    continue
                names = text.split("\t")
                if names[:8] != _FIXED_COLUMNS:
                    self._fail("no #CHROM line before the first record", got=repr(text[:60]))
                return parse_header(meta, tuple(names[9:])), len(names), lines[at + 1 :]
        raise VcfError(
            str(self.path), "the header has no #CHROM line", remedy="The file may be truncated: fetch it again"
        )

    def _bad_columns(self, text: str) -> NoReturn:
        if text.startswith("#"):
            self._fail("a header line stands among the records", got=repr(text[:60]))
        count = text.count("\t") + 1
        problem = "wrong number of columns" if count != self._columns else "a column is empty"
        self._fail(problem, expected=f"{self._columns} columns separated by tabs", got=f"{count}: {text[:60]!r}")

    def _fail(self, problem: str, *, expected: str | None = None, got: str | None = None) -> NoReturn:
        raise VcfError(
            f"{self.path}, line {self._line}",
            problem,
            expected=expected if expected or got is None else "a VCF 4 line",
            got=got,
            remedy="Check that the file is a complete VCF",
        )

    def _truncated(self, how: str, cause: BaseException | None = None) -> NoReturn:
        raise VcfError(str(self.path), f"the file is truncated: {how}", remedy="Fetch the file again") from cause


def _check_file(path: Path) -> int:
    """Return the size of a readable, non-empty file."""
    try:
        if path.is_dir():
            raise VcfError(str(path), "is a directory, not a VCF file", remedy="Name the file inside it")
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except FileNotFoundError as err:
        raise VcfError(str(path), "the file does not exist", remedy="Check the path") from err
    except OSError as err:
        raise VcfError(str(path), f"the file cannot be read ({err.strerror})", remedy="Check its permissions") from err
    if size == 0:
        raise VcfError(str(path), "the file is empty", remedy="Fetch the file again")
    return size


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
