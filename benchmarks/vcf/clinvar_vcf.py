"""Generate a ClinVar-like VCF with fields, value lengths and repetition as in a release of 2026.

Records are grouped by gene, as in ClinVar: neighbours share gene, diseases and consequences, and half of them share the
position of the previous record. All terms are from ClinVar's vocabularies.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.vcf.simulated_genome import Site, deletion, indel_lengths, insertion, snv
from benchmarks.vcf.vcf_output import open_bgzf
from genolewm_assets.genome import GRCH38, Contig, ContigSet

RELEASE = "2026-02-26"
#: chr1 to chr22, X and Y with 2 Mbp each, so that their bases need little memory.
CONTIGS = ContigSet([Contig(each.name, 2_000_000, aliases=each.aliases) for each in GRCH38 if not each.circular])
_GENE_RECORDS = 400
_DISEASES = 20_000
_FIELDS = (
    ("AF_ESP", "1", "Float"),
    ("AF_EXAC", "1", "Float"),
    ("AF_TGP", "1", "Float"),
    ("ALLELEID", "1", "Integer"),
    *((name, ".", "String") for name in ("CLNDN", "CLNDNINCL", "CLNDISDB", "CLNDISDBINCL", "CLNHGVS", "CLNREVSTAT")),
    *((name, ".", "String") for name in ("CLNSIG", "CLNSIGCONF", "CLNSIGINCL", "CLNSIGSCV")),
    ("CLNVC", "1", "String"),
    ("CLNVCSO", "1", "String"),
    ("CLNVI", ".", "String"),
    ("DBVARID", ".", "String"),
    ("GENEINFO", "1", "String"),
    *((name, ".", "String") for name in ("MC", "ONC", "ONCDN", "ONCREVSTAT", "ORIGIN", "RS", "SCI", "SCIREVSTAT")),
)
_VARIANT_TYPES = {
    "snv": "CLNVC=single_nucleotide_variant;CLNVCSO=SO:0001483",
    "del": "CLNVC=Deletion;CLNVCSO=SO:0000159",
    "ins": "CLNVC=Insertion;CLNVCSO=SO:0000667",
}
_CONFLICT = "Conflicting_classifications_of_pathogenicity"
#: Share of each classification among the classified records.
_CLASSES = {
    "Pathogenic": 0.2,
    "Likely_pathogenic": 0.05,
    "Pathogenic/Likely_pathogenic": 0.03,
    "Uncertain_significance": 0.36,
    "Likely_benign": 0.2,
    "Benign": 0.06,
    "Benign/Likely_benign": 0.02,
    _CONFLICT: 0.07,
    "not_provided": 0.005,
    "drug_response": 0.005,
}
_REVIEW = {
    "criteria_provided,_single_submitter": 0.5,
    "criteria_provided,_multiple_submitters,_no_conflicts": 0.3,
    "reviewed_by_expert_panel": 0.12,
    "no_assertion_criteria_provided": 0.079,
    "practice_guideline": 0.001,
}
_CONSEQUENCES = (
    "SO:0001583|missense_variant",
    "SO:0001627|intron_variant",
    "SO:0001619|non-coding_transcript_variant",
    "SO:0001819|synonymous_variant",
    "SO:0001589|frameshift_variant",
    "SO:0001623|5_prime_UTR_variant",
    "SO:0001624|3_prime_UTR_variant",
    "SO:0001587|nonsense",
    "SO:0001575|splice_donor_variant",
    "SO:0001574|splice_acceptor_variant",
)
_FREQUENCIES = (("ESP", 0.015), ("EXAC", 0.06), ("TGP", 0.04))
_NOT_PROVIDED = ("not_provided", "MedGen:C3661900")
_LONGEST_DELETION = 4_000
_VARIATION_IDS = 1 << 22
_SYLLABLES = ("cardio", "myo", "pathy", "_syndrome", "neuro", "_type", "_deficiency", "hereditary_", "dys", "trophy")


class _Place(NamedTuple):
    """A contig: name in the file, accession, upper-case bases."""

    chrom: str
    accession: str
    bases: bytes


def write_clinvar_vcf(path: Path, bases: dict[str, bytes], contigs: ContigSet, *, records: int, seed: int = 3) -> None:
    """Write a bgzipped VCF with the records spread evenly over the contigs, named as in ClinVar (``1`` for ``chr1``).

    Parameters
    ----------
    bases
        Upper-case bases by canonical contig name.
    records, seed
        Number of records, and seed of the random values; equal arguments give equal text.
    """
    rng = np.random.default_rng([seed, records])
    names = [each.name.removeprefix("chr") for each in contigs]
    vocabulary = _diseases(rng)
    borders = [records * index // len(contigs) for index in range(len(contigs) + 1)]
    with open_bgzf(path) as target:
        target.write(_header(names).encode())
        for contig, chrom, (first, last) in zip(contigs, names, pairwise(borders), strict=True):
            accession = next(alias for alias in contig.aliases if alias.startswith("NC_"))
            place = _Place(chrom, accession, bases[contig.name])
            for line in _contig_text(rng, place, range(first, last), vocabulary):
                target.write(line.encode())


def _header(names: list[str]) -> str:
    lines = [
        "##fileformat=VCFv4.1",
        f"##fileDate={RELEASE}",
        "##source=ClinVar",
        "##reference=GRCh38",
        '##ID=<Description="ClinVar Variation ID">',
        *(f'##INFO=<ID={name},Number={number},Type={kind},Description="{name}">' for name, number, kind in _FIELDS),
        *(f"##contig=<ID={name}>" for name in names),
        "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO",
    ]
    return "\n".join(lines) + "\n"


def _diseases(rng: np.random.Generator) -> list[tuple[str, str]]:
    """Return CLNDN and CLNDISDB of each disease; their lengths are as in ClinVar, about 40 and 60 characters."""
    found = []
    picks = rng.integers(0, len(_SYLLABLES), (_DISEASES, 6)).tolist()
    numbers = rng.integers(10_000, 99_999, (_DISEASES, 4)).tolist()
    for pick, (mondo, medgen, omim, orphanet) in zip(picks, numbers, strict=True):
        name = "".join(_SYLLABLES[syllable] for syllable in pick).strip("_").capitalize()
        identifiers = f"MONDO:MONDO:00{mondo},MedGen:C{medgen}81,OMIM:6{omim},Orphanet:{orphanet}"
        found.append((f"{name}_{mondo % 50}", identifiers))
    return found


def _contig_text(
    rng: np.random.Generator, place: _Place, ids: range, vocabulary: list[tuple[str, str]]
) -> Iterator[str]:
    """Yield the data lines of a contig, gene by gene."""
    genes = max(1, len(ids) // _GENE_RECORDS)
    room = (len(place.bases) - 40_000) // genes
    borders = [len(ids) * gene // genes for gene in range(genes + 1)]
    for gene, (first, last) in enumerate(pairwise(borders)):
        sites = _sites(rng, place.bases, 20_000 + gene * room, room, last - first)
        numbers = [1_000 + number * 7_919 % _VARIATION_IDS for number in ids[first:last]]
        infos = _infos(rng, place.accession, sites, numbers, vocabulary)
        for site, number, info in zip(sites, numbers, infos, strict=True):
            yield f"{place.chrom}\t{site.pos}\t{number}\t{site.ref}\t{site.alts}\t.\t.\t{info}\n"


def _sites(rng: np.random.Generator, bases: bytes, start: int, room: int, count: int) -> list[Site]:
    """Return sorted, distinct alleles, about half of them at the position of the previous allele."""
    pos = start + rng.choice(room - _LONGEST_DELETION, min(count // 2 + 1, room // 2), replace=False)
    found: dict[Site, None] = {}
    while len(found) < count:
        at = np.concatenate([pos, rng.choice(pos, max(0, count - len(found)))])[: max(count, len(pos))]
        kinds, lengths = rng.random(len(at)).tolist(), indel_lengths(rng, len(at))
        for rank, (here, kind, length) in enumerate(zip(at.tolist(), kinds, lengths, strict=True)):
            found[_site(rng, bases, here, rank, (kind, length))] = None
        pos = pos[: count // 2 + 1]
    return sorted(list(found)[:count])


def _site(rng: np.random.Generator, bases: bytes, pos: int, rank: int, drawn: tuple[float, int]) -> Site:
    kind, length = drawn
    if kind < 0.001:  # ALT "." or an ambiguity code, which a shard rejects.
        return Site(pos, snv(bases, pos, rank).ref, ".RYN"[rank % 4])
    if kind < 0.83:
        return snv(bases, pos, rank)
    long = 40 if rank % 100 == 0 else 1
    if kind < 0.945:
        return deletion(bases, pos, length * long)
    return insertion(bases, pos, length * long, rng)


def _infos(
    rng: np.random.Generator, accession: str, sites: list[Site], ids: list[int], vocabulary: list[tuple[str, str]]
) -> list[str]:
    """Return the INFO text of each record of a gene."""
    count = len(sites)
    number = int(rng.integers(1, 40_000))
    gene = f"GENEINFO=GN{number}:{number + 60_000}"
    if number % 8 == 0:
        gene += f"|LOC{number + 126_000_000}:{number + 126_000_000}"
    combinations = _combinations(rng, vocabulary)
    consequences = _consequences(rng)
    drawn = rng.random((count, 10)).tolist()
    rsids = rng.integers(10**7, 2 * 10**9, count).tolist()
    submissions = rng.integers(10**5, 7 * 10**6, (count, 12)).tolist()
    classes = _choose(rng, _CLASSES, count)
    reviews = _choose(rng, _REVIEW, count)
    infos = []
    for rank, (site, variation, draw) in enumerate(zip(sites, ids, drawn, strict=True)):
        parts = [f"AF_{name}={draw[0] ** 4:.5f}" for name, share in _FREQUENCIES if draw[1] < share]
        parts.append(f"ALLELEID={variation + 15_041}")
        kind = _kind(site)
        classified = draw[2] < 0.87
        if classified:
            diseases, databases = combinations[int(len(combinations) * draw[3] ** 2)]
            parts += (f"CLNDISDB={databases}", f"CLNDN={diseases}")
        parts.append(f"CLNHGVS={accession}:g.{_change(site, kind)}")
        if classified:
            parts += _classification(classes[rank], reviews[rank], draw[4], submissions[rank])
        parts += (_VARIANT_TYPES[kind], f"CLNVI=ClinGen:CA{rsids[rank] // 3}", gene)
        if draw[5] < 0.1:
            parts[-2] += f"|UniProtKB:P{rsids[rank] % 90_000}#VAR_{rsids[rank] % 70_000:06d}"
        parts.append(f"MC={consequences[int(len(consequences) * draw[6] ** 2)]}")
        if draw[7] < 0.001:
            parts += ("ONC=Likely_oncogenic", "ONCDN=Neoplasm", "ONCREVSTAT=criteria_provided,_single_submitter")
        parts.append(f"ORIGIN={(1 if draw[8] < 0.96 else 17) if classified else 0}")
        if draw[9] < 0.93:
            parts.append(f"RS={rsids[rank]}")
        infos.append(";".join(parts))
    return infos


def _classification(clnsig: str, review: str, draw: float, submissions: list[int]) -> list[str]:
    """Return consistent CLNREVSTAT, CLNSIG, CLNSIGCONF (for a conflict only) and CLNSIGSCV."""
    several = 1 if review.endswith("single_submitter") else 1 + int(11 * draw**3)
    conflict = []
    if clnsig == _CONFLICT:
        review = "criteria_provided,_conflicting_classifications"
        conflict = [f"CLNSIGCONF=Uncertain_significance({1 + several // 2})|Likely_benign({1 + int(3 * draw)})"]
    scv = "|".join(f"SCV{number:09d}" for number in sorted(submissions[:several]))
    return [f"CLNREVSTAT={review}", f"CLNSIG={clnsig}", *conflict, f"CLNSIGSCV={scv}"]


def _combinations(rng: np.random.Generator, vocabulary: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return 50 pairs of CLNDN and CLNDISDB for a gene, each of one to six of its nine diseases in random order."""
    diseases = [vocabulary[index] for index in rng.integers(0, len(vocabulary), 8).tolist()] + [_NOT_PROVIDED]
    found = []
    for size in rng.choice([1, 2, 3, 4, 6], 50, p=[0.45, 0.25, 0.15, 0.1, 0.05]).tolist():
        names, databases = zip(*(diseases[index] for index in rng.choice(9, size, replace=False)), strict=True)
        found.append(("|".join(names), "|".join(databases)))
    return found


def _consequences(rng: np.random.Generator) -> list[str]:
    sizes = rng.choice([1, 2, 3], 20, p=[0.45, 0.5, 0.05]).tolist()
    return [",".join(sorted(rng.choice(_CONSEQUENCES, size, replace=False).tolist())) for size in sizes]


def _choose(rng: np.random.Generator, shares: dict[str, float], count: int) -> list[str]:
    names = list(shares)
    return [names[index] for index in rng.choice(len(names), count, p=list(shares.values())).tolist()]


def _kind(site: Site) -> str:
    if len(site.ref) == len(site.alts):
        return "snv"
    return "del" if len(site.ref) > len(site.alts) else "ins"


def _change(site: Site, kind: str) -> str:
    """Return the part of a genomic HGVS expression after ``g.``."""
    if kind == "snv":
        return f"{site.pos}{site.ref}>{site.alts}"
    if kind == "del":
        last = site.pos + len(site.ref) - 1
        return f"{site.pos + 1}del" if last == site.pos + 1 else f"{site.pos + 1}_{last}del"
    return f"{site.pos}_{site.pos + 1}ins{site.alts[1:]}"
