"""Scan a remote BGZF VCF as it passes, once and in order: its MD5, and the points where a later scan goes on."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import ChecksumError, VcfError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.files import BGZF_END, Compression, Md5State, RangeFile, ResumableMd5, detect_compression
from genolewm_assets.sources.vcf.block import VcfBlock
from genolewm_assets.sources.vcf.count import AlleleCount
from genolewm_assets.sources.vcf.remote import RemoteVcf
from genolewm_assets.sources.vcf.scan import VcfScanner
from genolewm_assets.sources.vcf.source import Region
from genolewm_assets.sources.vcf.text import TextChunk, read_bgzf, without_end

#: A point is saved after so many compressed bytes or seconds; none within a line that is longer.
SAVE_BYTES, SAVE_S, _LONGEST_LINE_BYTES = 32 << 20, 2.0, 1 << 20


@dataclass(frozen=True)
class StreamedVcf(RemoteVcf):
    """A remote VCF that is read once, in order.

    Attributes
    ----------
    md5
        The expected MD5 in lower-case hex; None: it is not compared.
    folder
        Folder for the state of an interrupted scan.
    """

    md5: str | None
    folder: Path

    def forget(self) -> None:
        """Remove the states of its scans, after what was found is published."""
        for path in self.folder.glob(f"{glob.escape(self.name)}.*.scan*"):
            path.unlink()


@dataclass(frozen=True, slots=True)
class ScanPoint:
    """A point between two blocks of a BGZF file at which a scan can go on.

    Attributes
    ----------
    offset
        Offset in the file of the next block, bytes.
    unfinished
        Text of the blocks before that is no whole line, in hex.
    line, records
        Whole lines and records before the point.
    counts, md5
        States of :class:`AlleleCount` over the text, and of the MD5 over the bytes before the point.
    header
        Lines of the header, the last one that of the columns.
    """

    offset: int
    unfinished: str
    line: int
    records: int
    counts: tuple[int, int, int, int]
    md5: Md5State
    header: tuple[str, ...]

    def check(self) -> None:
        """Raise :class:`ValueError` or :class:`OverflowError` for a point that no scan can have given."""
        if self.offset <= 0 or self.offset != self.md5.size or not self.header:
            raise ValueError("a point that is none")
        ResumableMd5(self.md5), bytes.fromhex(self.unfinished), AlleleCount(self.counts)


def check_blocked(source: RangeFile) -> None:
    """Raise :class:`VcfError` unless a remote file begins as BGZF."""
    if detect_compression(source) is not Compression.BGZF:  # type: ignore[arg-type]
        raise VcfError(
            source.url,
            "is not BGZF, so that a scan of it could not go on after an interruption",
            expected="a file that bgzip compressed",
            remedy="Write read: download in the catalogue",
        )


class StreamedScanner(VcfScanner):
    """Scanner of a file that passes once, of all contigs; raises as :class:`VcfScanner` and :class:`RangeFile`.

    Parameters
    ----------
    begin
        Where an earlier scan of the same version of the file was; None: at the beginning.
    save
        Called between two blocks about every two seconds, or 32 MiB, with the point where the scan is.

    Raises
    ------
    ChecksumError
        At the end, if the MD5 of the file is not the expected one.
    """

    def __init__(
        self,
        source: StreamedVcf,
        *,
        begin: ScanPoint | None,
        save: Callable[[ScanPoint], None],
        threads: int = 2,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        self._expected, self._begin, self._save = source.md5, begin, save
        self._md5 = ResumableMd5(None if begin is None else begin.md5)
        self._offset = self._saved_offset = 0 if begin is None else begin.offset
        self._saved_s, self._tail = time.monotonic(), b""
        super().__init__(source, threads=threads, progress=progress)

    @property
    def md5(self) -> str:
        """MD5 of the bytes that have passed, in lower-case hex."""
        return self._md5.hexdigest()

    def __iter__(self) -> Iterator[VcfBlock]:
        yield from super().__iter__()
        if self._tail != BGZF_END:
            raise without_end(self._label)
        if self._expected not in (None, self.md5):
            raise ChecksumError(
                self._label,
                "MD5 of the file that was read differs",
                expected=self._expected,
                got=f"{self.md5} over {self._offset:,} bytes",
                remedy="Scan it again; if the digest still differs, the file on the server is not the pinned one",
            )

    def _open_scan(self, region: Region | None, threads: int) -> None:
        begin = self._begin
        if begin is None:
            assert isinstance(self._file, RangeFile)
            check_blocked(self._file)
            super()._open_scan(region, threads)
            return
        self._line, self.records = begin.line, begin.records
        self._unfinished, self._count = [bytes.fromhex(begin.unfinished)], AlleleCount(begin.counts)
        self._take_header(list(begin.header))
        self._open_text(threads=threads, begin=begin.offset << 16)

    def _open_text(self, *, threads: int, begin: int = 0, end: int | None = None) -> None:
        self._open_chunks(read_bgzf(self._file, label=self._label, threads=threads, begin=begin, end=end))

    def _check_compressed(self) -> None:
        """Accept a last line without its end: the text is compressed."""

    def _pass(self, chunk: TextChunk) -> None:
        self._md5.update(chunk.data)
        self._offset, self._tail = chunk.read_bytes, chunk.data[-len(BGZF_END) :]

    def _rest_between_texts(self) -> None:
        passed, now = self._offset - self._saved_offset, time.monotonic()
        if passed < SAVE_BYTES and (not passed or now - self._saved_s < SAVE_S):
            return
        # The end of the file is not passed over: what is checked there is checked by whoever goes on.
        unfinished = b"".join(self._unfinished)
        if self._offset < self._size and len(unfinished) <= _LONGEST_LINE_BYTES:
            state = (self._line, self.records, self._count.state, self._md5.state, tuple(self._header_lines))
            self._save(ScanPoint(self._offset, unfinished.hex(), *state))
        self._saved_offset, self._saved_s = self._offset, time.monotonic()
