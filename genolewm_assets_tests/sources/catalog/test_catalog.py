"""Catalogues that are read: their keys and defaults, where their URLs lead, and those that come with the package.

Section ``forensic`` of the catalogue: what it means, and what is refused with the key at fault.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from genolewm_assets.errors import CatalogError, ConfigurationError
from genolewm_assets.forensic.runs import RunRules
from genolewm_assets.genome import GRCH38, PROFILES, WindowProfile
from genolewm_assets.packages.mix import PackageMix
from genolewm_assets.packages.schema import SourceTerms
from genolewm_assets.sources.catalog.agreement import source_terms
from genolewm_assets.sources.catalog.catalog import Catalog, built_in_catalogs, load_catalog
from genolewm_assets.sources.catalog.forensic import ForensicSection
from genolewm_assets.sources.catalog.training import EncoderSection
from genolewm_assets.sources.examination.files import look_at_panels, look_at_runs
from genolewm_assets_tests.worlds.forensic.run_folders import write_run
from genolewm_assets_tests.worlds.sources.minimal_catalog import MD5, MINIMAL, changed, write


def test_a_minimal_catalogue_takes_the_defaults(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, MINIMAL))
    assert catalog.window_profile == PROFILES["default"]
    assert (catalog.gnomad.min_af, catalog.gnomad.min_an_fraction) == (0.01, 0.5)
    assert catalog.gnomad.sources["chr1"].accept_unfiltered is False
    assert (catalog.generator, catalog.clinvar.releases, catalog.encoder.model) == (None, None, None)
    assert (catalog.genome.tracks.urls, catalog.corpus.sources) == ({}, {})
    assert catalog.packages.policy == PackageMix()
    assert catalog.file == tmp_path / "catalog.yaml"
    assert catalog.contigs.names == ("chr1", "chrM")
    assert catalog.contigs.resolve("MT").circular
    assert catalog.contigs.resolve("1").md5 == MD5
    assert len(catalog.genome_digest) == 64


def test_every_key_arrives(tmp_path: Path) -> None:
    data = copy.deepcopy(MINIMAL) | {"base": "data", "generator": "sample"}
    data["genome"] |= {"md5": MD5, "tracks": {"repeat": "r.bed"}}
    data["genome"]["contigs"][0]["aliases"] = ["one"]
    data["windows"] = {"profile": "small", "window_bp": 1_200, "stride_bp": 600, "margin_bp": 64, "cover_tails": True}
    data["gnomad"] |= {"min_af": 0.05, "min_an_fraction": 0, "max_ref_mismatch_fraction": 1}
    data["gnomad"]["sources"]["chr1"] |= {"md5": "published", "accept_unfiltered": True, "joint_rescue": True}
    data["clinvar"] |= {"releases": ["2020-11-07", "2026-02-26.2"], "packaged": ["2026-02-26.2"]}
    data["clinvar"]["predecessors"] = {"2026-02-26.2": "2020-11-07"}
    data["corpus"] = {"slice_fraction": 0.1, "seed": 7, "short_windows": True, "max_faulty_fraction": 0.2}
    data["corpus"] |= {"records_per_piece": 32, "license": "CC-BY-4.0 OR LicenseRef-card", "citation": 'A "corpus"'}
    data["clinvar"]["license"] = "ncbi-pd"
    data["corpus"]["sources"] = {"mrna_evo2": {"url": "corpus/*.parquet", "files": 3, "revision": "v1.0"}}
    edits = {"gnomad": 0.5, "synthetic_snv": 0.5, "synthetic_indel": 0, "clinvar": 0}
    data["packages"] = {"mix": {"reference": 0.7, "mrna_evo2": 0.3}, "edits": edits, "max_visits": 9}
    data["packages"] |= {"mix_declared": {"windows": {"reference": 1.0}}, "min_training_stars": 2, "frozen_epochs": 2}
    catalog = load_catalog(write(tmp_path, data))
    mix = catalog.packages.policy
    assert mix.wanted.windows == {"reference": 0.7, "mrna_evo2": 0.3}
    assert mix.declared == replace(mix.wanted, windows={"reference": 1.0})
    assert (mix.wanted.edits["gnomad"], mix.max_visits, mix.min_training_stars) == (0.5, 9, 2)
    assert catalog.packages.frozen_epochs == 2
    assert catalog.corpus.model_dump() == data["corpus"]
    assert catalog.window_profile == WindowProfile("small", 1_200, 600, 64, cover_tails=True)
    assert catalog.contigs.resolve("one").name == "chr1"
    assert source_terms(catalog, "2026-02-26.2") == {
        "genome": SourceTerms("toy", "NOASSERTION", "not stated"),
        "tracks": SourceTerms("not stated", "NOASSERTION", "not stated"),
        "gnomad": SourceTerms("4.1", "NOASSERTION", "not stated"),
        "clinvar": SourceTerms("2026-02-26.2", "NCBI-PD", "not stated"),
        "corpus": SourceTerms("v1.0", "CC-BY-4.0 OR LicenseRef-card", 'A "corpus"'),
    }
    assert catalog.genome.tracks.urls == {"repeat": "r.bed"}
    stated = data["gnomad"]["sources"]["chr1"]
    assert catalog.gnomad.sources["chr1"].model_dump() == {**stated, "read": "download"}
    assert catalog.clinvar.releases == ("2020-11-07", "2026-02-26.2")
    assert catalog.clinvar.predecessors == {"2026-02-26.2": "2020-11-07"}


@pytest.mark.parametrize("text", ["off", '"off"'])
def test_freshness_and_the_encoder_can_be_off(tmp_path: Path, text: str) -> None:
    plain = yaml.safe_dump({**MINIMAL, "clinvar": {"listing": "clinvar", "freshness": "HERE"}, "encoder": "HERE"})
    catalog = load_catalog(write(tmp_path, plain.replace("HERE", text)))
    assert (catalog.clinvar.freshness, catalog.encoder) == (None, None)
    with pytest.raises(ConfigurationError, match=r"\(encoder\): nothing is given: expected off, or keys, got null"):
        load_catalog(write(tmp_path, {**MINIMAL, "encoder": None}))


@pytest.mark.parametrize(
    ("url", "base", "resolved"),
    [
        *(("clinvar/vcf", None, "{folder}/clinvar/vcf"), ("./x", ".", "{folder}/x"), ("../x", "data", "{folder}/x")),
        *(("x", "../up", "{parent}/up/x"), ("x", "/abs", "/abs/x"), ("/x/y", "data", "/x/y")),
        *(("{root}/sample/x.vcf", None, "{root}/sample/x.vcf"), ("x.vcf", "{root}/sample", "{root}/sample/x.vcf")),
        *(("https://h/x", "data", "https://h/x"), ("s3://b/x", None, "s3://b/x"), ("gs://b/x", None, "gs://b/x")),
        ("file:///x/y", None, "file:///x/y"),
        ("a/b.vcf", "http://127.0.0.1:8000/data/", "http://127.0.0.1:8000/data/a/b.vcf"),
        ("/a/b.vcf", "http://127.0.0.1:8000/data", "/a/b.vcf"),
    ],
)
def test_urls_are_resolved(tmp_path: Path, url: str, base: str | None, resolved: str) -> None:
    folder, root = tmp_path / "catalogs", tmp_path / "root"
    folder.mkdir()
    data = changed("clinvar.listing", url) | ({"base": base} if base else {})
    catalog = load_catalog(write(folder, data))
    expected = resolved.format(folder=folder, parent=tmp_path, root=root)
    assert catalog.resolve_url(catalog.clinvar.listing, root=root) == expected
    assert catalog.clinvar.listing == url


def test_a_relative_root_and_catalogue_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = load_catalog(write(tmp_path, MINIMAL).name)
    assert catalog.resolve_url("{root}/x", root=Path("data")) == f"{tmp_path}/data/x"
    assert catalog.resolve_url("x", root=Path("data")) == f"{tmp_path}/x"


def test_unquoted_release_dates_are_keys(tmp_path: Path) -> None:
    text = yaml.safe_dump(MINIMAL).replace("listing: clinvar", "listing: clinvar\n  releases: [2026-02-26]")
    assert load_catalog(write(tmp_path, text)).clinvar.releases == ("2026-02-26",)


def test_built_in_catalogues_are_valid() -> None:
    assert "grch38" in built_in_catalogs()
    for name in built_in_catalogs():
        assert load_catalog(name).name == name


def test_grch38_is_the_analysis_set() -> None:
    catalog = load_catalog("grch38")
    assert catalog.contigs == GRCH38
    assert list(catalog.gnomad.sources) == list(GRCH38.names)
    for contig, source in catalog.gnomad.sources.items():
        assert source.url.endswith(f".{contig}.vcf.bgz")
        assert f"/release/{source.release}/" in source.url
        assert f"v{source.release}.sites" in source.url
    digests = [source.md5 for source in catalog.gnomad.sources.values()]
    assert None not in digests
    assert len(set(digests)) == len(GRCH38)
    assert {source.release for source in catalog.gnomad.sources.values()} == {"4.1", "3.1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("", "12 months"), ("holdouts: {}", "12 months"), ("holdouts: {temporal: off}", "off")),
        *(('holdouts: {temporal: "off"}', "off"), ("holdouts: {temporal: 2024-01-07}", "2024-01-07")),
        ('holdouts: {temporal: "2024-01-07"}', "2024-01-07"),
        *(("holdouts: {temporal: 2024-01-07.2}", "2024-01-07.2"), ("holdouts: {temporal: {months: 6}}", "6 months")),
        ("holdouts:\n  temporal:\n    months: 1200\n", "1200 months"),
    ],
)
def test_t0_as_people_write_it(tmp_path: Path, text: str, expected: str) -> None:
    catalog = load_catalog(write(tmp_path, f"{yaml.safe_dump(MINIMAL)}\n{text}\n"))
    assert str(catalog.holdouts.temporal) == expected
    assert catalog.holdouts.policy.temporal_setting == expected
    assert catalog.holdouts.policy.temporal is None
    assert catalog.packages.knowledge == "newest"


def test_what_the_encoder_was_pretrained_on(tmp_path: Path) -> None:
    def stated(**encoder: object) -> EncoderSection:
        return load_catalog(write(tmp_path, MINIMAL | {"encoder": encoder})).encoder

    assert stated(model="/models/mine").pretraining == "not stated"
    assert "human genome" in stated(model="carbon-500m", revision="0" * 40).pretraining
    mine = stated(model="/models/mine", pretrained_on="mouse contigs")
    assert mine.pretraining == "mouse contigs"
    # States do not depend on it, so it is no part of their identity.
    assert mine.settings == stated(model="/models/mine").settings
    for text in ("a | b", "a\nb", ""):
        with pytest.raises(ConfigurationError, match="pretrained_on"):
            stated(model="/models/mine", pretrained_on=text)
    assert "random" in load_catalog("sample").encoder.pretraining


def load(folder: Path, **forensic: object) -> Catalog:
    return load_catalog(write(folder, MINIMAL | {"forensic": forensic}))


def test_without_the_section_there_are_no_runs_and_the_rules_are_the_usual_ones(tmp_path: Path) -> None:
    section = load(tmp_path).forensic
    assert section.runs is None
    assert section.policy == RunRules()


def test_keys_become_rules(tmp_path: Path) -> None:
    keys = {"runs": "runs", "panels": ["p.txt", "b.txt"], "n_scanpoints": 4_096, "negative_control": "optional"}
    section = load(tmp_path, **keys, ladder_names=["L*"]).forensic
    assert section.policy == RunRules(n_scanpoints=4_096, negative_required=False, ladder_names=("L*",))
    assert set(RunRules.__dataclass_fields__) - {"negative_required"} <= set(ForensicSection.model_fields)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"runs": "runs"}, r"\(forensic\.panels\): runs have no panel"),
        ({"runs": "s3://lab/runs", "panels": ["p"]}, r"\(forensic\.runs\): is on a server"),
        ({"panels": ["https://lab/p"]}, r"\(forensic\.panels\): is on a server"),
        ({"complete_marker": "../x"}, r"\(forensic\.complete_marker\): cannot name a file"),
        ({"n_scanpoints": 5}, r"\(forensic\.n_scanpoints\): is out of range: expected 256 to 131072, got 5"),
        ({"size_standard_bp": [1.0, 2.0]}, "its fragments are unusable"),
        ({"panel_file": "x"}, "unknown key"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, keys: dict[str, object], message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        load(tmp_path, **keys)


def test_the_examination_looks_at_folder_and_panel(tmp_path: Path) -> None:
    run, panels = write_run(tmp_path)
    assert list(look_at_runs(str(run.parent))) == []
    (tmp_path / "empty").mkdir()
    assert list(look_at_runs(str(tmp_path / "empty"))) == ["has no run folder yet"]
    assert list(look_at_panels(str, tuple(map(str, panels)), None, "")) == []
