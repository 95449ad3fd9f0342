"""The data model of a kit: a panel has loci, a locus has bins."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from genolewm_assets.errors import PanelError
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import find_misspelt

#: Channel by the colour that panel files name.
CHANNELS = {"blue": 1, "green": 2, "yellow": 3, "red": 4, "orange": 5, "purple": 6}
_MAX_SIZE_BP = 10_000
#: Alleles of amelogenin, where a file names them by number.
_AMELOGENIN = {"1": "X", "2": "Y"}


@dataclass(frozen=True, slots=True)
class Bin:
    """Where one allele is expected."""

    #: Name, such as ``9.3``.
    allele: str
    size_bp: float
    #: ``left_bp``, ``right_bp``: how far below and above its size a peak may be.
    left_bp: float
    right_bp: float
    #: Whether the kit's allelic ladder has the allele; otherwise the bin is virtual.
    in_ladder: bool


@dataclass(frozen=True, slots=True)
class Locus:
    """One marker."""

    #: Name, such as ``D3S1358``.
    name: str
    #: Channel of its dye in the instrument's files, from 1.
    channel: int
    #: ``start_bp``, ``end_bp``, ``repeat_bp``: range of sizes that belong to the locus, and length of its repeat unit.
    start_bp: float
    end_bp: float
    repeat_bp: int
    #: Bins in order of their sizes; at least one allele is in the ladder.
    bins: tuple[Bin, ...]
    #: Alleles of the maker's positive control; empty if the file does not name them.
    control: tuple[str, ...] = ()

    @property
    def ladder(self) -> tuple[Bin, ...]:
        """Bins of the alleles that the ladder has."""
        return tuple(each for each in self.bins if each.in_ladder)


@dataclass(frozen=True, slots=True)
class Panel:
    """The loci of a kit, with name and order of its file."""

    name: str
    loci: tuple[Locus, ...]

    def __repr__(self) -> str:
        return f"Panel({self.name!r}, {len(self.loci)} loci)"

    def locus(self, name: str) -> Locus:
        """Return a locus by name; raise PanelError if the panel lacks it."""
        for each in self.loci:
            if each.name == name:
                return each
        raise PanelError(f"panel {self.name!r}", "no such locus", expected="a locus of the kit", got=repr(name))

    def as_json(self, decimals: int | None = None) -> JsonValue:
        """Return the panel as JSON values, places rounded to some decimals; :meth:`from_json` reads them."""

        def rounded(size: float) -> float:
            return size if decimals is None else round(size, decimals)

        loci: list[JsonValue] = [
            {
                "name": locus.name,
                "channel": locus.channel,
                "start_bp": rounded(locus.start_bp),
                "end_bp": rounded(locus.end_bp),
                "repeat_bp": locus.repeat_bp,
                "control": list(locus.control),
                "bins": [[b.allele, rounded(b.size_bp), b.left_bp, b.right_bp, b.in_ladder] for b in locus.bins],
            }
            for locus in self.loci
        ]
        return {"name": self.name, "loci": loci}

    @classmethod
    def from_json(cls, value: JsonValue) -> Panel:
        """Return the panel that :meth:`as_json` wrote."""
        document = cast("dict[str, Any]", value)
        loci = [
            Locus(**{**each, "bins": tuple(Bin(*cells) for cells in each["bins"]), "control": tuple(each["control"])})
            for each in document["loci"]
        ]
        return cls(document["name"], tuple(loci))


def make_locus(
    name: str,
    channel: int,
    span: tuple[float, float],
    repeat_bp: int,
    bins: list[Bin],
    *,
    control: tuple[str, ...] = (),
    where: str,
) -> Locus:
    """Return a locus with bins in order; PanelError if its range, repeat, bins or ladder cannot be used."""
    label = f"{where} locus {name!r}"
    if is_amelogenin(name):
        bins = [replace(each, allele=_AMELOGENIN.get(each.allele, each.allele)) for each in bins]
    if not 0 < span[0] < span[1] <= _MAX_SIZE_BP:
        raise PanelError(label, "its range is none", expected="start below end", got=f"{span[0]} to {span[1]}")
    if not 1 <= repeat_bp <= 100:
        raise PanelError(label, "its repeat is none", expected="1 to 100 bp", got=str(repeat_bp))
    names = [each.allele for each in bins]
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise PanelError(label, "bins appear twice", got=", ".join(twice[:10]))
    for each in bins:
        numbers = (each.size_bp, each.left_bp, each.right_bp)
        if not all(map(math.isfinite, numbers)) or min(numbers) < 0 or each.size_bp > _MAX_SIZE_BP:
            raise PanelError(label, "a bin has no size", expected=f"0 to {_MAX_SIZE_BP} bp", got=str(each.size_bp))
    if not any(each.in_ladder for each in bins):
        raise PanelError(label, "it has no ladder alleles", expected="at least one")
    ordered = tuple(sorted(bins, key=lambda each: each.size_bp))
    return Locus(name, channel, span[0], span[1], repeat_bp, ordered, control)


def is_amelogenin(name: str) -> bool:
    """Tell whether a locus is amelogenin, which has no repeats."""
    return name.upper().startswith("AMEL")


def number(text: str, where: str, what: str) -> float:
    """Return a finite number, or raise PanelError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise PanelError(where, f"{what} is no number", expected="a number", got=repr(text[:40]))
    return value


def whole(text: str, where: str, what: str) -> int:
    """Return a whole number, or raise PanelError."""
    value = number(text, where, what)
    if not value.is_integer():
        raise PanelError(where, f"{what} is no whole number", expected="a whole number", got=repr(text[:40]))
    return int(value)


def check_words(words: Iterable[str], known: str, where: str) -> None:
    """Raise PanelError if a word that may be missing is misspelt, because it would be read as missing."""
    for word, near in find_misspelt(words, (known,)).items():
        raise PanelError(where, "a word is misspelt", expected=repr(near), got=repr(word[:40]), remedy="Correct it")
