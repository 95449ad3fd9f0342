"""Counts of the mitochondrial files of the sample, by brute force and sharing no code with what wrote or reads them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from genolewm_assets_tests.referees.census import read_text

PAIRS = dict(zip("ACGTRYSWKMN", "TGCAYRSWMKN", strict=True))


@dataclass(frozen=True)
class Plain:
    name: str
    haplogroup: str | None
    sequence: str


def other_strand(sequence: str) -> str:
    return "".join(PAIRS[base] for base in reversed(sequence))


def fasta_records(path: Path) -> list[Plain]:
    found = []
    for record in read_text(path).split(">")[1:]:
        title, *lines = record.split("\n")
        stated = re.search("haplogroup=([A-Z0-9]+)", title)
        sequence = "".join(lines).upper().replace("U", "T")
        found.append(Plain(title.split()[0], stated[1] if stated else None, sequence))
    return found


def genbank_records(path: Path) -> list[Plain]:
    found = []
    for record in read_text(path).split("//\n")[:-1]:
        name = re.search(r"^VERSION +(\S+)", record, re.MULTILINE)
        stated = re.search(r'/haplogroup="(.+)"|/note="haplogroup: (.+)"', record)
        bases = re.sub("[^A-Z]", "", record.partition("ORIGIN")[2].upper())
        assert name is not None
        found.append(Plain(name[1], (stated[1] or stated[2]) if stated else None, bases))
    return found


def same_circle(left: str, right: str) -> bool:
    return len(left) == len(right) and (left in right * 2 or other_strand(left) in right * 2)


def reject_reason(sequence: str, before: list[str]) -> str | None:
    if not sequence:
        return "no_sequence"
    if len(sequence) < 15_400:
        return "too_short"
    if sequence.count("N") > 0.01 * len(sequence):
        return "too_many_n"
    if any(sequence[-size:] == sequence[:size] for size in range(20, 200)):
        return "junction_repeat"
    return "duplicate_sequence" if any(same_circle(sequence, other) for other in before) else None


def shreds(sequence: str) -> set[str]:
    """The 15-mers of a circle; a lone substitution changes fifteen of them."""
    return {(sequence + sequence[:14])[at : at + 15] for at in range(len(sequence))}


def count_mito_genomes(folder: Path, reference: str) -> SimpleNamespace:
    fasta, genbank = fasta_records(folder / "genomes.fa.gz"), genbank_records(folder / "genomes.gb.gz")
    kept: list[Plain] = []
    rejects: Counter[str] = Counter()
    for record in [*fasta, *genbank]:
        reason = reject_reason(record.sequence, [other.sequence for other in kept])
        if reason is None:
            kept.append(record)
        else:
            rejects[reason] += 1
    start, known = reference[:12], shreds(reference)
    turned = [not genome.sequence.startswith(start) for genome in kept]
    # On chrM's strand most 15-mers are chrM's.
    both = [(shreds(genome.sequence), shreds(other_strand(genome.sequence))) for genome in kept]
    strands = [forward if len(forward & known) > 8_000 else backward for forward, backward in both]
    near = sum(len(a - b) <= 150 for i, a in enumerate(strands) for b in strands[:i])
    stated = [genome.haplogroup for genome in kept if genome.haplogroup]
    return SimpleNamespace(
        fasta_records=len(fasta),
        genbank_records=len(genbank),
        rejects=dict(rejects),
        kept=len(kept),
        bases=sum(len(genome.sequence) for genome in kept),
        ambiguous_bases=sum(len(re.sub("[ACGT]", "", genome.sequence)) for genome in kept),
        haplogroup_stated=len(stated),
        haplogroups=len(set(stated)),
        turned=sum(turned),
        near_pairs=near,
    )


def count_heteroplasmy(path: Path, level: str) -> SimpleNamespace:
    lines = read_text(path).splitlines()
    names = next(line for line in lines if line.startswith("#CHROM")).split("\t")[9:]
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert {row[8] for row in rows} == {f"GT:DP:{level}"}
    texts = [text for row in rows for cell in row[9:] for text in cell.split(":")[2].split(",")]
    levels = [float(text) for text in texts if text != "."]
    return SimpleNamespace(
        genomes=len(names),
        records=len(rows),
        multiallelic_records=sum("," in row[4] for row in rows),
        failed_records=sum(row[6] != "PASS" for row in rows),
        calls=sum(x > 0 for x in levels),
        heteroplasmic=sum(0 < x < 0.95 for x in levels),
        missing=texts.count("."),
    )
