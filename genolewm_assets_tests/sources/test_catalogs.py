from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from genolewm_assets.errors import CatalogError
from genolewm_assets.genome import GRCH38, PROFILES, WindowProfile
from genolewm_assets.lewm.corpus_records import CorpusSource
from genolewm_assets.sources.catalogs import CORPUS_SOURCES, Catalog, built_in_catalogs, load_catalog

SHARED_DATA_CATALOG = Path(__file__).parents[1] / "catalogs" / "shared_data.yaml"
MD5 = "0123456789abcdef" * 2

MINIMAL: dict[str, Any] = {
    "name": "test",
    "genome": {
        "name": "toy",
        "fasta": "genome.fa",
        "contigs": [
            {"name": "chr1", "length": 100_000, "md5": MD5},
            {"name": "chrM", "length": 16_569, "md5": MD5, "circular": True},
        ],
    },
    "gnomad": {"sources": {"chr1": {"url": "chr1.vcf.bgz", "release": "4.1"}}},
    "clinvar": {"listing": "clinvar"},
}


def write(folder: Path, data: object) -> Path:
    file = folder / "catalog.yaml"
    file.write_text(data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False))
    return file


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the minimal catalogue with one key set; ``path`` is dotted, list indices are numbers."""
    data = copy.deepcopy(MINIMAL)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    section: Any = data
    for part in parents:
        section = section.setdefault(part, {}) if isinstance(section, dict) else section[part]
    section[last] = value
    return data


@pytest.fixture
def message(tmp_path: Path) -> Callable[[object], str]:
    def read(data: object) -> str:
        file = write(tmp_path, data)
        with pytest.raises(CatalogError) as raised:
            load_catalog(file)
        text = str(raised.value)
        assert "\n" not in text
        assert "pydantic" not in text
        assert text.startswith(str(file))
        return text.removeprefix(str(file)).removeprefix(" ")

    return read


def test_a_minimal_catalogue_takes_the_defaults(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, MINIMAL))
    assert catalog.window_profile == PROFILES["default"]
    assert (catalog.gnomad.min_af, catalog.gnomad.min_an_fraction) == (0.01, 0.5)
    assert catalog.gnomad.max_ref_mismatch_fraction == catalog.clinvar.max_ref_mismatch_fraction == 0.001
    assert catalog.gnomad.sources["chr1"].accept_unfiltered is False
    assert catalog.generator is None
    assert catalog.clinvar.releases is None
    assert (catalog.clinvar.freshness.warn_days, catalog.clinvar.freshness.fail_days) == (35, 45)
    assert catalog.clinvar.listing_interval_s == 3600
    assert catalog.genome.tracks.urls == {}
    assert (catalog.corpus.slice_fraction, catalog.corpus.seed, catalog.corpus.short_windows) == (1.0, 0, False)
    assert catalog.corpus.sources == {}
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
    data["clinvar"] |= {
        "releases": ["2020-11-07", "2026-02-26.2"],
        "packaged": ["2026-02-26.2"],
        "predecessors": {"2026-02-26.2": "2020-11-07"},
    }
    data["corpus"] = {
        "slice_fraction": 0.1,
        "seed": 7,
        "short_windows": True,
        "sources": {"mrna_evo2": {"url": "corpus/*.parquet"}},
    }
    catalog = load_catalog(write(tmp_path, data))
    assert catalog.corpus.model_dump() == data["corpus"]
    assert catalog.window_profile == WindowProfile("small", 1_200, 600, 64, cover_tails=True)
    assert catalog.contigs.resolve("one").name == "chr1"
    assert catalog.genome.tracks.urls == {"repeat": "r.bed"}
    assert catalog.gnomad.sources["chr1"].model_dump() == {
        "url": "chr1.vcf.bgz",
        "release": "4.1",
        "md5": "published",
        "accept_unfiltered": True,
        "joint_rescue": True,
    }
    assert catalog.clinvar.releases == ("2020-11-07", "2026-02-26.2")
    assert catalog.clinvar.predecessors == {"2026-02-26.2": "2020-11-07"}


def test_catalogues_cannot_be_changed(tmp_path: Path) -> None:
    catalog = load_catalog(write(tmp_path, MINIMAL))
    with pytest.raises(ValueError, match="frozen"):
        catalog.genome.name = "other"  # type: ignore[misc]


#: path of the key, value, what the message must say after the file name
REFUSED: dict[str, tuple[str, object, str]] = {
    "typo": ("genom", {}, "(genom): unknown key: expected 'genome', got 'genom'."),
    "unknown in a section": (
        "gnomad.minimum_af",
        0.1,
        "(gnomad.minimum_af): unknown key: expected 'min_af', got 'minimum_af'.",
    ),
    "unknown corpus source": (
        "corpus.sources.mrna_evo",
        {"url": "x"},
        "(corpus.sources.mrna_evo): unknown corpus source: expected 'mrna_evo2', got 'mrna_evo'.",
    ),
    "a corpus source far from any": (
        "corpus.sources.fungi",
        {"url": "x"},
        "(corpus.sources.fungi): unknown corpus source: expected one of eukaryote_generator, mrna_evo2,",
    ),
    "an empty slice": ("corpus.slice_fraction", 0.0, "(corpus.slice_fraction): wrong value: expected greater than 0"),
    "more than all": ("corpus.slice_fraction", 1.5, "(corpus.slice_fraction): wrong value: expected less than or"),
    "negative seed": ("corpus.seed", -1, "(corpus.seed): wrong value: expected greater than or equal to 0"),
    "unknown in a source": ("gnomad.sources.chr1.checksum", MD5, "(gnomad.sources.chr1.checksum): unknown key"),
    "unknown in a contig": ("genome.contigs.1.size", 3, "(genome.contigs[1].size): unknown key: expected one of name,"),
    "unknown track": ("genome.tracks.segdup", "x.bed", "(genome.tracks.segdup): unknown key"),
    "not a mapping": ("clinvar", "listing", "(clinvar): not a mapping: expected keys listing,"),
    "empty section": ("genome", None, "(genome): not a mapping"),
    "no contigs": ("genome.contigs", [], "(genome.contigs): wrong value"),
    "contigs as a mapping": ("genome.contigs", {"chr1": 3}, "(genome.contigs): wrong value"),
    "length as text": (
        "genome.contigs.0.length",
        "100",
        "(genome.contigs[0].length): wrong value: expected a valid int",
    ),
    "length zero": ("genome.contigs.0.length", 0, "(genome.contigs[0].length): wrong value: expected greater than 0"),
    "bad MD5": ("genome.contigs.0.md5", MD5[:-1], "(genome.contigs[0].md5): not an MD5: expected 32 lower-case"),
    "upper-case MD5": ("genome.contigs.1.md5", MD5.upper(), "(genome.contigs[1].md5): not an MD5"),
    "bad MD5 of a file": ("gnomad.sources.chr1.md5", "Published", "(gnomad.sources.chr1.md5): not an MD5"),
    "duplicate contig": (
        "genome.contigs.1.name",
        "chr1",
        "(genome.contigs[1].name): duplicate contig: got 'chr1', also genome.contigs[0].",
    ),
    "duplicate alias": (
        "genome.contigs.1.aliases",
        ["chr1"],
        "(genome.contigs): contig 'chrM': name or alias 'chr1' already belongs to 'chr1'.",
    ),
    "alias with a blank": ("genome.contigs.0.aliases", ["chr 1"], "(genome.contigs): contig 'chr1': not a contig name"),
    "alias as a number": (
        "genome.contigs.0.aliases",
        [1],
        "(genome.contigs[0].aliases[0]): wrong value: expected a valid string, got 1. Put it in quotes.",
    ),
    "contig name with a slash": ("genome.contigs.0.name", "../chr1", "(genome.contigs[0].name): cannot name a folder"),
    "release as a number": (
        "gnomad.sources.chr1.release",
        4.1,
        "(gnomad.sources.chr1.release): wrong value: expected a valid string, got 4.1. Put it in quotes.",
    ),
    "release that climbs": ("gnomad.sources.chr1.release", "..", "(gnomad.sources.chr1.release): cannot name a folder"),
    "source of an unknown contig": (
        "gnomad.sources.chr2",
        {"url": "x", "release": "1"},
        "(gnomad.sources.chr2): source of a contig that the genome does not have: expected one of chr1, chrM, got",
    ),
    "source under an alias": (
        "gnomad.sources.MT",
        {"url": "x", "release": "1"},
        "(gnomad.sources.MT): source of a contig that the genome does not have: expected 'chrM', got 'MT'.",
    ),
    "share above 1": (
        "gnomad.min_af",
        1.01,
        "(gnomad.min_af): wrong value: expected less than or equal to 1, got 1.01.",
    ),
    "share below 0": ("clinvar.max_ref_mismatch_fraction", -1, "(clinvar.max_ref_mismatch_fraction): wrong value"),
    "share not a number": ("gnomad.min_an_fraction", float("nan"), "(gnomad.min_an_fraction): wrong value"),
    "flag as text": (
        "gnomad.sources.chr1.joint_rescue",
        "yes please",
        "(gnomad.sources.chr1.joint_rescue): wrong value",
    ),
    "unknown generator": ("generator", "demo", "(generator): wrong value: expected 'sample', got 'demo'."),
    "unknown scheme": ("genome.fasta", "ftp://x/y", "(genome.fasta): unknown URL scheme: expected file or http"),
    "credentials": ("genome.fasta", "https://me:secret@host/x", "(genome.fasta): URL holds credentials"),
    "unknown placeholder": (
        "clinvar.listing",
        "{home}/x",
        "(clinvar.listing): unknown placeholder: expected '{root}',",
    ),
    "empty URL": ("clinvar.listing", "", "(clinvar.listing): not a URL or a path"),
    "release key": ("clinvar.releases", ["20260226"], "(clinvar.releases[0]): not a release key: expected an ISO date"),
    "release of no day": ("clinvar.releases", ["2026-02-30"], "(clinvar.releases[0]): not a release key"),
    "packaged but not listed": (
        "clinvar",
        {"listing": "x", "releases": ["2026-02-26"], "packaged": ["2026-02-25"]},
        "(clinvar.packaged): release is not in 'releases': expected one of 2026-02-26, got '2026-02-25'.",
    ),
    "predecessor later": (
        "clinvar.predecessors",
        {"2026-02-26": "2026-03-01"},
        "(clinvar.predecessors.2026-02-26): predecessor is not earlier: expected before 2026-02-26, got 2026-03-01.",
    ),
    "warned too late": (
        "clinvar.freshness",
        {"warn_days": 45},
        "(clinvar.freshness.warn_days): warning does not come first: expected less than fail_days (45), got 45.",
    ),
    "listing read all the time": ("clinvar.listing_interval_s", 0, "(clinvar.listing_interval_s)"),
    "unknown profile": (
        "windows",
        {"profile": "dens"},
        "(windows): no built-in profile has this name: expected one of",
    ),
    "other numbers under a built-in name": (
        "windows",
        {"profile": "default", "stride_bp": 4_096},
        "(windows): numbers differ from those of the built-in profile",
    ),
    "half a profile": ("windows", {"profile": "mine", "window_bp": 1_200}, "(windows): no built-in profile"),
    "window of no tokens": ("windows", {"profile": "mine", "window_bp": 0, "stride_bp": 0}, "(windows): "),
    "stride above window": ("windows", {"profile": "mine", "window_bp": 600, "stride_bp": 601}, "(windows): "),
    "stride zero": ("windows", {"profile": "mine", "window_bp": 600, "stride_bp": 0}, "(windows): "),
    "negative margin": (
        "windows",
        {"profile": "mine", "window_bp": 600, "stride_bp": 600, "margin_bp": -1},
        "(windows): ",
    ),
    "window larger than every contig": (
        "windows",
        {"profile": "mine", "window_bp": 99_492, "stride_bp": 6},
        "(windows.window_bp): no linear contig holds a window and its margins: expected at most 99,488 bp, got 99,492",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_one_line_with_the_key(message: Callable[[object], str], case: str) -> None:
    path, value, expected = REFUSED[case]
    assert message(changed(path, value)).startswith(expected)


@pytest.mark.parametrize(
    "key", ["name", "genome", "clinvar", "genome.fasta", "genome.contigs.0.md5", "clinvar.listing"]
)
def test_missing_keys_are_named(message: Callable[[object], str], key: str) -> None:
    data = copy.deepcopy(MINIMAL)
    *parents, last = key.split(".")
    section: Any = data
    for part in parents:
        section = section[int(part)] if part.isdigit() else section[part]
    del section[last]
    assert message(data) == f"({key.replace('.0.', '[0].')}): key is missing."


def test_several_mistakes_are_counted(message: Callable[[object], str]) -> None:
    data = changed("genome.contigs.0.md5", "x")
    data["clinvar"]["listing"] = ""
    assert message(data).endswith("1 more to correct after this one.")


def test_a_window_that_just_fits_is_possible(tmp_path: Path) -> None:
    data = changed("windows", {"profile": "mine", "window_bp": 99_486, "stride_bp": 6, "margin_bp": 257})
    assert load_catalog(write(tmp_path, data)).window_profile.window_bp == 99_486


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: [a\nb: c\n", ":2:2: not valid YAML"),
        ("name: a\nname: b\n", ":2:1: not valid YAML (key 'name' is given twice)"),
        ("gnomad:\n  sources:\n    chr1: {}\n    chr1: {}\n", ":4:5: not valid YAML (key 'chr1' is given twice)"),
        ("a: !!python/object/apply:os.system [ls]\n", ":1:4: not valid YAML (could not determine a constructor"),
        ("a: 1\n---\nb: 2\n", ":2:1: not valid YAML (but found another document)"),
        ("", ": not a mapping: expected keys name, base, generator, genome, windows, gnomad, clinvar, "),
        ("- a\n", ": not a mapping"),
    ],
)
def test_what_is_not_a_catalogue(message: Callable[[object], str], text: str, expected: str) -> None:
    assert message(text).startswith(expected)


def test_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(CatalogError, match="not UTF-8: got byte 0xe9"):
        load_catalog(file)


@pytest.mark.parametrize("name", ["grch39", "no/such/file.yaml"])
def test_no_such_catalogue(name: str) -> None:
    with pytest.raises(CatalogError, match=rf"{name}: no such catalogue: expected a built-in name \(.*grch38"):
        load_catalog(name)


def test_a_folder_is_not_a_catalogue(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="got a folder"):
        load_catalog(tmp_path)


@pytest.mark.parametrize(
    ("url", "base", "resolved"),
    [
        ("clinvar/vcf", None, "{folder}/clinvar/vcf"),
        ("./x", ".", "{folder}/x"),
        ("../x", "data", "{folder}/x"),
        ("x", "../up", "{parent}/up/x"),
        ("x", "/abs", "/abs/x"),
        ("/x/y", "data", "/x/y"),
        ("{root}/sample/x.vcf", None, "{root}/sample/x.vcf"),
        ("x.vcf", "{root}/sample", "{root}/sample/x.vcf"),
        ("https://h/x", "data", "https://h/x"),
        ("s3://b/x", None, "s3://b/x"),
        ("gs://b/x", None, "gs://b/x"),
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


def test_a_relative_root_and_a_relative_catalogue_are_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_shared_data_catalogue_points_at_files(shared_data: Path, tmp_path: Path) -> None:
    catalog = load_catalog(SHARED_DATA_CATALOG)

    def local(url: str) -> Path:
        return Path(catalog.resolve_url(url, root=tmp_path))

    assert local(catalog.genome.fasta).is_file()
    assert local(catalog.clinvar.listing) == shared_data / "clinvar" / "vcf_GRCh38"
    assert [name for name in catalog.contigs.names if name not in catalog.gnomad.sources] == ["chr20"]
    assert all(local(source.url).is_file() for source in catalog.gnomad.sources.values())
    assert list(catalog.corpus.sources) == list(CORPUS_SOURCES)
    assert all(list(local(source.url).glob("*.parquet")) for source in catalog.corpus.sources.values())


def test_corpus_sources_are_those_of_the_records() -> None:
    assert tuple(CorpusSource) == CORPUS_SOURCES
    assert tuple(load_catalog("grch38").corpus.sources) == CORPUS_SOURCES


def test_loading_is_fast_and_light() -> None:
    """Definitions load a catalogue at import."""
    code = (
        "import pydantic, sys, time\n"
        "from genolewm_assets.sources.catalogs import load_catalog\n"
        "started = time.perf_counter()\n"
        "load_catalog('grch38')\n"
        "print(time.perf_counter() - started)\n"
        "print(*sorted({'pysam', 'fsspec', 'aiohttp', 'dagster', 'tenacity'} & set(sys.modules)))\n"
    )
    seconds, modules = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split("\n")[:2]
    assert float(seconds) < 0.1
    assert modules == ""


def test_catalogues_compare_by_content(tmp_path: Path) -> None:
    first, again = load_catalog(write(tmp_path, MINIMAL)), load_catalog(write(tmp_path, MINIMAL))
    assert isinstance(first, Catalog)
    assert isinstance(first.gnomad.sources, Mapping)
    assert first.model_dump() == again.model_dump()
