"""A remote file as a seekable binary file: it reads ranges, fetches ahead, and never mixes two versions of a file."""

from __future__ import annotations

import io
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import tenacity
from tenacity.wait import wait_base

from genolewm_assets.errors import FetchError
from genolewm_assets.sources.files.remote import (
    ATTEMPTS,
    BACK_OFF,
    Body,
    RemoteChangedError,
    RemoteStamp,
    ask_remote,
    fetch_error,
    open_remote,
    retrying,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Number of bytes fetched ahead of the reader.
READ_AHEAD_BYTES = 4 << 20
#: Portion sizes double from the first to the second: short reads fetch little, long reads need few requests.
_FIRST_BYTES, _MOST_BYTES = 64 << 10, 1 << 20
#: A seek forward by up to this many bytes reads and drops them, which is cheaper than a new request.
_SKIP_BYTES = 1 << 20


class NoRangesError(FetchError):
    """A server that cannot send a part of a file was asked for one."""


class RangeFile(io.RawIOBase):
    """Read-only binary file over any URL that fsspec knows; not safe for several readers at once.

    Parameters
    ----------
    url
        Path or URL. An HTTP server must support range requests, unless reading starts at 0 and only goes forward.
    stamp
        Version to read, from another ``RangeFile`` or from ``ask_remote``; default: the current version.
    attempts, wait
        Number of failures in a row, without a new byte between them, after which reading fails, and the pause between
        attempts.

    Attributes
    ----------
    size
        Size of the file in bytes.

    Raises
    ------
    FetchError
        From the constructor or any read: if the file does not exist, the server states no size or does not support
        ranges, the file is no longer the same version, or the attempts are used up. The stamp is compared at every
        response; if a server states neither ETag nor date, only the size is compared.

    Notes
    -----
    ``read(n)`` returns fewer than ``n`` bytes only at the end of the file. Up to 4 MiB are fetched ahead of the reader.
    """

    def __init__(
        self,
        url: str,
        *,
        stamp: RemoteStamp | None = None,
        attempts: int = ATTEMPTS,
        wait: wait_base = BACK_OFF,
    ) -> None:
        super().__init__()
        self._ahead: _ReadAhead | None = None
        self._portion, self._portion_start, self._position = b"", 0, 0
        self._fetched, self._fetched_lock = 0, threading.Lock()
        self.url, self._attempts, self._wait = url, attempts, wait
        self.stamp = stamp or ask_remote(url, attempts=attempts, wait=wait)
        if self.stamp.size is None:
            raise FetchError(url, "the server does not state the size of the file", remedy="Download the file first")
        self.size: int = self.stamp.size

    @property
    def bytes_fetched(self) -> int:
        """Number of bytes received so far, including those read ahead."""
        return self._fetched

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position: the offset in the file of the byte that is read next."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set and return the position, which may be past the end; nothing is fetched before the next read."""
        self._check_open()
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}
        if whence not in bases:
            raise ValueError(f"whence: expected 0, 1 or 2, got {whence}")
        if bases[whence] + offset < 0:
            raise ValueError(f"offset: expected a position of 0 or more, got {bases[whence] + offset}")
        self._position = bases[whence] + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next ``size`` bytes; all remaining bytes if ``size`` is negative or None."""
        self._check_open()
        left = max(0, self.size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        pieces = []
        while wanted:
            pieces.append(self.read1(wanted))
            wanted -= len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read1(self, size: int, /) -> bytes:
        """Return up to ``size`` of the next bytes, as many as have arrived and at least one; ``b""`` at the end."""
        self._check_open()
        if self._position >= self.size:
            return b""
        self._load()
        start = self._position - self._portion_start
        piece = self._portion[start : start + size]
        self._position += len(piece)
        return piece

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer; return the number of bytes read, which is smaller than the buffer only at the end."""
        with memoryview(buffer) as view, view.cast("B") as target:
            content = self.read(len(target))
            target[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """Return all remaining bytes."""
        return self.read()

    def close(self) -> None:
        """Stop reading ahead and close the file; does not wait for a response that is being received."""
        if not self.closed:
            self._stop()
            self._portion = b""
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _load(self) -> None:
        """Fetch portions until the current one covers the position, which must be before the end of the file."""
        while not 0 <= self._position - self._portion_start < len(self._portion):
            front = self._portion_start + len(self._portion)
            if self._ahead is None or not 0 <= self._position - front <= _SKIP_BYTES:
                front = self._position
                self._start()
            assert self._ahead is not None
            try:
                portion = self._ahead.take()
            except BaseException:
                self._stop()
                raise
            self._portion, self._portion_start = portion, front

    def _start(self) -> None:
        self._stop()
        self._portion, self._portion_start = b"", self._position
        stream = _Stream(self.url, self.stamp, self._position, self.size)
        self._ahead = _ReadAhead(stream, retrying(self._attempts, self._wait), self._count)

    def _stop(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()

    def _count(self, size: int) -> None:
        with self._fetched_lock:
            self._fetched += size


class _Stream:
    """The bytes ``[position, end)`` of one version of a remote file, in portions; usable again after an error."""

    def __init__(self, url: str, stamp: RemoteStamp, position: int, end: int) -> None:
        self.url, self.position, self.end = url, position, end
        self._stamp, self._portion_bytes = stamp, _FIRST_BYTES
        self._opened = ExitStack()
        self._body: Body | None = None

    def next(self) -> bytes:
        """Return the next portion; after an error the next call opens the remote file again."""
        try:
            portion = self._read()
        except BaseException:
            self.close()
            raise
        self.position += len(portion)
        self._portion_bytes = min(2 * self._portion_bytes, _MOST_BYTES)
        return portion

    def _read(self) -> bytes:
        if self._body is None:
            self._body = self._opened.enter_context(_open_pinned(self.url, self.position, self._stamp))
        portion = self._body.read(min(self._portion_bytes, self.end - self.position))
        if not portion:
            raise ConnectionError(f"the response ended at byte {self.position:,} of {self._stamp.size:,}")
        return portion

    def close(self) -> None:
        self._body = None
        self._opened.close()


@contextmanager
def _open_pinned(url: str, start: int, stamp: RemoteStamp) -> Iterator[Body]:
    """Open a remote file at an offset; another version or a server without ranges is an error that is not retried."""
    try:
        with open_remote(url, start=start, stamp=stamp) as body:
            _check_answer(body, url, start, stamp)
            yield body
    except RemoteChangedError as error:
        raise FetchError(url, f"no longer the version first opened ({error})", remedy="Run it again") from error


def _check_answer(body: Body, url: str, start: int, stamp: RemoteStamp) -> None:
    if body.stamp != stamp:
        raise RemoteChangedError(f"the file on the server changed from {stamp} to {body.stamp}")
    if body.start != start:
        raise NoRangesError(
            url,
            "the server cannot send a part of the file",
            expected=f"a range from byte {start:,} on",
            got="the whole file",
            remedy="Download the file first",
        )


class _StoppedError(Exception):
    """The reader was stopped while a portion was fetched; the fetch is not retried."""


class _ReadAhead:
    """A thread that fetches portions of a stream until :data:`READ_AHEAD_BYTES` bytes wait for the reader.

    The thread fetches one portion and waits until the reader requests a second one, so that a short read at the start
    or end of a file fetches no more than it needs.
    """

    def __init__(self, stream: _Stream, retry: tenacity.Retrying, count: Callable[[int], None]) -> None:
        self._stream, self._count = stream, count
        self._stopped = threading.Event()
        self._retry = retry.copy(sleep=tenacity.sleep_using_event(self._stopped))
        self._portions: deque[bytes] = deque()
        self._asked, self._waiting_bytes, self._ended = 0, 0, False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="read-ahead", daemon=True).start()

    def take(self) -> bytes:
        """Return the next portion, ``b""`` at the end of the stream; raise the error that ended the stream, if any."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._portions or self._ended)
            if self._portions:
                portion = self._portions.popleft()
                self._waiting_bytes -= len(portion)
                self._changed.notify_all()
                return portion
        if self._error is not None:
            raise fetch_error(self._stream.url, self._error) from self._error
        return b""

    def stop(self) -> None:
        """End the thread after its current request and drop the waiting portions."""
        self._stopped.set()
        with self._changed:
            self._portions.clear()
            self._waiting_bytes = 0
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while self._stream.position < self._stream.end and not self._stopped.is_set():
                self._hand_over(self._retry(self._next))
        except BaseException as error:  # noqa: BLE001 - raised again in the reader's thread
            self._error = error
        finally:
            self._stream.close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _next(self) -> bytes:
        if self._stopped.is_set():
            raise _StoppedError
        return self._stream.next()

    def _hand_over(self, portion: bytes) -> None:
        self._count(len(portion))
        with self._changed:
            if not self._stopped.is_set():
                self._portions.append(portion)
                self._waiting_bytes += len(portion)
                self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._stopped.is_set() or (self._asked > 1 and self._waiting_bytes < READ_AHEAD_BYTES)
            )
