"""Fields of gnomAD's releases that differ or are read, after ``gnomad_qc`` (``v2/variant_qc``, ``v3`` and
``v4/create_release``) and ``gnomad_methods`` (``gnomad/utils/vcf.py``), which wrote the headers.
"""

from __future__ import annotations

_V2_GROUPS = ("afr", "amr", "asj", "eas", "fin", "nfe", "oth", "sas")
_V3_GROUPS = ("afr", "ami", "amr", "asj", "eas", "fin", "mid", "nfe", "oth", "sas")
_V4_EXOMES = ("afr", "amr", "asj", "eas", "fin", "mid", "nfe", "remaining", "sas")
_V4_GENOMES = ("afr", "ami", *_V4_EXOMES[1:])


def _counts(*words: str, join: str = "_") -> list[str]:
    kinds = (("AC", "A", "Integer"), ("AN", "1", "Integer"), ("AF", "A", "Float"), ("nhomalt", "A", "Integer"))
    return [f"{join.join((name, *words))}:{number}:{kind}" for name, number, kind in kinds]


def _set(groups: tuple[str, ...], sexes: tuple[str, str], *, kind: str = "", join: str = "_") -> list[str]:
    prefix = [kind] if kind else []
    parts: list[list[str]] = [[], *([each] for each in (*groups, *sexes)), [groups[0], sexes[0]], ["raw"]]
    return [item for part in parts for item in _counts(*prefix, *part, join=join)]


def _max(word: str, *, kind: str = "") -> list[str]:
    suffix = f"_{kind}" if kind else ""
    return [f"{word}{suffix}:A:String", *(item.replace(":1:", ":A:") for item in _counts(word + suffix))]


def _subset(prefix: str, group: str) -> list[str]:
    """Return fields of a subset in v2.1.1, which puts its name first: ``controls_AC_afr``, ``controls_AF_popmax``."""
    return [f"{prefix}_{item}" for item in (*_counts(), *_counts(group), *_max("popmax"))]


_FLAGS = ["lcr:0:Flag", "segdup:0:Flag"]
_CAPTURE_FLAGS = ["fail_interval_qc:0:Flag", "outside_ukb_capture_region:0:Flag", "outside_broad_capture_region:0:Flag"]
_NOISE = ["vep:.:String", "variant_type:1:String", "faf95:A:Float", "faf95_afr:A:Float", "DP:1:Integer"]

HEADERS: dict[str, list[str]] = {
    "v2.1.1 exomes": [
        *_set(_V2_GROUPS, ("female", "male")),
        *_counts("nfe", "seu"),
        *_subset("controls", "afr"),
        *_subset("non_cancer", "afr"),
        *_max("popmax"),
        *_FLAGS,
        "decoy:0:Flag",
        "nonpar:0:Flag",
        *_NOISE,
    ],
    "v2.1.1 genomes": [
        *_set(_V2_GROUPS[:-1], ("female", "male")),
        *_subset("controls", "afr"),
        *_max("popmax"),
        *_FLAGS,
        "decoy:0:Flag",
        "nonpar:0:Flag",
        *_NOISE,
    ],
    "v3.0 genomes": [
        *_set(tuple(g for g in _V3_GROUPS if g != "mid"), ("female", "male")),
        "lcr:0:Flag",
        "non_par:0:Flag",
        *_NOISE,
    ],
    "v3.1 genomes": [
        *_set(_V3_GROUPS, ("XX", "XY"), join="-"),
        *_counts("controls_and_biobanks", "afr", join="-"),
        *_max("popmax"),
        *_FLAGS,
        "nonpar:0:Flag",
        *_NOISE,
    ],
    "v3.1.2 genomes": [
        *_set(_V3_GROUPS, ("XX", "XY")),
        *_counts("controls_and_biobanks", "afr"),
        *_max("popmax"),
        *_FLAGS,
        "nonpar:0:Flag",
        *_NOISE,
    ],
    "v4.0 exomes": [
        *_set(_V4_EXOMES, ("XX", "XY")),
        *_counts("non_ukb", "afr"),
        *_set(_V4_GENOMES, ("XX", "XY"), kind="joint"),
        *_max("grpmax"),
        *_max("grpmax", kind="non_ukb"),
        *_max("grpmax", kind="joint"),
        *_FLAGS,
        "non_par:0:Flag",
        *_CAPTURE_FLAGS,
        *_NOISE,
    ],
    "v4.0 genomes": [
        *_set(_V4_GENOMES, ("XX", "XY")),
        *_set(_V4_GENOMES, ("XX", "XY"), kind="joint"),
        *_max("grpmax"),
        *_max("grpmax", kind="joint"),
        *_FLAGS,
        "non_par:0:Flag",
        *_NOISE,
    ],
    "v4.1 exomes": [
        *_set(_V4_EXOMES, ("XX", "XY")),
        *_counts("non_ukb", "afr"),
        *_max("grpmax"),
        *_max("grpmax", kind="non_ukb"),
        *_FLAGS,
        "non_par:0:Flag",
        *_CAPTURE_FLAGS,
        *_NOISE,
    ],
    "v4.1 genomes": [*_set(_V4_GENOMES, ("XX", "XY")), *_max("grpmax"), *_FLAGS, "non_par:0:Flag", *_NOISE],
    "v4.1 joint": [
        *(
            item
            for kind, groups in (("joint", _V4_GENOMES), ("exomes", _V4_EXOMES), ("genomes", _V4_GENOMES))
            for item in (*_set(groups, ("XX", "XY"), kind=kind), *_max("grpmax", kind=kind))
        ),
        *_CAPTURE_FLAGS,
        "outside_ukb_calling_region:0:Flag",
        "outside_broad_calling_region:0:Flag",
        "not_called_in_exomes:0:Flag",
        "not_called_in_genomes:0:Flag",
        "exomes_filters:.:String",
        "genomes_filters:.:String",
        "fafmax_faf95_max_joint:A:Float",
    ],
}
