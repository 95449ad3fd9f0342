from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.store import cache_key_dir, compute_fingerprint, compute_key, validate_fingerprint
from genolewm_assets.store.arrays.keys import fingerprint_differences, read_fingerprint
from genolewm_assets.store.arrays.layout import ArrayLayout, ArraySpec
from genolewm_assets.store.arrays.rows import SidecarTexts, fit_rows, index_columns, read_sidecar_log
from genolewm_assets.store.files.canonical_json import JsonValue
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.store.artefacts.test_manifest import JSON

SOURCES = {"samples/a.hid": "a" * 64, "panel.xml": "b" * 64}


def store(directory: Path, fingerprint: object) -> Path:
    (directory / "fingerprint.json").write_text(json.dumps(fingerprint))
    return directory


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_a_key_does_not_depend_on_the_order_of_the_configuration(config: dict[str, object]) -> None:
    turned = dict(reversed(config.items()))
    assert compute_key(config) == compute_key(turned)
    assert compute_fingerprint(config, SOURCES) == compute_fingerprint(turned, dict(reversed(SOURCES.items())))


def test_a_key_is_16_hex_digits_and_the_same_in_every_process() -> None:
    code = "from genolewm_assets.store import compute_key; print(compute_key({'layer': -1, 'dtype': 'float16'}))"
    seeds, words = [{"PYTHONHASHSEED": seed} for seed in ("0", "1")], [sys.executable, "-c", code]
    keys = {subprocess.check_output(words, env=seed, text=True).strip() for seed in seeds}
    assert keys == {compute_key({"dtype": "float16", "layer": -1})}
    # Pinned: another value means that every store is built again, so CACHE_VERSION has to change with it.
    assert keys == {"b79a1b92780f64e4"}


@each_row("change", [{"layer": -2}, {"layer": -1.0}, {"layer": "-1"}, {"layer": None}, {}])
def test_any_other_parameter_makes_another_key(change: dict[str, object]) -> None:
    assert compute_key({"layer": -1}) != compute_key(change)


@each_row("config", [{"x": float("nan")}, {"x": {1: 2}}, {"x": object()}])
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


@each_row("name", ["/etc/passwd", "../x", "a/../b", "", "a//b"])
def test_source_names_stay_inside_the_root(name: str) -> None:
    with pytest.raises(ConfigurationError, match="expected a name relative to the root"):
        compute_fingerprint({}, {name: "a" * 64})


@each_row("digest", ["", "a" * 63, "A" * 64, "sha256:" + "a" * 64])
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


DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COLUMNS = (("start", "int64"), ("gc", "float64"), ("contig", "string"), ("ok", "bool"), ("tiny", "int8"))
LAYOUT = ArrayLayout("0" * 16, (ArraySpec("a", (), "int8"),), 8, columns=COLUMNS)
META: dict[str, JsonValue] = {"start": 1, "gc": 0.5, "contig": "chr21", "ok": True, "tiny": -128}


@given(st.data(), st.sampled_from(DTYPES + FLOATS), st.sampled_from(DTYPES + FLOATS))
def test_a_value_is_kept_exactly_or_refused(data: st.DataObject, given_dtype: str, dtype: str) -> None:
    array = data.draw(hnp.arrays(given_dtype, (2, 3)))
    try:
        fitted = fit_rows(ArraySpec("a", (3,), dtype), array, 2, "x")
    except InputError:
        exact = all(_same(x, y) for x, y in zip(array.ravel(), _cast(array, dtype).ravel(), strict=True))
        assert not exact
    else:
        assert fitted.dtype == np.dtype(dtype)
        assert all(_same(x, y) for x, y in zip(array.ravel(), fitted.ravel(), strict=True))


def _cast(array: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _same(x: np.generic, y: np.generic) -> bool:
    """Compare as Python numbers, which compare integers of any size with floats exactly."""
    a, b = x.item(), y.item()
    return bool(a == b or (a != a and b != b))  # noqa: PLR0124 - NaN


@each_row(
    ("value", "dtype"),
    [
        (128, "int8"), (-129, "int8"), (0.5, "int8"), (2, "bool"), (np.nan, "int16"), (np.inf, "int64"),
        (-1, "uint8"), (-1, "uint64"), (np.uint64(2**63), "int64"), (2**53 + 1, "float64"),
        (np.float32(0.1), "float16"), (1e6, "float16"),
    ],
)  # fmt: skip
def test_borders(value: float, dtype: str) -> None:
    with pytest.raises(InputError, match=rf"row 1 of those given, position \(0,\)\).*does not fit its dtype.*{dtype}"):
        fit_rows(ArraySpec("a", (2,), dtype), np.array([[0, 0], [value, 0]], np.asarray(value).dtype), 2, "x")


def test_what_fits_is_little_endian_and_in_order() -> None:
    given_array = np.arange(6, dtype=">i4").reshape(2, 3)[:, ::-1]
    fitted = fit_rows(ArraySpec("a", (3,), "int16"), given_array, 2, "x")
    assert fitted.tobytes() == np.array([[2, 1, 0], [5, 4, 3]], "<i2").tobytes()
    turned = fit_rows(ArraySpec("a", (3,), "int16"), np.arange(6, dtype=np.int16).reshape(3, 2).T, 2, "x")
    assert turned.tobytes() == np.array([0, 2, 4, 1, 3, 5], "<i2").tobytes()
    assert fit_rows(ArraySpec("a", (), "float16"), [np.nan], 1, "x").shape == (1,)


@each_row("shape", [(3,), (1, 4), (2, 3), (1, 3, 1), ()])
def test_a_wrong_shape_is_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"wrong shape: expected \(1, 3\), got "):
        fit_rows(ArraySpec("a", (3,), "int8"), np.zeros(shape, np.int8), 1, "x")


@each_row("values", [["a"], [None], [1j], np.array(["2020"], "datetime64[Y]")])
def test_what_is_not_a_number(values: object) -> None:
    with pytest.raises(InputError, match="are not numbers"):
        fit_rows(ArraySpec("a", (), "int8"), values, 1, "x")  # type: ignore[arg-type]


def test_columns_come_in_order_and_the_rest_is_json() -> None:
    numpy_values: Any = {**META, "start": np.int32(7), "gc": np.float32(0.25), "ok": np.bool_(False)}
    metas = [{**META, "z": [1, None], "b": "é"}, dict.fromkeys(META), numpy_values]
    columns, rest = index_columns(LAYOUT, ["k", "l", "m"], metas, "x")
    assert [list(row) for row in zip(*columns, strict=True)] == [
        ["k", 1, 0.5, "chr21", True, -128],
        ["l", None, None, None, None, None],
        ["m", 7, 0.25, "chr21", False, -128],
    ]
    assert rest == ['{"b":"é","z":[1,null]}', "{}", "{}"]
    assert index_columns(LAYOUT, [], [], "x") == ([[], [], [], [], [], []], [])
    plain = ArrayLayout("0" * 16, LAYOUT.arrays, 8)
    assert index_columns(plain, ["k", "l"], None, "x") == ([["k", "l"]], ["{}", "{}"])


@each_row(
    ("change", "message"),
    [
        ({"tiny": 128}, "column 'tiny': expected int8, got 128"),
        ({"start": 1.5}, "column 'start': expected int64, got 1.5"),
        ({"start": "1"}, "column 'start'"),
        ({"start": True}, "column 'start'"),
        ({"ok": 1}, "column 'ok'"),
        ({"gc": float("nan")}, "column 'gc'"),
        ({"contig": 21}, "column 'contig'"),
        ({"other": float("inf")}, "cannot be written as JSON"),
        ({"other": {1, 2}}, "cannot be written as JSON"),
    ],
)
def test_values_that_do_not_fit_their_column(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        index_columns(LAYOUT, ["j", "k"], [META, {**META, **change}], "x")


def test_a_column_without_a_value_and_a_row_without_a_key() -> None:
    with pytest.raises(InputError, match=r"a column has no value.*got \['gc'\]"):
        index_columns(LAYOUT, ["k"], [{name: value for name, value in META.items() if name != "gc"}], "x")
    with pytest.raises(InputError, match="a column has no value"):
        index_columns(LAYOUT, ["k"], None, "x")
    for key in ("", 7, None):
        with pytest.raises(InputError, match="row key"):
            index_columns(LAYOUT, [key], [META], "x")  # type: ignore[list-item]


def test_equal_values_have_one_key_however_they_are_spelled() -> None:
    texts = SidecarTexts(["panel", "allele"], {})
    assert texts.intern([{"panel": '{"a": 1, "b": [2]}', "allele": "[]"}]) == [[0], [0]]
    assert texts.intern([{"panel": '{"b":[2],"a":1}'}]) == [[0], [None]]
    assert texts.intern([{"panel": '{"b":[3],"a":1}'}]) == [[1], [None]]
    log = texts.take_new()
    assert texts.take_new() == b""
    assert read_sidecar_log(log.splitlines()) == {"panel": ['{"a":1,"b":[2]}', '{"a":1,"b":[3]}'], "allele": ["[]"]}
    restored = SidecarTexts(["panel", "allele"], read_sidecar_log(log.splitlines()))
    assert restored.intern([{"panel": '{ "b":[3],"a":1}', "allele": '"new"'}]) == [[1], [1]]
    assert restored.take_new() == b'["allele", "\\"new\\""]\n'


@each_row(
    ("sidecars", "message"),
    [
        ({"other": "{}"}, r"was not declared: expected \['panel'\], got 'other'"),
        ({"panel": "{"}, "is not a JSON text"),
        ({"panel": "NaN"}, "cannot be written as JSON"),
        ({"panel": {}}, "expected JSON text, got dict"),
    ],
)
def test_sidecars_that_are_refused(sidecars: dict[str, str], message: str) -> None:
    texts = SidecarTexts(["panel"], {})
    with pytest.raises(InputError, match=message):
        texts.check(sidecars, "x")
    assert texts.take_new() == b""
