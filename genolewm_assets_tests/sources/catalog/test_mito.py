"""The catalogue's section on mitochondrial genomes: its defaults are the policies', its rules refuse mistakes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.errors import CatalogError
from genolewm_assets.mito.genomes.qc import GenomeQcPolicy
from genolewm_assets.mito.genomes.split import SplitPolicy
from genolewm_assets.sources.catalog.catalog import built_in_catalogs, load_catalog
from genolewm_assets.sources.catalog.mito import MitoQc, MitoSection, MitoSplit
from genolewm_assets.sources.mito.genomes import CollectionFormat
from genolewm_assets_tests.worlds.sources.minimal_catalog import MD5, MINIMAL, changed, write

SAMPLE = {"genomes.fa.gz", "genomes.gb.gz", "heteroplasmy_af.vcf.gz", "heteroplasmy_hl.vcf.gz"}


@pytest.mark.parametrize(("section", "policy"), [(MitoQc, GenomeQcPolicy), (MitoSplit, SplitPolicy)])
def test_fields_and_defaults_are_those_of_the_policy(section: type[MitoQc | MitoSplit], policy: type[Any]) -> None:
    assert list(section.model_fields) == [field.name for field in dataclasses.fields(policy)]
    assert section().model_dump() == dataclasses.asdict(policy())
    assert policy(**section().model_dump()) == policy()


def test_without_the_section_there_are_no_collections(tmp_path: Path) -> None:
    mito = load_catalog(write(tmp_path, MINIMAL)).mito
    assert mito == MitoSection()
    assert (mito.genomes, mito.heteroplasmy, mito.k, mito.het_pool) == ((), (), 6, "mean")


def test_every_key_arrives(tmp_path: Path) -> None:
    mito: dict[str, Any] = {
        "genomes": [{"url": "a.fa", "md5": MD5, "format": "fasta"}, {"url": "b.txt", "md5": "published"}],
        "heteroplasmy": [{"url": "{root}/c.vcf.gz", "md5": None}],
        "qc": {
            "min_length_bp": 10,
            "max_length_bp": 10,
            "max_n_fraction": 0.5,
            "max_ambiguous_fraction": 0.0,
            "min_junction_repeat_bp": 1,
        },
        "split": {"max_differences": 0, "validation": 0.0, "test": 0.5, "by_haplogroup": False, "seed": 3},
        "k": 8,
        "het_pool": "start",
    }
    found = load_catalog(write(tmp_path, MINIMAL | {"mito": mito})).mito.model_dump()
    filled = [{"format": None, **each} for each in mito["genomes"]]
    assert found == mito | {"genomes": tuple(filled), "heteroplasmy": tuple(mito["heteroplasmy"])}


def test_formats_are_those_that_are_read() -> None:
    for form in CollectionFormat:
        assert MitoSection.model_validate({"genomes": [{"url": "a", "format": form.value}]}).genomes[0].format == form


def test_the_sample_has_both_formats_and_both_levels() -> None:
    assert "sample" in built_in_catalogs()
    mito = load_catalog("sample").mito
    assert {file.url.rpartition("/")[2] for file in (*mito.genomes, *mito.heteroplasmy)} == SAMPLE
    assert {file.md5 for file in (*mito.genomes, *mito.heteroplasmy)} == {"published"}


def files(*urls: str) -> list[dict[str, str]]:
    return [{"url": url} for url in urls]


#: path of the key, value, what the message must say after the file name
REFUSED: dict[str, tuple[str, object, str]] = {
    "unknown key": ("mito.genome", [], "(mito.genome): unknown key: expected 'genomes', got 'genome'."),
    "unknown key of a file": ("mito.genomes", [{"url": "a.fa", "frmat": "fasta"}], "(mito.genomes[0].frmat): unknown"),
    "no URL": ("mito.genomes", [{"md5": MD5}], "(mito.genomes[0].url): "),
    "unknown scheme": ("mito.genomes", files("ftp://x/y.fa"), "(mito.genomes[0].url): unknown URL scheme"),
    "unknown placeholder": ("mito.heteroplasmy", files("{home}/x"), "(mito.heteroplasmy[0].url): unknown placeholder"),
    "bad MD5": ("mito.genomes", [{"url": "a.fa", "md5": "x"}], "(mito.genomes[0].md5): not an MD5"),
    "unknown format": ("mito.genomes", [{"url": "a", "format": "embl"}], "(mito.genomes[0].format): wrong value"),
    "format of a VCF": (
        "mito.heteroplasmy",
        [{"url": "a", "format": "fasta"}],
        "(mito.heteroplasmy[0].format): unknown",
    ),
    "a name twice": (
        "mito.genomes",
        files("x/a.fa", "b.fa", "y/a.fa"),
        "(mito.genomes[2].url): another file has this name: got 'a.fa'.",
    ),
    "a name as a collection and as calls": (
        "mito",
        {"genomes": files("x/a"), "heteroplasmy": files("b", "https://h/a/")},
        "(mito.heteroplasmy[1].url): another file has this name: got 'a'.",
    ),
    "no length": ("mito.qc.min_length_bp", 0, "(mito.qc.min_length_bp): wrong value: expected greater than 0"),
    "no longest length": ("mito.qc.max_length_bp", 0, "(mito.qc.max_length_bp): wrong value: expected greater than 0"),
    "shortest over longest": (
        "mito.qc.min_length_bp",
        17_701,
        "(mito.qc.min_length_bp): no length is allowed: expected at most max_length_bp (17700), got 17701.",
    ),
    "share of N above 1": ("mito.qc.max_n_fraction", 1.1, "(mito.qc.max_n_fraction): wrong value"),
    "share of codes below 0": ("mito.qc.max_ambiguous_fraction", -0.1, "(mito.qc.max_ambiguous_fraction): wrong value"),
    "repeat of nothing": ("mito.qc.min_junction_repeat_bp", 0, "(mito.qc.min_junction_repeat_bp): wrong value"),
    "negative difference": ("mito.split.max_differences", -1, "(mito.split.max_differences): wrong value"),
    "negative seed": ("mito.split.seed", -1, "(mito.split.seed): wrong value"),
    "share above 1": ("mito.split.test", 1.5, "(mito.split.test): wrong value"),
    "nothing left for training": (
        "mito.split",
        {"validation": 0.5, "test": 0.5},
        "(mito.split.validation): leaves nothing for training: expected with test under 1, got 1.",
    ),
    "flag as text": ("mito.split.by_haplogroup", "perhaps", "(mito.split.by_haplogroup): wrong value"),
    "k of 0": ("mito.k", 0, "(mito.k): wrong value: expected greater than or equal to 1"),
    "k of 9": ("mito.k", 9, "(mito.k): wrong value: expected less than or equal to 8"),
    "k as text": ("mito.k", "6", "(mito.k): wrong value: expected a valid int"),
    "unknown pooling": ("mito.het_pool", "max", "(mito.het_pool): wrong value: expected 'mean' or 'start', got 'max'."),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_refused_where_it_is(tmp_path: Path, mistake: str) -> None:
    key, value, expected = REFUSED[mistake]
    with pytest.raises(CatalogError) as caught:
        load_catalog(write(tmp_path, changed(key, value)))
    said = str(caught.value)
    assert said.removeprefix(str(tmp_path / "catalog.yaml")).lstrip().startswith(expected), said
    assert "\n" not in said


@pytest.mark.parametrize("share", [0.9, 0.99])
def test_anything_under_the_whole_may_be_held_out(share: float) -> None:
    assert MitoSplit(validation=share, test=0.0).validation == SplitPolicy(validation=share, test=0.0).validation
