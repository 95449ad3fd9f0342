"""VCF text read plainly, line by line and field by field: slow, short, and written without the scanner in mind."""

from __future__ import annotations

import re
from typing import NamedTuple

from genolewm_assets_tests.worlds.sources.scanned_vcf import Record

#: The characters that VCF 4.3 writes as ``%`` and two digits (section 1.2).
RESERVED = {"%3A": ":", "%3B": ";", "%3D": "=", "%25": "%", "%2C": ",", "%0D": "\r", "%0A": "\n", "%09": "\t"}


class PlainRecord(NamedTuple):
    """What the scanner says of a line, and INFO by key; True for a key without a value."""

    record: Record
    info: dict[str, str | bool]


def read_plainly(text: str) -> list[PlainRecord]:
    """Return the records of a text that has nothing wrong with it."""
    found = []
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        if line and not line.startswith("#"):
            chrom, pos, name, ref, alt, _, filters, info = line.split("\t")[:8]
            items = [item.split("=", 1) for item in info.split(";") if item not in {"", "."}]
            values = {key: rest[0] if rest else True for key, *rest in items}
            record = Record(number, chrom, int(pos), missing(name), ref, tuple(alt.split(",")), missing(filters))
            found.append(PlainRecord(record, values))
    return found


def missing(text: str) -> str | None:
    return None if text in {".", ""} else text


def site_text(value: str | bool | None, *, decode: bool = False) -> str | None:
    """Return the text of a value, None where there is none."""
    text = missing(value) if isinstance(value, str) else None
    if decode and text is not None:
        text = re.sub("%[0-9A-Fa-f]{2}", lambda code: RESERVED.get(code[0].upper(), code[0]), text)
    return text


def allele_texts(value: str | bool | None, alleles: int, *, decode: bool = False) -> list[str | None]:
    """Return the text of each allele's own value."""
    text = site_text(value)
    if text is None:
        return [None] * alleles
    parts = [site_text(part, decode=decode) for part in text.split(",")]
    assert len(parts) == alleles
    return parts
