"""Tell a misspelt name of a column from a column that is simply another one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_NO_LETTER = re.compile(r"[\W_]+")
#: Shortest part of a name that can stand for it, such as ``chr`` for ``chrom``.
_SHORTEST_PART = 3


def find_misspelt(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return the names that are nearly a known name which is missing, each with that name.

    Nearly: equal but for case and for characters that are no letters or digits, one slip of the pen away (a letter more
    or less, another letter, two neighbours exchanged), or the beginning of the other (``chr``, ``chromosome``).

    Examples
    --------
    >>> find_misspelt(["Start", "edn", "strand", "strain"], ("start", "end", "strand"))
    {'Start': 'start', 'edn': 'end'}
    """
    there = list(names)
    missing = {name: _plain(name) for name in known if name not in there}
    pairs = ((name, _nearest(_plain(name), missing)) for name in there if name not in known)
    return {name: near for name, near in pairs if near is not None}


def _plain(name: str) -> str:
    return _NO_LETTER.sub("", name).casefold()


def _nearest(name: str, missing: dict[str, str]) -> str | None:
    for is_near in (str.__eq__, _is_slip, _is_part):
        for known, plain in missing.items():
            if is_near(name, plain):
                return known
    return None


def _is_slip(one: str, other: str) -> bool:
    one, other = _without_shared(one, other)
    one, other = _without_shared(one[::-1], other[::-1])
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def _without_shared(one: str, other: str) -> tuple[str, str]:
    """Return two words without the letters that both begin with."""
    differing = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    shared = next(differing, min(len(one), len(other)))
    return one[shared:], other[shared:]


def _is_part(one: str, other: str) -> bool:
    return min(len(one), len(other)) >= _SHORTEST_PART and (one.startswith(other) or other.startswith(one))
