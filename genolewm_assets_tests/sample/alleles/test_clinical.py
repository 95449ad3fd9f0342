from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from genolewm_assets.genome import Variant
from genolewm_assets.sample.alleles.clinical import ClinicalAllele, simulate_clinical_alleles
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets_tests.referees.census import normal_form

ELEMENT = ("chr17", 335_000, 341_000, "LOC99000203:99000203")


@pytest.fixture(scope="module")
def common(genome: Mapping[str, SimulatedContig]) -> dict[str, list[Variant]]:
    gene = genome["chr21"].genes[0]
    text = genome["chr21"].sequence.decode()
    places = [gene.plan.start + 50, gene.exons[0][0] + 10, gene.plan.end + 500]
    return {"chr21": [Variant("chr21", at + 1, text[at], "ACGT"["CATG".index(text[at])]) for at in places]}


@pytest.fixture(scope="module")
def entries(genome: Mapping[str, SimulatedContig], common: Mapping[str, list[Variant]]) -> tuple[ClinicalAllele, ...]:
    return simulate_clinical_alleles(genome, common, ELEMENT)


def test_alleles_are_in_genome_order_unique_and_normal(
    genome: Mapping[str, SimulatedContig], entries: tuple[ClinicalAllele, ...]
) -> None:
    order = {name: i for i, name in enumerate(genome)}
    keys = [(order[e.allele.chrom], e.allele.pos, e.allele.ref, e.allele.alt) for e in entries]
    assert keys == sorted(set(keys))
    texts = {name: contig.sequence.decode() for name, contig in genome.items()}
    for entry in entries:
        a = entry.allele
        assert texts[a.chrom][a.pos - 1 : a.pos - 1 + len(a.ref)] == a.ref
        assert normal_form(a.pos, a.ref, a.alt, texts[a.chrom]) == (a.pos, a.ref, a.alt)


def test_every_gene_has_every_kind_of_allele(entries: tuple[ClinicalAllele, ...]) -> None:
    by_gene = Counter(e.genes.split(":")[0] for e in entries)
    assert len([g for g in by_gene if not g.startswith("SIMMT")]) == 24
    assert min(by_gene.values()) >= 20
    terms = {e.consequence for e in entries}
    assert {"missense_variant", "synonymous_variant", "nonsense", "frameshift_variant", "splice_donor_variant"} <= terms
    kinds = Counter(str(e.allele.kind) for e in entries)
    assert set(kinds) == {"snv", "mnv", "ins", "del", "delins"}


def test_fates_between_releases(entries: tuple[ClinicalAllele, ...]) -> None:
    gone = sum(e.second is None for e in entries)
    new = sum(e.first is None for e in entries)
    changed = sum(e.first is not None and e.second is not None and e.first.term != e.second.term for e in entries)
    assert 0 < gone < 0.03 * len(entries)
    assert 0.2 * len(entries) < new < 0.3 * len(entries)
    assert 0.03 * len(entries) < changed < 0.15 * len(entries)
    assert sum(e.first_id != e.second_id for e in entries) == 2
    assert all(e.first is not None or e.second is not None for e in entries)
    ids = [e.first_id for e in entries] + [e.second_id for e in entries if e.second_id != e.first_id]
    assert len(ids) == len(set(ids))


def test_overlapping_genes_and_the_element_are_named_beside(entries: tuple[ClinicalAllele, ...]) -> None:
    shared = [e for e in entries if "|" in e.genes]
    names = {e.genes for e in shared}
    assert names == {"SIM5:99000005|SIM6:99000006", "SIM3:99000003|LOC99000203:99000203"}
    for entry in shared:
        low, high = (686_000, 690_000) if "SIM6" in entry.genes else (335_000, 341_000)
        assert low <= entry.allele.pos - 1 < high


def test_common_alleles_of_introns_are_asserted_as_benign(
    entries: tuple[ClinicalAllele, ...], common: Mapping[str, list[Variant]]
) -> None:
    inside, exonic, outside = common["chr21"]
    found = {e.allele: e for e in entries}
    assert found[inside].consequence == "intron_variant"
    assert exonic not in found or found[exonic].consequence != "intron_variant"
    assert outside not in found


def test_molecular_consequence_pairs_accession_and_term(entries: tuple[ClinicalAllele, ...]) -> None:
    pairs = {e.molecular_consequence for e in entries}
    assert "SO:0001583|missense_variant" in pairs
    assert len({p.split("|")[0] for p in pairs}) == len({p.split("|")[1] for p in pairs}) == len(pairs)
