"""Counts of the sample taken from its files as plainly as possible, sharing no code with what wrote or reads them.

``SAMPLE_FACTS`` are the figures that were counted and reviewed before (``golden/sample_facts.json``). After a change
of the simulation the failures of ``sample/test_writer`` show the new figures. Of gnomAD, every allele counts in the
first that holds of ``rejects``, ``failed`` (FILTER), ``low_af`` (below 1 %), ``low_an`` (below half of the file's
maximum, of the joint file in both assays) and ``kept``; on chrM all but the rejects are kept. Of ClinVar, ``labels``
includes rejects and records on other contigs, and ``changes`` are by normalised allele. Of the corpus, ``windows``
are of the default profile with seed 0. Of mitochondrial genomes, all but ``rejects`` and the numbers of records are
of kept ones; ``near_pairs`` differ in at most ten bases. Of heteroplasmy, ``calls`` have a level above 0,
``heteroplasmic`` below 0.95 too; ``missing`` are genomes and sites without a call.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq

from genolewm_assets_tests.places import TESTS

_STATED = json.loads((TESTS / "golden" / "sample_facts.json").read_text())
#: MD5 of the upper-case sequence of each contig (SAM M5).
CONTIG_MD5: dict[str, str] = _STATED.pop("contig_md5")
#: Figures by section, and by contig, release, source or layout where a section has several.
SAMPLE_FACTS = SimpleNamespace(
    **{
        section: SimpleNamespace(**facts)
        if section in ("changes", "mito_genomes")
        else {name: SimpleNamespace(**each) for name, each in facts.items()}
        for section, facts in _STATED.items()
    }
)

GNOMAD_FILES = {
    "chr17": "gnomad.joint.v4.1.sites.chr17.vcf.bgz",
    "chr20": "gnomad.genomes.v3.1.2.sites.chr20.vcf.bgz",
    "chr21": "gnomad.genomes.v4.1.sites.chr21.vcf.bgz",
    "chrM": "gnomad.genomes.v3.1.sites.chrM.vcf.bgz",
}
CANONICAL = {"17": "chr17", "20": "chr20", "21": "chr21", "MT": "chrM"}
LABELS = {
    "Pathogenic": "P",
    "Pathogenic,_low_penetrance": "P",
    "Pathogenic|drug_response": "P",
    "Likely_pathogenic": "LP",
    "Pathogenic/Likely_pathogenic": "LP",
    "Likely_pathogenic,_low_penetrance": "LP",
    "Pathogenic/Likely_pathogenic|risk_factor": "LP",
    "Benign": "B",
    "Benign|other": "B",
    "Likely_benign": "LB",
    "Benign/Likely_benign": "LB",
    "Uncertain_significance": "VUS",
}
Key = tuple[str, int, str, str]


def read_text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode("ascii")


def read_sequences(path: Path) -> dict[str, str]:
    records = read_text(path).split(">")[1:]
    return {r.split()[0]: "".join(r.split("\n")[1:]).upper() for r in records}


def read_rows(path: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    for line in read_text(path).splitlines():
        if not line.startswith("#"):
            columns = line.split("\t")
            yield columns, dict(pair.partition("=")[::2] for pair in columns[7].split(";"))


def normal_form(pos: int, ref: str, alt: str, sequence: str) -> tuple[int, str, str]:
    """Tan et al. 2015, algorithm 1, word for word."""
    changed = True
    while changed:
        changed = False
        if ref[-1:] == alt[-1:] and ref and alt:
            ref, alt, changed = ref[:-1], alt[:-1], True
        if not ref or not alt:
            pos -= 1
            ref, alt, changed = sequence[pos - 1] + ref, sequence[pos - 1] + alt, True
    while ref[0] == alt[0] and len(ref) > 1 and len(alt) > 1:
        pos, ref, alt = pos + 1, ref[1:], alt[1:]
    return pos, ref, alt


def reject_reason(pos: int, ref: str, alt: str, sequence: str) -> str | None:
    if alt == "*":
        return "spanning_deletion"
    if alt == ".":
        return "missing_alt"
    if set(alt) - set("ACGT"):
        return "iupac"
    if set(ref) - set("ACGT"):
        return "ref_not_acgt"
    return None if sequence[pos - 1 : pos - 1 + len(ref)] == ref else "ref_mismatch"


def count_genome(fasta: Path) -> dict[str, SimpleNamespace]:
    facts = {}
    for name, sequence in read_sequences(fasta).items():
        runs = [len(run) for run in re.findall("[ACGT]+", sequence)]
        windows = 0 if name == "chrM" else sum(max(0, 1 + (run - 12_288 - 512) // 8_192) for run in runs)
        facts[name] = SimpleNamespace(length=len(sequence), acgt_bases=sum(runs), acgt_runs=len(runs), windows=windows)
    return facts


def count_gnomad(path: Path, name: str, sequence: str) -> SimpleNamespace:
    fate: Counter[str] = Counter()
    rejects: Counter[str] = Counter()
    seen: set[tuple[int, str, str]] = set()
    records = alleles = multiallelic = irregular = 0
    suffix = "_joint" if "joint" in path.name else ""
    fields = ("AN_exomes", "AN_genomes") if suffix else ("AN",)
    most = {field: max(int(info.get(field, 0)) for _, info in read_rows(path)) for field in fields}
    for columns, info in read_rows(path):
        pos, ref, alts = int(columns[1]), columns[3], columns[4].split(",")
        records += 1
        multiallelic += len(alts) > 1
        for index, alt in enumerate(alts):
            alleles += 1
            reason = reject_reason(pos, ref, alt, sequence)
            if reason is None:
                key = normal_form(pos, ref, alt, sequence)
                irregular += key != (pos, ref, alt)
                reason = "duplicate" if key in seen else None
                seen.add(key)
            if reason is not None:
                rejects[reason] += 1
            elif name == "chrM":
                fate["kept"] += 1
            elif columns[6] != "PASS":
                fate["failed"] += 1
            elif float(info[f"AF{suffix}"].split(",")[index]) < 0.01:
                fate["low_af"] += 1
            else:
                enough = any(int(info.get(field, 0)) >= most[field] / 2 for field in fields)
                fate["kept" if enough else "low_an"] += 1
    figures = {name: fate[name] for name in ("failed", "low_af", "low_an", "kept")}
    return SimpleNamespace(
        records=records,
        alleles=alleles,
        multiallelic_records=multiallelic,
        irregular=irregular,
        rejects=dict(rejects),
        **figures,
    )


def count_phased(path: Path) -> SimpleNamespace:
    rows = [columns[9:] for columns, _ in read_rows(path)]
    unphased, missing = (sum(mark in genotype for row in rows for genotype in row) for mark in "/.")
    (people,) = {len(row) for row in rows}
    return SimpleNamespace(people=people, records=len(rows), unphased=unphased, missing=missing)


def clinvar_alleles(path: Path, sequences: dict[str, str]) -> tuple[SimpleNamespace, dict[Key, dict[str, str]]]:
    """Count a release; also return the first record of each normalised allele with its ID and INFO."""
    labels: Counter[str] = Counter()
    rejects: Counter[str] = Counter()
    genes: set[str] = set()
    kept: dict[Key, dict[str, str]] = {}
    records = other = 0
    for columns, info in read_rows(path):
        chrom, pos, ref, alt = CANONICAL.get(columns[0], columns[0]), int(columns[1]), columns[3], columns[4]
        records += 1
        labels[LABELS.get(info.get("CLNSIG", ""), "OTHER")] += 1
        genes |= {name for name in info["GENEINFO"].split("|") if name.startswith("SIM")}
        if chrom not in sequences:
            other += 1
            continue
        reason = reject_reason(pos, ref, alt, sequences[chrom])
        key = (chrom, *normal_form(pos, ref, alt, sequences[chrom])) if reason is None else (chrom, 0, "", "")
        reason = reason or ("duplicate" if key in kept else None)
        if reason is not None:
            rejects[reason] += 1
        else:
            kept[key] = {**info, "ID": columns[2]}
    return SimpleNamespace(
        records=records,
        labels=dict(labels),
        rejects=dict(rejects),
        other_contig=other,
        kept=len(kept),
        genes=len(genes),
    ), kept


def count_changes(first: dict[Key, dict[str, str]], second: dict[Key, dict[str, str]]) -> SimpleNamespace:
    both = first.keys() & second.keys()

    def differing(*, label: bool) -> int:
        texts = [(first[k].get("CLNSIG", ""), second[k].get("CLNSIG", "")) for k in both]
        return sum(LABELS.get(a, "OTHER") != LABELS.get(b, "OTHER") if label else a != b for a, b in texts)

    return SimpleNamespace(
        added=len(second.keys() - first.keys()),
        removed=len(first.keys() - second.keys()),
        text_changed=differing(label=False),
        class_changed=differing(label=True),
        id_changed=sum(first[k]["ID"] != second[k]["ID"] for k in both),
    )


def corpus_rows(path: Path) -> list[tuple[str, str]]:
    rows = pq.read_table(path).to_pylist()
    return [(row.get("record_id") or row["record"], (row.get("sequence") or row["text"]).upper()) for row in rows]


def corpus_window_sizes(record_id: str, sequence: str) -> list[int]:
    """Windows of 12,288 every 8,192 with 256 to spare, or one short one, in each run; the phase is the hash's."""
    phase = int.from_bytes(hashlib.blake2b(b"phase\x000\x00" + record_id.encode(), digest_size=8).digest(), "big")
    sizes = []
    for run in re.findall("[ACGT]+", sequence):
        slack = len(run) - 12_800
        if slack >= 0:
            left = slack - phase % (1 + min(slack, 8_191))
            sizes += [12_288] * (1 + left // 8_192)
        elif len(run) >= 2_048:
            sizes.append((len(run) - 512) // 6 * 6)
    return sizes


def count_corpus(path: Path) -> SimpleNamespace:
    seen: dict[str, list[str]] = {}
    duplicates = reused = too_short = 0
    sizes: list[int] = []
    rows = corpus_rows(path)
    for given, sequence in rows:
        before = seen.setdefault(given, [])
        if sequence in before:
            duplicates += 1
            continue
        unique = f"{given}~{hashlib.sha256(sequence.encode()).hexdigest()[:8]}" if before else given
        reused += unique != given
        before.append(sequence)
        found = corpus_window_sizes(unique, sequence)
        too_short += not found
        sizes += found
    return SimpleNamespace(
        records=len(rows),
        bases=sum(len(sequence) for _, sequence in rows),
        non_acgt_bases=sum(len(re.sub("[ACGT]", "", sequence)) for _, sequence in rows),
        duplicates=duplicates,
        reused_ids=reused,
        too_short=too_short,
        windows=len(sizes),
        short_windows=sum(size < 12_288 for size in sizes),
    )


def content_digests(folder: Path) -> dict[str, str]:
    contents = {f: gzip.decompress(f.read_bytes()) for pattern in ("**/*.gz", "**/*.bgz") for f in folder.glob(pattern)}
    contents |= {f: f.read_bytes() for f in folder.glob("forensic/**/*") if f.is_file()}
    for file in folder.glob("**/*.parquet"):
        lines = [json.dumps(row, sort_keys=True) + "\n" for row in pq.read_table(file).to_pylist()]
        contents[file] = "".join(lines).encode()
    return {str(f.relative_to(folder)): hashlib.md5(data).hexdigest() for f, data in sorted(contents.items())}
