"""A VCF read line by line with plain Python: slow, short, and what the scanner's records are compared with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

FIXED = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO"]
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NAMED = {f"{sign}{name}" for sign in ("", "-", "+") for name in ("inf", "infinity", "nan")}
_ENCODED = {"3A": ":", "3B": ";", "3D": "=", "25": "%", "2C": ",", "0D": "\r", "0A": "\n", "09": "\t"}


class BadValueError(Exception):
    """A value that the scanner must refuse."""


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """One data line; ``info`` has the items as written."""

    line: int
    chrom: str
    pos: int
    id: str
    ref: str
    alt: str
    filter: str
    info: tuple[str, ...]
    percent_encoded: bool

    @property
    def alts(self) -> list[str]:
        return self.alt.split(",")

    def has_twice(self, key: str) -> bool:
        return [item.partition("=")[0] for item in self.info].count(key) > 1

    def flag(self, key: str) -> bool:
        return key in [item.partition("=")[0] for item in self.info]

    def value(self, key: str) -> str | None:
        found = dict(item.partition("=")[::2] for item in self.info if item)
        return missing_as_none(found.get(key, ""))

    def own_values(self, key: str) -> list[str | None]:
        value = self.value(key)
        return own_values(value, len(self.alts))

    def text(self, value: str | None) -> str | None:
        """Decode what VCF 4.3 encodes."""
        if value is None or not self.percent_encoded:
            return value
        parts, at = [], 0
        while at < len(value):
            code = value[at + 1 : at + 3].upper() if value[at] == "%" else ""
            parts.append(_ENCODED.get(code, value[at]))
            at += 3 if code in _ENCODED else 1
        return "".join(parts)


def own_values(value: str | None, alts: int) -> list[str | None]:
    if value is None:
        return [None] * alts
    values = value.split(",")
    if len(values) != alts or "" in values:
        raise BadValueError
    return [missing_as_none(each) for each in values]


def missing_as_none(text: str) -> str | None:
    return None if text in {"", "."} else text


def count(text: str | None) -> int | None:
    """Read 1 to 18 digits."""
    if text is None:
        return None
    if len(text) > 18 or not set(text) <= set("0123456789"):
        raise BadValueError
    return int(text)


def share(text: str | None) -> float | None:
    """Read a number from 0 to 1."""
    if text is None:
        return None
    if text.lower() in _NAMED and text.isascii():
        if text[-3:].lower() == "nan":
            return None
        raise BadValueError
    if not _NUMBER.fullmatch(text) or not 0.0 <= float(text) <= 1.0:
        raise BadValueError
    return float(text)


def read_records(data: bytes) -> list[PlainRecord] | None:
    """Return the records of a text, or None if the scanner must refuse it."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    # One carriage return belongs to the line end.
    lines = [line.removesuffix("\r") for line in lines]
    if not lines or not lines[0].startswith("##fileformat=VCF"):
        return None
    first = next((at for at, line in enumerate(lines) if not line.startswith("##")), len(lines))
    if first == len(lines) or lines[first].split("\t")[:8] != FIXED:
        return None
    columns = len(lines[first].split("\t"))
    version = re.match(r"v([0-9]{1,4})\.([0-9]{1,4})", lines[0].removeprefix("##fileformat=VCF"))
    encoded = version is not None and tuple(map(int, version.groups())) >= (4, 3)
    return _data_lines(lines, first + 1, columns, encoded)


def _data_lines(lines: Sequence[str], first: int, columns: int, encoded: bool) -> list[PlainRecord] | None:
    records = []
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line:
            if any(rest.strip("\r") for rest in lines[number:]):
                return None
            break
        parts = line.split("\t")
        filled = all(parts[:8]) and (len(parts) != 9 or parts[8])
        if len(parts) != columns or not filled or line.startswith("#") or not re.fullmatch("[0-9]{1,10}", parts[1]):
            return None
        chrom, pos, id_, ref, alt, _, filter_, info = parts[:8]
        records.append(PlainRecord(number, chrom, int(pos), id_, ref, alt, filter_, tuple(info.split(";")), encoded))
    return records or None
