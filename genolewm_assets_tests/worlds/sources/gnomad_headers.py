"""Fields of gnomAD's releases that differ or are read, after ``gnomad_qc`` (``v2/variant_qc``, ``v3`` and
``v4/create_release``) and ``gnomad_methods`` (``gnomad/utils/vcf.py``), which wrote the headers.
"""

from __future__ import annotations

_V2_GROUPS = ("afr", "amr", "asj", "eas", "fin", "nfe", "oth", "sas")
_V3_GROUPS = ("afr", "ami", "amr", "asj", "eas", "fin", "mid", "nfe", "oth", "sas")
_V30_GROUPS = tuple(group for group in _V3_GROUPS if group != "mid")
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


_SEXES, _OLD_SEXES = ("XX", "XY"), ("female", "male")
_FLAGS = ["lcr:0:Flag", "segdup:0:Flag"]
_CAPTURE_FLAGS = [f"{name}:0:Flag" for name in ("fail_interval_qc", "outside_ukb_capture_region")]
_CAPTURE_FLAGS += ["outside_broad_capture_region:0:Flag"]
_NOISE = ["vep:.:String", "variant_type:1:String", "faf95:A:Float", "faf95_afr:A:Float", "DP:1:Integer"]
_JOINT_FLAGS = [f"outside_{name}_calling_region:0:Flag" for name in ("ukb", "broad")]
_JOINT_FLAGS += [f"not_called_in_{name}:0:Flag" for name in ("exomes", "genomes")]
_V2 = [*_subset("controls", "afr"), *_max("popmax"), *_FLAGS, "decoy:0:Flag", "nonpar:0:Flag", *_NOISE]
_V31 = [*_max("popmax"), *_FLAGS, "nonpar:0:Flag", *_NOISE]
_V4 = [*_max("grpmax"), *_FLAGS, "non_par:0:Flag", *_NOISE]
_V40 = [*_set(_V4_GENOMES, _SEXES, kind="joint"), *_max("grpmax", kind="joint"), *_V4]
_NON_UKB = [*_counts("non_ukb", "afr"), *_max("grpmax", kind="non_ukb"), *_CAPTURE_FLAGS]
_ASSAYS = {"joint": _V4_GENOMES, "exomes": _V4_EXOMES, "genomes": _V4_GENOMES}

HEADERS: dict[str, list[str]] = {
    "v2.1.1 exomes": [*_set(_V2_GROUPS, _OLD_SEXES), *_counts("nfe", "seu"), *_subset("non_cancer", "afr"), *_V2],
    "v2.1.1 genomes": [*_set(_V2_GROUPS[:-1], _OLD_SEXES), *_V2],
    "v3.0 genomes": [*_set(_V30_GROUPS, _OLD_SEXES), "lcr:0:Flag", "non_par:0:Flag", *_NOISE],
    "v3.1 genomes": [*_set(_V3_GROUPS, _SEXES, join="-"), *_counts("controls_and_biobanks", "afr", join="-"), *_V31],
    "v3.1.2 genomes": [*_set(_V3_GROUPS, _SEXES), *_counts("controls_and_biobanks", "afr"), *_V31],
    "v4.0 exomes": [*_set(_V4_EXOMES, _SEXES), *_NON_UKB, *_V40],
    "v4.0 genomes": [*_set(_V4_GENOMES, _SEXES), *_V40],
    "v4.1 exomes": [*_set(_V4_EXOMES, _SEXES), *_NON_UKB, *_V4],
    "v4.1 genomes": [*_set(_V4_GENOMES, _SEXES), *_V4],
    "v4.1 joint": [
        *(item for kind, groups in _ASSAYS.items() for item in _set(groups, _SEXES, kind=kind)),
        *(item for kind in _ASSAYS for item in _max("grpmax", kind=kind)),
        *(*_CAPTURE_FLAGS, *_JOINT_FLAGS, "exomes_filters:.:String", "genomes_filters:.:String"),
        "fafmax_faf95_max_joint:A:Float",
    ],
}
