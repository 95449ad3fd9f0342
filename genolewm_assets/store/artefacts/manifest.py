"""``manifest.json``: the files of a published directory, its inputs and recipe, and the results of its checks.

It contains only relative names and content digests, so the same build gives the same bytes in any folder, on any host,
at any time. Facts that differ between two runs are in ``provenance.json`` or ``stamps.json``.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Any, SupportsIndex, TypeAlias

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.store.artefacts.check_result import CAUSE, REMEDY, CheckResult
from genolewm_assets.store.files import JsonValue, canonical_json, link_target, normal_json, parse_json, read_record

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
_Kinds: TypeAlias = Mapping[str, type | UnionType]
#: Types of the fields of a manifest, and of its inputs, files and checks.
_MANIFEST: _Kinds = {
    "asset": str, "partition": str | None, "code_version": str, "recipe": dict, "inputs": list, "files": list,
    "counts": dict, "checks": list, "schema": str, "schema_version": str,
}  # fmt: skip
_INPUT: _Kinds = {"asset": str, "partition": str | None, "manifest_sha256": str}
_FILE: _Kinds = {"path": str, "size_bytes": int, "sha256": str, "rows": int | None}
_CHECK: _Kinds = {"name": str, "passed": bool, "figures": dict}
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
        for names in ([f.path for f in self.files], [c.name for c in self.checks], [repr(i) for i in self.inputs]):
            if twice := sorted(name for name, count in Counter(names).items() if count > 1):
                raise _corrupt(self.where, f"listed twice in the manifest: {twice[0]!r}")

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
        failed = {check.name: shown_figures(check) for check in self.checks if not check.passed}
        texts = {name: ", ".join(f"{figure} {text}" for figure, text in shown) for name, shown in failed.items()}
        figures = "; ".join(f"{name}: {text}" for name, text in texts.items() if text)
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
    version = _fields(document, {**dict.fromkeys(_MANIFEST, object), "schema_version": str}, where)["schema_version"]
    if document["schema"] != SCHEMA or version.split(".")[0] != SCHEMA_VERSION.split(".", maxsplit=1)[0]:
        raise CorruptResourceError(
            where,
            "cannot be read by this code",
            expected=f"{SCHEMA} {SCHEMA_VERSION.split('.', maxsplit=1)[0]}.x",
            got=f"{document['schema']} {version}",
            remedy="Rebuild the asset or upgrade",
        )
    record = _fields(document, _MANIFEST, where)
    try:
        manifest = Manifest(
            asset=record["asset"],
            partition=record["partition"],
            code_version=record["code_version"],
            recipe=record["recipe"],
            inputs=tuple(InputRef(**_fields(item, _INPUT, where)) for item in record["inputs"]),
            files=tuple(FileEntry(**_fields(item, _FILE, where)) for item in record["files"]),
            counts=_fields(record["counts"], dict.fromkeys(record["counts"], int), where),
            checks=tuple(CheckResult(**_fields(item, _CHECK, where)) for item in record["checks"]),
            schema_version=version,
        )
        canonical = manifest.to_bytes()
    except ConfigurationError as err:
        raise _corrupt(where, err.problem) from err
    if canonical != raw:
        raise _corrupt(where, "is not in canonical form, so it was changed after it was written")
    return manifest


def _fields(item: object, kinds: _Kinds, where: str) -> dict[str, Any]:
    """Return a JSON object that has these fields and no others, each of its type."""
    if not isinstance(item, dict) or set(item) != set(kinds):
        got = repr(sorted(item)) if isinstance(item, dict) else type(item).__name__
        raise _corrupt(where, "fields differ from the schema", expected=repr(sorted(kinds)), got=got)
    for name, kind in kinds.items():
        # isinstance counts a bool as an int; JSON does not.
        if not isinstance(item[name], kind) or (isinstance(item[name], bool) and kind not in (bool, object)):
            wanted = kind.__args__[0] if isinstance(kind, UnionType) else kind
            raise _corrupt(where, f"field {name!r} has the wrong type", expected=wanted.__name__, got=repr(item[name]))
    return item


def shown_figures(check: CheckResult) -> list[tuple[str, str]]:
    """Return names and texts of the figures of a check that are no sentences and not empty, cut to 120 characters."""
    figures = {name: value for name, value in check.figures.items() if name not in (CAUSE, REMEDY)}
    texts = [(name, f"{value:.6g}" if isinstance(value, float) else str(value)) for name, value in figures.items()]
    return [
        (name, text if len(text) <= _FIGURE_CHARACTERS else text[:_FIGURE_CHARACTERS] + "...")
        for name, text in texts
        if text not in ("None", "", "[]", "{}")
    ]
