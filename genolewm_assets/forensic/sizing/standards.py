"""Size standards: the fragments that are run beside every sample."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from genolewm_assets.errors import SizingError
from genolewm_assets.forensic.abif import HidFile

_MIN_FRAGMENTS, _MAX_FRAGMENTS = 5, 100


@dataclass(frozen=True, slots=True)
class SizeStandard:
    """Fragments of a size standard.

    Attributes
    ----------
    name
        Name, for messages.
    sizes_bp
        Lengths of the fragments in base pairs, strictly ascending.

    Raises
    ------
    SizingError
        If there are fewer than 5 or more than 100 fragments, or they do not ascend.
    """

    name: str
    sizes_bp: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes = self.sizes_bp
        ascending = all(low < high for low, high in pairwise(sizes))
        if not (_MIN_FRAGMENTS <= len(sizes) <= _MAX_FRAGMENTS and ascending and all(map(math.isfinite, sizes))):
            raise SizingError(
                f"size standard {self.name!r}",
                "its fragments are unusable",
                expected=f"{_MIN_FRAGMENTS} to {_MAX_FRAGMENTS} sizes in ascending order",
                got=f"{len(sizes)}" + ("" if ascending else ", not ascending"),
            )


_PROMEGA_500 = (60, 65, 80, *range(100, 201, 20), *range(225, 501, 25))
_GENESCAN_500 = (35, 50, 75, 100, 139, 150, 160, 200, 250, 300, 340, 350, 400, 450, 490, 500)
_GENESCAN_600 = tuple(sorted({*range(20, 601, 20), 114, 214, 250, 314, 414, 514}))
#: Fragments as makers publish them, by what the name of the standard holds, whatever stands between.
_PUBLISHED = {
    ("WEN", "500"): _PROMEGA_500,
    ("CC5", "500"): _PROMEGA_500,
    ("ILS", "600"): (60, *range(80, 201, 20), *range(225, 501, 25), 550, 600),
    ("BTO", "550"): (60, 80, 90, *range(100, 241, 20), 250, *range(260, 401, 20), *range(425, 551, 25)),
    ("LIZ", "600"): _GENESCAN_600,
    ("LIZ", "500"): _GENESCAN_500,
    ("ROX", "500"): _GENESCAN_500,
}
#: In a name, ``(60-460)`` keeps the fragments of a range, ``(-250)`` leaves one out.
_RANGE, _LEFT_OUT = re.compile(r"\((\d{1,4})-(\d{1,4})\)"), re.compile(r"\(-(\d{1,4})\)")


def standard_of(run: HidFile) -> SizeStandard:
    """Return the size standard of a run: the fragments that the file states, else the published ones of its name.

    Raises
    ------
    SizingError
        If the file states neither fragments nor a name that is known.
    """
    name = run.run.size_standard
    if run.run.size_standard_sizes_bp:
        return SizeStandard(name, run.run.size_standard_sizes_bp)
    plain = re.sub(r"\([^)]*\)", "", name.upper())
    for words, sizes in _PUBLISHED.items():
        if all(word in plain for word in words):
            return SizeStandard(name, _kept(name, sizes))
    raise SizingError(
        run.where,
        "the size standard is unknown",
        expected=f"the name of one of {', '.join(map(' '.join, sorted(_PUBLISHED)))}",
        got=repr(name),
        remedy="Give its fragments as a SizeStandard",
    )


def _kept(name: str, sizes: Sequence[int]) -> tuple[float, ...]:
    """Return the fragments that a name like ``GS600(60-460)LIZ`` or ``GS500(-250)LIZ`` keeps."""
    spans = _RANGE.findall(name) or [("0", "9999")]
    left_out = set(map(int, _LEFT_OUT.findall(name)))
    low, high = map(int, spans[0])
    return tuple(float(size) for size in sizes if low <= size <= high and size not in left_out)
