from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.store import cache_key_dir, compute_fingerprint, compute_key, validate_fingerprint
from genolewm_assets.store.arrays.keys import fingerprint_differences, read_fingerprint

SOURCES = {"samples/a.hid": "a" * 64, "panel.xml": "b" * 64}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def store(directory: Path, fingerprint: object) -> Path:
    (directory / "fingerprint.json").write_text(json.dumps(fingerprint))
    return directory


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_a_key_does_not_depend_on_the_order_of_the_configuration(config: dict[str, object]) -> None:
    turned = dict(reversed(config.items()))
    assert compute_key(config) == compute_key(turned)
    assert compute_fingerprint(config, SOURCES) == compute_fingerprint(turned, dict(reversed(SOURCES.items())))


def test_a_key_is_16_hex_digits_and_the_same_in_every_process() -> None:
    code = "from genolewm_assets.store import compute_key; print(compute_key({'layer': -1, 'dtype': 'float16'}))"
    keys = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert keys == {compute_key({"dtype": "float16", "layer": -1})}
    # Pinned: another value means that every store is built again, so CACHE_VERSION has to change with it.
    assert keys == {"b79a1b92780f64e4"}


@pytest.mark.parametrize("change", [{"layer": -2}, {"layer": -1.0}, {"layer": "-1"}, {"layer": None}, {}])
def test_any_other_parameter_makes_another_key(change: dict[str, object]) -> None:
    assert compute_key({"layer": -1}) != compute_key(change)


@pytest.mark.parametrize("config", [{"x": float("nan")}, {"x": {1: 2}}, {"x": object()}])
def test_a_configuration_that_is_not_json_has_no_key(config: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        compute_key(config)


def test_a_key_names_a_directory_and_nothing_else_does(tmp_path: Path) -> None:
    key = compute_key({})
    assert cache_key_dir(tmp_path, key) == tmp_path / key
    for text in ("..", "", key.upper() + "X", f"{key}/..", f"{key}\n"):
        with pytest.raises(ConfigurationError, match="expected 16 hex digits"):
            cache_key_dir(tmp_path, text)


def test_every_source_and_the_configuration_count(tmp_path: Path) -> None:
    directory = store(tmp_path, compute_fingerprint({"a": 1}, SOURCES))
    assert validate_fingerprint(directory, compute_fingerprint({"a": 1}, SOURCES))
    others = {
        "config: 'a' changed": compute_fingerprint({"a": 2}, SOURCES),
        "config: 'b' is new": compute_fingerprint({"a": 1, "b": 1}, SOURCES),
        "sources: 'panel.xml' changed": compute_fingerprint({"a": 1}, {**SOURCES, "panel.xml": "c" * 64}),
        "sources: 'panel.xml' was removed": compute_fingerprint({"a": 1}, {"samples/a.hid": "a" * 64}),
        "sources: 'map.csv' is new": compute_fingerprint({"a": 1}, {**SOURCES, "map.csv": "c" * 64}),
    }
    for line, wanted in others.items():
        assert not validate_fingerprint(directory, wanted)
        assert fingerprint_differences(read_fingerprint(directory), wanted) == [line]


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../b", "", "a//b"])
def test_source_names_stay_inside_the_root(name: str) -> None:
    with pytest.raises(ConfigurationError, match="expected a name relative to the root"):
        compute_fingerprint({}, {name: "a" * 64})


@pytest.mark.parametrize("digest", ["", "a" * 63, "A" * 64, "sha256:" + "a" * 64])
def test_a_digest_that_is_none_is_refused(digest: str) -> None:
    with pytest.raises(ConfigurationError, match="expected 64 hex digits"):
        compute_fingerprint({}, {"a": digest})


def test_a_fingerprint_that_was_changed_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError, match=r"fingerprint\.json: cannot be read"):
        read_fingerprint(tmp_path)
    changed = {**compute_fingerprint({"a": 1}, SOURCES), "config": {"a": 2}}
    for content in (changed, {"sha256": "x"}, [], "text", None):
        with pytest.raises(CorruptResourceError, match="does not match its content"):
            validate_fingerprint(store(tmp_path, content), compute_fingerprint({"a": 1}, SOURCES))
    (tmp_path / "fingerprint.json").write_bytes(b"{")
    with pytest.raises(CorruptResourceError, match="is not JSON"):
        read_fingerprint(tmp_path)
