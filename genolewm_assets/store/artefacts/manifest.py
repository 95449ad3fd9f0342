"""``manifest.json``: the files of a published directory, its inputs and recipe, and the results of its checks.

It contains only relative names and content digests, so the same build gives the same bytes in any folder, on any host,
at any time. Facts that differ between two runs are in ``provenance.json`` or ``stamps.json``.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import SupportsIndex, TypeVar

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.store.artefacts.check_result import CAUSE, REMEDY, CheckResult
from genolewm_assets.store.files import (
    JsonValue,
    canonical_json,
    link_target,
    normal_json,
    parse_json,
    read_record,
)

_Value = TypeVar("_Value")

MANIFEST = "manifest.json"
PROVENANCE = "provenance.json"
#: Sizes and times of the files that an array store was made from (see ``stamps.py``).
STAMPS = "stamps.json"
#: Files of a published directory that its manifest does not list: the manifest, and facts that differ between runs.
UNLISTED = frozenset({MANIFEST, PROVENANCE, STAMPS})
SCHEMA = "genolewm.manifest"
SCHEMA_VERSION = "1.0"
_REMEDY = "Rebuild the asset"
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Longest figure that is printed in full.
_FIGURE_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class InputRef:
    """One input of a build: the artefact, and the SHA-256 of its manifest as 64 hex digits."""

    asset: str
    partition: str | None
    manifest_sha256: str


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file: path relative to the directory, separated by ``/``; size; SHA-256; for a table, the number of rows."""

    path: str
    size_bytes: int
    sha256: str
    rows: int | None = None


# Without slots, because the digest is kept.
@dataclass(frozen=True)
class Manifest:
    """Content of ``manifest.json``; lists are sorted, so the bytes do not depend on the order of work.

    Attributes
    ----------
    recipe
        Parameters of the build, JSON values only.
    counts
        Counts by name, such as the rows kept and those rejected by reason.
    checks
        Results of the checks. The rows at fault of a failed one are not written, and so are not read back.

    Raises
    ------
    ConfigurationError
        If the recipe or the figures of a check have no JSON form, contain a number that is not finite, or a count is
        not an integer.
    CorruptResourceError
        If a path leads out of the directory, a digest is malformed, or a path, check or input is listed twice.
    """

    asset: str
    partition: str | None
    code_version: str
    recipe: Mapping[str, JsonValue]
    inputs: tuple[InputRef, ...]
    files: tuple[FileEntry, ...]
    counts: Mapping[str, int]
    checks: tuple[CheckResult, ...]
    schema: str = SCHEMA
    schema_version: str = SCHEMA_VERSION

    def __post_init__(self) -> None:
        checks = (replace(c, passed=bool(c.passed), figures=normal_json(c.figures, c.name)) for c in self.checks)
        ordered: dict[str, object] = {
            "recipe": normal_json(self.recipe, f"{self.where} recipe"),
            "inputs": tuple(sorted(self.inputs, key=lambda i: (i.asset, i.partition or "", i.manifest_sha256))),
            "files": tuple(sorted(self.files, key=lambda f: f.path)),
            "counts": {name: integer(n, f"{self.where} counts[{name!r}]") for name, n in self.counts.items()},
            "checks": tuple(sorted(checks, key=lambda c: c.name)),
        }
        for name, value in ordered.items():
            object.__setattr__(self, name, value)
        for entry in self.files:
            check_file_path(entry.path, self.where)
        for digest in [f.sha256 for f in self.files] + [i.manifest_sha256 for i in self.inputs]:
            if not _SHA256.fullmatch(digest):
                raise _corrupt(self.where, "malformed digest", expected="64 hex digits", got=repr(digest))
        _check_distinct([f.path for f in self.files], self.where)
        _check_distinct([c.name for c in self.checks], self.where)
        _check_distinct([repr(i) for i in self.inputs], self.where)

    @property
    def where(self) -> str:
        """Name of the artefact for messages: ``gnomad/shard[chr21]``."""
        return self.asset if self.partition is None else f"{self.asset}[{self.partition}]"

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Names of the checks that did not pass."""
        return tuple(check.name for check in self.checks if not check.passed)

    @property
    def failures(self) -> str:
        """Names of the checks that did not pass, then their figures, each cut to 120 characters; no empty ones."""
        failed = [check for check in self.checks if not check.passed]
        figures = "; ".join(f"{check.name}: {shown}" for check in failed if (shown := _shown_figures(check)))
        return f"{list(self.failed_checks)}{f' ({figures})' if figures else ''}"

    def to_bytes(self) -> bytes:
        """Return the manifest as canonical JSON, the bytes of ``manifest.json``, which has no rows at fault."""
        record = asdict(self)
        for check in record["checks"]:
            del check["rows"]
        return canonical_json(record, self.where)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file ``manifest.json``: the data version of the artefact."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


def integer(value: SupportsIndex, where: str) -> int:
    """Convert any integer type, such as a NumPy integer, to int; raise :class:`ConfigurationError` for other types."""
    try:
        return operator.index(value)
    except TypeError as err:
        raise ConfigurationError(where, "wrong type", expected="an integer", got=repr(value)) from err


def check_file_path(path: str, where: str) -> None:
    """Raise :class:`CorruptResourceError` unless ``path`` is relative, stays in its folder and can be listed.

    Backslashes, control characters and the parts ``""``, ``.`` and ``..`` are not allowed, nor the names in
    :data:`UNLISTED`.
    """
    pure = PurePosixPath(path)
    parts = path.split("/")
    harmless = not pure.is_absolute() and not {"", ".", ".."} & set(parts) and not re.search(r"[\\\x00-\x1f]", path)
    if not harmless or pure.name in UNLISTED:
        raise _corrupt(where, "file name not allowed in a manifest", expected="a relative path", got=repr(path))


def _check_distinct(names: Sequence[str], where: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    if twice:
        raise _corrupt(where, f"listed twice in the manifest: {twice[0]!r}")


def _corrupt(where: str, problem: str, *, expected: str | None = None, got: str | None = None) -> CorruptResourceError:
    return CorruptResourceError(where, problem, expected=expected, got=got, remedy=_REMEDY)


def read_manifest(directory: Path) -> Manifest:
    """Read and validate ``directory/manifest.json``.

    Raises
    ------
    MissingResourceError
        If the file does not exist.
    CorruptResourceError
        If the file is not canonical JSON of this schema and major version, lists a path that leads out of the directory
        or through a symlink, or lists anything twice.
    """
    path = directory / MANIFEST
    where = f"{directory.name}/{MANIFEST}"
    try:
        raw = read_record(path, remedy=_REMEDY)
    except MissingResourceError as err:
        raise MissingResourceError(where, "the manifest is missing", remedy=_REMEDY) from err
    except ResourceError as err:
        raise _corrupt(where, err.problem) from err
    manifest = parse_manifest(raw, where)
    for entry in manifest.files:
        if through := first_symlink(directory, entry.path):
            raise _corrupt(where, f"{entry.path!r} leads through the symlink {through!r}")
    return manifest


def first_symlink(directory: Path, path: str) -> str | None:
    """Return the shortest prefix of ``path`` that is a symlink below ``directory``; None if no part is."""
    parts = PurePosixPath(path).parts
    prefixes = ("/".join(parts[: n + 1]) for n in range(len(parts)))
    return next((prefix for prefix in prefixes if link_target(directory / prefix) is not None), None)


@lru_cache(maxsize=512)
def parse_manifest(raw: bytes, where: str) -> Manifest:
    """Parse the bytes of a ``manifest.json``, raising as :func:`read_manifest`. The same bytes are parsed once."""
    document = parse_json(raw, where, remedy=_REMEDY)
    record = _record(document, {f.name for f in fields(Manifest)}, where)
    version = _take(record, "schema_version", str, where)
    if record["schema"] != SCHEMA or version.split(".")[0] != SCHEMA_VERSION.split(".", maxsplit=1)[0]:
        raise CorruptResourceError(
            where,
            "cannot be read by this code",
            expected=f"{SCHEMA} {SCHEMA_VERSION.split('.', maxsplit=1)[0]}.x",
            got=f"{record['schema']} {version}",
            remedy="Rebuild the asset or upgrade",
        )
    try:
        manifest = Manifest(
            asset=_take(record, "asset", str, where),
            partition=_optional(record, "partition", str, where),
            code_version=_take(record, "code_version", str, where),
            recipe=_take(record, "recipe", dict, where),
            inputs=_entries(record, "inputs", _input_ref, where),
            files=_entries(record, "files", _file_entry, where),
            counts={name: _take(record["counts"], name, int, where) for name in _take(record, "counts", dict, where)},
            checks=_entries(record, "checks", _check_result, where),
            schema_version=version,
        )
        canonical = manifest.to_bytes()
    except ConfigurationError as err:
        raise _corrupt(where, err.problem) from err
    if canonical != raw:
        raise _corrupt(where, "is not in canonical form, so it was changed after it was written")
    return manifest


def _input_ref(item: object, where: str) -> InputRef:
    record = _record(item, {f.name for f in fields(InputRef)}, where)
    return InputRef(
        _take(record, "asset", str, where),
        _optional(record, "partition", str, where),
        _take(record, "manifest_sha256", str, where),
    )


def _file_entry(item: object, where: str) -> FileEntry:
    record = _record(item, {f.name for f in fields(FileEntry)}, where)
    return FileEntry(
        _take(record, "path", str, where),
        _take(record, "size_bytes", int, where),
        _take(record, "sha256", str, where),
        _optional(record, "rows", int, where),
    )


def _check_result(item: object, where: str) -> CheckResult:
    record = _record(item, {"name", "passed", "figures"}, where)
    return CheckResult(
        _take(record, "name", str, where), _take(record, "passed", bool, where), _take(record, "figures", dict, where)
    )


def _record(item: object, names: set[str], where: str) -> dict[str, JsonValue]:
    if not isinstance(item, dict) or set(item) != names:
        got = repr(sorted(item)) if isinstance(item, dict) else type(item).__name__
        raise _corrupt(where, "fields differ from the schema", expected=repr(sorted(names)), got=got)
    return item


def _take(record: object, name: str, kind: type[_Value], where: str) -> _Value:
    value = record[name] if isinstance(record, dict) else None
    # isinstance counts a bool as an int; JSON does not.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _corrupt(where, f"field {name!r} has the wrong type", expected=kind.__name__, got=repr(value))
    return value


def _optional(record: dict[str, JsonValue], name: str, kind: type[_Value], where: str) -> _Value | None:
    return None if record[name] is None else _take(record, name, kind, where)


def _entries(
    record: dict[str, JsonValue], name: str, read: Callable[[object, str], _Value], where: str
) -> tuple[_Value, ...]:
    return tuple(read(item, where) for item in _take(record, name, list, where))


def shown_figures(check: CheckResult) -> list[tuple[str, str]]:
    """Return names and texts of the figures of a check that are no sentences and not empty, cut to 120 characters."""
    figures = {name: value for name, value in check.figures.items() if name not in (CAUSE, REMEDY)}
    texts = [(name, f"{value:.6g}" if isinstance(value, float) else str(value)) for name, value in figures.items()]
    return [
        (name, text if len(text) <= _FIGURE_CHARACTERS else text[:_FIGURE_CHARACTERS] + "...")
        for name, text in texts
        if text not in ("None", "", "[]", "{}")
    ]


def _shown_figures(check: CheckResult) -> str:
    return ", ".join(f"{name} {text}" for name, text in shown_figures(check))
