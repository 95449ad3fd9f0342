"""Release keys: the one grammar of ``YYYY-MM-DD[.N]``, and the one order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from genolewm_assets.errors import InputError

_KEY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:\.([2-9]|[1-9][0-9]{1,5}))?")


@dataclass(frozen=True, slots=True, order=True)
class ReleaseKey:
    """The key of a release; its text, ``str(key)``, names folders and partitions.

    Attributes
    ----------
    day
        Date of the release's file.
    number
        1 for the first file of a day, which the text leaves out; each further one has the next number, to 999,999.

    Examples
    --------
    >>> ReleaseKey.parse("2026-02-26.9") < ReleaseKey.parse("2026-02-26.10")
    True
    """

    day: date
    number: int = 1

    @classmethod
    def parse(cls, text: str) -> ReleaseKey:
        """Read a key.

        Raises
        ------
        InputError
            If the text is none.
        """
        match = _KEY.fullmatch(text)
        try:
            return cls(date.fromisoformat(match[1] if match else ""), int(match[2] or 1) if match else 1)
        except ValueError as err:
            expected = "an ISO date such as '2026-02-26' or '2026-02-26.2'"
            raise InputError("release", "not a release key", expected=expected, got=repr(text)) from err

    def __str__(self) -> str:
        return f"{self.day}.{self.number}" if self.number > 1 else f"{self.day}"


def is_release_key(text: str) -> bool:
    """Tell whether a text is a release key."""
    try:
        ReleaseKey.parse(text)
    except InputError:
        return False
    return True


def is_before(release: str, other: str) -> bool:
    """Tell whether both texts are release keys, and the first comes before the other."""
    return all(map(is_release_key, (release, other))) and ReleaseKey.parse(release) < ReleaseKey.parse(other)


def in_order(texts: Iterable[str]) -> list[str]:
    """Return those of the texts that are release keys, oldest first."""
    return sorted(filter(is_release_key, texts), key=ReleaseKey.parse)
