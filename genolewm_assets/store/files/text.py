"""Text of files from elsewhere: UTF-8, or UTF-16 with a byte order mark as programs of Windows save it."""

from __future__ import annotations

import codecs

from genolewm_assets.errors import InputError

_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def text_encoding(head: bytes) -> str:
    """Return the codec of a file by its first bytes; it takes the byte order mark away."""
    return "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def decode_text(data: bytes, where: str, *, error: type[InputError] = InputError) -> str:
    """Return the text of a file.

    Raises
    ------
    InputError
        If a byte is neither UTF-8 nor, behind a byte order mark, UTF-16; or if there is a NUL character, which UTF-16
        without the mark has. The message has the offset of the byte, and no text.
    """
    encoding = text_encoding(data)
    mark = next((len(each) for each in _MARKS if data.startswith(each)), 0)
    try:
        text = data.decode(encoding)
        if "\0" not in text:
            return text
        before = text.partition("\0")[0].encode("utf-8" if encoding == "utf-8-sig" else "utf-16-le")
        at, reason = mark + len(before), "NUL character"
    except UnicodeDecodeError as err:
        at, reason = err.start + (mark if encoding == "utf-8-sig" else 0), err.reason
    raise error(
        where,
        f"is not text in {'UTF-8' if encoding == 'utf-8-sig' else 'UTF-16'} ({reason})",
        expected="UTF-8, or UTF-16 with a byte order mark",
        got=f"byte 0x{data[at]:02x} at offset {at:,}",
        remedy="Save the file as UTF-8",
    )
