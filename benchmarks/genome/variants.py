"""gnomAD-like and ClinVar-like VCFs of a generated genome, and the real alleles of chr21 where shared data has them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.genome.bases import SEED, Bases, Genome
from benchmarks.genome.shapes import ALLELES, RECORDS, Shape
from benchmarks.vcf.simulated_genome import one_base_alleles
from benchmarks.vcf.vcf_output import open_bgzf

#: The first release of ClinVar, and the second, which adds, changes and drops a few per cent of its alleles.
RELEASES = ("2026-01-04", "2026-01-11")
_ADDED, _CHANGED, _DROPPED = 0.03, 0.03, 0.01
_GENE_RECORDS, _GENE_BP = 200, 50_000
#: gnomAD records that are rare or fail FILTER, for each common allele.
_OTHERS = 0.25
_AN = 152_312
_CHUNK = 50_000
_GNOMAD_FIELDS = (
    *(("AC", "A", "Integer"), ("AN", "1", "Integer"), ("AF", "A", "Float"), ("nhomalt", "A", "Integer")),
    *(("grpmax", "A", "String"), ("AF_grpmax", "A", "Float")),
    *((f"AF_{group}", "A", "Float") for group in ("afr", "amr", "eas", "nfe", "sas")),
)
_CLINVAR_FIELDS = (
    *(("ALLELEID", "1", "Integer"), ("CLNDN", ".", "String"), ("CLNHGVS", ".", "String")),
    *(("CLNREVSTAT", ".", "String"), ("CLNSIG", ".", "String"), ("CLNVC", "1", "String")),
    *(("GENEINFO", "1", "String"), ("MC", ".", "String"), ("RS", ".", "String")),
)
_CLASSES = np.array(
    ["Pathogenic", "Likely_pathogenic", "Uncertain_significance", "Likely_benign", "Benign", "not_provided"]
)
_CLASS_SHARES = (0.2, 0.08, 0.4, 0.22, 0.09, 0.01)
_REVIEWS = np.array([
    "criteria_provided,_single_submitter",
    "criteria_provided,_multiple_submitters,_no_conflicts",
    "reviewed_by_expert_panel",
    "no_assertion_criteria_provided",
])  # fmt: skip
_REVIEW_SHARES = (0.5, 0.3, 0.12, 0.08)
_EFFECTS = np.array([
    "SO:0001583|missense_variant",
    "SO:0001627|intron_variant",
    "SO:0001819|synonymous_variant",
    "SO:0001587|nonsense",
])  # fmt: skip
#: Files of alleles of chr21, relative to a folder of shared data.
_REAL = (
    "thousand_genomes/1000G_phase3.af.chr21.vcf.gz",
    "gnomad/release/2.0.1-liftover/vcf/exomes/gnomad.exomes.r2.0.1.sites.chr21.vcf.bgz",
)

Texts = NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Alleles:
    """Alleles of a contig: ``pos`` int64, 1-based; ``ref`` and ``alt`` upper-case texts; ``af`` float64."""

    pos: NDArray[np.int64]
    ref: Texts
    alt: Texts
    af: NDArray[np.float64]


def read_real(folder: Path, shape: Shape) -> Alleles | None:
    """Return the alleles of shared data that lie on chr21 outside of gaps, sorted; None if there are none."""
    found: dict[tuple[int, str, str], float] = {}
    for file in (folder / name for name in _REAL if shape.kind == "chr21" and (folder / name).is_file()):
        with gzip.open(file, "rt") as text:
            for line in (each for each in text if not each.startswith("#")):
                _, pos, _, ref, alt, _, _, info, *_ = line.rstrip("\n").split("\t")
                stated = dict(part.partition("=")[::2] for part in info.split(";"))
                for each, af in zip(alt.split(","), stated.get("AF", "0").split(","), strict=False):
                    if set(ref + each) <= set("ACGT"):
                        found.setdefault((int(pos), ref, each), float(af))
    if not found:
        return None
    gaps = shape.gaps["chr21"]
    kept = sorted(key for key in found if not any(a < key[0] + len(key[1]) and key[0] <= b for a, b in gaps))
    pos, ref, alt = zip(*kept, strict=True)
    return Alleles(np.array(pos), np.array(ref), np.array(alt), np.array([found[key] for key in kept]))


def fixed_bases(real: Alleles) -> tuple[NDArray[np.int64], Bases]:
    """Return the 0-based positions and bases that the REF of alleles state."""
    letters = {
        pos - 1 + at: base for pos, ref in zip(real.pos.tolist(), real.ref, strict=True) for at, base in enumerate(ref)
    }
    places = sorted(letters)
    return np.array(places), np.frombuffer("".join(letters[at] for at in places).encode(), np.uint8)


def write_gnomad(path: Path, shape: Shape, genome: Genome, contig: str, real: Alleles | None) -> None:
    """Write a bgzipped VCF and its ``.md5``: common alleles in proportion to the length, a quarter as many others."""
    rng = np.random.default_rng([SEED, 2, *contig.encode()])
    gap = shape.contigs[contig] * shape.known(contig) / (shape.share(ALLELES, contig) * (1 + _OTHERS))
    pos = np.unique(np.cumsum(rng.integers(1, max(3, int(2 * gap)), int(shape.contigs[contig] / gap))))
    pos = pos[pos < shape.contigs[contig] - 100]
    pos = pos if real is None else np.setdiff1d(pos, real.pos)
    found = _draw(rng, genome.bases[contig], pos)
    common = rng.random(found.pos.size) < 1 / (1 + _OTHERS)
    np.copyto(found.af, 10 ** rng.uniform(-4.5, -2.2, found.pos.size), where=~common)
    if real is not None:
        found = _merged(found, real)
    text = (line for first in range(0, found.pos.size, _CHUNK) for line in _gnomad_lines(rng, contig, found, first))
    head = ["##source=gnomAD v4.1", '##FILTER=<ID=AC0,Description="simulated">', f"##contig=<ID={contig}>"]
    _write(path, "VCFv4.2", head, _GNOMAD_FIELDS, text)


def write_clinvar(path: Path, shape: Shape, genome: Genome, release: str) -> None:
    """Write a release of ``RELEASES`` as a bgzipped VCF, and its ``.md5``."""
    lines = (line for contig in shape.contigs for line in _clinvar_lines(shape, genome, contig, release))
    head = [f"##fileDate={release}", "##source=ClinVar", "##reference=GRCh38"]
    head += [f"##contig=<ID={name.removeprefix('chr')}>" for name in shape.contigs]
    _write(path, "VCFv4.1", head, _CLINVAR_FIELDS, lines)


def _draw(rng: np.random.Generator, bases: Bases, pos: NDArray[np.int64]) -> Alleles:
    """Draw an allele at each position without a gap; its frequency is that of a common one."""
    pair = bases[np.stack([pos - 1, pos])] & 0xDF
    known = (pair != ord("N")).all(axis=0)
    pos, (ref, alt) = pos[known], one_base_alleles(rng, pair[:, known])
    return Alleles(pos, ref, alt, 10 ** rng.uniform(-1.9, -0.02, pos.size))


def _merged(found: Alleles, real: Alleles) -> Alleles:
    pairs = zip((found.pos, found.ref, found.alt, found.af), (real.pos, real.ref, real.alt, real.af), strict=True)
    pos, ref, alt, af = (np.concatenate(pair) for pair in pairs)
    order = np.argsort(pos, kind="stable")
    return Alleles(pos[order], ref[order], alt[order], af[order])


def _gnomad_lines(rng: np.random.Generator, contig: str, found: Alleles, first: int) -> Iterator[str]:
    part = slice(first, first + _CHUNK)
    ac = np.maximum(1, np.rint(found.af[part] * _AN).astype(int))
    groups = np.clip(found.af[part, None] * np.exp(rng.normal(0, 0.5, (ac.size, 5))), 0, 0.999)
    failed = rng.random(ac.size) < 0.03
    rows = zip(
        found.pos[part].tolist(), found.ref[part].tolist(), found.alt[part].tolist(), ac.tolist(), failed.tolist(),
        groups.tolist(), strict=True,
    )  # fmt: skip
    for pos, ref, alt, count, bad, (afr, amr, eas, nfe, sas) in rows:
        yield (
            f"{contig}\t{pos}\t.\t{ref}\t{alt}\t.\t{'AC0' if bad else 'PASS'}\tAC={count};AN={_AN};"
            f"AF={count / _AN:.6g};nhomalt={count * count // (4 * _AN)};grpmax=nfe;AF_grpmax={nfe:.5g};"
            f"AF_afr={afr:.5g};AF_amr={amr:.5g};AF_eas={eas:.5g};AF_nfe={nfe:.5g};AF_sas={sas:.5g}\n"
        )


def _clinvar_lines(shape: Shape, genome: Genome, contig: str, release: str) -> Iterator[str]:
    """Yield the records of a contig: alleles of genes of 50 kb, drawn alike for all releases."""
    rng, second = np.random.default_rng([SEED, 3, *contig.encode()]), release == RELEASES[1]
    number = list(shape.contigs).index(contig)
    genes = max(1, round(shape.share(RECORDS, contig) / _GENE_RECORDS))
    room = (shape.contigs[contig] - 100) // genes
    span = min(_GENE_BP, room - 1)
    starts = np.arange(genes) * room + rng.integers(0, room - span, genes)
    drawn = starts[:, None] + rng.integers(1, span, (genes, round(_GENE_RECORDS * (1 + _ADDED) / shape.known(contig))))
    found = _draw(rng, genome.bases[contig], np.unique(drawn))
    n = found.pos.size
    state, changed = rng.random(n), rng.random(n) < _CHANGED
    one, other = (rng.choice(_CLASSES, n, p=_CLASS_SHARES) for _ in range(2))
    classes = np.where(changed & second, other, one)
    reviews, effects = rng.choice(_REVIEWS, n, p=_REVIEW_SHARES), rng.choice(_EFFECTS, n)
    there = state >= _DROPPED if second else state < 1 - _ADDED
    sizes = np.char.str_len(found.alt) - np.char.str_len(found.ref)
    chrom = contig.removeprefix("chr")
    for at in np.flatnonzero(there).tolist():
        pos = int(found.pos[at])
        gene, known = number * 100_000 + pos // room, number * 50_000_000 + at + 1
        kind = ("single_nucleotide_variant", "Insertion", "Deletion")[int(sizes[at])]
        yield (
            f"{chrom}\t{pos}\t{known}\t{found.ref[at]}\t{found.alt[at]}\t.\t.\tALLELEID={known + 15_041};"
            f"CLNDN=Disease_{gene % 5_000}|not_provided;CLNHGVS={contig}:g.{pos}{found.ref[at]}>{found.alt[at]};"
            f"CLNREVSTAT={reviews[at]};CLNSIG={classes[at]};CLNVC={kind};GENEINFO=GN{gene}:{gene + 1};MC={effects[at]};"
            f"RS={known + 7}\n"
        )


def _write(
    path: Path, version: str, head: list[str], fields: tuple[tuple[str, str, str], ...], lines: Iterator[str]
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    info = [f'##INFO=<ID={name},Number={number},Type={kind},Description="{name}">' for name, number, kind in fields]
    columns = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO"
    with open_bgzf(path) as target:
        target.write("\n".join([f"##fileformat={version}", *head, *info, columns, ""]).encode())
        for line in lines:
            target.write(line.encode())
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "md5").hexdigest()
    path.with_name(f"{path.name}.md5").write_text(f"{digest}  {path.name}\n")
