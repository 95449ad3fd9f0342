"""Phased genotypes compared with what pysam reads from the same file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pysam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import GRCH38, Contig, ContigSet, Variant, normalise
from genolewm_assets.sources.haplotypes.genotypes import PhasedFile, read_phased
from genolewm_assets_tests.worlds.sources.vcf_files import write_text

CONTIG = Contig("chr17", 60)
#: A repeat of CA from base 10 on, in which indels have room to move.
BASES = b"TTGACCTGAT" + b"CA" * 10 + b"GTACGATTGCATCGATTACGTAGCATCGAT"
CONTIGS = ContigSet([CONTIG])
Row = tuple[int, str, str, list[str]]


def vcf(path: Path, rows: list[Row], *, n: int, layout: str = "GT", how: str = "bgzip", contig: str = "chr17") -> Path:
    names = "\t".join(f"s{i}" for i in range(n))
    lines = ["##fileformat=VCFv4.2", '##FORMAT=<ID=GT,Number=1,Type=String,Description="GT">']
    lines += ['##FORMAT=<ID=DP,Number=1,Type=Integer,Description="DP">', "##contig=<ID=chr17,length=60>"]
    lines += ["##contig=<ID=chr20>", f"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t{names}"]
    lines += ["\t".join([contig, str(pos), ".", ref, alt, ".", ".", ".", layout, *gt]) for pos, ref, alt, gt in rows]
    return write_text(path, "".join(f"{line}\n" for line in lines), how)


def wanted(*alleles: tuple[int, str, str]) -> pa.Table:
    pos, ref, alt = (list(column) for column in zip(*sorted(alleles), strict=True)) if alleles else ([], [], [])
    columns = {"chrom": pa.array(["chr17"] * len(pos), pa.string()), "pos": pa.array(pos, pa.int64())}
    return pa.table({**columns, "ref": pa.array(ref, pa.string()), "alt": pa.array(alt, pa.string())})


def read(path: Path, table: pa.Table) -> PhasedFile:
    return read_phased(path, CONTIG, table, contigs=CONTIGS, reference=lambda _: BASES)


def carried(found: PhasedFile) -> list[list[int]]:
    matrix = found.genotypes.carried(np.arange(len(found.genotypes)))
    return [np.flatnonzero(row).tolist() for row in matrix]


def test_sites_of_several_alleles_other_spellings_and_rejects(tmp_path: Path) -> None:
    rows = [
        (5, "C", "T,G", ["1|2", "2|0"]),
        # A unit of the repeat is lost: spelled at its end here, at its start in normal form.
        (26, "ACA", "A", ["0|1", "1|1"]),
        (5, "C", "G", ["1|1", "1|1"]),
        (7, "A", "G", ["1|1", "1|1"]),
        (33, "C", "<DEL>", ["1|1", "1|1"]),
        (40, BASES[39:40].decode(), "*", ["1|1", "1|1"]),
    ]
    normal = normalise(Variant("chr17", 26, "ACA", "A"), BASES)
    assert normal.pos < 12
    table = wanted((5, "C", "G"), (5, "C", "T"), (normal.pos, normal.ref, normal.alt), (8, "G", "A"))
    found = read(vcf(tmp_path / "x.vcf.gz", rows, n=2), table)
    keys = list(zip(*(table[name].to_pylist() for name in ("pos", "ref", "alt")), strict=True))
    by_key = dict(zip(keys, carried(found), strict=True))
    assert by_key == {
        (5, "C", "T"): [0],
        # Two records with other genotypes: neither counts.
        (5, "C", "G"): [],
        (normal.pos, normal.ref, normal.alt): [1, 2, 3],
        (8, "G", "A"): [],
    }
    assert found.genotypes.known.tolist() == [bool(by_key[key]) for key in keys]
    expected = {"records": 6, "alleles_in": 7, "alleles_used": 2, "rejected.conflicting_records": 2, "genotypes": 6}
    expected |= {"rejected.ref_mismatch": 1, "rejected.symbolic": 1, "rejected.spanning_deletion": 1}
    assert {name: n for name, n in found.counts.items() if n} == expected


@pytest.mark.parametrize(
    ("layout", "genotypes"), [("GT:DP", ["0|1:3", "1|1"]), ("GT", ["0", "1"]), ("GT", ["10|1", "1|0"])]
)
def test_other_layouts_are_those_of_pysam(tmp_path: Path, layout: str, genotypes: list[str]) -> None:
    alts = ",".join(["T", "G", "A" * 3, *("A" * n for n in range(5, 12))])
    path = vcf(tmp_path / "x.vcf", [(5, "C", alts, genotypes)], n=2, layout=layout, how="plain")
    found = read(path, wanted((5, "C", "T")))
    with pysam.VariantFile(str(path)) as file:
        (record,) = file
        copies = [[each == 1 for each in sample["GT"]] for sample in record.samples.values()]
    assert carried(found) == [[2 * i + c for i, pair in enumerate(copies) for c, is_one in enumerate(pair) if is_one]]


genotype = st.tuples(st.sampled_from([0, 1, 2, None]), st.sampled_from("|/"), st.sampled_from([0, 1, 2, None]))


@given(st.lists(st.lists(genotype, min_size=3, max_size=3), min_size=1, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_carriers_are_those_of_pysam(tmp_path: Path, records: list[list[tuple[int | None, str, int | None]]]) -> None:
    rows, table = [], []
    for number, samples in enumerate(records):
        ref = chr(BASES[29 + number])
        alts = [base for base in "ACGT" if base != ref][:2]
        texts = [f"{'.' if a is None else a}{mark}{'.' if b is None else b}" for a, mark, b in samples]
        rows.append((30 + number, ref, ",".join(alts), texts))
        table += [(30 + number, ref, alt) for alt in alts]
    path = vcf(tmp_path / "x.vcf", rows, n=3, how="plain")
    found = read(path, wanted(*table))
    by_pysam = {}
    counts: Counter[str] = Counter()
    with pysam.VariantFile(str(path)) as file:
        for record in file:
            for index, alt in enumerate(record.alts or (), start=1):
                holds = by_pysam.setdefault((record.pos, record.ref, alt), [])
                for i, sample in enumerate(record.samples.values()):
                    pair = sample["GT"]
                    if sample.phased or pair[0] == pair[1]:
                        holds += [2 * i + copy for copy in range(2) if pair[copy] == index]
            pairs = [(sample["GT"], sample.phased) for sample in record.samples.values()]
            counts["missing"] += sum(None in pair for pair, _ in pairs)
            counts["unphased"] += sum(None not in pair and pair[0] != pair[1] and not ph for pair, ph in pairs)
    assert dict(zip(sorted(by_pysam), carried(found), strict=True)) == dict(sorted(by_pysam.items()))
    assert found.counts["genotypes_missing"] == counts["missing"]
    assert found.counts["genotypes_unphased"] == counts["unphased"]


REFUSED = {
    "phase sets": ("GT:PS", ["0|1:7", "0|1:7"], "genotypes are phased in sets: expected FORMAT with GT and without PS"),
    "GT is not the first": ("DP:GT", ["3:0|1", "4:0|1"], "the record has no genotype"),
    "no genotype": ("DP", ["1", "2"], "the record has no genotype: expected FORMAT with GT and without PS, got 'DP'"),
    "three copies": ("GT", ["0|1|1", "0|1"], "a genotype cannot be read: expected one or two alleles, as 0|1, got"),
    "no number": ("GT", ["a|1", "0|1"], "a genotype cannot be read"),
    "no such allele": ("GT", ["0|2", "0|1"], "names an allele that the record lacks: expected 0 to 1, got 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_genotypes_are_refused_with_their_line(tmp_path: Path, name: str) -> None:
    layout, genotypes, message = REFUSED[name]
    path = vcf(tmp_path / "x.vcf", [(5, "C", "T", genotypes)], n=2, layout=layout, how="plain")
    with pytest.raises(VcfError, match=r"x\.vcf, line 7") as refused:
        read(path, wanted((5, "C", "T")))
    assert message in str(refused.value)
    # A record without a wanted allele is not read that far.
    assert read(path, wanted((6, "C", "T"))).counts["alleles_not_common"] == 1


def test_a_file_without_samples_or_records_of_the_contig_is_refused(tmp_path: Path) -> None:
    bare = write_text(
        tmp_path / "bare.vcf",
        "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nchr17\t5\t.\tC\tT\t.\t.\t.\n",
    )
    with pytest.raises(VcfError, match="has no sample"):
        read(bare, wanted())
    other = vcf(tmp_path / "other.vcf", [(5, "C", "T", ["0|1"])], n=1, how="plain", contig="chr20")
    with pytest.raises(VcfError, match="no record is on a requested contig"):
        read(other, wanted())


def test_1000_genomes_are_those_of_pysam(shared_data: Path) -> None:
    path = shared_data / "thousand_genomes" / "1000G_phase3.phased.chr17_BRCA1_exons.vcf.gz"
    with pysam.FastaFile(str(shared_data / "reference" / "GRCh38.slices.fa.gz")) as fasta:
        bases = fasta.fetch("chr17").upper().encode()
    by_pysam: dict[tuple[int, str, str], list[int]] = {}
    with pysam.VariantFile(str(path)) as file:
        for record in file:
            (alt,) = record.alts or ()
            one = normalise(Variant("chr17", record.pos, record.ref, alt), bases)
            copies = [copy for sample in record.samples.values() for copy in sample["GT"]]
            by_pysam[one.pos, one.ref, one.alt] = [at for at, copy in enumerate(copies) if copy == 1]
            assert record.info["AC"] == (len(by_pysam[one.pos, one.ref, one.alt]),)
    contigs = ContigSet([GRCH38["chr17"]])
    found = read_phased(path, contigs["chr17"], wanted(*by_pysam), contigs=contigs, reference=lambda _: bases)
    assert carried(found) == [by_pysam[key] for key in sorted(by_pysam)]
    assert found.genotypes.n_haplotypes == 5_008
    expected = {"records": 60, "alleles_in": 60, "alleles_used": 60, "genotypes": 60 * 2_504}
    assert {name: n for name, n in found.counts.items() if n} == expected
