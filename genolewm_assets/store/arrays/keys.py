"""Key and fingerprint of an array store: the name of its directory, and whether its rows are current.

The *key* covers the configuration alone; the *fingerprint* also covers the content digest of every source.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.store.arrays.stamps import RowStamp, changed_files, read_stamps
from genolewm_assets.store.files import JsonValue, canonical_json, normal_json, parse_json, read_plain

#: Version of the layout on disk. It is part of every key, so stores of another version are not found and built again.
CACHE_VERSION = 1
#: File of the fingerprint in a finished store.
FINGERPRINT = "fingerprint.json"
#: Remedy in error messages about damaged stores.
BUILD_AGAIN = "Build the array store again"
_KEY = re.compile(r"[0-9a-f]{16}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def damaged(
    where: Path | str, problem: str, expected: str | None = None, got: str | None = None
) -> CorruptResourceError:
    """Return the error of a store that must be built again."""
    return CorruptResourceError(str(where), problem, expected=expected, got=got, remedy=BUILD_AGAIN)


def compute_key(config: Mapping[str, JsonValue]) -> str:
    """Compute the key of a configuration, 16 hex digits, which names its directory.

    The configuration has every parameter that the rows depend on; the order of its keys does not matter.

    Raises
    ------
    ConfigurationError
        If a value is not a JSON value, or not finite.
    """
    document = {"cache_version": CACHE_VERSION, "config": dict(config)}
    return hashlib.sha256(canonical_json(document, "array store key")).hexdigest()[:16]


def cache_key_dir(root: Path, key: str) -> Path:
    """Return the directory of a key below the folder of all keys.

    Raises
    ------
    ConfigurationError
        If ``key`` is not 16 hex digits; a path in ``key`` could otherwise leave ``root``.
    """
    if not _KEY.fullmatch(key):
        raise ConfigurationError(str(root), "malformed array store key", expected="16 hex digits", got=repr(key))
    return root / key


def compute_fingerprint(config: Mapping[str, JsonValue], sources: Mapping[str, str | RowStamp]) -> dict[str, JsonValue]:
    """Return the content of ``fingerprint.json``: configuration, SHA-256 of every source by name, and one of both.

    Parameters
    ----------
    config
        Every parameter that the rows depend on, JSON values only.
    sources
        SHA-256 (64 hex digits) or stamp of every source of the rows, by root-relative name: sample files, ladders,
        annotations, panels, mapping tables, manifests of upstream artefacts. Only the digest of a stamp is used.

    Raises
    ------
    ConfigurationError
        If a name is absolute or leaves the root, a digest is malformed, or a configuration value is not a JSON value.
    """
    digests = {name: source.sha256 if isinstance(source, RowStamp) else source for name, source in sources.items()}
    for name, digest in digests.items():
        parts = name.split("/")
        if PurePosixPath(name).is_absolute() or {"", ".", ".."} & set(parts):
            wanted = "a name relative to the root"
            raise ConfigurationError("fingerprint", "invalid source name", expected=wanted, got=repr(name))
        if not _SHA256.fullmatch(digest):
            where = f"fingerprint of {name}"
            raise ConfigurationError(where, "malformed digest", expected="64 hex digits", got=repr(digest))
    document = normal_json({"cache_version": CACHE_VERSION, "config": dict(config), "sources": digests}, "fingerprint")
    return {**document, "sha256": _digest(document)}


def _digest(document: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(canonical_json(document, "fingerprint")).hexdigest()


def read_fingerprint(directory: Path) -> dict[str, JsonValue]:
    """Read ``fingerprint.json`` of a finished store."""
    path = directory / FINGERPRINT
    document = parse_json(read_plain(path), str(path))
    try:
        check_fingerprint(document, str(path))
    except ConfigurationError as err:
        raise damaged(path, err.problem, err.expected, err.got) from err
    found: dict[str, JsonValue] = document
    return found


def check_fingerprint(document: object, where: str) -> None:
    """Raise :class:`ConfigurationError` unless the digest in a fingerprint matches its content."""
    body = dict(document) if isinstance(document, Mapping) else {}
    stated = body.pop("sha256", None)
    if stated != (wanted := _digest(body)):
        problem, remedy = "the fingerprint's digest does not match its content", "Use compute_fingerprint"
        raise ConfigurationError(where, problem, expected=wanted, got=repr(stated), remedy=remedy)


def validate_fingerprint(directory: Path, fingerprint: Mapping[str, JsonValue]) -> bool:
    """Tell whether a finished store was made from exactly this configuration and these sources.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        As ``read_fingerprint``; a damaged store is an error, not False.
    """
    return read_fingerprint(directory)["sha256"] == fingerprint.get("sha256")


def validate_sources(
    directory: Path, config: Mapping[str, JsonValue], files: Mapping[str, Path], *, strict: bool = False
) -> bool:
    """Tell whether a finished store was made from exactly this configuration and the current content of these files.

    Parameters
    ----------
    files
        Path of every source, by root-relative name. One with the size and modification time in ``stamps.json`` counts
        as unchanged; others, and with ``strict`` all, are read and compared by SHA-256.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        As :func:`read_fingerprint`.
    """
    stored = read_fingerprint(directory)
    sources = stored["sources"]
    assert isinstance(sources, Mapping), "a fingerprint with a valid digest was made by compute_fingerprint"
    digests = {name: str(digest) for name, digest in sources.items()}
    wanted = compute_fingerprint(config, {})
    if set(files) != set(digests) or any(wanted[part] != stored[part] for part in ("cache_version", "config")):
        return False
    unread = {name: RowStamp(digest, 0, None) for name, digest in digests.items()}
    kept = {name: stamp for name, stamp in read_stamps(directory).items() if digests.get(name) == stamp.sha256}
    return not any(changed_files(files, {**unread, **kept}, strict=strict))


def fingerprint_differences(stored: Mapping[str, JsonValue], wanted: Mapping[str, JsonValue]) -> list[str]:
    """List the differences between two fingerprints: parameters (sorted), sources (sorted), then the layout version."""
    lines = []
    for part in ("config", "sources"):
        old, new = stored.get(part), wanted.get(part)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            for name in sorted({*old, *new}):
                if name not in old or name not in new or old[name] != new[name]:
                    what = "is new" if name not in old else "changed" if name in new else "was removed"
                    lines.append(f"{part}: {name!r} {what}")
    if stored.get("cache_version") != wanted.get("cache_version"):
        lines.append("the layout version changed")
    return lines
