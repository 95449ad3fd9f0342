from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from genolewm_assets.sources.files.compression import BGZF_END, Compression, detect_compression, has_bgzf_end
from genolewm_assets_tests.worlds.sources.vcf_files import write_text

PACKED = {"plain": Compression.PLAIN, "gzip": Compression.GZIP, "bgzip": Compression.BGZF}


@pytest.mark.parametrize("how", PACKED)
@pytest.mark.parametrize("text", ["", "x", "ACGT" * 50_000])
def test_packing_is_told_by_the_first_bytes(tmp_path: Path, how: str, text: str) -> None:
    with write_text(tmp_path / "a.txt", text, how).open("rb") as file:
        assert detect_compression(file) is PACKED[how]
        assert has_bgzf_end(file) is (how == "bgzip")
        assert file.tell() == 0


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (BGZF_END[:17], Compression.GZIP),
        (BGZF_END[:18], Compression.BGZF),
        (b"\x1f", Compression.PLAIN),
        (gzip.compress(b"x")[:3], Compression.GZIP),
        (BGZF_END[:12] + b"XX" + BGZF_END[14:], Compression.GZIP),
    ],
)
def test_borders(tmp_path: Path, data: bytes, expected: Compression) -> None:
    with write_text(tmp_path / "a.txt", data).open("rb") as file:
        assert detect_compression(file) is expected
        assert not has_bgzf_end(file) or data == BGZF_END
