from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pysam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import Variant
from genolewm_assets.sample.alleles.assertions import (
    RARE_TERMS,
    Assertion,
    Term,
    draw_assertion,
    next_assertion,
    old_wording,
    rare_assertion,
)
from genolewm_assets.sample.alleles.clinical import ClinicalAllele, simulate_clinical_alleles
from genolewm_assets.sample.alleles.sites import Sites, simulate_sites
from genolewm_assets.sample.alleles.spelling import Plants, choose_heads, merge, pad, shift_right, spell_records
from genolewm_assets.sample.genome.draws import Draws
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets_tests.referees.census import normal_form, read_rows, read_text, reject_reason
from genolewm_assets_tests.rows import each_row


@each_row(
    ("new", "old"),
    [
        ("Conflicting_classifications_of_pathogenicity", "Conflicting_interpretations_of_pathogenicity"),
        ("no_classification_for_the_single_variant", "no_interpretation_for_the_single_variant"),
        ("no_classification_provided", "no_assertion_provided"),
        (
            "criteria_provided,_conflicting_classifications",
            "criteria_provided,_conflicting_interpretations",
        ),
        ("Pathogenic/Likely_pathogenic", "Pathogenic/Likely_pathogenic"),
    ],
)
def test_old_wording(new: str, old: str) -> None:
    assert old_wording(new) == old


def test_terms_follow_the_effect() -> None:
    draws = Draws(1)
    truncating = [draw_assertion("truncating", draws).term for _ in range(500)]
    silent = [draw_assertion("silent", draws).term for _ in range(500)]
    pathogenic = {Term.P, Term.PLP, Term.LP}
    assert sum(t in pathogenic for t in truncating) > 350
    assert sum(t in pathogenic for t in silent) < 25


def test_conflicts_have_the_review_status_of_conflicts() -> None:
    draws = Draws(2)
    drawn = [draw_assertion("missense", draws) for _ in range(500)]
    assert {a.review for a in drawn if a.term is Term.CONFLICT} == {"criteria_provided,_conflicting_classifications"}
    assert len({a.review for a in drawn if a.term is Term.VUS}) == 5


def test_rare_terms_are_dealt_in_turn() -> None:
    draws = Draws(3)
    assert [rare_assertion(i, draws).term for i in range(len(RARE_TERMS) + 1)] == [*RARE_TERMS, RARE_TERMS[0]]
    assert not set(RARE_TERMS) & {draw_assertion("missense", draws).term for _ in range(300)}


def test_later_releases_change_some() -> None:
    draws = Draws(4)
    vus = Assertion(Term.VUS, "criteria_provided,_single_submitter")
    later = [next_assertion(vus, draws) for _ in range(2_000)]
    changed = [a for a in later if a != vus]
    assert 0.1 < len(changed) / len(later) < 0.18
    assert {a.term for a in changed} == {Term.LP, Term.P, Term.LB, Term.CONFLICT}
    drug = Assertion(Term.DRUG, "criteria_provided,_single_submitter")
    assert all(next_assertion(drug, draws) == drug for _ in range(100))


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


FILES = {"2024-01-07": "clinvar_20240107.vcf.gz", "2025-01-05": "clinvar_20250105.vcf.gz"}
release = pytest.mark.parametrize("day", FILES)


@pytest.mark.nightly
@release
def test_htslib_reads_it(day: str, sample_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pysam.VariantFile(str(sample_dir / "releases" / FILES[day])) as vcf:
        declared = set(vcf.header.info)
        used = {name for record in vcf for name in record.info}
    assert used == declared
    # htslib misses the index, which these files have no need of, and must have nothing else to say.
    assert [line for line in capfd.readouterr().err.splitlines() if "index file" not in line] == []


@release
def test_header(day: str, sample_dir: Path) -> None:
    lines = read_text(sample_dir / "releases" / FILES[day]).splitlines()
    assert f"##fileDate={day}" in lines
    assert any(line.startswith("##source=simulated") for line in lines)


@pytest.mark.parametrize(
    ("day", "names"),
    [("2024-01-07", ["chr17", "chr20", "chr21", "chrM"]), ("2025-01-05", ["17", "20", "21", "MT"])],
)
def test_contigs_are_spelled_in_the_two_ways_and_in_order(day: str, names: list[str], sample_dir: Path) -> None:
    places = [(c[0], int(c[1])) for c, _ in read_rows(sample_dir / "releases" / FILES[day])]
    assert list(dict.fromkeys(name for name, _ in places)) == [*names, "NW_009646201.1"]
    for name in names:
        positions = [pos for chrom, pos in places if chrom == name]
        assert positions == sorted(positions)


@release
def test_identifiers_are_unique_and_not_the_allele_ids(day: str, sample_dir: Path) -> None:
    rows = list(read_rows(sample_dir / "releases" / FILES[day]))
    ids = [columns[2] for columns, _ in rows]
    assert len(ids) == len(set(ids))
    assert not set(ids) & {info["ALLELEID"] for _, info in rows}


def test_wordings_are_those_of_their_time(sample_dir: Path) -> None:
    old, new = (
        [(info.get("CLNSIG", ""), info.get("CLNREVSTAT", "")) for _, info in read_rows(sample_dir / "releases" / name)]
        for name in FILES.values()
    )
    assert any("interpretation" in term for term, _ in old)
    assert not any("classification" in text for pair in old for text in pair)
    assert any("classification" in term for term, _ in new)
    assert not any("interpretation" in text for pair in new for text in pair)


def test_only_the_newer_release_has_somatic_fields(sample_dir: Path) -> None:
    somatic = [
        sum("ONC" in info or "SCI" in info for _, info in read_rows(sample_dir / "releases" / name))
        for name in FILES.values()
    ]
    assert somatic == [0, 8]


@release
def test_some_records_have_no_germline_classification(day: str, sample_dir: Path) -> None:
    rows = list(read_rows(sample_dir / "releases" / FILES[day]))
    assert sum("CLNSIG" not in info for _, info in rows) == 4
    assert sum("CLNSIGINCL" in info for _, info in rows) == 3


@release
def test_variant_types_agree_with_the_alleles(day: str, sample_dir: Path) -> None:
    seen = set()
    for columns, info in read_rows(sample_dir / "releases" / FILES[day]):
        kind = info["CLNVC"]
        seen.add((kind, info["CLNVCSO"]))
        if kind == "Deletion":
            assert len(columns[3]) > len(columns[4])
        elif kind in ("Duplication", "Insertion"):
            assert len(columns[3]) < len(columns[4])
    assert len(seen) == 5


TEXT = "GATTACAGGGGGGCATCATCATCATTTTAGACCA"


def _apply(allele: Variant, text: str) -> str:
    start = allele.pos - 1
    assert text[start : start + len(allele.ref)] == allele.ref
    return text[:start] + allele.alt + text[start + len(allele.ref) :]


@given(st.text("AC", min_size=12, max_size=30), st.data())
def test_shifted_indel_is_the_same_haplotype_and_cannot_move_further(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, 5))
    size = data.draw(st.integers(1, 4))
    body = text[start + 1 : start + 1 + size]
    deletion = data.draw(st.booleans())
    ref, alt = (text[start] + body, text[start]) if deletion else (text[start], text[start] + body)
    allele = Variant("c", start + 1, ref, alt)
    shifted = shift_right(allele, text)
    assert _apply(shifted, text) == _apply(allele, text)
    assert shift_right(shifted, text) == shifted
    assert shifted.pos >= allele.pos


@each_row(("left", "right"), [(0, 0), (1, 0), (0, 1), (10, 10)])
def test_padding_changes_nothing_but_the_spelling(left: int, right: int) -> None:
    allele = Variant("c", 14, "C", "T")
    padded = pad(allele, TEXT, left, right)
    assert (padded.pos, len(padded.ref)) == (14 - left, 1 + left + right)
    assert _apply(padded, TEXT) == _apply(allele, TEXT)
    assert normal_form(padded.pos, padded.ref, padded.alt, TEXT) == (14, "C", "T")


def test_merging_keeps_each_haplotype() -> None:
    alleles = (Variant("c", 8, "G", "GG"), Variant("c", 10, "GGG", "G"), Variant("c", 14, "C", "A"))
    record = merge(alleles, (5, 6, 9), TEXT)
    assert (record.pos, record.ref, record.rows) == (8, TEXT[7:14], (5, 6, 9))
    for allele, alt in zip(alleles, record.alts, strict=True):
        assert _apply(Variant("c", record.pos, record.ref, alt), TEXT) == _apply(allele, TEXT)


@pytest.fixture(scope="module")
def planted(genome: Mapping[str, SimulatedContig]) -> Sites:
    return simulate_sites(genome["chr17"], clusters=300, rare=3_000, key=3)


def test_planted_records_are_as_many_as_asked_for(planted: Sites, genome: Mapping[str, SimulatedContig]) -> None:
    text = genome["chr17"].sequence.decode()
    plants = Plants(merged=7, right_shifted=5, padded=6, duplicates=2, mismatches=3, spanning=1)
    head = choose_heads(planted, plants, key=3)
    usable = planted.background < planted.n_common
    records = spell_records(planted, head, np.asarray(usable), text, plants, key=3)
    assert [r.pos for r in records] == sorted(r.pos for r in records)
    assert sum(len(r.alts) > 1 for r in records) == 7
    reasons = [reject_reason(r.pos, r.ref, alt, text) for r in records for alt in r.alts]
    assert (reasons.count("ref_mismatch"), reasons.count("spanning_deletion")) == (3, 1)
    good = [(r, alt) for r in records for alt in r.alts if reject_reason(r.pos, r.ref, alt, text) is None]
    keys = [normal_form(r.pos, r.ref, alt, text) for r, alt in good]
    assert len(keys) - len(set(keys)) == 2
    assert set(keys) == {(a.pos, a.ref, a.alt) for a in planted.alleles}
    irregular = sum(key != (r.pos, r.ref, alt) and len(r.alts) == 1 for key, (r, alt) in zip(keys, good, strict=True))
    assert irregular == 5 + 6 + 2


def test_partners_are_neighbours_and_in_one_record_only(planted: Sites) -> None:
    head = choose_heads(planted, Plants(merged=20), key=4)
    second = np.flatnonzero(head != np.arange(head.size))
    assert np.array_equal(head[second], second - 1)
    assert np.bincount(head).max() == 2
    assert (planted.pos[second] - planted.pos[second - 1] <= 8).all()
