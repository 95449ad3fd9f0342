"""Read BGZF: a series of gzip members ("blocks"), each with its own checksum (SAM specification, section 4.1).

A block is at most 64 KiB, compressed and inflated. Reading has two steps, so that several threads can share the second:
:func:`read_batches` follows the blocks' sizes and cuts out whole blocks without inflating them; :func:`inflate_batch`
inflates the blocks of one batch. A virtual offset is ``block offset << 16 | offset in the block's text``, in bytes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from itertools import pairwise
from typing import BinaryIO, NoReturn, cast

import numpy as np
from isal import igzip_lib, isal_zlib

from genolewm_assets.errors import VcfError

#: Approximate bytes of text in a batch: large enough that the fixed cost per batch is negligible, and small enough
#: that several batches fit in memory.
BATCH_TEXT_BYTES = 3 << 20

_READ_BYTES = 1 << 20
#: Seconds after which the blocks that a slow server has sent are a batch.
BATCH_S = 1.0

_MAX_TEXT_BYTES = _MAX_BLOCK_BYTES = 1 << 16
_FIXED = struct.Struct("<4BI2BH")
_SUBFIELD = struct.Struct("<2BH")
_TRAILER = struct.Struct("<II")
_MAGIC = (0x1F, 0x8B, 8, 4)
# A block whose only extra field is BC: bytes of its header, and its smallest size.
_USUAL_HEAD_BYTES, _LEAST_BLOCK_BYTES = 18, 26


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive whole blocks, still compressed, that begin at ``offset`` in the file.

    ``blocks``: for each block two offsets in ``data``: where its deflated bytes begin, and where the block ends. Of the
    first block's text ``skip`` bytes are dropped, of the last block's only ``stop`` bytes are kept (None: all).
    """

    data: bytes
    offset: int
    blocks: list[tuple[int, int]]
    skip: int = 0
    stop: int | None = None


def read_batches(file: BinaryIO, *, label: str, begin: int = 0, end: int | None = None) -> Iterator[Batch]:
    """Yield blocks between virtual offsets, half-open, in batches of about :data:`BATCH_TEXT_BYTES` of text.

    A batch that is not full after :data:`BATCH_S` is what has arrived.
    """
    offset, skip = begin >> 16, begin & 0xFFFF
    last, stop = (None, None) if end is None else (end >> 16, end & 0xFFFF)
    file.seek(offset)
    data, more, late = b"", True, time.monotonic() + BATCH_S
    while last is None or offset <= last:
        blocks, full = _whole_blocks(data, offset, last, label)
        if more and not full and not (blocks and time.monotonic() > late):
            # Read at most 64 KiB from the start of the last block requested: a remote file transfers every byte read.
            wanted = _READ_BYTES if last is None else last + _MAX_BLOCK_BYTES - offset - len(data)
            read = cast("BufferedReader", file).read1(min(_READ_BYTES, wanted)) if wanted > 0 else b""
            data, more = data + read, bool(read)
            continue
        size = blocks[-1][1] if blocks else 0
        if not size:
            break
        ended = last is not None and offset + size > last
        yield Batch(data[:size], offset, blocks, skip, stop if ended else None)
        data, offset, skip, late = data[size:], offset + size, 0, time.monotonic() + BATCH_S
    if data and (last is None or offset <= last):
        raise VcfError(
            f"{label}, block at byte {offset:,}",
            "the file is truncated: it ends within a block",
            remedy="Fetch the file again",
        )


def inflate_batch(batch: Batch, *, label: str) -> list[bytes]:
    """Inflate a batch and return the text of each block, cut to the requested part."""
    parts, data, at = [], batch.data, 0
    for begin, end in batch.blocks:
        checksum, size = _TRAILER.unpack_from(data, end - _TRAILER.size)
        if size > _MAX_TEXT_BYTES:
            _damaged(label, batch.offset + at, "a block states more than 64 KiB of text")
        try:
            text = igzip_lib.decompress(
                data[begin : end - _TRAILER.size], flag=igzip_lib.DECOMP_DEFLATE, bufsize=size or 1
            )
        except igzip_lib.error as err:  # type: ignore[misc]  # The stub calls the class an instance.
            _damaged(label, batch.offset + at, str(err), err)
        if len(text) != size or isal_zlib.crc32(text) != checksum:
            _damaged(label, batch.offset + at, "a block's checksum or length does not match")
        parts.append(text)
        at = end
    if batch.stop is not None and parts:
        parts[-1] = parts[-1][: batch.stop]
    if batch.skip and parts:
        parts[0] = parts[0][batch.skip :]
    return parts


def _whole_blocks(data: bytes, offset: int, last: int | None, label: str) -> tuple[list[tuple[int, int]], bool]:
    """Return the blocks at the start of ``data``, up to the one at ``last``, and whether they are a whole batch."""
    from genolewm_assets.sources.vcf.bgzf_kernels import walk_blocks

    ends = np.empty(len(data) // _LEAST_BLOCK_BYTES + 1, np.int64)
    far = len(data) if last is None else last - offset
    found = walk_blocks(np.frombuffer(data, np.uint8), ends, BATCH_TEXT_BYTES, far)
    full = found < 0
    usual = ends[: -found - 1 if full else found].tolist()
    blocks = [(begin + _USUAL_HEAD_BYTES, end) for begin, end in pairwise([0, *usual])]
    if full:
        return blocks, True
    # The walk stopped at the end of the data, at a block with further extra fields, or at bytes that are not a block.
    block = _block_at(data, usual[-1] if usual else 0, offset, label)
    return [*blocks, *([] if block is None else [block])], block is not None


def _block_at(data: bytes, at: int, offset: int, label: str) -> tuple[int, int] | None:
    """Return the offsets in ``data`` of a block's deflated bytes and of its end; None if it does not end there."""
    if len(data) - at < _FIXED.size:
        return None
    *magic, _, _, _, extra = _FIXED.unpack_from(data, at)
    if tuple(magic) != _MAGIC:
        _damaged(label, offset + at, "a BGZF block was expected here")
    begin = at + _FIXED.size + extra
    if len(data) < begin:
        return None
    size = _block_size(data[at + _FIXED.size : begin])
    if size < begin - at + _TRAILER.size:
        _damaged(label, offset + at, "a block states no size, or too small a size")
    return (begin, at + size) if at + size <= len(data) else None


def _block_size(extra: bytes) -> int:
    """Return the size of a block in bytes, from its gzip extra field; 0 if the field does not state it."""
    at = 0
    while at + _SUBFIELD.size + 2 <= len(extra):
        first, second, size = _SUBFIELD.unpack_from(extra, at)
        if (first, second, size) == (ord("B"), ord("C"), 2):
            return int.from_bytes(extra[at + 4 : at + 6], "little") + 1
        at += _SUBFIELD.size + size
    return 0


def _damaged(label: str, offset: int, how: str, cause: BaseException | None = None) -> NoReturn:
    raise VcfError(
        f"{label}, block at byte {offset:,}", f"the compressed data are damaged ({how})", remedy="Fetch the file again"
    ) from cause
