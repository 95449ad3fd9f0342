"""The header of a VCF: what it declares of fields, filters and contigs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

#: Names of the columns that every VCF has.
FIXED_COLUMNS = ("#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO")

# A name is looked for only where one may begin: else a line of nothing but letters costs its length squared.
_ATTRIBUTE = re.compile(r'(?<![^=,<>])([^=,<>]+)=("(?:[^"\\]|\\.)*"|[^,]*)')
_VERSION = re.compile(r"v([0-9]{1,4})\.([0-9]{1,4})")
# Python refuses to read thousands of digits.
_LENGTH = re.compile(r"[0-9]{1,18}")


class InfoField(NamedTuple):
    """One ``##INFO`` declaration: ``Number`` and ``Type`` as written, and the description."""

    number: str
    type: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class VcfHeader:
    """What the header declares; ``contigs`` maps a name to its length in bp, None where no length is given."""

    version: str
    info: Mapping[str, InfoField]
    filters: frozenset[str]
    contigs: Mapping[str, int | None]
    file_date: date | None
    samples: tuple[str, ...]

    @property
    def percent_encoded(self) -> bool:
        """Whether values of INFO write reserved characters as ``%3B`` and the like (VCF 4.3, section 1.2)."""
        match = _VERSION.match(self.version)
        return match is not None and (int(match[1]), int(match[2])) >= (4, 3)


def parse_header(meta: list[str], samples: tuple[str, ...]) -> VcfHeader:
    """Parse the ``##`` lines of a VCF header; the first declaration of an identifier counts, as in htslib."""
    info: dict[str, InfoField] = {}
    filters: set[str] = set()
    contigs: dict[str, int | None] = {}
    plain: dict[str, str] = {}
    for text in meta:
        kind, _, value = text[2:].partition("=")
        if not value.startswith("<"):
            plain.setdefault(kind, value)
            continue
        attributes = {key: part.strip('"') for key, part in _ATTRIBUTE.findall(value.removesuffix(">"))}
        name = attributes.get("ID", "")
        if kind == "INFO":
            number, type_ = attributes.get("Number", "."), attributes.get("Type", "String")
            info.setdefault(name, InfoField(number, type_, attributes.get("Description", "")))
        elif kind == "FILTER":
            filters.add(name)
        elif kind == "contig":
            length = attributes.get("length", "")
            contigs.setdefault(name, int(length) if _LENGTH.fullmatch(length) else None)
    version = plain.get("fileformat", "").removeprefix("VCF")
    return VcfHeader(version, info, frozenset(filters), contigs, parse_file_date(plain.get("fileDate", "")), samples)


def parse_file_date(text: str) -> date | None:
    """Return ``##fileDate`` as a date: ``2026-02-26`` or ``20260226``; None for anything else."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
