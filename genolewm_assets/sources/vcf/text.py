"""Read the text of a file in chunks, inflated ahead of the reader by other threads; memory holds a few chunks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import BinaryIO, NamedTuple

from isal import igzip, igzip_lib

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files import Compression, detect_compression, has_bgzf_end
from genolewm_assets.sources.vcf.bgzf import Batch, inflate_batch, read_batches
from genolewm_assets.store.tables import map_ahead

#: Bytes of text in a chunk of a gzip or plain file.
CHUNK_BYTES = 1 << 22


class TextChunk(NamedTuple):
    """Consecutive text of a file, which may begin and end within a line, and the offset up to which it is read.

    ``data``: the blocks of a BGZF file that hold the text, compressed.
    """

    parts: list[bytes]
    read_bytes: int
    data: bytes = b""


def read_text(
    file: BinaryIO, *, label: str, threads: int, begin: int = 0, end: int | None = None
) -> Iterator[TextChunk]:
    """Yield the text of a BGZF, gzip or plain file; the compression is detected from the content.

    ``threads`` includes the caller's; with 1 nothing is read ahead. BGZF is inflated by all other threads, gzip by one,
    because it is a single stream. ``begin``, ``end``: virtual offsets of the requested text, half-open; BGZF only.
    """
    compression = detect_compression(file)
    if compression is Compression.BGZF:
        if not has_bgzf_end(file):
            raise without_end(label)
        return read_bgzf(file, label=label, threads=threads, begin=begin, end=end)
    chunks = _read_stream(file, compression, label)
    return chunks if threads < 2 else _read_ahead(chunks)


def read_bgzf(
    file: BinaryIO, *, label: str, threads: int, begin: int = 0, end: int | None = None
) -> Iterator[TextChunk]:
    """Yield the text of a BGZF file as :func:`read_text`, without looking at its beginning and end first."""

    def inflate(batch: Batch) -> TextChunk:
        return TextChunk(inflate_batch(batch, label=label), batch.offset + len(batch.data), batch.data)

    batches = read_batches(file, label=label, begin=begin, end=end)
    if threads < 2:
        return map(inflate, batches)
    return map_ahead(inflate, batches, threads=threads - 1, caller_helps=True)


def _read_ahead(chunks: Iterator[TextChunk]) -> Iterator[TextChunk]:
    """Advance an iterator in one other thread and yield its items."""
    for chunk in map_ahead(lambda _: next(chunks, None), repeat(None), threads=1):
        if chunk is None:
            return
        yield chunk


def _read_stream(file: BinaryIO, compression: Compression, label: str) -> Iterator[TextChunk]:
    stream = file if compression is Compression.PLAIN else igzip.IGzipFile(fileobj=file, mode="rb")  # type: ignore[no-untyped-call]
    while True:
        try:
            text = stream.read(CHUNK_BYTES)
        except EOFError as err:
            raise _truncated(label, "the compressed data are incomplete") from err
        except (igzip_lib.error, igzip.BadGzipFile) as err:  # type: ignore[misc]  # The stub calls the class an instance.
            raise VcfError(
                f"{label}, at byte {file.tell():,}",
                f"the compressed data are damaged ({err})",
                remedy="Fetch the file again",
            ) from err
        if not text:
            return
        yield TextChunk([text], file.tell())


def without_end(label: str) -> VcfError:
    """Return the error of a BGZF file whose last block is not the one that ends files."""
    return _truncated(label, "the BGZF end-of-file block is missing")


def _truncated(label: str, how: str) -> VcfError:
    return VcfError(label, f"the file is truncated: {how}", remedy="Fetch the file again")
