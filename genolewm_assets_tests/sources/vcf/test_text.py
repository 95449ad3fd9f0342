from __future__ import annotations

import gzip
import io
import threading
from collections.abc import Iterable

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files.compression import BGZF_END
from genolewm_assets.sources.vcf import bgzf
from genolewm_assets.sources.vcf import text as text_chunks
from genolewm_assets.sources.vcf.text import TextChunk, read_text
from genolewm_assets_tests.worlds.sources.index_files import bgzip

TEXT = b"".join(b"%d,%d\n" % (at, at * 7919 % 9973) for at in range(2_000))
CONTAINERS = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT, mtime=0),
    "gzip of several members": gzip.compress(TEXT[:999], mtime=0) + gzip.compress(b"") + gzip.compress(TEXT[999:]),
    "BGZF": bgzip(TEXT, block_bytes=1_000),
    "BGZF, its end block within": bgzip(TEXT[:999]) + bgzip(TEXT[999:], block_bytes=700),
}


def text_of(chunks: Iterable[TextChunk]) -> bytes:
    return b"".join(part for chunk in chunks for part in chunk.parts)


def cut_small(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    monkeypatch.setattr(bgzf, "BATCH_TEXT_BYTES", size_bytes)
    monkeypatch.setattr(bgzf, "_READ_BYTES", size_bytes)
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", size_bytes)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size_bytes", [100, 5_000, 1 << 20])
def test_text_comes_in_order_and_is_said_how_far_it_was_read(
    monkeypatch: pytest.MonkeyPatch, container: str, threads: int, size_bytes: int
) -> None:
    cut_small(monkeypatch, size_bytes)
    data = CONTAINERS[container]
    chunks = list(read_text(io.BytesIO(data), label="a.gz", threads=threads))
    assert text_of(chunks) == TEXT
    assert [chunk.read_bytes for chunk in chunks] == sorted(chunk.read_bytes for chunk in chunks)
    assert chunks[-1].read_bytes == len(data)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_nothing_is_a_text_too(threads: int) -> None:
    for data in (b"", gzip.compress(b"", mtime=0), BGZF_END):
        assert text_of(read_text(io.BytesIO(data), label="", threads=threads)) == b""


@pytest.mark.parametrize("threads", [1, 3])
def test_a_range_of_a_bgzf_file(threads: int) -> None:
    data = CONTAINERS["BGZF"]
    second = int.from_bytes(data[16:18], "little") + 1
    chunks = read_text(io.BytesIO(data), label="", threads=threads, begin=5, end=second << 16 | 7)
    assert text_of(chunks) == TEXT[5:1_007]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (CONTAINERS["BGZF"][:-28], r"^a\.gz: the file is truncated: the BGZF end-of-file block is missing"),
        (CONTAINERS["BGZF"][:5_000] + BGZF_END, r"^a\.gz, block at byte [\d,]+: "),
        (CONTAINERS["gzip"][:-500], r"^a\.gz: the file is truncated: the compressed data are incomplete"),
        (CONTAINERS["gzip"][:12], r"^a\.gz: the file is truncated: the compressed data are incomplete"),
        (CONTAINERS["gzip"][:500] + b"\xff" * 300 + CONTAINERS["gzip"][800:], r"^a\.gz, at byte [\d,]+: .*damaged"),
        (CONTAINERS["gzip"][:-8] + b"\0\0\0\0" + CONTAINERS["gzip"][-4:], r"^a\.gz, at byte [\d,]+: .*damaged"),
        (CONTAINERS["gzip"] + b"rest of a file", r"^a\.gz, at byte [\d,]+: .*damaged"),
    ],
)
def test_what_is_broken_is_named(monkeypatch: pytest.MonkeyPatch, data: bytes, message: str, threads: int) -> None:
    cut_small(monkeypatch, 700)
    with pytest.raises(VcfError, match=message):
        list(read_text(io.BytesIO(data), label="a.gz", threads=threads))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]
