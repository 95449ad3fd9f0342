"""Prepare rows for an array store: dtype conversion, index columns, side-car texts, known keys, uncommitted rows."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.errors import InputError
from genolewm_assets.store.arrays.layout import COLUMN_TYPES, ArrayLayout, ArraySpec
from genolewm_assets.store.files import JsonValue

# One encoder for all calls: json.dumps with options makes a new encoder at every call.
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

#: Number of hashes of keys kept in a set before they are sorted into an array.
_RECENT = 8_192


def fit_rows(spec: ArraySpec, values: npt.ArrayLike, n_rows: int, where: str) -> npt.NDArray[Any]:
    """Return rows of shape (n_rows, *spec.shape) as ``spec.disk_dtype`` in C order; every value must fit exactly."""
    array = np.asarray(values)
    if array.shape != (n_rows, *spec.shape):
        raise InputError(
            where,
            f"rows of array {spec.name!r} have the wrong shape",
            expected=str((n_rows, *spec.shape)),
            got=str(array.shape),
        )
    if array.dtype.kind not in "biuf":
        raise InputError(
            where, f"rows of array {spec.name!r} are not numbers", expected=spec.dtype, got=str(array.dtype)
        )
    if array.dtype == spec.disk_dtype:
        return np.ascontiguousarray(array).reshape(array.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = array.astype(spec.disk_dtype, order="C")
        # Compared in both dtypes: as float64, int64 2**53 + 1 equals its rounded copy; as int8, -1 equals uint8 255.
        same = _equal(fitted, array) & _equal(fitted.astype(array.dtype), array)
    if not same.all():
        first = tuple(int(n) for n in np.argwhere(~same)[0])
        raise InputError(
            f"{where} (row {first[0]} of those given, position {first[1:]})",
            f"a value of array {spec.name!r} does not fit its dtype",
            expected=spec.dtype,
            got=f"{array[first]!r}",
            remedy="Declare a wider dtype, or round the values before writing them",
        )
    return fitted


def _equal(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    equal: npt.NDArray[np.bool_] = a == b
    if a.dtype.kind == b.dtype.kind == "f":
        equal |= np.isnan(a) & np.isnan(b)
    return equal


def index_columns(
    layout: ArrayLayout, keys: Sequence[str], metas: Sequence[Mapping[str, JsonValue]] | None, where: str
) -> tuple[list[list[Any]], list[str]]:
    """Return keys and the caller's columns, in the order of the index, and ``meta_json`` of what has no column."""
    for key in keys:
        if not isinstance(key, str) or not key:
            raise InputError(where, "invalid row key", expected="text", got=repr(key))
    if metas is None and not layout.columns:
        return [list(keys)], ["{}"] * len(keys)
    known, rows, rest = dict(layout.columns), [], []
    for key, meta in zip(keys, [{}] * len(keys) if metas is None else metas, strict=True):
        here = f"{where} {key!r}"
        if missing := sorted(set(known) - set(meta)):
            raise InputError(here, "a column has no value", expected=str(sorted(known)), got=str(missing))
        rows.append([key, *(_column_value(meta[name], name, kind, here) for name, kind in layout.columns)])
        others = {name: value for name, value in meta.items() if name not in known}
        rest.append(compact_json(others, f"{here} meta"))
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(1 + len(known))], rest


def _column_value(value: object, name: str, kind: str, where: str) -> object:
    value = value.item() if isinstance(value, np.generic) else value
    try:
        stored = pa.scalar(value, COLUMN_TYPES[kind]).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as err:
        raise InputError(where, f"wrong value in column {name!r}", expected=kind, got=repr(value)) from err
    # Arrow converts 1.5 to int64 1 and True to float64 1.0 without an error.
    if stored != value or isinstance(stored, bool) != isinstance(value, bool):
        raise InputError(where, f"wrong value in column {name!r}", expected=kind, got=repr(value))
    return stored


def compact_json(value: object, where: str) -> str:
    """Serialise a value as canonical JSON: sorted keys, no spaces, UTF-8, finite numbers."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError) as err:
        raise InputError(where, f"cannot be written as JSON ({err})") from err


class SidecarTexts:
    """Side-car values: each distinct JSON value is stored once, under a key that counts from 0 by first use."""

    def __init__(self, names: Sequence[str], kept: Mapping[str, Sequence[str]]) -> None:
        self._keys = {name: {_digest(text): key for key, text in enumerate(kept.get(name, ()))} for name in names}
        self._seen: dict[tuple[str, bytes], int] = {}
        self._new: list[bytes] = []

    def check(self, sidecars: Mapping[str, str], where: str) -> None:
        """Check the side-car texts of one row without storing them."""
        for name, text in sidecars.items():
            if name not in self._keys:
                raise InputError(where, "side-car was not declared", expected=str(list(self._keys)), got=repr(name))
            if not isinstance(text, str):
                raise InputError(
                    where, f"wrong type of side-car {name!r}", expected="JSON text", got=type(text).__name__
                )
            if (name, _digest(text)) not in self._seen:
                _canonical_text(text, f"{where} side-car {name!r}")

    def intern(self, sidecars: Sequence[Mapping[str, str]]) -> list[list[int | None]]:
        """Store the checked side-car texts of rows; return a column of keys per side-car, None for no text."""
        return [[self._key(name, texts[name]) if name in texts else None for texts in sidecars] for name in self._keys]

    def _key(self, name: str, text: str) -> int:
        # A text seen before is not parsed again: panels have 126 kB, and nearly all are equal.
        raw = (name, _digest(text))
        if raw not in self._seen:
            text = _canonical_text(text, name)
            keys, digest = self._keys[name], _digest(text)
            if digest not in keys:
                keys[digest] = len(keys)
                self._new.append(f"{json.dumps([name, text], ensure_ascii=False)}\n".encode())
            self._seen[raw] = keys[digest]
        return self._seen[raw]

    def take_new(self) -> bytes:
        """Return the log lines of the values that are new since the last call."""
        lines, self._new = b"".join(self._new), []
        return lines


def read_sidecar_log(log: Iterable[bytes]) -> dict[str, list[str]]:
    """Read a side-car log: return the texts by side-car name; a text's position in its list is its key."""
    texts: dict[str, list[str]] = {}
    for line in log:
        name, text = json.loads(line)
        texts.setdefault(name, []).append(text)
    return texts


def _canonical_text(text: str, where: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise InputError(where, f"is not a JSON text ({err})", remedy="Pass json.dumps(value)") from err
    return compact_json(value, where)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class CommitGroup:
    """Index values of the rows written since the last commit."""

    def __init__(self, layout: ArrayLayout) -> None:
        self.n_rows = 0
        self.columns: list[list[Any]] = [[] for _ in layout.index_schema.names[1:]]
        self._began_s = 0.0

    def add(self, columns: Sequence[Sequence[Any]]) -> None:
        """Add the index values of rows, by column."""
        if not self.n_rows:
            self._began_s = time.monotonic()
        self.n_rows += len(columns[0])
        for column, values in zip(self.columns, columns, strict=True):
            column.extend(values)

    def waited_ms(self) -> float:
        """Return the milliseconds since the oldest row was added; 0 if there are no rows."""
        return (time.monotonic() - self._began_s) * 1_000 if self.n_rows else 0.0


class KnownKeys:
    """The keys of a store's rows, as sorted 64-bit hashes: 8 bytes a row, 16 while they are merged.

    Equal hashes are only a suspicion: the keys themselves decide. ``read_keys`` yields the keys that were added, in any
    order; it is called for keys whose hash is known, which almost always are keys that were added.
    """

    def __init__(self, read_keys: Callable[[], Iterable[str]]) -> None:
        self._read_keys = read_keys
        self._recent: set[int] = set()
        # Each array is sorted, and longer than the next one.
        self._runs: list[npt.NDArray[np.int64]] = []

    def add(self, keys: Sequence[str]) -> None:
        """Add keys that :meth:`find_repeated` does not object to."""
        self._recent.update(map(hash_of, keys))
        if len(self._recent) >= _RECENT:
            run = np.sort(np.fromiter(self._recent, np.int64, len(self._recent)))
            self._recent.clear()
            while self._runs and len(self._runs[-1]) <= len(run):
                run = np.concatenate([self._runs.pop(), run])
                # A stable sort merges sorted halves in linear time.
                run.sort(kind="stable")
            self._runs.append(run)

    def find_repeated(self, keys: Sequence[str]) -> str | None:
        """Return the first key that was added before, or is given twice; None if all are new."""
        hashes = np.fromiter(map(hash_of, keys), np.int64, len(keys))
        known = np.fromiter((value in self._recent for value in hashes.tolist()), np.bool_, len(keys))
        for run in self._runs:
            known |= run[np.minimum(np.searchsorted(run, hashes), len(run) - 1)] == hashes
        suspected = {keys[at] for at in np.flatnonzero(known).tolist()}
        added = suspected.intersection(self._read_keys()) if suspected else suspected
        if not added and len(set(keys)) == len(keys):
            return None
        counts = Counter(keys)
        return next(key for key in keys if key in added or counts[key] > 1)


def hash_of(key: str) -> int:
    """Return Python's 64-bit hash of a text, which differs from process to process and is never stored."""
    return hash(key)
