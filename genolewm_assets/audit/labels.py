"""Search for labels, review stars and alleles that the ClinVar VCF does not have, or not yet at T0."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from genolewm_assets.audit.normal_alleles import Allele, allele_of, normalise_alleles
from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.package_files import TEST, TRAIN, VALIDATION, PackageFiles
from genolewm_assets.audit.reading.reference import Reference
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
_STARS = {
    "practice_guideline": 4,
    "reviewed_by_expert_panel": 3,
    "criteria_provided,_multiple_submitters,_no_conflicts": 2,
    "criteria_provided,_multiple_submitters": 2,
}
_COLUMNS = ("source", "chrom", "pos", "ref", "alt", "label", "stars", "clinvar_id")


class Published(NamedTuple):
    """A record of a ClinVar VCF: its allele as it is written, class, review stars, VariationID and AlleleID."""

    allele: Allele
    label: str
    stars: int
    variation_id: int
    allele_id: int


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


def stars_of(clnrevstat: str) -> int:
    """Return the review stars, 0 to 4, of a value of CLNREVSTAT."""
    return _STARS.get(clnrevstat, int(clnrevstat.startswith("criteria_provided,")))


def read_records(vcf: Path, wanted: Callable[[int, Allele], bool]) -> Iterator[Published]:
    """Yield the records of a ClinVar VCF whose VariationID and allele are wanted."""
    at = 0
    try:
        with gzip.open(vcf, "rt") if vcf.suffix in {".gz", ".bgz"} else vcf.open() as lines:
            for line in lines:
                at += 1
                if line.startswith("#"):
                    continue
                contig, pos, identity, ref, alt, *_, text = line.rstrip("\n").split("\t")
                allele = Allele(canonical_name(contig), int(pos), ref, alt)
                if wanted(int(identity), allele):
                    info = dict(item.partition("=")[::2] for item in text.split(";"))
                    label, stars = class_of(info.get("CLNSIG", "")), stars_of(info.get("CLNREVSTAT", ""))
                    yield Published(allele, label, stars, int(identity), int(info.get("ALLELEID", -1)))
    except (OSError, EOFError, ValueError, zlib.error) as err:
        raise VcfError(f"{vcf}:{at}", f"cannot be read ({err})", remedy="Name a ClinVar VCF") from err


def search_labels(
    files: PackageFiles, reference: Reference, clinvar: Path | None, clinvar_t0: Path | None
) -> Iterator[SearchResult]:
    """Compare labels with ClinVar: of evaluation and, unless training knows T0 only, of training with the release."""
    late = files.knowledge == "T0"
    splits = (VALIDATION, TEST) if late else (TRAIN, VALIDATION, TEST)
    newest = f"the VCF of release {files.release}"
    yield _compare(files, reference, splits, clinvar, kind=LeakKind.WRONG_LABEL, name=newest)
    if late:
        yield _compare(files, reference, (TRAIN,), clinvar_t0, kind=LeakKind.LATE_LABEL, name="the VCF of T0")
    yield _search_stars(files)


def _compare(
    files: PackageFiles, reference: Reference, splits: tuple[str, ...], vcf: Path | None, *, kind: LeakKind, name: str
) -> SearchResult:
    method = f"label, stars and allele of {', '.join(splits)} against {name}, by {files.label_key}"
    if vcf is None:
        return SearchResult(kind, method, {"labels": 0}, Found(), (f"{name} was not given",))
    rows = [
        (split, row)
        for split in splits
        for row in files.variants(split, _COLUMNS)
        if row["source"] == "clinvar" and row["label"] is not None
    ]
    of_variations = files.label_key == "VariationID"
    wanted, published = {row["clinvar_id"] for _, row in rows}, defaultdict[int, list[Published]](list)
    for one in read_records(vcf, lambda identity, _: not of_variations or identity in wanted):
        published[one.variation_id if of_variations else one.allele_id].append(one)
    found, others, unnamed = Found(), list[tuple[str, dict[str, Any], list[Published]]](), 0
    for split, row in rows:
        records = published.get(row["clinvar_id"], [])
        if row["clinvar_id"] is None and not of_variations:
            unnamed += 1
        elif not any(_is_label(row, one, stars=of_variations) for one in records):
            _add(found, split, row, published=", ".join(sorted({f"{one.label} {one.stars}" for one in records})))
        elif allele_of(row) not in {one.allele for one in records}:
            others.append((split, row, records))
    normal = normalise_alleles({a for _, row, ours in others for a in (allele_of(row), *_alleles(ours))}, reference)
    unfit = 0
    for split, row, records in others:
        form = normal[allele_of(row)]
        unfit += form is None
        if form is not None and form not in {normal[allele] for allele in _alleles(records)}:
            _add(found, split, row, published=", ".join(map(str, _alleles(records))))
    gaps = [f"{counted(unnamed, 'label')} without {files.label_key}"] if unnamed else []
    gaps += [f"{counted(unfit, 'labelled allele')} not fitting the FASTA"] if unfit else []
    absent = "" if rows else "no allele has a ClinVar label"
    return SearchResult(kind, method, {"labels": len(rows)}, found, tuple(gaps), absent=absent)


def _search_stars(files: PackageFiles) -> SearchResult:
    least = int(files.record.get("mix", {}).get("min_training_stars", 0))
    found, n = Found(), 0
    for row in files.variants(TRAIN, _COLUMNS) if least else ():
        if row["source"] == "clinvar":
            n += 1
            if (row["stars"] or 0) < least:
                _add(found, TRAIN, row, stars=row["stars"], expected=f"at least {least} stars")
    absent = "" if n else "the package asks for no review stars, or trains with no ClinVar allele"
    return SearchResult(
        LeakKind.FEW_STARS, "review stars of training against packages.min_training_stars", {"labels": n}, found,
        absent=absent,
    )  # fmt: skip


def _is_label(row: dict[str, Any], one: Published, *, stars: bool) -> bool:
    return row["label"] == one.label and (not stars or (row["stars"] or 0) == one.stars)


def _alleles(records: list[Published]) -> list[Allele]:
    return [one.allele for one in records]


def _add(found: Found, split: str, row: dict[str, Any], **shown: object) -> None:
    key = f"{row['chrom']}:{row['pos']}:{row['ref']}:{row['alt']}"
    found.add(key, split=split, label=f"{row['label']} {row['stars']}", clinvar_id=row["clinvar_id"], **shown)
