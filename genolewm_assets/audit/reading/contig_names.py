"""Names of human chromosomes as files spell them, and how many bases GRCh38 has of each."""

from __future__ import annotations

import re

_NAME = re.compile(r"(?:chr)?0?([0-9]{1,2}|x|y|mt?)", re.IGNORECASE)
_CANONICAL = re.compile(r"chr(?:[1-9]|1[0-9]|2[0-2]|X|Y|M)")
_ACCESSION = re.compile(r"nc_0000([0-9]{2})\.[0-9]+", re.IGNORECASE)
# GenBank numbers the chromosomes of GRCh38 from CM000663 on.
_GENBANK, _FIRST_GENBANK = re.compile(r"cm000(6[6-8][0-9])\.[0-9]+", re.IGNORECASE), 662
_MITOCHONDRION, _X, _Y = ("NC_012920.1", "J01415.2"), 23, 24

_LENGTHS = (
    "248956422 242193529 198295559 190214555 181538259 170805979 159345973 145138636 138394717 133797422 135086622 "
    "133275309 114364328 107043718 101991189 90338345 83257441 80373285 58617616 64444167 46709983 50818468 156040895 "
    "57227415"
)
# Bases other than N in the analysis sets (GCA_000001405.15, no_alt), which mask second copies of repeat arrays.
_ASSEMBLED = (
    "230481012 240548228 198100135 189752667 178983193 170078522 158970131 144768136 121790550 133262962 134533742 "
    "133137816 97983125 88518101 84641325 81805943 82920204 80089605 55766397 63944257 38038574 37071985 154893029 "
    "23636355"
)
_BASES_OF_LENGTH = dict(zip(map(int, _LENGTHS.split()), map(int, _ASSEMBLED.split()), strict=True))


def canonical_name(spelling: str) -> str:
    """Return ``chr21`` for ``21``, ``Chr21`` or ``NC_000021.9``; a name that is none of these as it is.

    >>> [canonical_name(name) for name in ("21", "chr21", "NC_000021.9", "MT", "NC_000023.11", "HLA-A")]
    ['chr21', 'chr21', 'chr21', 'chrM', 'chrX', 'HLA-A']
    """
    text = spelling.strip()
    if text.upper() in _MITOCHONDRION:
        return "chrM"
    number = 0
    if found := _ACCESSION.fullmatch(text):
        number = int(found[1])
    elif found := _GENBANK.fullmatch(text):
        number = int(found[1]) - _FIRST_GENBANK
    if 1 <= number <= _Y:
        return {_X: "chrX", _Y: "chrY"}.get(number, f"chr{number}")
    if found := _NAME.fullmatch(text):
        name = found[1].upper()
        return f"chr{'M' if name == 'MT' else name}"
    return text


def is_known(name: str) -> bool:
    """Tell whether a canonical name is that of a human chromosome."""
    return _CANONICAL.fullmatch(name) is not None


def assembled_bases(length: int) -> int | None:
    """Return how many bases GRCh38 has of the chromosome of that length; None for a length of no chromosome."""
    return _BASES_OF_LENGTH.get(length)
