"""The state of a streamed gnomAD scan on disk, with which a later process goes on where this one was ended."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from pydantic import TypeAdapter

from genolewm_assets.errors import ChecksumError, printable
from genolewm_assets.progress import Progress
from genolewm_assets.sources.files import Journal, NoRangesError, RemoteStamp
from genolewm_assets.sources.gnomad.scan import SPOOLED, FoundState, GnomadScan, Spool
from genolewm_assets.sources.vcf import ContigNames, NamesState, ScanPoint, StreamedScanner, StreamedVcf
from genolewm_assets.store.files import JsonValue, normal_json

_LOG = logging.getLogger(__name__)
_CONTIG = b"contig"


@dataclass(frozen=True, slots=True)
class _Saved:
    """State of a scan: version of the file, where the scan is, and what it has found beside rows."""

    stamp: RemoteStamp
    point: ScanPoint
    found: FoundState
    names: NamesState


@cache
def _adapter() -> TypeAdapter[_Saved]:
    return TypeAdapter(_Saved)


class SavedScan:
    """A scan whose state is saved; as a spool it passes rows on and keeps those that are not saved yet.

    Rows are saved as Arrow streams, one after the other, each with its contig in the metadata.
    """

    def __init__(self, source: StreamedVcf, journal: Journal, spool: Spool) -> None:
        self._source, self._journal, self._spool = source, journal, spool
        self._new: list[tuple[str, pa.RecordBatch]] = []
        self._begin, why = self._read()
        if why:
            _LOG.warning("%s: an interrupted scan is dropped and begins anew: %s", printable(source.url), why)
        if self._begin is None:
            journal.restart()
        else:
            offset = self._begin.point.offset
            _LOG.info("%s: an interrupted scan goes on at byte %s", printable(source.url), f"{offset:,}")

    @classmethod
    @contextmanager
    def open(cls, source: StreamedVcf, part: str, key: Mapping[str, JsonValue], spool: Spool) -> Iterator[SavedScan]:
        """Open the state under a lock; it is kept, until :meth:`StreamedVcf.forget`, unless it can be of no use.

        ``key`` is everything that decides what a scan finds, and ``part`` distinguishes scans of one file.
        """
        key = normal_json({**key, "url": printable(source.url)}, source.label)
        with Journal.open(source.folder / f"{source.name}.{part}.scan", key) as journal:
            try:
                yield cls(source, journal, spool)
            except (ChecksumError, NoRangesError):
                journal.discard()
                raise

    def scanner(self, *, threads: int, progress: Progress) -> StreamedScanner:
        """Return the scanner, which begins where the scan is."""
        point = None if self._begin is None else self._begin.point
        return StreamedScanner(self._source, begin=point, save=self._save, threads=threads, progress=progress)

    def go_on(self, scan: GnomadScan, names: ContigNames) -> None:
        """Give a new scan, and the names of its contigs, what had been found; it is saved from now on."""
        self._scan, self._names = scan, names
        if self._begin is not None:
            scan.go_on(self._begin.found)
            names.go_on(self._begin.names, self._source.label)
            for contig, batch in self._rows():
                self._spool(contig, batch)

    def append(self, contig: str, batch: pa.RecordBatch) -> None:
        """Append rows to a contig."""
        self._spool(contig, batch)
        self._new.append((contig, batch))

    def _save(self, point: ScanPoint) -> None:
        self._scan.finish()
        new, self._new = self._new, []
        sink = pa.BufferOutputStream()
        for contig, batch in new:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.ipc.new_stream(sink, SPOOLED.with_metadata({_CONTIG: contig}), options=options) as stream:
                stream.write_batch(batch)
        saved = _Saved(self._source.stamp, point, self._scan.state, self._names.state)
        self._journal.save(sink.getvalue().to_pybytes(), _adapter().dump_python(saved, mode="json"))

    def _read(self) -> tuple[_Saved | None, str]:
        """Return what was saved, and why something that was saved is not used."""
        if self._journal.state is None:
            return None, "its state is damaged or of another version" if self._journal.dropped else ""
        try:
            saved = _adapter().validate_python(self._journal.state)
            saved.point.check()
            for _ in self._rows():
                pass
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError) as error:
            return None, f"its state cannot be read ({str(error).splitlines()[0]})"
        stamp = self._source.stamp
        if saved.stamp != stamp:
            return None, "the file on the server changed"
        if not (stamp.identifies or self._source.md5):
            return None, "nothing tells whether the file on the server changed"
        return saved, ""

    def _rows(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        with pa.OSFile(str(self._journal.path)) as file:
            while file.tell() < file.size():
                stream = pa.ipc.open_stream(file)
                if not stream.schema.equals(SPOOLED):
                    raise ValueError("rows of another schema")
                contig = stream.schema.metadata[_CONTIG].decode()
                for batch in stream:
                    batch.validate(full=True)
                    yield contig, batch.replace_schema_metadata(None)
