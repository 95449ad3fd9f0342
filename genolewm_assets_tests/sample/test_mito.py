"""The collections of the sample through the platform's own reader and checks: they must find what SAMPLE_FACTS says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from genolewm_assets.mito.genomes.rotation import canonical_rotation
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets.sample.mito.genomes import simulate_mito_genomes
from genolewm_assets.sources.mito.genomes import read_genomes
from genolewm_assets_tests.mito.judged import Judged, judge_all
from genolewm_assets_tests.referees.census import SAMPLE_FACTS

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
