from __future__ import annotations

import io
import struct
import zlib
from itertools import pairwise
from pathlib import Path

import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.files.local import BGZF_END
from genolewm_assets.sources.vcf.bgzf import Batch, inflate_batch, read_batches
from genolewm_assets_tests.worlds.sources.index_files import bgzip
from genolewm_assets_tests.worlds.sources.scanned_vcf import cut_small

TEXT = b"".join(b"%d,%d\n" % (at, at * 7919 % 9973) for at in range(2_000))


def inflate(data: bytes, begin: int = 0, end: int | None = None) -> bytes:
    return b"".join(map(text_of, read_batches(io.BytesIO(data), label="a.gz", begin=begin, end=end)))


def text_of(batch: Batch) -> bytes:
    return b"".join(inflate_batch(batch, label="a.gz"))


def block(text: bytes, *, extra: bytes = b"", size: int | None = None, stated: int | None = None) -> bytes:
    """Pack one block with other subfields before its own, and with a block or text size that may be a lie."""
    deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflater.compress(text) + deflater.flush()
    whole = 12 + len(extra) + 6 + len(body) + 8
    own = b"BC" + struct.pack("<2H", 2, (whole if size is None else size) - 1)
    head = bytes.fromhex("1f8b08040000000000ff") + struct.pack("<H", len(extra) + 6)
    tail = struct.pack("<2I", zlib.crc32(text), len(text) if stated is None else stated)
    return head + extra + own + body + tail


def offsets(data: bytes) -> list[int]:
    """Return where each block begins, and the end."""
    found = [0]
    while found[-1] < len(data):
        found.append(found[-1] + struct.unpack_from("<H", data, found[-1] + 16)[0] + 1)
    return found


@pytest.mark.parametrize("block_bytes", [1, 1000, 0xFF00])
@pytest.mark.parametrize(("batch_bytes", "read_bytes"), [(1, 1), (1, 1 << 20), (5000, 17), (1 << 20, 1 << 20)])
def test_text_comes_back_however_it_is_read(
    monkeypatch: pytest.MonkeyPatch, block_bytes: int, batch_bytes: int, read_bytes: int
) -> None:
    cut_small(monkeypatch, batch_bytes, read_bytes)
    text = TEXT if block_bytes > 1 else TEXT[:300]
    assert inflate(bgzip(text, block_bytes=block_bytes)) == text


@given(st.data())
def test_a_range_of_virtual_offsets(data: st.DataObject) -> None:
    packed = bgzip(TEXT[:3_000], block_bytes=data.draw(st.sampled_from([100, 999, 3_000])))
    starts = offsets(packed)
    sizes = [struct.unpack_from("<I", packed, end - 4)[0] for _, end in pairwise(starts)]
    before = [sum(sizes[:at]) for at in range(len(sizes))]
    points = sorted(
        data.draw(
            st.lists(
                st.integers(0, len(sizes) - 1).flatmap(lambda at: st.tuples(st.just(at), st.integers(0, sizes[at]))),
                min_size=2,
                max_size=2,
            )
        )
    )
    (first, skip), (last, stop) = points
    begin, end = starts[first] << 16 | skip, starts[last] << 16 | stop
    assert inflate(packed, begin, end) == TEXT[before[first] + skip : before[last] + stop]
    assert inflate(packed, begin) == TEXT[before[first] + skip : 3_000]


def test_htslib_finds_the_same_text_from_an_offset(tmp_path: Path) -> None:
    packed = bgzip(TEXT, block_bytes=1000)
    (tmp_path / "a.gz").write_bytes(packed)
    with pysam.BGZFile(str(tmp_path / "a.gz"), "r", None) as file:
        for start in offsets(packed)[:-2]:
            file.seek(start << 16 | 5)
            assert inflate(packed, start << 16 | 5) == file.read()


def test_blocks_of_other_writers() -> None:
    blocks = [
        block(b"first\n", extra=b"XY" + struct.pack("<H", 3) + b"abc"),
        BGZF_END,
        block(b""),
        block(b"x" * 0x10000),
        block(b"last"),
    ]
    assert inflate(b"".join([*blocks, BGZF_END])) == b"first\n" + b"x" * 0x10000 + b"last"
    assert inflate(BGZF_END) == inflate(b"") == b""


HALF = bgzip(TEXT, block_bytes=3_000)
GOOD = block(b"good\n")
AFTER = f"a.gz, block at byte {len(GOOD)}: "
BROKEN = {
    "ends in a block": (GOOD + GOOD[:-1], f"{AFTER}the file is truncated: it ends within a block"),
    "ends in a head": (GOOD + GOOD[:5], f"{AFTER}the file is truncated"),
    "no block": (GOOD + b"x" * 40, f"{AFTER}the compressed data are damaged .a BGZF block was expected here"),
    "plain gzip": (GOOD + zlib.compress(b"x" * 99, wbits=31), f"{AFTER}.*a BGZF block was expected here"),
    "no size": (GOOD + GOOD.replace(b"BC", b"XY"), f"{AFTER}.*a block states no size, or too small a size"),
    "size 1": (GOOD + block(b"good", size=1), f"{AFTER}.*a block states no size, or too small a size"),
    "size under its trailer": (GOOD + block(b"good", size=25), f"{AFTER}.*too small"),
    "size too large": (GOOD + block(b"good", size=0x10000) + BGZF_END, f"{AFTER}the file is truncated"),
    "size too small": (GOOD + block(TEXT[:500], size=90) + BGZF_END, f"{AFTER}the compressed data are damaged"),
    "text too long": (GOOD + block(b"x" * 0x10001), f"{AFTER}.*a block states more than 64 KiB"),
    "text longer than stated": (GOOD + block(b"x" * 99, stated=98), f"{AFTER}.*checksum or length does not match"),
    "text shorter than stated": (GOOD + block(b"x" * 99, stated=100), f"{AFTER}.*checksum or length does not match"),
    "text of a billion bytes stated": (GOOD + block(b"x", stated=10**9), f"{AFTER}.*more than 64 KiB"),
    "checksum": (GOOD + GOOD[:-8] + b"\0\0\0\0" + GOOD[-4:], f"{AFTER}.*checksum or length does not match"),
    "deflate": (GOOD + GOOD[:18] + b"\xff" * 7 + GOOD[25:], f"{AFTER}the compressed data are damaged"),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("read_bytes", [1, 1 << 20])
def test_a_broken_block_is_named_by_its_beginning(monkeypatch: pytest.MonkeyPatch, case: str, read_bytes: int) -> None:
    cut_small(monkeypatch, 1 << 20, read_bytes)
    data, message = BROKEN[case]
    with pytest.raises(VcfError, match=message) as caught:
        inflate(data)
    assert "Fetch the file again" in str(caught.value)


def test_every_cut_is_found_but_those_between_blocks() -> None:
    data = bgzip(TEXT[:600], block_bytes=200)
    between = offsets(data)
    for cut in range(len(data)):
        if cut in between:
            assert inflate(data[:cut]) == TEXT[: between.index(cut) * 200]
        else:
            with pytest.raises(VcfError, match="the file is truncated: it ends within a block"):
                inflate(data[:cut])


def test_no_flipped_bit_gives_another_text() -> None:
    data = bgzip(TEXT[:600], block_bytes=200)
    unharmed = set()
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            try:
                assert inflate(bytes(flipped)) == TEXT[:600], (at, bit)
            except VcfError:
                continue
            unharmed.add(at)
    # Modification time, extra flags and operating system say nothing of the text; a last bit may pad a deflate stream.
    heads = {start + at for start in offsets(data)[:-1] for at in range(4, 10)}
    assert heads <= unharmed
    assert len(unharmed - heads) < 8


@given(st.binary(max_size=60), st.integers(0, len(HALF)), st.integers(0, len(HALF)))
def test_arbitrary_bytes_give_an_error_or_the_text(noise: bytes, at: int, skip: int) -> None:
    for data in (noise, HALF[:at] + noise + HALF[at:], HALF[:at] + noise + HALF[at + skip :]):
        try:
            text = inflate(data)
        except VcfError:
            continue
        # What is left out between two blocks is not to be seen in the blocks.
        assert all(line in TEXT for line in text.split(b"\n")[:1])
