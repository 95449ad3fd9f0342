"""Release keys ``YYYY-MM-DD[.N]``: parsing and order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from genolewm_assets.errors import InputError

_KEY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:\.([2-9]|[1-9][0-9]{1,5}))?")


@dataclass(frozen=True, slots=True, order=True)
class ReleaseKey:
    """Key of a release; its text, ``str(key)``, names folders and partitions.

    Attributes
    ----------
    day, number
        Date of the release's file; 1 for the first file of a day, omitted in the text, up to 999,999 for further ones.

    Examples
    --------
    >>> ReleaseKey.parse("2026-02-26.9") < ReleaseKey.parse("2026-02-26.10")
    True
    """

    day: date
    number: int = 1

    @classmethod
    def parse(cls, text: str) -> ReleaseKey:
        """Parse the text of a key; raises :class:`InputError` if it is none."""
        match = _KEY.fullmatch(text)
        try:
            return cls(date.fromisoformat(match[1] if match else ""), int(match[2] or 1) if match else 1)
        except ValueError as err:
            expected = "an ISO date such as '2026-02-26' or '2026-02-26.2'"
            raise InputError("release", "not a release key", expected=expected, got=repr(text)) from err

    def __str__(self) -> str:
        return f"{self.day}.{self.number}" if self.number > 1 else f"{self.day}"


def is_release_key(text: str) -> bool:
    """Return whether a text is a release key."""
    try:
        ReleaseKey.parse(text)
    except InputError:
        return False
    return True


def is_before(release: str, other: str) -> bool:
    """Return whether both texts are release keys and ``release`` is before ``other``."""
    return all(map(is_release_key, (release, other))) and ReleaseKey.parse(release) < ReleaseKey.parse(other)


def in_order(texts: Iterable[str]) -> list[str]:
    """Return the release keys among the texts, oldest first; other texts are left out."""
    return sorted(filter(is_release_key, texts), key=ReleaseKey.parse)
