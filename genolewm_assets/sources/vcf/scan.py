"""Scan a VCF into blocks of records: every data line becomes one record or an error that can name its line.

Other threads inflate the text ahead; INFO values are searched for on request only, because gnomAD has hundreds per
record. Numbers keep double precision: as htslib's 32 bits, ``AF=0.01`` would be less than a bound of 0.01.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain
from pathlib import Path
from typing import NoReturn, Self

import numpy as np

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import Contig
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.files import Compression, detect_compression
from genolewm_assets.sources.vcf.block import SourceText, VcfBlock
from genolewm_assets.sources.vcf.count import AlleleCount
from genolewm_assets.sources.vcf.header import FIXED_COLUMNS, parse_header
from genolewm_assets.sources.vcf.header_size import HeaderSize
from genolewm_assets.sources.vcf.source import LocalVcf, Region, VcfSource, find_region
from genolewm_assets.sources.vcf.text import TextChunk, read_text

#: Longest line accepted; several copies of a line must fit into memory.
MAX_LINE_BYTES = 32 << 20
_MAX_POS_DIGITS = 10
#: Largest record accepted: bytes of its CHROM, POS, ID, REF and FILTER, times its number of ALT alleles.
MAX_RECORD_BYTES = 64 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class VcfScanner:
    """Context manager that yields the records of one VCF file in blocks; it can be iterated once.

    Parameters
    ----------
    source
        BGZF, gzip or plain text, detected from the content and not from the file name.
    contig
        The only contig requested. If an index finds and counts its records, only they are yielded and the rest of the
        file is not read; otherwise the records of all contigs are yielded.
    threads
        Number of threads used, including the caller's.
    progress
        Receives the number of compressed bytes read so far.

    Attributes
    ----------
    records
        Number of records yielded so far.

    Raises
    ------
    VcfError
        Naming file and line: the file is missing, not a regular file, empty, truncated, not UTF-8, has NUL bytes, no
        ``#CHROM`` line or no record; plain text ends without a line end; a line has another number of columns than
        ``#CHROM``, an empty fixed column, a POS that is not a number, or more than 32 MiB; the header has more than
        100,000 lines or 16 MiB; CHROM to REF and FILTER of a record take more than 64 MiB when repeated for each ALT;
        the index does not fit the file.

    Notes
    -----
    A byte order mark, and blank lines at the end, are ignored. The last line may lack its line end in a compressed file
    only, because nothing else shows that plain text was cut within a line.
    """

    def __init__(
        self,
        source: Path | VcfSource,
        *,
        contig: Contig | None = None,
        threads: int = 2,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        source = LocalVcf(source) if isinstance(source, Path) else source
        self._label = source.label
        self.records = 0
        self._progress, self._progress_from = progress, 0
        self._line, self._ends_in_line = 0, False
        # Text after the last whole line.
        self._unfinished: list[bytes] = []
        # Text after the header that was read with it.
        self._rest = b""
        self._count = AlleleCount()
        self._region: Region | None = None
        region = None if contig is None else find_region(source, contig)
        self._file, self._size = source.open()
        try:
            self._open_scan(region, threads)
        except BaseException:
            self._close()
            raise
        self._source = SourceText(self._label, self.header.percent_encoded)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def alleles(self) -> int:
        """Number of ALT alleles in the text read so far, from :class:`AlleleCount`."""
        return self._count.alleles

    def __iter__(self) -> Iterator[VcfBlock]:
        text: bytes | None = self._rest
        self._rest = b""
        while text is not None:
            if text:
                block, after = self._split(text)
                if len(block):
                    self.records += len(block)
                    if self._region is not None:
                        self._region.check_block(block)
                    yield from self._parts(block)
                if after is not None:
                    self._check_blank(text[after:])
                del block
            # Release this text before the next one is read.
            del text
            self._rest_between_texts()
            text = next(self._texts, None)
        if self._region is not None:
            self._region.check_end(self._file, self.records)
        if self._ends_in_line:
            self._check_compressed()
        if not self.records:
            raise VcfError(self._label, "the file holds no record", remedy="Fetch the file again")

    def _open_scan(self, region: Region | None, threads: int) -> None:
        """Open the text and read the header."""
        if region is None:
            self._open_text(threads=threads)
        else:
            self._open_text(threads=1, end=region.header_end)
        self._read_header()
        if region is not None:
            self._open_region(region, threads)

    def _rest_between_texts(self) -> None:
        """Do nothing; called after the records of each text were taken."""

    def _pass(self, chunk: TextChunk) -> None:
        """Do nothing; called with each chunk before its text is read."""

    def _open_text(self, *, threads: int, begin: int = 0, end: int | None = None) -> None:
        self._open_chunks(read_text(self._file, label=self._label, threads=threads, begin=begin, end=end))

    def _open_chunks(self, chunks: Iterator[TextChunk]) -> None:
        self._chunks = self._counted(chunks)
        self._texts = self._whole_lines()

    def _open_region(self, region: Region, threads: int) -> None:
        """After the header, continue at the records of the requested contig."""
        if self._rest:
            region.misfit("the file has records before the first one that the index states")
        self._texts.close()
        self._chunks.close()
        self._region, self._rest, self._count = region, b"", AlleleCount()
        self._line += region.lines_before
        self._progress_from = region.begin >> 16
        self._size = max(1, (region.end >> 16) - self._progress_from)
        self._open_text(threads=threads, begin=region.begin, end=region.end)

    def _close(self) -> None:
        # The garbage collector could close the generators in any thread, for example in one that is starting another
        # thread and holds the lock that closing them needs.
        for generator in (getattr(self, "_texts", None), getattr(self, "_chunks", None)):
            if generator is not None:
                generator.close()
        self._file.close()

    def _counted(self, chunks: Iterator[TextChunk]) -> Generator[list[bytes]]:
        """Yield the parts of each chunk after counting its alleles and reporting progress."""
        for chunk in chunks:
            self._pass(chunk)
            for part in chunk.parts:
                self._count.feed(part)
            done = min(chunk.read_bytes - self._progress_from, self._size)
            self._progress.advance(done, self._size, "bytes of VCF read")
            yield chunk.parts

    def _whole_lines(self) -> Generator[bytes]:
        """Yield the text in pieces of whole lines, checked to be UTF-8 without NUL bytes."""
        for parts in self._chunks:
            last = next((at for at in reversed(range(len(parts))) if b"\n" in parts[at]), None)
            if last is None:
                # Join the pieces: a BGZF block may hold one byte, and a bytes object of one byte takes about 40.
                self._unfinished = [b"".join([*self._unfinished, *parts])]
                self._check_length(len(self._unfinished[0]))
                continue
            cut = parts[last].rindex(b"\n") + 1
            whole = [b"".join([*self._unfinished, *parts[:last], parts[last][:cut]])]
            self._unfinished = [parts[last][cut:], *parts[last + 1 :]]
            # Drop the parts, also in the caller's list, so that the text is in memory once.
            parts.clear()
            yield self._checked(whole.pop())
        if any(self._unfinished):
            if self._region is not None:
                self._region.misfit("its last offset is within a line")
            self._ends_in_line = True
            yield self._checked(b"".join([*self._unfinished, b"\n"]))

    def _check_compressed(self) -> None:
        """Refuse plain text, whose last line has no line end here; compressed text has an end of its own."""
        if detect_compression(self._file) is Compression.PLAIN:
            raise VcfError(
                self._label,
                "the file ends within a line",
                expected="a line end after the last line (VCF 4.3, section 1.3)",
                got="none",
                remedy="The file may be truncated: fetch it again; if it is whole, add the line end",
            )

    def _check_length(self, size_bytes: int) -> None:
        if size_bytes > MAX_LINE_BYTES:
            raise VcfError(
                f"{self._label}, after line {self._line}",
                "a line is too long",
                expected=f"at most {MAX_LINE_BYTES >> 20} MiB",
                got="more",
                remedy="Check that the file is a VCF",
            )

    def _checked(self, data: bytes) -> bytes:
        """Return the text without a byte order mark, after checking that it is UTF-8 without NUL bytes."""
        if self._line == 0:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError as err:
                self._bad_byte(data, err.start, "the text is not UTF-8", err)
        if b"\0" in data:
            self._bad_byte(data, data.index(0), "the text holds a NUL byte")
        return data

    def _split(self, text: bytes) -> tuple[VcfBlock, int | None]:
        """Return the records of a text, and the offset of the blank line that ends them; None if there is none."""
        from genolewm_assets.sources.vcf import kernels

        whole = np.frombuffer(text, np.uint8)
        lines = kernels.count_line_ends(whole)
        starts, pos, alts = np.empty((9, lines), np.int32), np.empty(lines, np.int64), np.empty(lines, np.int32)
        read = kernels.split_lines(whole, self._columns, starts, pos, alts)
        line = np.arange(self._line + 1, self._line + read + 1)
        self._line += read
        block = VcfBlock(self._source, whole, line, pos[:read], alts[:read], starts[:, :read])
        after = text.index(b"\n", starts[8, read - 1] - 1) + 1 if read else 0
        if after == len(text):
            return block, None
        bad = text[after : text.index(b"\n", after)].removesuffix(b"\r")
        if bad:
            self._line += 1
            self._bad_line(bad.decode())
        return block, after

    def _parts(self, block: VcfBlock) -> Iterator[VcfBlock]:
        """Divide a block so that one row per ALT, with CHROM, POS, ID, REF and FILTER, takes at most 64 MiB."""
        starts = block.starts
        size_bytes = (starts[4] - starts[0] + starts[7] - starts[6]).astype(np.int64) * block.alts
        sums = np.cumsum(size_bytes)
        if sums[-1] <= MAX_RECORD_BYTES:
            yield block
            return
        if (largest := int(size_bytes.max())) > MAX_RECORD_BYTES:
            raise VcfError(
                block.where(int(np.argmax(size_bytes))),
                "a record is too large",
                expected=f"at most {MAX_RECORD_BYTES >> 20} MiB as one row per ALT allele",
                got=f"{largest >> 20} MiB",
                remedy="Check that the file is a VCF",
            )
        begin = 0
        while begin < len(block):
            before = int(sums[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(sums, before + MAX_RECORD_BYTES, side="right")))
            yield block.take(slice(begin, end))
            begin = end

    def _check_blank(self, text: bytes) -> None:
        """Check that only line ends follow a blank line."""
        if any(each.strip(b"\r\n") for each in chain([text], self._texts)):
            self._line += 1
            self._bad_line("")

    def _bad_byte(self, data: bytes, at: int, problem: str, cause: Exception | None = None) -> NoReturn:
        if self._line == 0 and not data.startswith(b"##"):
            raise VcfError(self._label, "binary data, not a VCF file", remedy="Check the path") from cause
        raise VcfError(
            f"{self._label}, line {self._line + data.count(bytes([10]), 0, at) + 1}",
            problem,
            expected="UTF-8 without control characters (VCF 4.3, section 1.2)",
            got=f"byte 0x{data[at]:02x}",
            remedy="Fetch the file again, or make it plain UTF-8",
        ) from cause

    def _read_header(self) -> None:
        """Read the header; text after it that was read already is kept."""
        meta: list[str] = []
        size = HeaderSize(self._label)
        for data in self._texts:
            at = 0
            while at < len(data):
                end = data.index(b"\n", at)
                size.add(end + 1 - at)
                text = data[at:end].decode().removesuffix("\r")
                at = end + 1
                self._line += 1
                if self._line == 1 and not text.startswith("##fileformat=VCF"):
                    self._fail("not a VCF file", expected="'##fileformat=VCFv4...'", got=repr(text[:40]))
                if text.startswith("##"):
                    meta.append(text)
                    continue
                names = text.split("\t")
                if tuple(names[:8]) != FIXED_COLUMNS:
                    self._fail("no #CHROM line before the first record", got=repr(text[:60]))
                self._take_header([*meta, text])
                self._rest = data[at:]
                return
        raise VcfError(self._label, "the header has no #CHROM line", remedy="The file may be truncated: fetch it again")

    def _take_header(self, lines: list[str]) -> None:
        """Parse the header, whose last line is that of the columns."""
        self._header_lines, names = lines, lines[-1].split("\t")
        self.header, self._columns = parse_header(lines[:-1], tuple(names[9:])), len(names)

    def _bad_line(self, text: str) -> NoReturn:
        if text.startswith("#"):
            self._fail("a header line follows the first record", got=repr(text[:60]))
        columns = text.split("\t")
        if len(columns) == self._columns and all(columns):
            expected = f"at most {_MAX_POS_DIGITS} digits"
            self._fail("POS is not a number", expected=expected, got=repr(columns[1][:40]))
        problem = "wrong number of columns" if len(columns) != self._columns else "a column is empty"
        self._fail(problem, expected=f"{self._columns} columns separated by tabs", got=f"{len(columns)}: {text[:60]!r}")

    def _fail(self, problem: str, *, expected: str | None = None, got: str | None = None) -> NoReturn:
        raise VcfError(
            f"{self._label}, line {self._line}",
            problem,
            expected=expected if expected or got is None else "a VCF 4 line",
            got=got,
            remedy="Check that the file is a complete VCF",
        )
