"""Compare the sample names of heteroplasmy VCFs with the names of genomes.

Not here: reading either (``heteroplasmy``, ``genomes``).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

from genolewm_assets.errors import InputError

#: Names among which a similar one is searched; the time of a search is proportional to it.
_SEARCHED = 5_000
_SHOWN = 3


def closest_name(name: str, names: Collection[str]) -> str | None:
    """Return the longest of some names that a name contains or is contained in, else the most similar one.

    Examples
    --------
    >>> closest_name("HG01119.final", ["HG0111", "HG01119", "NA12878"])
    'HG01119'
    """
    if nested := [each for each in names if each and (each in name or name in each)]:
        return max(nested, key=len)
    return next(iter(difflib.get_close_matches(name, islice(names, _SEARCHED), 1)), None)


def show_names(names: Iterable[str]) -> str:
    """Return the first names, for a message."""
    first = list(islice(names, _SHOWN + 1))
    return ", ".join(map(repr, first[:_SHOWN])) + (", ..." if len(first) > _SHOWN else "") or "none"


def find_strangers(where: str, samples: Collection[str], names: Collection[str]) -> InputError | None:
    """Return an error about the samples of a file whose names are not among the names of genomes; None if all are."""
    strangers = [sample for sample in samples if sample not in names]
    if not strangers:
        return None
    closest = closest_name(strangers[0], names)
    return InputError(
        where,
        f"{len(strangers):,} of {len(samples):,} samples have no genome of their name",
        expected=f"names of genomes, such as {show_names(names)}",
        got=f"{show_names(strangers)}" + (f"; closest to the first is {closest!r}" if closest else ""),
        remedy="Rename the samples (bcftools reheader -s) or the genomes, or leave the samples out",
    )
