from __future__ import annotations

from pathlib import Path

import pysam
import pysam.bcftools
import pytest

from genolewm_assets.sample.alleles.gnomad_vcf import Field, record_line
from genolewm_assets.sample.alleles.spelling import Record
from genolewm_assets_tests.referees.census import GNOMAD_FILES, normal_form, read_rows, read_text, reject_reason

LAYOUTS = {
    "chr17": {"AF_joint", "AC_joint_afr", "AN_joint_remaining", "grpmax_joint", "AF_grpmax_joint", "exomes_filters"},
    "chr20": {"AF", "AC_oth", "popmax", "AF_popmax", "lcr", "segdup", "nhomalt_mid"},
    "chr21": {"AF", "AC_remaining", "grpmax", "AF_grpmax", "lcr", "segdup", "nhomalt_mid"},
    "chrM": {"AC_hom", "AC_het", "AF_hom", "AF_het", "AN", "max_hl"},
}
nuclear = pytest.mark.parametrize("contig", ["chr17", "chr20", "chr21"])
each = pytest.mark.parametrize("contig", GNOMAD_FILES)


@each
def test_htslib_reads_every_record_and_knows_every_field(
    contig: str, sample_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pysam.VariantFile(str(sample_dir / "gnomad" / GNOMAD_FILES[contig])) as vcf:
        declared, used, pos = set(vcf.header.info), set(), []
        for record in vcf:
            used |= set(record.info)
            pos.append(record.pos)
            assert set(record.filter) <= set(vcf.header.filters)
    assert LAYOUTS[contig] <= declared
    assert used == declared
    assert pos == sorted(pos)
    # htslib misses the index, which these files have no need of, and must have nothing else to say.
    assert [line for line in capfd.readouterr().err.splitlines() if "index file" not in line] == []


@each
def test_header_says_that_it_is_simulated(contig: str, sample_dir: Path) -> None:
    lines = read_text(sample_dir / "gnomad" / GNOMAD_FILES[contig]).splitlines()
    assert any(line.startswith("##source=simulated") for line in lines[:5])


@nuclear
def test_frequencies_and_totals_agree(contig: str, sample_dir: Path) -> None:
    joint = "_joint" if contig == "chr17" else ""
    groups: list[str] = []
    for columns, info in read_rows(sample_dir / "gnomad" / GNOMAD_FILES[contig]):
        groups = groups or [n.rsplit("_", 1)[1] for n in info if n.startswith(f"nhomalt{joint}_")][:10]
        an = int(info[f"AN{joint}"])
        assert an == sum(int(info[f"AN{joint}_{g}"]) for g in groups)
        for index in range(columns[4].count(",") + 1):
            ac = int(info[f"AC{joint}"].split(",")[index])
            assert ac == sum(int(info[f"AC{joint}_{g}"].split(",")[index]) for g in groups)
            assert f"{ac / an:.5e}" == info[f"AF{joint}"].split(",")[index]
    assert len(groups) == 10


@nuclear
def test_group_of_highest_frequency_is_that(contig: str, sample_dir: Path) -> None:
    joint, top = ("_joint" if contig == "chr17" else ""), ("popmax" if contig == "chr20" else "grpmax")
    missing = 0
    for columns, info in read_rows(sample_dir / "gnomad" / GNOMAD_FILES[contig]):
        if "," in columns[4]:
            continue
        values = {g: float(info[f"AF{joint}_{g}"]) for g in ("afr", "amr", "eas", "nfe", "sas")}
        if f"{top}{joint}" not in info:
            missing += 1
            assert max(values.values()) == 0
        else:
            assert float(info[f"AF_{top}{joint}"]) == values[info[f"{top}{joint}"]] == max(values.values())
    assert missing > 0


def test_joint_counts_are_those_of_exomes_and_genomes(sample_dir: Path) -> None:
    failed: dict[str, set[tuple[bool, bool]]] = {}
    for columns, info in read_rows(sample_dir / "gnomad" / GNOMAD_FILES["chr17"]):
        for name in ("AC", "AN"):
            parts = [[int(x) for x in info[f"{name}_{data}"].split(",")] for data in ("exomes", "genomes", "joint")]
            assert [a + b for a, b in zip(*parts[:2], strict=True)] == parts[2]
        state = (info["exomes_filters"] != "PASS", info["genomes_filters"] != "PASS")
        failed.setdefault(columns[6], set()).add(state)
    assert failed == {
        "PASS": {(False, False)},
        "EXOMES_FILTERED": {(True, False)},
        "GENOMES_FILTERED": {(False, True)},
        "BOTH_FILTERED": {(True, True)},
    }


@pytest.mark.parametrize("contig", ["chr17", "chr21", "chrM"])
def test_bcftools_gives_the_same_normal_forms(
    contig: str, sample_dir: Path, sequences: dict[str, str], tmp_path: Path
) -> None:
    fasta = tmp_path / "reference.fa"
    fasta.write_text(f">{contig}\n{sequences[contig]}\n")
    path = sample_dir / "gnomad" / GNOMAD_FILES[contig]
    out = str(pysam.bcftools.norm("-m", "-any", "-c", "x", "-f", str(fasta), str(path), catch_stdout=True))
    rows = [line.split("\t")[:5] for line in out.splitlines() if not line.startswith("#")]
    theirs = sorted((int(pos), ref, alt) for _, pos, _, ref, alt in rows if alt != "*" and "N" not in ref)
    ours = sorted(
        normal_form(int(c[1]), c[3], alt, sequences[contig])
        for c, _ in read_rows(path)
        for alt in c[4].split(",")
        if reject_reason(int(c[1]), c[3], alt, sequences[contig]) is None
    )
    assert theirs == ours


def test_values_of_several_alleles_stand_in_their_order_and_missing_ones_are_points() -> None:
    fields = [
        Field("AC", "A", "Integer", "", ["1", "2", "3"]),
        Field("AN", "1", "Integer", "", ["10", "10", "12"]),
        Field("grpmax", "A", "String", "", [None, "afr", None]),
        Field("lcr", "0", "Flag", "", [True, False, False]),
    ]
    one = Record(5, "A", ("G", "T"), (0, 1))
    assert record_line("c", one, ".", "PASS", fields) == "c\t5\t.\tA\tG,T\t.\tPASS\tAC=1,2;AN=10;grpmax=.,afr;lcr"
    alone = Record(5, "A", ("G",), (2,))
    assert record_line("c", alone, "x", "AC0", fields) == "c\t5\tx\tA\tG\t.\tAC0\tAC=3;AN=12"
