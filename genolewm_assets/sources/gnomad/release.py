"""Read which gnomAD release a file is of, from its header: ``##source``, or the names of its INFO fields.

Two versions agree if one begins with the other: ``3.1`` agrees with ``3.1.2``, ``4`` with ``4.1``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from genolewm_assets.errors import InputError, VcfError
from genolewm_assets.sources.vcf import LocalVcf, VcfHeader, VcfScanner

_VERSION = r"[vr]?([0-9]{1,2}(?:\.[0-9]{1,3}){1,2})(?![0-9])"
# "##gnomAD_version=4.1", but not "##gnomAD_file_used_for_annotation=...": other files name what annotated them.
_OWN_LINE = re.compile(rf"gnomad(?:[ _.-]*(?:version|release))?=\W*(?:gnomad\W*)?{_VERSION}", re.IGNORECASE)
_SOURCE_LINE = re.compile(rf"gnomad(?:[ _.-]+(?:exomes|genomes|joint))?[ _.-]+{_VERSION}", re.IGNORECASE)
_SOURCE_KEYS = frozenset({"source", "note"})
_DECLARED = re.compile(r"[vr]?([0-9]{1,2}(?:\.[0-9]{1,3}){0,2})(?![0-9])", re.IGNORECASE)


class _Sign(NamedTuple):
    """What some INFO fields say: the versions that have them, and the release, if only one has exactly these."""

    fields: tuple[str, ...]
    versions: tuple[str, ...]
    release: str | None = None


# In this order: the first sign whose fields are all declared counts. Sources: see the module ``layouts``.
_SIGNS = (
    _Sign(("AF_hom", "max_hl"), ("3.1",), "3.1"),
    _Sign(("AF", "AF_joint"), ("4.0",), "4.0"),
    _Sign(("AF_joint",), ("4.1",), "4.1"),
    # v4.0 has AF_joint too; a file of it from which those fields were removed is not refused as 4.0.
    _Sign(("AF", "grpmax"), ("4",), "4.1"),
    _Sign(("AF_remaining", "AF_mid"), ("4",)),
    _Sign(("AF-XY",), ("3.1",), "3.1"),
    _Sign(("AF_XY", "popmax"), ("3.1",)),
    _Sign(("AF_ami", "AF_male"), ("3.0",), "3.0"),
    _Sign(("AF_ami", "AF_oth"), ("3",)),
    _Sign(("AF_male", "popmax"), ("2.1",)),
    _Sign(("popmax",), ("2.1", "3.1")),
)


class _Statement(NamedTuple):
    """Versions that a part of the header allows, and how a message names that part."""

    versions: tuple[str, ...]
    how: str


def read_gnomad_release(vcf: Path) -> str:
    """Return the release of a gnomAD VCF, such as ``4.1``, from its header.

    Raises
    ------
    InputError, VcfError
        If the header states no release, or several; if the file is not a VCF.
    """
    with VcfScanner(LocalVcf(vcf), threads=1) as scanner:
        stated = _stated(scanner.header)
        sign = _sign(scanner.header)
    releases = {_without_zero(version) for version in stated.values()}
    if not releases and sign is not None and sign.release is not None:
        releases = {sign.release}
    if len(releases) != 1:
        found = sorted(releases) or (sign.versions if sign is not None else ())
        raise InputError(
            "--release",
            f"is required: {vcf} does not state which gnomAD release it is",
            expected="a release, such as --release 2.1.1",
            got=f"only that it is of {' or '.join(found)}" if found else "neither a version nor fields of one release",
        )
    (release,) = releases
    return release


def check_gnomad_release(header: VcfHeader, release: str, *, where: str) -> None:
    """Raise :class:`VcfError` if the header contradicts a declared release; ``where`` is the file's name in errors.

    A release that does not begin with a version, such as ``mine``, is contradicted by nothing.
    """
    declared = _DECLARED.match(release)
    if declared is None:
        return
    sign = _sign(header)
    statements = [_Statement((version,), f"stated in ##{key}") for key, version in _stated(header).items()]
    if sign is not None:
        statements.append(_Statement(sign.versions, f"which has the INFO fields {', '.join(sign.fields)}"))
    for statement in statements:
        if not any(_agree(declared[1], version) for version in statement.versions):
            raise VcfError(
                where,
                "the file is of another gnomAD release",
                expected=f"{release!r}, as declared",
                got=f"{' or '.join(statement.versions)}, {statement.how}",
                remedy="Declare the release of this file (--release; in a catalogue gnomad.sources.<contig>.release)",
            )


def _stated(header: VcfHeader) -> Mapping[str, str]:
    """Return the versions that lines of the header state, by the key of the line."""
    found: dict[str, str] = {}
    for key, value in header.lines:
        match = _OWN_LINE.match(f"{key}={value}")
        if match is None and key in _SOURCE_KEYS:
            match = _SOURCE_LINE.search(value)
        if match is not None:
            found.setdefault(key, match[1])
    return found


def _sign(header: VcfHeader) -> _Sign | None:
    """Return the first sign that the declared INFO fields show; None if they show none."""
    return next((sign for sign in _SIGNS if all(field in header.info for field in sign.fields)), None)


def _agree(first: str, second: str) -> bool:
    """Return whether one of two versions begins with the other; ``4.1.0`` is ``4.1``."""
    pairs = zip(_without_zero(first).split("."), _without_zero(second).split("."), strict=False)
    return all(one == other for one, other in pairs)


def _without_zero(version: str) -> str:
    return re.sub(r"^([0-9]+\.[0-9]+)\.0+$", r"\1", version)
