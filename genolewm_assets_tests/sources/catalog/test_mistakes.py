"""Mistakes in a catalogue: each is refused in one line that names the file and the key."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.errors import CatalogError
from genolewm_assets.sources.catalog.catalog import load_catalog
from genolewm_assets_tests.places import TESTS
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.minimal_catalog import MINIMAL, changed, write

MISTAKES = TESTS / "golden/catalogue_mistakes.tsv"

#: Key, value as JSON, and what the message must say after the name of the file.
REFUSED = [line.split("\t") for line in MISTAKES.read_text().splitlines()]


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


@each_row(("key", "value", "expected"), REFUSED)
def test_a_mistake_is_a_line_with_its_key(
    message: Callable[[object], str], key: str, value: str, expected: str
) -> None:
    assert message(changed(key, json.loads(value))).startswith(expected)


def test_t0_is_one_of_the_releases(message: Callable[[object], str]) -> None:
    data = changed("clinvar.releases", ["2026-02-26"])
    data["holdouts"] = {"temporal": "2024-01-07"}
    assert message(data) == (
        "(holdouts.temporal): release is not in 'clinvar.releases': expected one of 2026-02-26, got '2024-01-07'."
    )


def test_knowledge_at_t0_needs_one(message: Callable[[object], str]) -> None:
    data = changed("packages.knowledge", "T0")
    data["holdouts"] = {"temporal": False}
    assert message(data).startswith(
        "(packages.knowledge): there is no T0, because holdouts.temporal is off: expected 'newest', got 'T0'."
    )


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


def chained(length: int, width: int) -> str:
    """Return lists, each of which holds the one before it ``width`` times, as an alias."""
    lines = [f"- &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, length)]
    return "\n".join(["- &a0 [x]", *lines])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: [a\nb: c\n", ":2:2: not valid YAML"),
        ("name: a\nname: b\n", ":2:1: not valid YAML (key 'name' is given twice)"),
        ("gnomad:\n  sources:\n    chr1: {}\n    chr1: {}\n", ":4:5: not valid YAML (key 'chr1' is given twice)"),
        ("a: !!python/object/apply:os.system [ls]\n", ":1:4: not valid YAML (could not determine a constructor"),
        ("a: 1\n---\nb: 2\n", ":2:1: not valid YAML (but found another document)"),
        ("[" * 30_000, ":1:50: not valid YAML (nested deeper than 50 levels)"),
        ("{a: " * 30_000, ":1:197: not valid YAML (nested deeper than 50 levels)"),
        ("- " * 30_000, ":1:99: not valid YAML (nested deeper than 50 levels)"),
        ("\n".join(" " * n + "a:" for n in range(999)), ":50:50: not valid YAML (nested deeper than 50 levels)"),
        (chained(99, 1), ":50:13: not valid YAML (nested deeper than 50 levels)"),
        (chained(9, 10), ":6:28: not valid YAML (its aliases stand for more than 100,000 values)"),
        ("a: &a [*a]\n", ":1:8: not valid YAML (alias 'a' is inside of what it names)"),
        ("a: " + "x" * (4 << 20), ": is too large for a catalogue: expected at most 4,194,304 bytes"),
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
