"""Search for labels that the ClinVar VCF does not have, or not yet at T0."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from genolewm_assets.audit.reading.package_files import TEST, TRAIN, VALIDATION, PackageFiles
from genolewm_assets.audit.report import Found, LeakKind, SearchResult
from genolewm_assets.errors import VcfError, counted

_CLASSES = {
    "pathogenic": "P",
    "likely_pathogenic": "LP",
    "uncertain_significance": "VUS",
    "likely_benign": "LB",
    "benign": "B",
}
_CONFLICT = "conflicting"
#: Two classes that ClinVar joins to the less certain one.
_JOINED = {frozenset({"P", "LP"}): "LP", frozenset({"B", "LB"}): "LB"}
_SEPARATORS = re.compile(r"[|/,]_?")
_COLUMNS = ("source", "chrom", "pos", "ref", "alt", "label", "clinvar_id")


def class_of(clnsig: str) -> str:
    """Return P, LP, VUS, LB, B or OTHER for a value of CLNSIG.

    Examples
    --------
    >>> [class_of(text) for text in ("Pathogenic/Likely_pathogenic", "Benign|drug_response", "not_provided")]
    ['LP', 'B', 'OTHER']
    """
    terms = [term.lower() for term in _SEPARATORS.split(clnsig)]
    classes = frozenset(_CLASSES[term] for term in terms if term in _CLASSES)
    if any(term.startswith(_CONFLICT) for term in terms) or not classes:
        return "OTHER"
    return next(iter(classes)) if len(classes) == 1 else _JOINED.get(classes, "OTHER")


def read_classes(vcf: Path, wanted: set[int], *, by_allele: bool = False) -> dict[int, str]:
    """Return the class of the wanted VariationIDs, or else AlleleIDs, that a ClinVar VCF has.

    Raises
    ------
    VcfError
        If the file cannot be read, or a line is no record of ClinVar.
    """
    found: dict[int, str] = {}
    at = 0
    try:
        with gzip.open(vcf, "rt") if vcf.suffix in {".gz", ".bgz"} else vcf.open() as lines:
            for line in lines:
                at += 1
                if line.startswith("#"):
                    continue
                fields = line.rstrip("\n").split("\t")
                if not by_allele and int(fields[2]) not in wanted:
                    continue
                info = dict(item.partition("=")[::2] for item in fields[7].split(";"))
                identity = int(info.get("ALLELEID", -1)) if by_allele else int(fields[2])
                if identity in wanted:
                    found[identity] = class_of(info.get("CLNSIG", ""))
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as err:
        raise VcfError(f"{vcf}:{at}", f"cannot be read ({err})", remedy="Name a ClinVar VCF") from err
    return found


def search_labels(files: PackageFiles, clinvar: Path | None, clinvar_t0: Path | None) -> Iterator[SearchResult]:
    """Compare labels with ClinVar: of evaluation and, unless training knows T0 only, of training with the release.

    Parameters
    ----------
    clinvar, clinvar_t0
        VCF of the package's release, and of T0; None: not at hand.
    """
    late = files.knowledge == "T0"
    splits = (VALIDATION, TEST) if late else (TRAIN, VALIDATION, TEST)
    yield _compare(files, splits, clinvar, LeakKind.WRONG_LABEL, f"the VCF of release {files.release}")
    if late:
        yield _compare(files, (TRAIN,), clinvar_t0, LeakKind.LATE_LABEL, "the VCF of T0")


def _compare(files: PackageFiles, splits: tuple[str, ...], vcf: Path | None, kind: LeakKind, name: str) -> SearchResult:
    method = f"labels of {', '.join(splits)} against CLNSIG of {name}, by {files.label_key}"
    if vcf is None:
        return SearchResult(kind, method, {"labels": 0}, Found(), (f"{name} was not given",))
    rows = [(split, row) for split in splits for row in files.variants(split, _COLUMNS) if row["source"] == "clinvar"]
    wanted = {row["clinvar_id"] for _, row in rows if row["clinvar_id"] is not None}
    classes = read_classes(vcf, wanted, by_allele=files.label_key == "AlleleID")
    found, unnamed = Found(), 0
    for split, row in rows:
        published = _published(row, classes)
        if row["label"] is not None and row["clinvar_id"] is None and files.label_key != "VariationID":
            unnamed += 1
        elif row["label"] is not None and row["label"] != published:
            key = f"{row['chrom']}:{row['pos']}:{row['ref']}:{row['alt']}"
            found.add(key, split=split, label=row["label"], published=published, clinvar_id=row["clinvar_id"])
    labelled = sum(row["label"] is not None for _, row in rows)
    absent = "" if labelled else "no allele has a ClinVar label"
    gaps = (f"{counted(unnamed, 'label')} without {files.label_key}",) if unnamed else ()
    return SearchResult(kind, method, {"labels": labelled}, found, gaps, absent=absent)


def _published(row: dict[str, object], classes: Mapping[int, str]) -> str | None:
    identity = row["clinvar_id"]
    return classes.get(int(str(identity))) if identity is not None else None
