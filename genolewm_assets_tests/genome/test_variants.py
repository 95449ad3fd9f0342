from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import AlleleError, IntervalError, ReferenceMismatchError
from genolewm_assets.genome import EditType, Variant, left_align, normalise, trim_alleles
from genolewm_assets_tests.referees.bcftools import Allele, bcftools_norm, read_alleles, write_fasta
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import sequences, variants

CLINVAR = ("clinvar/vcf_GRCh38/clinvar_20201107.vcf.gz", "clinvar/vcf_GRCh38/clinvar_20260226.vcf.gz")
GNOMAD_CHR17 = (
    "gnomad/release/4.1/vcf/joint/gnomad.joint.v4.1.sites.chr17.vcf.bgz",
    "gnomad/release/3.0/vcf/genomes/gnomad.genomes.r3.0.sites.chr17.vcf.bgz",
)
COHORT = "thousand_genomes/1000G_cohort.af.chr20_chr21_100k.vcf.gz"
OTHERS = (
    "clinvar/vcf_GRCh38/clinvar_20220525.chrM.vcf.gz",
    "gnomad/release/2.0.1-liftover/vcf/exomes/gnomad.exomes.r2.0.1.sites.chr21.vcf.bgz",
    "gnomad/release/3.1/vcf/genomes/gnomad.genomes.v3.1.sites.chrM.vcf.bgz",
    "thousand_genomes/1000G_phase3.phased.chr17_BRCA1_exons.vcf.gz",
)

ReadContig = Callable[[str], bytes]


def haplotype(reference: str, pos: int, ref: str, alt: str) -> str:
    start = pos - 1
    assert reference[start : start + len(ref)] == ref
    return reference[:start] + alt + reference[start + len(ref) :]


def key(variant: Variant) -> Allele:
    return variant.chrom, variant.pos, variant.ref, variant.alt


def ours(allele: Allele, read: ReadContig) -> Allele | None:
    try:
        return key(normalise(Variant(*allele), read(allele[0])))
    except ReferenceMismatchError:
        return None


@each_row(
    ("ref", "alt", "kind"),
    [
        *(("A", "C", "snv"), ("CAG", "CTG", "snv"), ("CA", "TG", "mnv"), ("CAG", "TAC", "mnv"), ("C", "CA", "ins")),
        *(("C", "AC", "ins"), ("CAT", "CATAT", "ins"), ("CA", "C", "del"), ("CA", "A", "del"), ("CATG", "CG", "del")),
        *(("CA", "G", "delins"), ("CAG", "CTTG", "delins"), ("A", "CG", "delins")),
    ],
)
def test_kind(ref: str, alt: str, kind: str) -> None:
    variant = Variant("chr1", 10, ref, alt)
    assert variant.kind == kind
    assert variant.is_snv is (kind == "snv")
    assert variant.is_indel is (len(ref) != len(alt))


def test_footprint_and_case() -> None:
    variant = Variant("chr1", 10, "cag", "c")
    assert (variant.ref, variant.alt) == ("CAG", "C")
    assert str(variant) == "chr1:10:CAG>C"


@each_row(
    ("ref", "alt"),
    [
        *(("A", "."), ("A", "*"), ("A", "<DEL>"), ("A", "A]chr2:5]"), ("A", "R"), ("A", "N"), ("A", "AN")),
        *(("N", "NN"), ("A", "A"), ("a", "A"), ("A", ""), ("", "A"), ("R", "A"), ("A", "C,G"), ("CNNA", "CNNN")),
    ],
)
def test_unusable_allele_is_an_error(ref: str, alt: str) -> None:
    with pytest.raises(AlleleError, match="chr1:10: "):
        Variant("chr1", 10, ref, alt)


@each_row(("ref", "alt"), [("NC", "N"), ("CN", "N"), ("CNNA", "CNNT"), ("CN", "C"), ("N", "A")])
def test_n_is_accepted_where_nothing_changes_it(ref: str, alt: str) -> None:
    assert Variant("chr1", 10, ref, alt).ref == ref


@each_row(
    ("given_", "trimmed"),
    [
        ((10, "A", "C"), (10, "A", "C")),
        ((10, "CAG", "CTG"), (11, "A", "T")),
        ((10, "TCAC", "TC"), (10, "TCA", "T")),
        ((10, "GCAA", "GCTAA"), (11, "C", "CT")),
        ((10, "CA", "A"), (10, "CA", "A")),
        ((10, "AA", "A"), (10, "AA", "A")),
    ],
)
def test_trimming(given_: tuple[int, str, str], trimmed: tuple[int, str, str]) -> None:
    assert trim_alleles(*given_) == trimmed


@given(st.data(), sequences(1, 80))
def test_normal_form_keeps_the_haplotype_and_is_stable(data: st.DataObject, reference: str) -> None:
    variant = data.draw(variants(reference))
    normal = normalise(variant, reference.encode())
    assert haplotype(reference, *key(normal)[1:]) == haplotype(reference, *key(variant)[1:])
    assert normalise(normal, reference.encode()) is normal
    assert normal.kind == variant.kind


@given(st.data(), sequences(1, 40, alphabet="AC"))
def test_one_haplotype_has_one_normal_form(data: st.DataObject, reference: str) -> None:
    one, two = data.draw(variants(reference)), data.draw(variants(reference))
    same = haplotype(reference, *key(one)[1:]) == haplotype(reference, *key(two)[1:])
    normals = [normalise(v, reference.encode()) for v in (one, two)]
    if normals[0] == normals[1]:
        assert same
    if same and all(v.is_indel and v.kind is not EditType.DELINS for v in normals):
        # The contig's first base may stand before or after an event: bcftools keeps both spellings.
        assert normals[0] == normals[1] or {n.pos for n in normals} == {1}


def test_long_tandem_repeat() -> None:
    reference = b"ACGTCG" + b"CA" * 50_000 + b"GGT"
    pos = len(reference) - 5
    assert left_align(pos, "ACA", "A", reference) == (6, "GCA", "G")
    assert left_align(pos, "A", "A" + "CA" * 30, reference) == (6, "G", "G" + "CA" * 30)


def messy_sequence(rng: random.Random, length: int, alphabet: str) -> str:
    """Bases mixed with tandem repeats of units of 1 to 6 bases."""
    parts: list[str] = []
    while sum(map(len, parts)) < length:
        unit = "".join(rng.choices(alphabet, k=rng.randint(1, 6)))
        parts.append(unit * (rng.randint(2, 60) if rng.random() < 0.6 else 1))
    return "".join(parts)[:length]


def messy_alleles(rng: random.Random, chrom: str, sequence: str, count: int) -> list[Allele]:
    """Alleles of every kind in every spelling; the few that are not sequence variants are left out."""
    found = []
    for _ in range(count):
        start = rng.randrange(len(sequence))
        ref = sequence[start : start + rng.choice([1, 1, 2, 3, 5, 12, 30])]
        cut = rng.randint(0, len(ref))
        inserted = rng.choice([ref, sequence[max(0, start - 3) : start], "".join(rng.choices("ACGT", k=4))])
        new = "".join(rng.choices("ACGT", k=rng.randint(1, 6)))
        alt = rng.choice([ref[:cut], ref[cut:], ref[:cut] + inserted + ref[cut:], new])
        try:
            found.append(key(Variant(chrom, start + 1, ref, alt)))
        except AlleleError:
            continue
    return found


def test_synthetic_repeats_gaps_and_contig_starts_equal_bcftools(tmp_path: Path) -> None:
    rng = random.Random(20_260_226)
    contigs = {
        f"c{i}": messy_sequence(rng, rng.choice([20, 60, 400, 2_000]), alphabet)
        for i in range(30)
        for alphabet in ["AC", "ACGT", "ACGTN"][i % 3 : i % 3 + 1]
    }
    alleles = [a for name, sequence in contigs.items() for a in messy_alleles(rng, name, sequence, 150)]
    referee = bcftools_norm(write_fasta(tmp_path / "r.fa", contigs), alleles, tmp_path)
    assert len(alleles) > 3_000
    assert None not in referee
    assert sum(a != b for a, b in zip(alleles, referee, strict=True)) > 1_500
    assert [ours(a, lambda name: contigs[name].encode()) for a in alleles] == referee


def test_ambiguity_codes_of_the_reference_equal_bcftools(tmp_path: Path) -> None:
    sequence = "ACRRCCMCCCNCCYCCAARAARAAGGMGGMTTWTTWTSSGKBDHVA" * 3
    concrete = sequence.translate(str.maketrans("RYSWKMBDHV", "ACCAGACAAA"))
    alleles = messy_alleles(random.Random(1), "c", concrete, 400)
    referee = bcftools_norm(write_fasta(tmp_path / "r.fa", {"c": sequence}), alleles, tmp_path)
    assert None not in referee
    assert [ours(a, lambda _: sequence.encode()) for a in alleles] == referee


@pytest.mark.parametrize("vcf", [*CLINVAR, *GNOMAD_CHR17, *OTHERS])
def test_every_allele_of_a_real_file_equals_bcftools(
    vcf: str, shared_data: Path, reference_fasta: Path, contig_bytes: ReadContig, tmp_path: Path
) -> None:
    alleles = list(read_alleles(shared_data / vcf))
    referee = bcftools_norm(reference_fasta, alleles, tmp_path)
    assert [ours(a, contig_bytes) for a in alleles] == referee
    assert sum(a is None for a in referee) == 0


def test_the_111_alleles_that_bcftools_changes(
    shared_data: Path, reference_fasta: Path, contig_bytes: ReadContig, tmp_path: Path
) -> None:
    alleles = list(read_alleles(shared_data / COHORT))
    referee = bcftools_norm(reference_fasta, alleles, tmp_path)
    assert sum(a != b for a, b in zip(alleles, referee, strict=True)) == 111
    assert [ours(a, contig_bytes) for a in alleles] == referee


def test_pos_zero_is_an_error() -> None:
    with pytest.raises(IntervalError):
        Variant("chr1", 0, "A", "C")


@each_row("pos", [4, 5, 500])
def test_beyond_the_contig_is_an_error(pos: int) -> None:
    with pytest.raises(IntervalError, match="expected an end of at most 4"):
        normalise(Variant("chr21", pos, "TA", "T"), b"ACGT")
