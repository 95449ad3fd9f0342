"""Detect the layout of a gnomAD release from its header: the names of its INFO fields, which differ between releases.

The group with the highest frequency is ``popmax`` and the rest ``oth`` before v4, then ``grpmax`` and ``remaining``; XY
samples are ``male`` before v3.1; the first v3.1 joins words with ``-``; the v4.1 joint files add ``_joint``,
``_exomes`` or ``_genomes``. Sources: headers of the released files, and ``broadinstitute/gnomad_qc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from genolewm_assets.errors import VcfError
from genolewm_assets.sources.vcf import VcfHeader
from genolewm_assets.variants import ANCESTRY_GROUPS

#: Key of the sample set that a file describes.
MAIN = "main"

#: Ancestry group names of old releases, lower case, with the name that the shard uses.
GROUP_ALIASES: Mapping[str, str] = {"oth": "remaining"}
#: Alleles of the 76,215 genomes of v4.1.
_GENOME_ALLELES = 152_430
_POPULATION_ORDER = re.compile(r"population order: \[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class FrequencyFields:
    """Names of the INFO fields of one sample set; None if the release has no such field."""

    af: str
    ac: str | None
    an: str | None
    nhomalt: str | None = None
    ac_xy: str | None = None
    grpmax: str | None = None
    af_grpmax: str | None = None
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegionFlags:
    """Names of the INFO flags of a site; None if the release has no such flag, and its value is then unknown."""

    lcr: str | None = None
    segdup: str | None = None
    non_par: str | None = None
    not_called_in_exomes: str | None = None
    not_called_in_genomes: str | None = None


@dataclass(frozen=True, slots=True)
class GnomadLayout:
    """Fields of one gnomAD release."""

    name: str
    main: FrequencyFields
    #: Joint files only: fields of the data type that passes, by the FILTER text that names the other one.
    passing: Mapping[str, FrequencyFields] = field(default_factory=dict)
    flags: RegionFlags = RegionFlags()
    #: Joint files only: field of the AN of each assay, by the column of a spooled allele.
    assays: Mapping[str, str] = field(default_factory=dict)
    #: Joint files only: largest AN of an autosomal site that only the genomes have.
    genome_alleles: int | None = None
    #: chrM only: ancestry groups in the order of the ``|``-separated values of ``pop_AF_hom``.
    packed_groups: tuple[str, ...] = ()
    #: Whether AC and AF count homoplasmic carriers.
    mitochondrial: bool = False

    @property
    def sample_sets(self) -> Mapping[str, FrequencyFields]:
        """Fields of every sample set whose frequencies a record may have, by its key."""
        return {MAIN: self.main, **self.passing}


def detect_layout(header: VcfHeader, *, where: str) -> GnomadLayout:
    """Return the layout of a file, from the INFO fields that its header declares; ``where`` is its name in errors.

    Raises
    ------
    VcfError
        If no layout fits; the message names the expected fields.
    """
    declared = header.info
    if "AF_hom" in declared:
        return _mitochondrial(header)
    if "AS_FilterStatus" in declared:
        raise VcfError(
            where,
            "gnomAD r2.0 states its filters per allele in AS_FilterStatus, which is not supported",
            expected="gnomAD r2.1.1 or newer",
            remedy="Use a newer release",
        )
    # AF before AF_joint: the exome and genome files of v4.0 declare both and describe the samples of AF.
    if "AF" in declared:
        return GnomadLayout(_release(declared), _fields(declared, ""), flags=_flags(declared))
    if "AF_joint" in declared:
        passing = {"EXOMES_FILTERED": "genomes", "GENOMES_FILTERED": "exomes"}
        rescue = {name: _fields(declared, kind) for name, kind in passing.items() if f"AF_{kind}" in declared}
        assays = {f"an_{kind}": f"AN_{kind}" for kind in ("exomes", "genomes") if f"AN_{kind}" in declared}
        return GnomadLayout("v4.1 joint", _fields(declared, "joint"), rescue, _flags(declared), assays, _GENOME_ALLELES)
    raise VcfError(
        where,
        "the header declares no allele frequency of a known gnomAD layout",
        expected="INFO fields AF (exomes, genomes), AF_joint (v4.1 joint) or AF_hom (chrM)",
        got=", ".join(sorted(declared)[:12]) or "no INFO fields",
        remedy="Use a gnomAD sites VCF",
    )


def canonical_group(name: str) -> str:
    """Return the name of an ancestry group in the shard: lower case, ``remaining`` for ``oth``."""
    lower = name.lower()
    return GROUP_ALIASES.get(lower, lower)


def _fields(declared: Iterable[str], kind: str) -> FrequencyFields:
    """Return the declared fields of a sample set; ``kind`` is ``joint``, ``exomes``, ``genomes`` or empty."""
    names = set(declared)

    def first(*words: str) -> str | None:
        spellings = (separator.join(filter(None, words)) for separator in "_-")
        return next((name for name in spellings if name in names), None)

    groups: dict[str, str] = {}
    for group in (*ANCESTRY_GROUPS, *GROUP_ALIASES):
        name = first("AF", kind, group)
        if name is not None:
            groups.setdefault(canonical_group(group), name)
    return FrequencyFields(
        af=first("AF", kind) or "AF",
        ac=first("AC", kind),
        an=first("AN", kind),
        nhomalt=first("nhomalt", kind),
        ac_xy=first("AC", kind, "XY") or first("AC", kind, "male"),
        grpmax=first("grpmax", kind) or first("popmax", kind),
        af_grpmax=first("AF", "grpmax", kind) or first("AF", "popmax", kind),
        groups=groups,
    )


def _flags(declared: Iterable[str]) -> RegionFlags:
    names = set(declared)
    spellings = {each.name: (each.name,) for each in fields(RegionFlags)} | {"non_par": ("non_par", "nonpar")}
    return RegionFlags(
        **{flag: next((name for name in known if name in names), None) for flag, known in spellings.items()}
    )


def _release(declared: Mapping[str, object]) -> str:
    """Return the release family of a file with unsuffixed fields; ``AF only`` if no family is recognised."""
    signs = (
        ("v4.0", ("AF_joint",)),
        ("v4", ("grpmax",)),
        ("v4", ("AF_remaining", "AF_mid")),
        ("v3.1", ("AF_XY",)),
        ("v3.1", ("AF-XY",)),
        ("v3.0", ("AF_ami",)),
        ("v2.1", ("popmax",)),
    )
    return next((name for name, fields in signs if all(sign in declared for sign in fields)), "AF only")


def _mitochondrial(header: VcfHeader) -> GnomadLayout:
    declared = header.info
    order = _POPULATION_ORDER.search(declared["pop_AF_hom"].description) if "pop_AF_hom" in declared else None
    groups = [canonical_group(name.strip(" '\"")) for name in order.group(1).split(",")] if order else []
    ac, an = (name if name in declared else None for name in ("AC_hom", "AN"))
    homoplasmic = FrequencyFields("AF_hom", ac, an)
    return GnomadLayout("chrM", homoplasmic, packed_groups=tuple(groups), mitochondrial=True)
