"""The figures of SAMPLE_FACTS, counted again from the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.sample.facts import CONTENT_MD5, SAMPLE_FACTS
from genolewm_assets_tests.referees.census import (
    GNOMAD_FILES,
    clinvar_alleles,
    content_digests,
    count_changes,
    count_corpus,
    count_genome,
    count_gnomad,
)
from genolewm_assets_tests.referees.mito_census import count_heteroplasmy, count_mito_genomes


def test_contents_are_the_pinned_ones(sample_dir: Path) -> None:
    assert content_digests(sample_dir) == dict(CONTENT_MD5)


def test_genome_facts(sample_dir: Path) -> None:
    assert count_genome(sample_dir / "reference.fa.gz") == dict(SAMPLE_FACTS.genome)


@pytest.mark.parametrize("contig", GNOMAD_FILES)
def test_gnomad_facts(contig: str, sample_dir: Path, sequences: dict[str, str]) -> None:
    found = count_gnomad(sample_dir / "gnomad" / GNOMAD_FILES[contig], contig, sequences[contig])
    assert found == SAMPLE_FACTS.gnomad[contig]
    fates = found.failed + found.low_af + found.low_an + found.kept + sum(found.rejects.values())
    assert fates == found.alleles


def test_clinvar_facts_and_changes(sample_dir: Path, sequences: dict[str, str]) -> None:
    first, old = clinvar_alleles(sample_dir / "releases" / "clinvar_20240107.vcf.gz", sequences)
    second, new = clinvar_alleles(sample_dir / "releases" / "clinvar_20250105.vcf.gz", sequences)
    assert {"2024-01-07": first, "2025-01-05": second} == dict(SAMPLE_FACTS.clinvar)
    assert count_changes(old, new) == SAMPLE_FACTS.changes
    for facts in (first, second):
        assert facts.kept + sum(facts.rejects.values()) + facts.other_contig == facts.records


@pytest.mark.parametrize("source", SAMPLE_FACTS.corpus)
def test_corpus_facts(source: str, sample_dir: Path) -> None:
    facts = SAMPLE_FACTS.corpus[source]
    assert count_corpus(sample_dir / "corpus" / source / "part-00000.parquet") == facts
    assert facts.windows >= 60
    assert facts.short_windows > 0


def test_mito_genome_facts(sample_dir: Path, sequences: dict[str, str]) -> None:
    facts = SAMPLE_FACTS.mito_genomes
    assert count_mito_genomes(sample_dir / "mtdna", sequences["chrM"]) == facts
    assert facts.kept + sum(facts.rejects.values()) == facts.fasta_records + facts.genbank_records


@pytest.mark.parametrize("level", SAMPLE_FACTS.heteroplasmy)
def test_heteroplasmy_facts(level: str, sample_dir: Path) -> None:
    path = sample_dir / "mtdna" / f"heteroplasmy_{level.lower()}.vcf.gz"
    assert count_heteroplasmy(path, level) == SAMPLE_FACTS.heteroplasmy[level]


def test_wrong_references_stay_under_the_threshold_of_the_catalogue() -> None:
    for facts in SAMPLE_FACTS.gnomad.values():
        assert 0 < facts.rejects["ref_mismatch"] < 0.001 * facts.alleles
    for release in SAMPLE_FACTS.clinvar.values():
        assert 0 < release.rejects["ref_mismatch"] < 0.001 * release.records


def test_windows_suffice_for_holdouts() -> None:
    windows = {name: facts.windows for name, facts in SAMPLE_FACTS.genome.items()}
    assert min(windows["chr17"], windows["chr20"]) >= 150
    assert windows["chr21"] >= 150
