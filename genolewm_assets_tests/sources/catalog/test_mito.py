"""The catalogue's section on mitochondrial genomes: its defaults are the policies', its rules refuse mistakes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.mito.genomes.qc import GenomeQcPolicy
from genolewm_assets.mito.genomes.split import SplitPolicy
from genolewm_assets.sources.catalog.catalog import load_catalog
from genolewm_assets.sources.catalog.mito import MitoQc, MitoSection, MitoSplit
from genolewm_assets_tests.worlds.sources.minimal_catalog import MD5, MINIMAL, write


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
        "split": {"max_differences": 0, "validation": 0.0, "test": 0.5, "by_haplogroup": False, "seed": 3},
        **{"k": 8, "het_pool": "start"},
    }
    mito["qc"] = {"min_length_bp": 10, "max_length_bp": 10, "max_n_fraction": 0.5, "max_ambiguous_fraction": 0.0}
    mito["qc"]["min_junction_repeat_bp"] = 1
    found = load_catalog(write(tmp_path, MINIMAL | {"mito": mito})).mito.model_dump()
    filled = [{"format": None, **each} for each in mito["genomes"]]
    assert found == mito | {"genomes": tuple(filled), "heteroplasmy": tuple(mito["heteroplasmy"])}
