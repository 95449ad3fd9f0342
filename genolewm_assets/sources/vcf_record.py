"""One data line of a VCF: INFO looked up on demand, numbers in full precision, errors that name the line."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple, NoReturn

from genolewm_assets.errors import VcfError

_REMEDY = "Fetch the file again or report it to its publisher"
# VCF 4.3, section 1.3; "1." is read too. Python's float() would take blanks and underscores as well.
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(inf|infinity|nan)", re.IGNORECASE)


class VcfInfo:
    """INFO column of one record, searched on demand; ``.`` counts as absent.

    Parameters
    ----------
    text
        The column as it is written.
    source, line
        Where it stands, for messages.
    """

    __slots__ = ("_line", "_source", "_text")

    def __init__(self, text: str, source: str = "INFO", line: int = 0) -> None:
        self._text, self._source, self._line = f";{text};", source, line

    def get(self, key: str) -> str | None:
        """Return the text of a value, or None where the key is absent, a flag, or ``.``.

        Raises
        ------
        VcfError
            If the key is there twice.
        """
        text, mark = self._text, f";{key}="
        at = text.find(mark)
        if at < 0:
            return None
        if text.find(mark, at + 1) >= 0:
            self._repeated(key)
        at += len(mark)
        value = text[at : text.index(";", at)]
        return None if value in {".", ""} else value

    def values(self) -> dict[str, str]:
        """Return every value that is there, by key: cheaper than ``get`` where most of a short INFO is wanted.

        Raises
        ------
        VcfError
            If a key is there twice.
        """
        items = [item.partition("=") for item in self._text.split(";") if item]
        values = {key: value for key, _, value in items}
        if len(values) < len(items):
            ((key, _),) = Counter(key for key, _, _ in items).most_common(1)
            self._repeated(key)
        return {key: value for key, value in values.items() if value not in {".", ""}}

    def __contains__(self, key: object) -> bool:
        return f";{key};" in self._text or f";{key}=" in self._text

    def _repeated(self, key: str) -> NoReturn:
        # VCF 4.3, section 1.6.1: a key may not be there twice; nothing says which of its values would count.
        raise VcfError(f"{self._source}, line {self._line}", f"INFO/{key} is there twice", remedy=_REMEDY)


class VcfRecord(NamedTuple):
    """One data line; ``line`` is 1-based in the decompressed file, ``pos`` 1-based, alleles as written.

    ``filters`` is ``("PASS",)``, the failed filters, or ``()`` for ``.``; ``alts`` without an allele is ``(".",)``.
    """

    source: str
    line: int
    chrom: str
    pos: int
    id: str | None
    ref: str
    alts: tuple[str, ...]
    filters: tuple[str, ...]
    info: VcfInfo

    @property
    def where(self) -> str:
        """File and line, as errors name them."""
        return f"{self.source}, line {self.line}"

    def allele_text(self, key: str, index: int) -> str | None:
        """Return the part of a ``Number=A`` value that belongs to ``alts[index]``, None where it is missing."""
        value = self.info.get(key)
        if value is None:
            return None
        if len(self.alts) == 1 and "," not in value:
            return value
        parts = value.split(",")
        if len(parts) != len(self.alts):
            raise VcfError(
                self.where,
                f"INFO/{key} does not have one value per ALT allele",
                expected=f"{len(self.alts)} values",
                got=repr(value),
                remedy=_REMEDY,
            )
        return None if parts[index] == "." else parts[index]

    def allele_int(self, key: str, index: int) -> int | None:
        """Return a ``Number=A`` count of ``alts[index]``."""
        return self._integer(key, self.allele_text(key, index))

    def allele_share(self, key: str, index: int) -> float | None:
        """Return a ``Number=A`` frequency of ``alts[index]``, 0 to 1; ``nan`` counts as missing."""
        return self._share(key, self.allele_text(key, index))

    def site_int(self, key: str) -> int | None:
        """Return a ``Number=1`` count of the record."""
        return self._integer(key, self.info.get(key))

    def parse_share(self, key: str, text: str) -> float | None:
        """Return one number of a packed value as a share, 0 to 1."""
        return self._share(key, None if text in {".", ""} else text)

    def _integer(self, key: str, text: str | None) -> int | None:
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            self._bad_number(key, text, "a count")
        return int(text)

    def _share(self, key: str, text: str | None) -> float | None:
        if text is None:
            return None
        if not _NUMBER.fullmatch(text):
            self._bad_number(key, text, "a number from 0 to 1")
        value = float(text)
        if math.isnan(value):
            return None
        if not 0.0 <= value <= 1.0:
            self._bad_number(key, text, "a number from 0 to 1")
        return value

    def _bad_number(self, key: str, text: str, expected: str) -> NoReturn:
        raise VcfError(
            self.where,
            f"INFO/{key} cannot be read",
            expected=expected,
            got=repr(text),
            remedy=_REMEDY,
        )
