"""The collections of the sample through the platform's own reader and checks: they must find what SAMPLE_FACTS says."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pysam
import pytest

from genolewm_assets.mito.genomes.rotation import canonical_rotation
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets.sample.mito.genomes import MitoGenome, simulate_mito_genomes
from genolewm_assets.sources.mito.genomes import read_genomes
from genolewm_assets_tests.mito.judged import Judged, judge_all
from genolewm_assets_tests.referees.census import SAMPLE_FACTS
from genolewm_assets_tests.referees.mito_census import fasta_records

FILES = ("genomes.fa.gz", "genomes.gb.gz")


@pytest.fixture(scope="module")
def checked(sample_dir: Path) -> Judged:
    paths = [sample_dir / "mtdna" / name for name in FILES]
    return judge_all(record for path in paths for record in read_genomes(path, label=path.name))


def test_qc_has_the_counts_of_the_facts(checked: Judged) -> None:
    facts = SAMPLE_FACTS.mito_genomes
    assert len(checked.kept) == facts.kept
    assert len(checked.kept) + len(checked.rejected) == facts.fasta_records + facts.genbank_records
    assert Counter(str(genome.reason) for genome in checked.rejected) == dict(facts.rejects)
    assert sum(len(genome.record.sequence) for genome in checked.kept) == facts.bases
    assert sum(genome.ambiguous_bases + genome.n_bases for genome in checked.kept) == facts.ambiguous_bases
    stated = [genome.record.haplogroup for genome in checked.kept if genome.record.haplogroup]
    assert (len(stated), len(set(stated))) == (facts.haplogroup_stated, facts.haplogroups)


def test_the_planted_records_are_told_with_their_figures(checked: Judged) -> None:
    assert [(genome.name, str(genome.reason), genome.detail) for genome in checked.rejected] == [
        ("SIMMT101", "duplicate_sequence", "same circle as 'SIMMT004' (genomes.fa.gz, record 4)"),
        ("SIMMT102", "too_short", "15,000 bp, expected at least 15,400"),
        ("SIMMT103", "too_many_n", "400 N of 16,569 bp, expected at most 1.00%"),
        ("SIMMT104", "junction_repeat", "the last 37 bp repeat the first"),
        ("SIMMT105.1", "no_sequence", "the record has no base"),
    ]


def test_every_kept_genome_is_one_of_the_simulated_however_it_is_cut(
    checked: Judged, genome: Mapping[str, SimulatedContig], sequences: dict[str, str]
) -> None:
    simulated = simulate_mito_genomes(genome["chrM"])
    for kept, own in zip(checked.kept, simulated, strict=True):
        assert kept.record.name.removesuffix(".1") == own.name
        assert canonical_rotation(kept.record.sequence) == canonical_rotation(own.spell(sequences["chrM"]))
        assert kept.record.haplogroup in (None, own.haplogroup)
    assert [kept.record.name for kept in checked.kept if kept.record.file == "genomes.gb.gz"] == [
        f"SIMMT{number:03d}.1" for number in range(37, 41)
    ]


@pytest.fixture(scope="module")
def genomes(genome: Mapping[str, SimulatedContig]) -> tuple[MitoGenome, ...]:
    return simulate_mito_genomes(genome["chrM"])


def test_substitutions_are_nested_as_on_a_tree(genomes: tuple[MitoGenome, ...]) -> None:
    """Four-gamete test (Hudson 1985): two sites of a tree without recurrence show at most three of the four pairs."""
    carriers = [
        frozenset(i for i, genome in enumerate(genomes) if site in genome.substituted)
        for site in sorted({site for genome in genomes for site in genome.substituted})
    ]
    assert all(a <= b or b <= a or not a & b for a, b in itertools.combinations(set(carriers), 2))
    shared = [len(c) for c in carriers if len(c) > 1]
    assert len(shared) > 60
    assert max(shared) > len(genomes) / 2


def test_haplogroups_are_clades(genomes: tuple[MitoGenome, ...]) -> None:
    labels = [genome.haplogroup for genome in genomes]
    assert len(set(labels)) == 14
    assert len({label[0] for label in labels}) == 6
    clades = [{i for i, label in enumerate(labels) if label.startswith(name)} for name in {*labels, *"HJTUKL"}]
    for site in {site for genome in genomes for site in genome.substituted}:
        carriers = {i for i, genome in enumerate(genomes) if site in genome.substituted}
        assert all(carriers <= clade or clade <= carriers or not carriers & clade for clade in clades)


def test_two_genomes_are_nearly_identical_and_no_others(genomes: tuple[MitoGenome, ...]) -> None:
    near = [
        (a.name, b.name)
        for a, b in itertools.combinations(genomes, 2)
        if len(a.substituted.items() ^ b.substituted.items()) <= 10
    ]
    assert near == [("SIMMT008", "SIMMT040")]


def test_indels_stand_where_people_have_them(genomes: tuple[MitoGenome, ...], sequences: dict[str, str]) -> None:
    chrm = sequences["chrM"]
    for genome in genomes:
        text = genome.spell(chrm)
        assert len(text) == len(chrm) - 1 + sum(map(len, genome.inserted.values())) - len(genome.deleted)
        assert "N" not in text
        assert all(chrm[site] == "C" and set(bases) == {"C"} for site, bases in genome.inserted.items())
    assert {site for genome in genomes for site in genome.inserted} == {308, 314, 16_192}
    assert {"C", "CC"} == {genome.inserted[308] for genome in genomes if 308 in genome.inserted}
    deleted = [genome for genome in genomes if genome.deleted]
    assert [sorted(genome.deleted) for genome in deleted] == [list(range(8_280, 8_289))] * len(deleted)
    assert len(deleted) >= 3
    assert len({genome.haplogroup for genome in deleted}) == 1


def test_a_mixed_site_shows_what_most_copies_have(genomes: tuple[MitoGenome, ...], sequences: dict[str, str]) -> None:
    chrm = sequences["chrM"]
    both = {"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"}
    shown = []
    for genome in (g for g in genomes if g.mixed):
        for mixed in genome.mixed:
            spelt = MitoGenome("", "", {}, {}, frozenset(), (mixed,)).spell(chrm)
            base = spelt[mixed.site - (mixed.site > chrm.index("N"))]
            shown.append(mixed.per_mille)
            if mixed.per_mille < 300:
                assert base == chrm[mixed.site]
            elif mixed.per_mille < 700:
                assert set(both[base]) == {chrm[mixed.site], mixed.alt}
            else:
                assert base == mixed.alt
    assert len(shown) == 9 * 5
    assert min(shown) < 300 < max(shown)


LAYOUTS = {"AF": "A", "HL": 1}
CODES = {"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"}


@pytest.fixture(params=LAYOUTS)
def calls(request: pytest.FixtureRequest, sample_dir: Path) -> tuple[str, list[pysam.VariantRecord]]:
    path = sample_dir / "mtdna" / f"heteroplasmy_{request.param.lower()}.vcf.gz"
    with pysam.VariantFile(str(path)) as file:
        assert file.header.formats[request.param].number == LAYOUTS[request.param]
        assert (file.header.contigs["chrM"].length, file.header.formats[request.param].type) == (16_569, "Float")
        return request.param, list(file)


def levels(record: pysam.VariantRecord, name: str, field: str) -> list[float | None]:
    value = record.samples[name][field]
    return list(value) if isinstance(value, tuple) else [value]


def test_ref_is_chrm_and_records_are_sorted(
    calls: tuple[str, list[pysam.VariantRecord]], sequences: dict[str, str]
) -> None:
    _, records = calls
    assert all(sequences["chrM"][r.start : r.stop] == r.ref for r in records)
    assert [r.pos for r in records] == sorted(r.pos for r in records)
    assert [r.pos for r in records if "PASS" not in r.filter] == [r.pos for r in records if "strand_bias" in r.filter]


def test_genotype_agrees_with_the_level(calls: tuple[str, list[pysam.VariantRecord]]) -> None:
    field, records = calls
    seen = set()
    for record in records:
        for name in record.samples:
            found, genotype = levels(record, name, field), record.samples[name]["GT"]
            if found == [None]:
                assert genotype == (None, None)
                continue
            carried = {number for number, level in enumerate(found, start=1) if level}
            assert sum(found) <= 1
            assert set(genotype) == (carried if max(found) > 0.9499 else {0, *carried})
            assert record.samples[name]["DP"] >= 400
            seen.add(genotype)
    assert {(0, 0), (0, 1), (1, 1)} <= seen


def test_the_calls_rebuild_the_genomes(
    calls: tuple[str, list[pysam.VariantRecord]], sequences: dict[str, str], sample_dir: Path
) -> None:
    """Applied to chrM, from the last to the first, the calls of a genome that passed spell the genome."""
    field, records = calls
    genomes = {record.name: record.sequence for record in fasta_records(sample_dir / "mtdna" / "genomes.fa.gz")}
    code = {frozenset(pair): letter for letter, pair in CODES.items()}
    for name in records[0].samples:
        bases = list(sequences["chrM"])
        for record in reversed(records):
            top = max(level or 0.0 for level in levels(record, name, field))
            if top >= 0.7:
                bases[record.start : record.stop] = [record.alts[0]] + [""] * (len(record.ref) - 1)
            elif top >= 0.3:
                bases[record.start] = code[frozenset(record.ref + record.alts[0])]
        spelt = "".join(bases).replace("N", "")
        assert canonical_rotation(spelt) == canonical_rotation(genomes[name])


@pytest.mark.skipif(shutil.which("bcftools") is None, reason="bcftools is not installed")
@pytest.mark.parametrize("level", LAYOUTS)
def test_bcftools_reads_it(level: str, sample_dir: Path) -> None:
    path = sample_dir / "mtdna" / f"heteroplasmy_{level.lower()}.vcf.gz"
    done = subprocess.run(["bcftools", "view", "-H", str(path)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") > 80
