"""Parse the header of a VCF: its INFO fields, contigs, file date and other lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

#: Names of the columns that every VCF has.
FIXED_COLUMNS = ("#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO")

# The lookbehind restricts matches to where a name may begin; else a long line of letters takes quadratic time.
# The text in quotation marks is possessive: else every letter of it is a place to return to, at 80 bytes each.
_ATTRIBUTE = re.compile(r'(?<![^=,<>])([^=,<>]+)=("(?:[^"\\]|\\.)*+"|[^,]*)')
#: Attributes of a contig that tell its assembly, in lower case; VCF has ``assembly``, ``md5`` and ``URL``.
_ASSEMBLY_ATTRIBUTES = frozenset({"assembly", "md5", "m5", "url", "uri"})
_READ_ATTRIBUTES = frozenset({"id", "number", "type", "description", "length", *_ASSEMBLY_ATTRIBUTES})
_VERSION = re.compile(r"v([0-9]{1,4})\.([0-9]{1,4})")
_STRUCTURED = frozenset({"INFO", "FILTER", "contig"})
# At most 18 digits, because int() refuses thousands of them.
_LENGTH = re.compile(r"[0-9]{1,18}")


class InfoField(NamedTuple):
    """One ``##INFO`` declaration: ``Number``, ``Type`` and ``Description`` as written."""

    number: str
    type: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class VcfHeader:
    """The declarations of a VCF header.

    Attributes
    ----------
    version, file_date
        VCF version, such as ``v4.2``, empty if not stated; ``##fileDate``, None if it is missing or not a date.
    info
        INFO fields by identifier.
    contigs
        Length in bp by contig name; None if not stated.
    samples
        Names of the sample columns.
    assemblies
        What contigs state of their assembly: contig name, and attribute with value, such as ``assembly=b37``.
    lines
        Key and value of every other line (``##reference=...``).
    """

    version: str
    info: Mapping[str, InfoField]
    contigs: Mapping[str, int | None]
    file_date: date | None
    samples: tuple[str, ...]
    assemblies: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, str], ...]

    @property
    def percent_encoded(self) -> bool:
        """Whether INFO values encode reserved characters as ``%3B`` and the like (from VCF 4.3 on, section 1.2)."""
        match = _VERSION.match(self.version)
        return match is not None and (int(match[1]), int(match[2])) >= (4, 3)


def parse_header(meta: list[str], samples: tuple[str, ...]) -> VcfHeader:
    """Parse ``##`` lines without line ends; of several declarations of an identifier the first counts, as in htslib."""
    info: dict[str, InfoField] = {}
    contigs: dict[str, int | None] = {}
    assemblies: list[tuple[str, str]] = []
    lines: list[tuple[str, str]] = []
    for text in meta:
        kind, _, value = text[2:].partition("=")
        if kind not in _STRUCTURED or not value.startswith("<"):
            lines.append((kind, value))
            continue
        found = (match.groups() for match in _ATTRIBUTE.finditer(value.removesuffix(">")))
        attributes = {key: part.strip('"') for key, part in found if key.lower() in _READ_ATTRIBUTES}
        name = attributes.get("ID", "")
        if kind == "INFO":
            number, type_ = attributes.get("Number", "."), attributes.get("Type", "String")
            info.setdefault(name, InfoField(number, type_, attributes.get("Description", "")))
        elif kind == "contig":
            length = attributes.get("length", "")
            if name not in contigs:
                stated = (f"{key}={part}" for key, part in attributes.items() if key.lower() in _ASSEMBLY_ATTRIBUTES)
                assemblies += ((name, text) for text in stated)
            contigs.setdefault(name, int(length) if _LENGTH.fullmatch(length) else None)
    plain = dict(reversed(lines))
    version = plain.get("fileformat", "").removeprefix("VCF")
    file_date = parse_file_date(plain.get("fileDate", ""))
    return VcfHeader(version, info, contigs, file_date, samples, tuple(assemblies), tuple(lines))


def parse_file_date(text: str) -> date | None:
    """Return ``##fileDate`` as a date; None unless it is an ISO 8601 date (``2026-02-26`` or ``20260226``)."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
