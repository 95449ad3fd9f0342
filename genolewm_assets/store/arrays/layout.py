"""Names and contents of the files of an array store; rows, batches and checksums.

::

    <array>.bin        rows of one array: C order, little-endian, all of the same shape
    index.parquet      row, key, the caller's columns, <side-car>_key, meta_json
    <side-car>s.json   values that many rows share, by small integer key
    shapes.json        row count, arrays, batch size, columns
    fingerprint.json   configuration and digests of the sources
    crc.json           CRC-32C of every batch of every array, and of the index, side-cars, shapes and fingerprint
    _COMPLETE          CRC-32C of crc.json and its complement; written after all other files are on disk
    manifest.jsonl     the commit log; exists while rows are being written
    sidecars.jsonl     side-car values in the order of first use; exists while rows are being written

The finished files depend only on the rows and their order, not on the number of rows per call or on interruptions.
"""

from __future__ import annotations

import json
import math
import operator
import re
import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.store.arrays.keys import CACHE_VERSION, FINGERPRINT, damaged
from genolewm_assets.store.artefacts import integer
from genolewm_assets.store.files import JsonValue, parse_json, read_blocks, read_plain

INDEX, SHAPES, CHECKSUMS, COMPLETE = "index.parquet", "shapes.json", "crc.json", "_COMPLETE"
COMMIT_LOG, SIDECAR_LOG = "manifest.jsonl", "sidecars.jsonl"
#: Limits: dimensions of a row (that of NumPy 1); rows, bytes per row and rows per batch, larger than any disk needs.
_MOST_DIMENSIONS, MOST = 32, 1 << 40
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_DTYPES = frozenset({"bool", *_INTEGERS, "float16", "float32", "float64"})
#: Types allowed for a caller's column: values of these types are unchanged after the JSON of the commit log.
COLUMN_TYPES: Mapping[str, pa.DataType] = {
    name: pa.type_for_alias(name) for name in ("bool", "int8", "int16", "int32", "int64", "float64", "string")
}
_OWN_COLUMNS = frozenset({"row", "meta_json"})
_OWN_FILES = frozenset({INDEX, SHAPES, FINGERPRINT, CHECKSUMS, COMPLETE, COMMIT_LOG, SIDECAR_LOG})


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Name, row shape and dtype of one array of a store.

    Attributes
    ----------
    name
        Lower-case identifier; the array's file is ``<name>.bin``.
    shape
        Shape of one row; ``()`` for one value per row.
    dtype
        NumPy name of a boolean, integer or floating type, such as ``float16``; little-endian on disk.

    Raises
    ------
    ConfigurationError
        If the name, a dimension or the dtype is not allowed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        check_name(self.name, "array")
        where = f"array {self.name!r}"
        object.__setattr__(self, "shape", _dimensions(self.shape, where))
        if not isinstance(self.dtype, str) or self.dtype not in _DTYPES:
            raise ConfigurationError(where, "unknown dtype", expected=f"one of {sorted(_DTYPES)}", got=repr(self.dtype))
        if self.row_bytes > MOST:
            got = f"{self.row_bytes} bytes"
            raise ConfigurationError(where, "invalid row shape", expected=f"a row of at most {MOST} bytes", got=got)

    @property
    def disk_dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the file, little-endian."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def row_bytes(self) -> int:
        """Size of one row in bytes."""
        return math.prod(self.shape) * self.disk_dtype.itemsize

    @property
    def file_name(self) -> str:
        """Name of the array's file."""
        return f"{self.name}.bin"


def _dimensions(shape: Sequence[int], where: str) -> tuple[int, ...]:
    try:
        found = tuple(int(operator.index(n)) for n in shape)
    except TypeError as err:
        raise ConfigurationError(where, "invalid row shape", expected="integers", got=reprlib.repr(shape)) from err
    # Each dimension is checked before they are multiplied: the product of many huge integers would take very long.
    if len(found) > _MOST_DIMENSIONS or any(not 1 <= n <= MOST for n in found):
        expected = f"at most {_MOST_DIMENSIONS} positive dimensions"
        raise ConfigurationError(where, "invalid row shape", expected=expected, got=reprlib.repr(found))
    return found


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """Properties of a store that are fixed before its first row; a batch of ``batch_rows`` rows has one checksum."""

    key: str
    arrays: tuple[ArraySpec, ...]
    batch_rows: int
    key_column: str = "key"
    columns: tuple[tuple[str, str], ...] = ()
    sidecars: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.arrays:
            raise ConfigurationError("array store", "no arrays are declared", remedy="Declare at least one ArraySpec")
        object.__setattr__(self, "batch_rows", int(integer(self.batch_rows, "batch_rows")))
        if not 1 <= self.batch_rows <= MOST:
            expected, got = f"at least 1, at most {MOST}", reprlib.repr(self.batch_rows)
            raise ConfigurationError("array store", "batch_rows out of range", expected=expected, got=got)
        for name, kind in self.columns:
            check_name(name, "column")
            if kind not in COLUMN_TYPES:
                raise ConfigurationError(
                    f"column {name!r}", "unknown type", expected=f"one of {sorted(COLUMN_TYPES)}", got=repr(kind)
                )
        for name in (self.key_column, *self.sidecars):
            check_name(name, "column")
        names = [self.key_column, *(name for name, _ in self.columns), *map(sidecar_column, self.sidecars)]
        _check_distinct("columns", [*sorted(_OWN_COLUMNS), *names])
        _check_distinct("files", [*_OWN_FILES, *map(sidecar_file, self.sidecars), *(a.file_name for a in self.arrays)])

    @property
    def index_schema(self) -> pa.Schema:
        """Arrow schema of ``index.parquet``; a side-car key is null if the row has no such side-car."""
        return pa.schema(
            [
                pa.field("row", pa.int64(), nullable=False),
                pa.field(self.key_column, pa.string(), nullable=False),
                *(pa.field(name, COLUMN_TYPES[kind]) for name, kind in self.columns),
                *(pa.field(sidecar_column(name), pa.int32()) for name in self.sidecars),
                pa.field("meta_json", pa.string(), nullable=False),
            ]
        )

    @property
    def described_files(self) -> tuple[str, ...]:
        """Files of a finished store, other than arrays, that have a checksum in ``crc.json``."""
        return (INDEX, SHAPES, FINGERPRINT, *map(sidecar_file, self.sidecars))

    def as_json(self) -> dict[str, JsonValue]:
        """Return the layout as JSON values; :func:`layout_from_json` reads them."""
        document = json.loads(json.dumps({"layout_version": CACHE_VERSION, **asdict(self)}))
        return cast("dict[str, JsonValue]", document)

    def n_batches(self, n_rows: int) -> int:
        """Return the number of batches in ``n_rows`` rows."""
        return -(-n_rows // self.batch_rows)


def layout_from_json(document: object, where: str) -> ArrayLayout:
    """Parse the document of :meth:`ArrayLayout.as_json`; other fields in it are ignored."""
    try:
        record = cast("dict[str, Any]", document)
        if (version := record["layout_version"]) != CACHE_VERSION:
            raise CorruptResourceError(
                where,
                "cannot be read by this code",
                expected=f"layout version {CACHE_VERSION}",
                got=reprlib.repr(version),
                remedy="Build the array store again or upgrade",
            )
        layout = ArrayLayout(
            key=record["key"],
            arrays=tuple(ArraySpec(a["name"], tuple(a["shape"]), a["dtype"]) for a in record["arrays"]),
            batch_rows=record["batch_rows"],
            key_column=record["key_column"],
            columns=tuple((name, kind) for name, kind in record["columns"]),
            sidecars=tuple(record["sidecars"]),
        )
        _check_types(layout, record)
    except (ConfigurationError, KeyError, TypeError, ValueError, RecursionError) as err:
        raise damaged(where, f"is not a valid layout of an array store ({err})") from err
    return layout


def _check_types(layout: ArrayLayout, record: Mapping[str, Any]) -> None:
    """Compare a layout with its JSON source: the constructors also accept True for 1 and a text for a list."""
    written = layout.as_json()
    read = {name: record[name] for name in written}
    if json.dumps(written, sort_keys=True) != json.dumps(read, sort_keys=True):
        raise ConfigurationError("array store", "a field has a wrong type")


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One row of the index, with the field names of the cache specification.

    Attributes
    ----------
    path
        Key of the row; in caches of profiles a root-relative file name.
    has_annotation
        False if the annotation array holds zeros because there is no annotation; True in stores without such a column.
    panel_key, allele_key
        Keys of the row's values in the side-cars ``panel`` and ``allele``; None if the row has none.
    meta_json
        Further metadata of the row, as text of a JSON object.
    """

    row: int
    path: str
    has_annotation: bool = True
    panel_key: int | None = None
    allele_key: int | None = None
    meta_json: str = "{}"


def sidecar_file(name: str) -> str:
    """Return the file name of a side-car: ``panel`` -> ``panels.json``."""
    return f"{name}s.json"


def sidecar_column(name: str) -> str:
    """Return the index column of a side-car: ``panel`` -> ``panel_key``."""
    return f"{name}_key"


def check_name(name: str, what: str) -> None:
    """Raise :class:`ConfigurationError` unless ``name`` is a lower-case identifier of at most 64 characters."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            "array store", f"invalid {what} name", expected="lower-case letters, digits and '_'", got=repr(name)
        )


def _check_distinct(what: str, names: Sequence[str]) -> None:
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ConfigurationError("array store", f"two {what} have the same name", got=repr(twice[0]))


def crc32c(data: bytes | npt.NDArray[Any], start: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of bytes or of a C-contiguous array, continued from ``start``."""
    # The C extension accepts any object with a contiguous buffer; its type annotation allows bytes only.
    return int(google_crc32c.extend(start, cast("bytes", data)))


def crc32c_file(path: Path) -> int:
    """Return the CRC-32C of a regular file; errors are those of :func:`read_blocks`."""
    crc = 0
    for block in read_blocks(path):
        crc = crc32c(block, crc)
    return crc


def complete_text(checksums: bytes) -> bytes:
    """Return the content of ``_COMPLETE``: the CRC-32C of ``crc.json``, and its complement, which shows own damage."""
    crc = crc32c(checksums)
    return f"{crc:08x} {crc ^ 0xFFFFFFFF:08x}\n".encode()


def is_complete(directory: Path) -> bool:
    """Tell whether a directory holds a finished array store."""
    return (directory / COMPLETE).is_file()


def read_json(path: Path, crc: int | None) -> Any:
    """Read a JSON file of a finished store and compare its CRC-32C, if one is given."""
    data = read_plain(path)
    if crc is not None and crc32c(data) != crc:
        raise damaged(path, "content differs", f"crc32c {crc:08x}", f"crc32c {crc32c(data):08x}")
    return parse_json(data, str(path))
