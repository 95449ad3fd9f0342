"""Text of files from elsewhere, and bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import InputError, PanelError
from genolewm_assets.store.files.text import decode_text
from genolewm_assets_tests.rows import each_row


@given(st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"])))
def test_every_encoding_with_a_mark_gives_the_same_text(text: str) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert decode_text(text.encode(encoding), "a") == text
    assert decode_text(b"\xfe\xff" + text.encode("utf-16-be"), "a") == text


@each_row(
    ("data", "message"),
    [
        ("ab\xe9c".encode("latin-1"), r"UTF-8 \(.*\): expected UTF-8, or UTF-16 .*, got byte 0xe9 at offset 2\."),
        (b"\xef\xbb\xbf" + "ab\xe9c".encode("latin-1"), "UTF-8 .* byte 0xe9 at offset 5"),
        ("ab".encode("utf-16-le"), r"UTF-8 \(NUL character\): .* byte 0x00 at offset 1"),
        ("ab".encode("utf-16") + b"\x00\xd8", r"UTF-16 \(.*at offset 6\. Save the file as UTF-8"),
        ("ab".encode("utf-32"), r"UTF-16 \(NUL character\): .* at offset 2"),
    ],
)
def test_other_bytes_are_refused_with_their_offset(data: bytes, message: str) -> None:
    for error in (InputError, PanelError):
        with pytest.raises(error, match=f"^a: is not text in {message}"):
            decode_text(data, "a", error=error)
