"""Changes between the two real releases: the known figures, and every row as pysam finds it in the VCFs themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pysam

EARLIER, LATER, MITOCHONDRIAL = "2020-11-07", "2026-02-26", "2022-05-25"
_CLASSES = {
    "Pathogenic": "P",
    "Likely_pathogenic": "LP",
    "Uncertain_significance": "VUS",
    "Likely_benign": "LB",
    "Benign": "B",
}
_STARS = {"practice_guideline": 4, "reviewed_by_expert_panel": 3, "multiple_submitters,_no_conflicts": 2}
Allele = tuple[str, int, str, str]


class Said(NamedTuple):
    """What a release says of an allele."""

    clinvar_id: int
    clnsig: str | None
    label: str
    stars: int
    genes: str


def read_release(vcf: Path, genome: pysam.FastaFile) -> dict[Allele, Said]:
    """Read a release with pysam alone."""
    found = {}
    with pysam.VariantFile(str(vcf)) as records:
        for record in records:
            (alt,) = record.alts or (".",)
            if set(str(alt)) <= set("ACGT"):
                clnsig, status = (",".join(record.info.get(name, ())) or None for name in ("CLNSIG", "CLNREVSTAT"))
                chrom = f"chr{record.contig.removeprefix('chr').replace('MT', 'M')}"
                allele = left_aligned(genome, chrom, record.pos, str(record.ref), str(alt))
                assert allele not in found
                genes = "|".join(re.findall(r":(\d+)", str(record.info.get("GENEINFO", ""))))
                found[allele] = Said(int(str(record.id)), clnsig, class_of(clnsig), stars_of(status), genes)
    return found


def left_aligned(genome: pysam.FastaFile, chrom: str, pos: int, ref: str, alt: str) -> Allele:
    """Shift and trim one base at a time (Tan, Abecasis and Kang 2015)."""
    while ref[-1] == alt[-1]:
        ref, alt = ref[:-1], alt[:-1]
        if not ref or not alt:
            pos -= 1
            before = genome.fetch(chrom, pos - 1, pos).upper()
            ref, alt = before + ref, before + alt
    while len(ref) > 1 and len(alt) > 1 and ref[0] == alt[0]:
        pos, ref, alt = pos + 1, ref[1:], alt[1:]
    return chrom, pos, ref, alt


def class_of(clnsig: str | None) -> str:
    if clnsig is None or "onflict" in clnsig:
        return "OTHER"
    found = {_CLASSES[term] for term in re.split(r"[/|,]_?", clnsig) if term in _CLASSES}
    if found in ({"P", "LP"}, {"B", "LB"}):
        return "LP" if "LP" in found else "LB"
    return found.pop() if len(found) == 1 else "OTHER"


def stars_of(status: str | None) -> int:
    graded = [stars for words, stars in _STARS.items() if words in (status or "")]
    return graded[0] if graded else int((status or "").startswith("criteria_provided"))


def plain_rows(before: dict[Allele, Said], after: dict[Allele, Said]) -> Iterator[tuple[object, ...]]:
    """Yield allele, both sides and the flags of whatever differs."""
    for allele in before.keys() | after.keys():
        old, new = before.get(allele), after.get(allele)
        if old is None or new is None:
            yield (*allele, "added" if old is None else "removed", old, new, (False,) * 5)
        elif old != new:
            names = ("clnsig", "label", "clinvar_id", "stars", "genes")
            pairs = ((getattr(old, name), getattr(new, name)) for name in names)
            yield (*allele, "changed", old, new, tuple(one != other for one, other in pairs))


def written_rows(root: Path, release: str) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the published table in the same form."""
    for row in pq.read_table(root / f"clinvar/{release}/changes/changes.parquet").to_pylist():
        sides = [
            Said(*(row[f"{name}_{side}"] for name in ("clinvar_id", "clnsig", "label", "stars", "genes")))
            for side in ("from", "to")
        ]
        old, new = (None if side.label is None else side for side in sides)
        flags = tuple(row[f"{name}_changed"] for name in ("text", "class", "id", "stars", "genes"))
        yield (*(row[name] for name in ("chrom", "pos", "ref", "alt", "change")), old, new, flags)


def manifest(root: Path, release: str) -> dict[str, object]:
    content: dict[str, object] = json.loads((root / f"clinvar/{release}/changes/manifest.json").read_bytes())
    return content


def counts(root: Path, release: str) -> dict[str, int]:
    stated = manifest(root, release)["counts"]
    assert isinstance(stated, dict)
    return stated


def test_known_figures(root: Path) -> None:
    found = counts(root, LATER)
    assert manifest(root, LATER)["recipe"] == {"predecessor": EARLIER}
    assert (found["text_changed"], found["class_changed"], found["id_changed"]) == (5_238, 2_789, 2)
    # By (POS, REF, ALT) of the files 11,002 persist, 3 of them without an ALT, and 3,996 are new, 14 of them with an
    # IUPAC code for one: neither is an allele.
    assert (found["persisting"], found["removed"], found["added"]) == (11_002 - 3, 31, 3_996 - 14)
    rows = pq.read_table(root / f"clinvar/{LATER}/changes/changes.parquet")
    assert [sum(rows[flag].to_pylist()) for flag in ("text_changed", "class_changed", "id_changed")] == [
        5_238,
        2_789,
        2,
    ]


def test_every_row_is_what_pysam_finds_in_the_files(root: Path, shared_data: Path) -> None:
    (fasta,) = (root / "reference").glob("*/genome.fa.gz")
    vcfs = [shared_data / f"clinvar/vcf_GRCh38/clinvar_{key.replace('-', '')}.vcf.gz" for key in (EARLIER, LATER)]
    with pysam.FastaFile(str(fasta)) as genome:
        before, after = (read_release(vcf, genome) for vcf in vcfs)
    expected = set(plain_rows(before, after))
    written = list(written_rows(root, LATER))
    assert len(written) == len(expected) > 9_000
    assert set(written) == expected
    flags = [row[-1] for row in expected]
    assert [sum(each) for each in zip(*flags, strict=True)][:3] == [5_238, 2_789, 2]


def test_the_first_release_has_no_rows(root: Path) -> None:
    assert manifest(root, EARLIER)["recipe"] == {"predecessor": None}
    assert list(written_rows(root, EARLIER)) == []


def test_releases_on_different_contigs_share_nothing(root: Path) -> None:
    """The release between holds chrM alone; by default it is compared with the newest before it."""
    found = counts(root, MITOCHONDRIAL)
    assert manifest(root, MITOCHONDRIAL)["recipe"] == {"predecessor": EARLIER}
    assert found["persisting"] == 0
    assert (found["removed"], found["added"]) == (found["alleles.earlier"], found["alleles.later"])
    assert {row[0] for row in written_rows(root, MITOCHONDRIAL)} == {"chr17", "chrM"}
