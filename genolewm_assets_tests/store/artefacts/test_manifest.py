from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.store.artefacts.check_result import CheckResult, stating_compared
from genolewm_assets.store.artefacts.manifest import FileEntry, InputRef, Manifest, parse_manifest, read_manifest
from genolewm_assets.store.files.canonical_json import canonical_json
from genolewm_assets_tests.rows import each_row

A, B = "a" * 64, "b" * 64
MANIFEST = Manifest(
    asset="gnomad/shard",
    partition="chr21",
    code_version="1",
    recipe={"min_af": 0.01, "contigs": ["chr21", "chrM"], "name": "Überlänge"},
    inputs=(InputRef("reference/genome", None, A), InputRef("clinvar/shard", "2026-02-26", B)),
    files=(FileEntry("variants.parquet", 10, A, 3), FileEntry("rejects.parquet", 0, B)),
    counts={"kept": 3, "alleles_in": 5},
    checks=(CheckResult("sorted", passed=True), CheckResult("af_in_range", passed=True, figures={"max": 0.5})),
)


def write(directory: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
    record = json.loads(MANIFEST.to_bytes())
    change(record)
    (directory / "manifest.json").write_bytes(canonical_json(record, "test"))
    return directory


def test_round_trip_through_disk(tmp_path: Path) -> None:
    assert read_manifest(write(tmp_path)) == MANIFEST


def test_order_of_work_does_not_show() -> None:
    shuffled = replace(
        MANIFEST,
        inputs=MANIFEST.inputs[::-1],
        files=MANIFEST.files[::-1],
        checks=MANIFEST.checks[::-1],
        counts=dict(reversed(MANIFEST.counts.items())),
        recipe=dict(reversed(MANIFEST.recipe.items())),
    )
    assert shuffled.to_bytes() == MANIFEST.to_bytes()
    assert shuffled == MANIFEST


def test_bytes_are_canonical() -> None:
    text = MANIFEST.to_bytes().decode()
    assert text.endswith("}\n")
    assert "\n  " in text
    assert "Überlänge" in text
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert replace(MANIFEST, code_version="2").sha256 != MANIFEST.sha256


def test_the_manifest_keeps_its_own_copy_of_what_it_was_given() -> None:
    recipe = {"a": [1]}
    manifest = replace(MANIFEST, recipe=recipe)
    before = manifest.sha256
    recipe["a"].append(2)
    assert manifest.sha256 == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(recipe=st.dictionaries(st.text(st.characters(codec="utf-8")), JSON, max_size=3))
def test_any_recipe_survives(recipe: dict[str, Any]) -> None:
    manifest = replace(MANIFEST, recipe=recipe)
    assert parse_manifest(manifest.to_bytes(), "test") == manifest


@each_row("value", [float("nan"), float("inf"), b"bytes", {1, 2}, Path("/x"), {1: "a"}, "\ud800"])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        replace(MANIFEST, recipe={"x": [value]})
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        replace(MANIFEST, checks=(CheckResult("c", passed=True, figures={"x": value}),))


class _NumpyLike:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_integers_of_other_makes_become_plain_ones_and_others_are_refused() -> None:
    counts: Any = {"kept": _NumpyLike(3)}
    assert replace(MANIFEST, counts=counts).counts == {"kept": 3}
    for bad in (1.5, "3", None):
        broken: Any = {"kept": bad}
        with pytest.raises(ConfigurationError, match="counts"):
            replace(MANIFEST, counts=broken)


ESCAPES = [
    "/etc/passwd", "../x", "a/../../x", "a/..", "./a", "a//b", "", ".", "..", "a/", "a\\b", "a\x00b", "a\nb",
    "manifest.json", "provenance.json", "sub/manifest.json",
]  # fmt: skip


@pytest.mark.parametrize("path", ESCAPES)
def test_paths_that_escape_or_collide_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(CorruptResourceError, match="file name not allowed"):
        replace(MANIFEST, files=(FileEntry(path, 0, A),))
    with pytest.raises(CorruptResourceError, match="file name not allowed"):
        read_manifest(write(tmp_path, lambda m: m["files"][0].update(path=path)))


CHANGES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("major version", lambda m: m.update(schema_version="2.0"), "expected genolewm.manifest 1.x, got .*2.0"),
    ("schema", lambda m: m.update(schema="other"), "expected genolewm.manifest 1.x"),
    ("unknown field", lambda m: m.update(extra=1), "fields differ"),
    ("field gone", lambda m: m.pop("counts"), "fields differ"),
    ("unknown file field", lambda m: m["files"][0].update(mode=1), "fields differ"),
    ("unknown input field", lambda m: m["inputs"][0].update(host="x"), "fields differ"),
    ("file twice", lambda m: m["files"].append(m["files"][0]), "listed twice"),
    ("check twice", lambda m: m["checks"].append(m["checks"][0]), "listed twice"),
    ("input twice", lambda m: m["inputs"].append(m["inputs"][0]), "listed twice"),
    ("size as text", lambda m: m["files"][0].update(size_bytes="10"), "'size_bytes' has the wrong type"),
    ("size as bool", lambda m: m["files"][0].update(size_bytes=True), "'size_bytes' has the wrong type"),
    ("passed as text", lambda m: m["checks"][0].update(passed="yes"), "'passed' has the wrong type"),
    ("rows as float", lambda m: m["files"][0].update(rows=1.5), "'rows' has the wrong type"),
    ("counts as list", lambda m: m.update(counts=[]), "'counts' has the wrong type"),
    ("files as dict", lambda m: m.update(files={}), "'files' has the wrong type"),
    ("digest short", lambda m: m["files"][0].update(sha256="abc"), "malformed digest"),
    ("digest upper case", lambda m: m["inputs"][0].update(manifest_sha256=A.upper()), "malformed digest"),
    ("files out of order", lambda m: m["files"].reverse(), "not in canonical form"),
]


@pytest.mark.parametrize(("change", "message"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_manifest_that_breaks_the_schema_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(CorruptResourceError, match=message):
        read_manifest(write(tmp_path, change))


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b"\xff", MANIFEST.to_bytes() + b" ", b"[" * 100_000,
     MANIFEST.to_bytes().replace(b'"asset"', b'"asset": "x", "asset"', 1),
     MANIFEST.to_bytes().replace(b"0.01", b"NaN")],
)  # fmt: skip
def test_bytes_that_are_not_the_canonical_spelling_are_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(raw)
    with pytest.raises(CorruptResourceError):
        read_manifest(tmp_path)


def test_a_manifest_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError, match="manifest is missing"):
        read_manifest(tmp_path)
    path = tmp_path / "manifest.json"
    path.symlink_to("/etc/hostname")
    with pytest.raises(CorruptResourceError, match="is a symlink"):
        read_manifest(tmp_path)
    for make in (os.mkfifo, Path.mkdir):
        path.unlink()
        make(path)
        with pytest.raises(CorruptResourceError, match="not a regular file"):
            read_manifest(tmp_path)


def test_a_newer_minor_version_without_new_fields_is_read_as_it_is(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, lambda m: m.update(schema_version="1.7")))
    assert manifest.schema_version == "1.7"
    assert manifest.to_bytes() == (tmp_path / "manifest.json").read_bytes()


def test_every_flipped_bit_gives_an_error_or_another_digest() -> None:
    raw = MANIFEST.to_bytes()
    for index in range(len(raw)):
        flipped = bytearray(raw)
        flipped[index] ^= 1
        try:
            changed = parse_manifest(bytes(flipped), "test")
        except CorruptResourceError:
            continue
        assert changed.sha256 != MANIFEST.sha256


WHOLE = CheckResult("windows_tile_contig", passed=True, figures={"windows": 3})
WHY = "no_source: the catalogue names no file"


def test_a_check_states_how_much_it_compared() -> None:
    stated = stating_compared(WHOLE, 3, WHY)
    assert stated == CheckResult("windows_tile_contig", passed=True, figures={"windows": 3, "compared": 3})


@pytest.mark.parametrize("declared", [True, False])
def test_a_check_that_compared_nothing_passes_only_if_that_is_declared(*, declared: bool) -> None:
    stated = stating_compared(WHOLE, 0, WHY, declared=declared)
    assert stated.passed is declared
    assert stated.figures == {"windows": 3, "compared": 0, "not_compared": WHY}
    # What it said first stays.
    assert stating_compared(stated, 0, "another reason", declared=True) == stated


def test_failed_checks_are_told_with_their_figures() -> None:
    checks = (
        CheckResult("sorted", passed=True, figures={"rows": 5}),
        CheckResult(
            "refs_match", passed=False, figures={"share": 0.0, "bad": [], "cause": "a reason", "at": "x" * 200}
        ),
        CheckResult("tiles", passed=False),
    )
    said = f"['refs_match', 'tiles'] (refs_match: at {'x' * 120}..., share 0)"
    assert replace(MANIFEST, checks=checks).failures == said


def test_a_failed_check_stays_as_it_is() -> None:
    failed = CheckResult("windows_tile_contig", passed=False, figures={"error": "not run"})
    assert stating_compared(failed, 0, WHY, declared=True) == failed
