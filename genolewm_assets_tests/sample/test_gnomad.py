from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pysam
import pysam.bcftools
import pytest

from genolewm_assets.sample.alleles.gnomad_vcf import Field, record_line
from genolewm_assets.sample.alleles.population import GENOMES_V3, GENOMES_V4, JOINT_V4, Callset, Counts, simulate_counts
from genolewm_assets.sample.alleles.sites import Sites, simulate_sites
from genolewm_assets.sample.alleles.spelling import Plants, Record, choose_heads
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets_tests.referees.census import GNOMAD_FILES, normal_form, read_rows, read_text, reject_reason
from genolewm_assets_tests.rows import each_row

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
    failed, in_exomes = dict[str, set[tuple[bool, bool]]](), Counter[bool]()
    for columns, info in read_rows(sample_dir / "gnomad" / GNOMAD_FILES["chr17"]):
        for name in ("AC", "AN"):
            genomes, joint = ([int(x) for x in info[f"{name}_{data}"].split(",")] for data in ("genomes", "joint"))
            # Where exomes are not called, they have no field.
            exomes = info.get(f"{name}_exomes", ",".join("0" * len(joint))).split(",")
            assert [int(a) + b for a, b in zip(exomes, genomes, strict=True)] == joint
        in_exomes["AN_exomes" in info] += 1
        assert "AN_exomes" in info or "not_called_in_exomes" in info
        state = (info.get("exomes_filters", "PASS") != "PASS", info["genomes_filters"] != "PASS")
        failed.setdefault(columns[6], set()).add(state)
    assert in_exomes[False] > in_exomes[True] > 1_000
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


@pytest.fixture(scope="module")
def sites(genome: Mapping[str, SimulatedContig]) -> Sites:
    return simulate_sites(genome["chr17"], clusters=300, rare=3_000, key=3)


@pytest.fixture(scope="module", params=[GENOMES_V3, GENOMES_V4, JOINT_V4], ids=["v3", "v4", "joint"])
def callset(request: pytest.FixtureRequest) -> Callset:
    chosen = request.param
    assert isinstance(chosen, Callset)
    return chosen


@pytest.fixture(scope="module")
def counts(sites: Sites, callset: Callset) -> Counts:
    return simulate_counts(sites, choose_heads(sites, Plants(), key=3), callset, key=3)


def test_counts_are_possible(counts: Counts) -> None:
    assert (counts.ac >= 0).all()
    assert (counts.ac <= counts.an).all()
    assert (2 * counts.nhomalt <= counts.ac).all()
    assert (counts.an > 0).all()
    assert counts.an.sum(axis=0).max() == counts.callset.most_alleles


def test_alleles_of_one_record_share_its_numbers(sites: Sites, counts: Counts) -> None:
    head = choose_heads(sites, Plants(), key=3)
    second = np.flatnonzero(head != np.arange(head.size))
    assert second.size == Plants().merged
    assert np.array_equal(counts.an[:, second], counts.an[:, head[second]])
    assert (counts.ac[:, second] + counts.ac[:, head[second]] <= counts.an[:, second]).all()


def test_only_ac0_records_have_no_carrier(counts: Counts) -> None:
    unseen = counts.ac.sum(axis=0) == 0
    assert unseen.tolist() == [name.startswith("AC0") for name in counts.filters]


def test_every_filter_occurs(counts: Counts) -> None:
    assert set(counts.filters) == {name for name, _ in counts.callset.filters}


def test_rare_alleles_follow_the_neutral_spectrum(counts: Counts) -> None:
    af = counts.af[counts.ac.sum(axis=0) > 0]
    tenths = [((af >= low) & (af < 10 * low)).mean() for low in (1e-4, 1e-3, 1e-2, 1e-1)]
    # With weight 1/f every decade holds about as many alleles, whereas uniform frequencies would give ten times more.
    assert max(tenths[:2]) < 3 * min(tenths[:2])
    assert 0.15 < (af >= 0.01).mean() < 0.4
    assert af.max() > 0.5


def test_groups_differ_by_drift(counts: Counts) -> None:
    common = counts.well_called()
    frequency = counts.ac[:, common] / counts.an[:, common]
    row = {group: frequency[i] for i, group in enumerate(counts.callset.groups)}
    assert np.abs(row["eas"] - row["afr"]).mean() > np.abs(row["nfe"] - row["amr"]).mean() > 0.01


def test_alleles_of_a_haplotype_are_linked(sites: Sites, counts: Counts) -> None:
    af = counts.af
    pairs = [
        np.flatnonzero((sites.background == carrier) & (af > 0))[:2]
        for carrier in np.unique(sites.background[sites.background < sites.n_common])
    ]
    linked = np.array([af[pair] for pair in pairs if pair.size == 2])
    assert np.corrcoef(linked.T)[0, 1] > 0.98


def test_four_alleles_stand_on_the_thresholds(counts: Counts) -> None:
    exact, below, half, less = counts.borders
    ac, an, most = counts.ac.sum(axis=0), counts.an.sum(axis=0), counts.callset.most_alleles
    assert 100 * ac[exact] == an[exact]
    assert 100 * (ac[below] + 1) == an[below]
    assert (2 * an[half], 2 * an[less]) == (most, most - (8 if counts.callset.genomes else 4))
    assert min(counts.af[[half, less]]) > 0.1
    assert [counts.filters[i] for i in counts.borders] == ["PASS"] * 4
    assert not counts.well_called()[list(counts.borders)].any()


def test_no_other_frequency_is_near_the_threshold(counts: Counts) -> None:
    # Printed with six digits, such a one could fall on either side.
    near = np.abs(counts.af - 0.01) < 5e-9
    assert np.flatnonzero(near).tolist() == [counts.borders[0]]


@each_row("contig", ["chr17", "chr20", "chr21"])
def test_border_survives_in_the_text(contig: str, sample_dir: Path) -> None:
    path = sample_dir / "gnomad" / GNOMAD_FILES[contig]
    suffix = "_joint" if "joint" in path.name else ""
    rows = [info for _, info in read_rows(path) if info[f"AF{suffix}"] == "1.00000e-02"]
    assert any(100 * int(info[f"AC{suffix}"]) == int(info[f"AN{suffix}"]) for info in rows)


@pytest.fixture(scope="module")
def contig(genome: Mapping[str, SimulatedContig]) -> SimulatedContig:
    return genome["chr20"]


@pytest.fixture(scope="module")
def all_sites(contig: SimulatedContig) -> Sites:
    return simulate_sites(contig, clusters=200, rare=3_000, key=1)


def test_alleles_are_sorted_unique_and_normal(contig: SimulatedContig, all_sites: Sites) -> None:
    text = contig.sequence.decode()
    keys = [(a.pos, a.ref, a.alt) for a in all_sites.alleles]
    assert keys == sorted(set(keys))
    assert keys == [normal_form(*key, text) for key in keys]
    assert all(text[pos - 1 : pos - 1 + len(ref)] == ref for pos, ref, _ in keys)


def test_kinds_of_alleles(contig: SimulatedContig, all_sites: Sites) -> None:
    single = [a for a in all_sites.alleles if a.is_snv]
    assert 0.85 < len(single) / len(all_sites.alleles) < 0.95
    transitions = sum({a.ref, a.alt} in ({"A", "G"}, {"C", "T"}) for a in single)
    assert 1.8 < transitions / (len(single) - transitions) < 3.2
    text = contig.sequence.decode()
    cpg = sum("CG" in (text[a.pos - 1 : a.pos + 1], text[a.pos - 2 : a.pos]) for a in single) / len(single)
    background = 2 * text.count("CG") / (len(text) - text.count("N"))
    assert cpg > 4 * background
    lengths = [abs(len(a.ref) - len(a.alt)) for a in all_sites.alleles if a.is_indel]
    assert lengths.count(1) > 0.35 * len(lengths)
    assert 5 < max(lengths) <= 20


def test_common_alleles_come_in_clusters(all_sites: Sites) -> None:
    common = all_sites.background < all_sites.n_common
    assert 0 < common.sum() < 0.5 * common.size
    for cluster in range(200):
        pos = all_sites.pos[common & (all_sites.background // 2 == cluster)]
        assert pos.size == 0 or np.ptp(pos) <= 1_000


def test_nothing_lies_near_a_gap_or_in_an_excluded_region(contig: SimulatedContig, all_sites: Sites) -> None:
    text = contig.sequence.decode()
    assert not any("N" in text[a.pos - 11 : a.pos + 30] for a in all_sites.alleles)
    single = [a.pos - 1 for a in all_sites.alleles if a.is_snv]
    assert not contig.excluded[single].any()


@pytest.fixture(scope="module")
def rows(sample_dir: Path) -> list[tuple[list[str], dict[str, str]]]:
    return list(read_rows(sample_dir / "gnomad" / GNOMAD_FILES["chrM"]))


def test_frequencies_are_counts_over_samples(rows: list[tuple[list[str], dict[str, str]]]) -> None:
    for _, info in rows:
        an = int(info["AN"])
        assert 56_000 < an <= 56_434
        for kind in ("hom", "het"):
            assert f"{int(info[f'AC_{kind}']) / an:.5e}" == info[f"AF_{kind}"]
        assert int(info["AC_hom"]) + int(info["AC_het"]) <= an


def test_highest_heteroplasmy_agrees_with_the_carriers(rows: list[tuple[list[str], dict[str, str]]]) -> None:
    for columns, info in rows:
        level, hom, het = float(info["max_hl"]), int(info["AC_hom"]), int(info["AC_het"])
        if "npg" in columns[6]:
            assert (level, hom, het) == (0, 0, 0)
        assert (level >= 0.95) == (hom > 0)
        assert level <= 1


def test_sites_pass_and_fail_as_in_the_public_file(rows: list[tuple[list[str], dict[str, str]]]) -> None:
    filters = Counter(columns[6] for columns, _ in rows)
    assert set(filters) == {"PASS", "npg", "artifact_prone_site", "indel_stack", "artifact_prone_site;npg"}
    assert 0.55 < filters["PASS"] / len(rows) < 0.7
    common = sum(c[6] == "PASS" and float(info["AF_hom"]) >= 0.01 for c, info in rows)
    assert common >= 50


def test_one_record_deletes_the_unknown_base(
    rows: list[tuple[list[str], dict[str, str]]], sequences: dict[str, str]
) -> None:
    touching = [c for c, _ in rows if int(c[1]) <= 3_107 < int(c[1]) + len(c[3])]
    assert [(int(c[1]), c[3][1:], c[4]) for c in touching] == [(3_106, "N", sequences["chrM"][3_105])]
    assert reject_reason(int(touching[0][1]), touching[0][3], touching[0][4], sequences["chrM"]) == "ref_not_acgt"
