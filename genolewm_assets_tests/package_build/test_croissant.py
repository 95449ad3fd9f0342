"""``croissant.json`` and citations of a package whose sources have hostile names; masks of shared tables.

That its tables load with their values is tested on the built package, in ``test_readers.py``.
"""

from __future__ import annotations

import fnmatch
import hashlib
import html.parser
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import mlcroissant
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from genolewm_assets.package_build.citing import CitationFormat, cite_package
from genolewm_assets.package_build.croissant import render_croissant
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.schema import SourceTerms
from genolewm_assets.store.artefacts import Root
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.lewm.package_world import GENOME_DIGEST, make_sources, publish, with_pieces

# What mlcroissant calls in rdflib and pandas is deprecated there.
pytestmark = [
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index"),
]

HOSTILE = 'A "quoted"\n</script><script>alert(1)</script> \\ {name}, 50 % \x1b[31m @id'
TERMS = {
    "genome": SourceTerms("toy", "LicenseRef-NCBI-unrestricted", "The toy genome"),
    "gnomad": SourceTerms("4.1", "CC0-1.0", HOSTILE),
    'x"</script>': SourceTerms(HOSTILE, "CC-BY-4.0 OR MIT"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = Root(tmp_path_factory.mktemp("croissant") / "root")
    root.claim("tiny", GENOME_DIGEST)
    return publish(root, with_pieces(root, replace(make_sources(), terms=TERMS))).directory


def test_hostile_names_stay_data(folder: Path) -> None:
    raw = (folder / "croissant.json").read_bytes()
    assert raw == render_croissant(read_package_info(folder))
    assert b"<" not in raw
    document = json.loads(raw)
    assert {node["name"]: (node["version"], node["citation"], node["license"]) for node in document["isBasedOn"]} == {
        "genome": ("toy", "The toy genome", "LicenseRef-NCBI-unrestricted"),
        "gnomad": ("4.1", HOSTILE, "https://spdx.org/licenses/CC0-1.0.html"),
        'x"</script>': (HOSTILE, "not stated", "CC-BY-4.0 OR MIT"),
    }
    found = list[str]()

    class Page(html.parser.HTMLParser):
        def handle_data(self, data: str) -> None:
            found.append(data)

    Page().feed(f'<script type="application/ld+json">{raw.decode()}</script>')
    assert [json.loads(text) for text in found] == [document]
    assert "<script" not in (folder / "README.md").read_text()
    assert mlcroissant.Dataset(jsonld=str(folder / "croissant.json")).metadata.license == sorted(document["license"])


def test_every_file_has_its_digest_and_size(folder: Path) -> None:
    document = json.loads((folder / "croissant.json").read_text())
    files = {node["@id"]: node for node in document["distribution"] if node["@type"] == "cr:FileObject"}
    for path, node in files.items():
        content = (folder / node["contentUrl"]).read_bytes()
        assert (node["sha256"], node["contentSize"]) == (hashlib.sha256(content).hexdigest(), f"{len(content)} B"), path
    tables = {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}
    masks = {str(path.relative_to(folder)) for path in folder.rglob("trains.npy")}
    assert set(files) == {"package.json", *tables, *masks}


def test_a_row_of_a_shared_table_leads_to_its_mask(folder: Path) -> None:
    document, info = json.loads((folder / "croissant.json").read_text()), read_package_info(folder)
    sets = [node for node in document["distribution"] if node["@type"] == "cr:FileSet"]
    pieces = {str(path.relative_to(folder)) for path in folder.glob("pieces/*/windows.parquet")}
    meeting = [s["@id"] for s in sets if any(fnmatch.filter(pieces, pattern) for pattern in s["includes"])]
    assert meeting == ["unmasked_pieces_reference-files", "unmasked_pieces_corpus-files"]
    dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    found = {True: 0, False: 0}
    for name in ("unmasked_pieces_reference", "unmasked_pieces_corpus"):
        (described,) = (str(node.description) for node in dataset.metadata.record_sets if node.uuid == name)
        assert "NOT TRAINING DATA" in described
        for record in dataset.records(name):
            piece, row = folder / record[f"{name}/piece"].decode(), int(record[f"{name}/row"])
            ids = pq.ParquetFile(piece / "windows.parquet").read(["window_id"])["window_id"]
            assert record[f"{name}/window_id"].decode() == ids[row].as_py()
            found[bool(np.load(piece / "trains.npy")[row])] += 1
    assert found[True] == sum(ref.training for ref in info.pieces)
    assert found[False] == sum(ref.rows - ref.training for ref in info.pieces) > 0
    roles = {record["windows/role"] for record in dataset.records("windows")}
    assert roles == {b"validation", b"test"}


def test_a_package_is_cited_with_its_digest_and_every_source(folder: Path) -> None:
    digest = hashlib.sha256((folder / "package.json").read_bytes()).hexdigest()
    text = cite_package(folder)
    assert digest in text
    assert text.splitlines()[3:5] == [
        "- genome toy (LicenseRef-NCBI-unrestricted): The toy genome",
        f"- gnomad 4.1 (CC0-1.0): {HOSTILE.replace(chr(10), ' ').replace(chr(27), ' ')}",
    ]
    assert len(text.splitlines()) == 2 + 1 + len(TERMS)
    cff = yaml.safe_load(cite_package(folder, CitationFormat.CFF))
    assert {"cff-version", "message", "title", "authors"} < set(cff)
    assert [(each["type"], each["title"]) for each in cff["references"]][1] == ("data", "gnomad 4.1")
    assert HOSTILE in cff["references"][1]["notes"]
    assert cff["identifiers"][0]["value"] == f"sha256:{digest}"
    bibtex = cite_package(folder, CitationFormat.BIBTEX)
    assert bibtex.count("\n@misc{") + 1 == len(TERMS) + 1
    assert r"\{name\}, 50 \%" in bibtex
    plain = bibtex.replace(r"\{", "").replace(r"\}", "")
    assert plain.count("{") == plain.count("}")
    (folder / "provenance.json").unlink(missing_ok=True)
    assert "sources read by" not in cite_package(folder)
    (folder / "provenance.json").write_text('{"built_at": "2026-03-01T10:00:00+00:00"}')
    assert "sources read by 2026-03-01" in cite_package(folder)


def test_the_software_has_a_citation_file() -> None:
    # The required keys of CFF 1.2.0, and the facts of the project.
    cff = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert (cff["cff-version"], cff["type"]) == ("1.2.0", "software")
    assert all(isinstance(cff[key], str) and cff[key] for key in ("message", "title"))
    assert cff["authors"] == project["authors"]
    assert (cff["version"], cff["license"]) == (project["version"], project["license"])
    assert cff["abstract"].rstrip(".") == project["description"]
