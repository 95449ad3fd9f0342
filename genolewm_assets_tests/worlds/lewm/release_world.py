"""Small ClinVar releases as plain dicts, and their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import hypothesis.strategies as st
import pyarrow as pa

from genolewm_assets.variants.changes import CHANGE_COLUMNS
from genolewm_assets.variants.schema import CLINVAR_VARIANTS

#: Texts and their classes; the last three all mean OTHER.
LABELS: Mapping[str | None, str] = {
    "Pathogenic": "P",
    "Pathogenic|risk_factor": "P",
    "Likely_pathogenic": "LP",
    "Uncertain_significance": "VUS",
    "Likely_benign": "LB",
    "Benign": "B",
    "not_provided": "OTHER",
    "drug_response": "OTHER",
    None: "OTHER",
}


@dataclass(frozen=True)
class Entry:
    clinvar_id: int = 1
    clnsig: str | None = "Pathogenic"
    stars: int = 1
    genes: tuple[str, ...] = ("SIM1",)

    @property
    def label(self) -> str:
        return LABELS[self.clnsig]

    @property
    def gene_ids(self) -> list[int]:
        return [len(gene) for gene in self.genes]


Allele = tuple[int, str, str]
#: Alleles by contig.
Release = Mapping[str, Mapping[Allele, Entry]]

SCHEMA = pa.schema([CLINVAR_VARIANTS.arrow.field(name) for name in CHANGE_COLUMNS])


def allele_table(contig: str, alleles: Iterable[tuple[Allele, Entry]]) -> pa.Table:
    """Return alleles of one contig, in the order given."""
    rows = [
        {"chrom": contig, "pos": pos, "ref": ref, "alt": alt, "gene_symbols": list(entry.genes)}
        | {name: getattr(entry, name) for name in ("clinvar_id", "label", "clnsig", "stars", "gene_ids")}
        for (pos, ref, alt), entry in alleles
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def shard(release: Release, contig: str) -> pa.Table:
    """Return a release's alleles of a contig, sorted as in its shard; empty where it has none."""
    return allele_table(contig, sorted(release.get(contig, {}).items()))


def count_labels(release: Release) -> dict[str, int]:
    labels = [entry.label for alleles in release.values() for entry in alleles.values()]
    return {label: labels.count(label) for label in set(LABELS.values())}


ALLELES: st.SearchStrategy[Allele] = st.tuples(
    st.integers(8, 11), st.sampled_from(["A", "AC"]), st.sampled_from(["C", "G", "ACC", "T"])
)
ENTRIES = st.builds(
    Entry,
    clinvar_id=st.integers(1, 3),
    clnsig=st.sampled_from(list(LABELS)),
    stars=st.integers(0, 4),
    genes=st.lists(st.sampled_from(["SIM1", "SIM2"]), unique=True).map(tuple),
)
CONTIGS = ("chr17", "chr20", "chrM")
RELEASES: st.SearchStrategy[Release] = st.dictionaries(
    st.sampled_from(CONTIGS), st.dictionaries(ALLELES, ENTRIES, max_size=8)
)
