"""ClinVar-style VCF text of a release, including records that a reader must reject or normalise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from genolewm_assets.genome import Variant
from genolewm_assets.sample.alleles.assertions import Assertion, Term, old_wording
from genolewm_assets.sample.alleles.clinical import ClinicalAllele
from genolewm_assets.sample.alleles.gnomad_vcf import COLUMNS
from genolewm_assets.sample.alleles.spelling import pad, shift_right
from genolewm_assets.sample.genome import Draws

#: A scaffold of real releases that is not among the contigs of the sample's catalogue.
UNPLACED_CONTIG = "NW_009646201.1"
#: Header line by which a release of the sample is known.
SOURCE = "##source=simulated by genolewm_assets.sample in the layout of ClinVar; no real variant or classification"
_IUPAC = "RYKMSWN"
_SINGLE_SUBMITTER = "criteria_provided,_single_submitter"

_INFO = (
    ("ALLELEID", "1", "Integer", "the ClinVar Allele ID"),
    ("CLNDISDB", ".", "String", "Tag-value pairs of disease database name and identifier"),
    ("CLNDN", ".", "String", "Preferred disease name"),
    ("CLNHGVS", ".", "String", "Top-level HGVS expression"),
    ("CLNREVSTAT", ".", "String", "Review status of the germline classification"),
    ("CLNSIG", ".", "String", "Aggregate germline classification"),
    ("CLNSIGCONF", ".", "String", "Conflicting germline classifications"),
    ("CLNSIGINCL", ".", "String", "Germline classification of a haplotype or genotype that includes this variant"),
    ("CLNVC", "1", "String", "Variant type"),
    ("CLNVCSO", "1", "String", "Sequence Ontology id of the variant type"),
    ("GENEINFO", "1", "String", "Genes of the variant as symbol:id, separated by a vertical bar"),
    ("MC", ".", "String", "Molecular consequence as Sequence Ontology ID|term"),
    ("ORIGIN", ".", "String", "Allele origin"),
    ("RS", ".", "String", "dbSNP ID"),
)
_SOMATIC_INFO = (
    ("ONC", ".", "String", "Aggregate oncogenicity classification"),
    ("ONCREVSTAT", ".", "String", "Review status of the oncogenicity classification"),
    ("SCI", ".", "String", "Aggregate somatic clinical impact"),
    ("SCIREVSTAT", ".", "String", "Review status of the somatic clinical impact"),
)
_TYPES = {
    "single_nucleotide_variant": "SO:0001483",
    "Deletion": "SO:0000159",
    "Duplication": "SO:1000035",
    "Insertion": "SO:0000667",
    "Indel": "SO:1000032",
}


@dataclass(frozen=True, slots=True)
class ClinvarPlants:
    """Number of irregular records of each kind in a release.

    The first four kinds and ``unplaced`` are added records that a reader must reject or skip; the others change regular
    records.
    """

    missing_alt: int = 3
    iupac: int = 4
    mismatches: int = 2
    duplicates: int = 3
    right_shifted: int = 5
    padded: int = 5
    unplaced: int = 3
    unlabelled: int = 4
    including: int = 3
    somatic: int = 8


@dataclass(frozen=True, slots=True)
class Release:
    """One release; ``contig_names`` maps canonical names to its own, ``old`` selects the content of the first one."""

    day: date
    contig_names: Mapping[str, str]
    old: bool
    plants: ClinvarPlants

    @property
    def file_name(self) -> str:
        """File name in the form of the public server."""
        return f"clinvar_{self.day:%Y%m%d}.vcf.gz"

    def assertion(self, entry: ClinicalAllele) -> Assertion | None:
        """Return the assertion of an allele in this release; None if the release does not have the allele."""
        return entry.first if self.old else entry.second


FIRST_RELEASE = Release(
    date(2024, 1, 7), {c: c for c in ("chr17", "chr20", "chr21", "chrM")}, old=True, plants=ClinvarPlants(somatic=0)
)
SECOND_RELEASE = Release(
    date(2025, 1, 5),
    {"chr17": "17", "chr20": "20", "chr21": "21", "chrM": "MT"},
    old=False,
    plants=ClinvarPlants(iupac=5),
)


@dataclass(frozen=True, slots=True)
class _Line:
    order: int
    pos: int
    ref: str
    alt: str
    record_id: int
    chrom: str
    info: tuple[tuple[str, str], ...]

    def text(self) -> str:
        info = ";".join(f"{name}={value}" for name, value in self.info)
        return f"{self.chrom}\t{self.pos}\t{self.record_id}\t{self.ref}\t{self.alt}\t.\t.\t{info}"


def clinvar_text(release: Release, entries: Sequence[ClinicalAllele], texts: Mapping[str, str]) -> bytes:
    """Return the text of the VCF of a release, given the upper-case sequence of each contig in genome order."""
    lines = [*_entry_lines(release, entries, texts), *_planted_lines(release, entries, texts)]
    lines.sort(key=lambda line: (line.order, line.pos, line.ref, line.alt, line.record_id))
    fields = _INFO if release.old else (*_INFO, *_SOMATIC_INFO)
    header = [
        "##fileformat=VCFv4.1",
        f"##fileDate={release.day:%Y-%m-%d}",
        SOURCE,
        "##reference=simulated, not GRCh38",
        '##ID=<Description="ClinVar Variation ID">',
        *(f'##INFO=<ID={n},Number={c},Type={t},Description="{d}">' for n, c, t, d in fields),
        *(f"##contig=<ID={name}>" for name in (*release.contig_names.values(), UNPLACED_CONTIG)),
        COLUMNS,
    ]
    return ("\n".join([*header, *(line.text() for line in lines)]) + "\n").encode("ascii")


def _entry_lines(release: Release, entries: Sequence[ClinicalAllele], texts: Mapping[str, str]) -> list[_Line]:
    """Return the records of all alleles that the release has."""
    oddities = _choose_oddities(release.plants, _stable(entries), texts)
    order = {name: number for number, name in enumerate(texts)}
    lines = []
    for entry in entries:
        assertion = release.assertion(entry)
        if assertion is None:
            continue
        text, allele = texts[entry.allele.chrom], entry.allele
        info = _info(release, entry, assertion, text)
        match oddities.get(entry.first_id):
            case "right_shifted":
                allele = shift_right(allele, text)
            case "padded":
                allele = pad(allele, text, 3, 2)
            case "unlabelled":
                info = tuple(pair for pair in info if pair[0] not in ("CLNSIG", "CLNREVSTAT"))
            case "including":
                info = (*info, ("CLNSIGINCL", f"{entry.first_id + 1_000_000}:Pathogenic"))
            case "somatic":
                info = (*info, *_somatic_info(entry))
        record_id = entry.first_id if release.old else entry.second_id
        chrom = release.contig_names[allele.chrom]
        lines.append(_Line(order[allele.chrom], allele.pos, allele.ref, allele.alt, record_id, chrom, info))
    return lines


def _choose_oddities(
    plants: ClinvarPlants, stable: Sequence[ClinicalAllele], texts: Mapping[str, str]
) -> dict[int, str]:
    """Return the kind of irregular spelling or fields of some alleles by VariationID; equal in both releases."""
    indels = [e for e in stable if e.allele.is_indel and min(len(e.allele.ref), len(e.allele.alt)) == 1]
    movable = [e for e in indels if shift_right(e.allele, texts[e.allele.chrom]) != e.allele]
    single = [e for e in stable if e.allele.is_snv and e.first is not None and e.first.term is Term.LB]
    pools = (
        ("right_shifted", movable, plants.right_shifted),
        ("padded", single, plants.padded),
        ("unlabelled", _of_term(stable, Term.NOT_PROVIDED), plants.unlabelled),
        ("including", _of_term(stable, Term.NO_SINGLE), plants.including),
        ("somatic", _of_term(stable, Term.VUS), plants.somatic),
    )
    chosen: dict[int, str] = {}
    for purpose, (oddity, pool, count) in enumerate(pools):
        free = [e for e in pool if e.first_id not in chosen]
        chosen |= {e.first_id: oddity for e in _pick(free, count, purpose)}
    return chosen


def _planted_lines(release: Release, entries: Sequence[ClinicalAllele], texts: Mapping[str, str]) -> list[_Line]:
    """Return records that no shard may contain: no ALT, wrong REF, a second copy, unknown contig, ambiguous ALT."""
    plants = release.plants
    donors = [e for e in _of_term(_stable(entries), Term.LB) if e.allele.is_snv]
    order = {name: number for number, name in enumerate(texts)}
    kinds = ["."] * plants.missing_alt + ["ref"] * plants.mismatches + ["copy"] * plants.duplicates
    kinds += ["unplaced"] * plants.unplaced + list(_IUPAC[: plants.iupac])
    lines = []
    # Always forty donors, so that the records that both releases add are made from the same alleles.
    for number, (kind, entry) in enumerate(zip(kinds, _pick(donors, 40, 6), strict=False)):
        allele, text = entry.allele, texts[entry.allele.chrom]
        pos, ref, alt = allele.pos, allele.ref, allele.alt
        chrom, place = release.contig_names[allele.chrom], order[allele.chrom]
        match kind:
            case "ref":
                ref = next(base for base in "ACGT" if base not in (ref, alt))
            case "copy":
                copy = pad(allele, text, 2, 1)
                pos, ref, alt = copy.pos, copy.ref, copy.alt
            case "unplaced":
                chrom, place, pos = UNPLACED_CONTIG, len(order), 1_000 + number
            case _:
                alt = kind
        info = _info(release, entry, Assertion(Term.LB, _SINGLE_SUBMITTER), text)
        lines.append(_Line(place, pos, ref, alt, entry.first_id + 2_000_000, chrom, info))
    return lines


def _stable(entries: Sequence[ClinicalAllele]) -> list[ClinicalAllele]:
    """Return the alleles that both releases have with the same assertion and VariationID."""
    return [e for e in entries if e.first is not None and e.first == e.second and e.first_id == e.second_id]


def _of_term(entries: Sequence[ClinicalAllele], term: Term) -> list[ClinicalAllele]:
    return [e for e in entries if e.first is not None and e.first.term is term]


def _pick(entries: Sequence[ClinicalAllele], n: int, purpose: int) -> list[ClinicalAllele]:
    return [entries[k] for k in Draws(0, 60, purpose).sample(len(entries), n).tolist()]


def _info(release: Release, entry: ClinicalAllele, assertion: Assertion, text: str) -> tuple[tuple[str, str], ...]:
    term, review = str(assertion.term), assertion.review
    if release.old:
        term, review = old_wording(term), old_wording(review)
    symbol = entry.genes.split(":", 1)[0]
    kind = _variant_type(entry.allele, text)
    named = entry.first_id % 4
    pairs = [
        ("ALLELEID", str(entry.first_id - 10_000_000)),
        ("CLNDISDB", "MedGen:CN169374" if named == 0 else f"SIMDB:{symbol}|MedGen:C3661900"),
        ("CLNDN", "not_specified" if named == 0 else f"Simulated_{symbol}_syndrome|not_provided"),
        ("CLNHGVS", _hgvs(entry.allele)),
        ("CLNREVSTAT", review),
        ("CLNSIG", term),
    ]
    if assertion.term in (Term.CONFLICT, Term.CONFLICT_DRUG):
        pairs.append(("CLNSIGCONF", f"Uncertain_significance({1 + named})|Likely_benign(1)"))
    pairs += [
        ("CLNVC", kind),
        ("CLNVCSO", _TYPES[kind]),
        ("GENEINFO", entry.genes),
        ("MC", entry.molecular_consequence),
        ("ORIGIN", "1"),
    ]
    return (*pairs, ("RS", f"99{entry.first_id:09d}")) if named != 1 else tuple(pairs)


def _somatic_info(entry: ClinicalAllele) -> tuple[tuple[str, str], ...]:
    if entry.first_id % 2:
        return ("ONC", "Likely_oncogenic"), ("ONCREVSTAT", _SINGLE_SUBMITTER)
    return ("SCI", "Tier_II_-_Potential"), ("SCIREVSTAT", _SINGLE_SUBMITTER)


def _variant_type(allele: Variant, text: str) -> str:
    if not allele.is_indel:
        return "single_nucleotide_variant" if len(allele.ref) == 1 else "Indel"
    if len(allele.alt) == 1:
        return "Deletion"
    if len(allele.ref) > 1:
        return "Indel"
    added = allele.alt[1:]
    return "Duplication" if text[allele.pos : allele.pos + len(added)] == added else "Insertion"


def _hgvs(allele: Variant) -> str:
    accession = f"SIM_{allele.chrom.removeprefix('chr')}.1"
    kind = "m" if allele.chrom == "chrM" else "g"
    if len(allele.ref) == len(allele.alt) == 1:
        return f"{accession}:{kind}.{allele.pos}{allele.ref}>{allele.alt}"
    return f"{accession}:{kind}.{allele.pos}_{allele.pos + len(allele.ref) - 1}delins{allele.alt}"
