"""Key and fingerprint of an array store: where a configuration's rows lie, and whether they are still true.

The *key* is made from the configuration alone and names the directory; another parameter means another directory. The
*fingerprint* also covers every source by its content digest; a source that changed means that the rows of the
existing directory are out of date.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.store.arrays.stamps import RowStamp, changed_files, read_stamps
from genolewm_assets.store.files import JsonValue, canonical_json, normal_json, parse_json, read_plain

#: Version of the layout on disk. Part of every key: stores of another version are missed, and built again.
CACHE_VERSION = 1
FINGERPRINT = "fingerprint.json"
_KEY = re.compile(r"[0-9a-f]{16}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def compute_key(config: Mapping[str, JsonValue]) -> str:
    """Return the 16 hex digits that name the directory of a configuration.

    Parameters
    ----------
    config
        Every parameter that the rows depend on, JSON values only; the order of keys does not matter.

    Raises
    ------
    ConfigurationError
        If a value is not JSON, or not finite.
    """
    document = {"cache_version": CACHE_VERSION, "config": dict(config)}
    return hashlib.sha256(canonical_json(document, "array store key")).hexdigest()[:16]


def cache_key_dir(root: Path, key: str) -> Path:
    """Return the directory of a key below the folder that holds all of them.

    Raises
    ------
    ConfigurationError
        If ``key`` is not what :func:`compute_key` gives, so that no text can lead out of ``root``.
    """
    if not _KEY.fullmatch(key):
        raise ConfigurationError(str(root), "malformed array store key", expected="16 hex digits", got=repr(key))
    return root / key


def compute_fingerprint(config: Mapping[str, JsonValue], sources: Mapping[str, str | RowStamp]) -> dict[str, JsonValue]:
    """Return what ``fingerprint.json`` says: configuration, digest of every source, and one digest over all of it.

    Parameters
    ----------
    sources
        SHA-256 (64 hex digits), or stamp, of everything that the rows were made from, by root-relative name: sample
        files, but also ladders, annotations, panels, mapping tables and the manifests of upstream artefacts. Of a
        stamp only the digest counts.

    Raises
    ------
    ConfigurationError
        If a name is absolute or leaves the root, a digest is malformed, or the configuration is not JSON.
    """
    digests = {name: source.sha256 if isinstance(source, RowStamp) else source for name, source in sources.items()}
    for name, digest in digests.items():
        parts = name.split("/")
        if PurePosixPath(name).is_absolute() or {"", ".", ".."} & set(parts):
            raise ConfigurationError(
                "fingerprint", "source name", expected="a name relative to the root", got=repr(name)
            )
        if not _SHA256.fullmatch(digest):
            raise ConfigurationError(
                f"fingerprint of {name}", "malformed digest", expected="64 hex digits", got=repr(digest)
            )
    document = normal_json({"cache_version": CACHE_VERSION, "config": dict(config), "sources": digests}, "fingerprint")
    return {**document, "sha256": _digest(document)}


def _digest(document: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(canonical_json(document, "fingerprint")).hexdigest()


def read_fingerprint(directory: Path) -> dict[str, JsonValue]:
    """Read ``fingerprint.json`` of a finished store.

    Raises
    ------
    MissingResourceError
        If there is none.
    CorruptResourceError
        If it is not JSON, or its own digest does not cover what it says.
    """
    path = directory / FINGERPRINT
    document = parse_json(read_plain(path), str(path))
    try:
        check_fingerprint(document, str(path))
    except ConfigurationError as err:
        raise CorruptResourceError(
            str(path), err.problem, expected=err.expected, got=err.got, remedy="Build the array store again"
        ) from err
    found: dict[str, JsonValue] = document
    return found


def check_fingerprint(document: object, where: str) -> None:
    """Raise :class:`ConfigurationError` unless a document is what :func:`compute_fingerprint` gives."""
    stated = document.get("sha256") if isinstance(document, Mapping) else None
    body = (
        {name: value for name, value in document.items() if name != "sha256"} if isinstance(document, Mapping) else {}
    )
    if stated != _digest(body):
        raise ConfigurationError(
            where,
            "the fingerprint's digest does not cover its contents",
            expected=_digest(body),
            got=repr(stated),
            remedy="Use compute_fingerprint",
        )


def validate_fingerprint(directory: Path, fingerprint: Mapping[str, JsonValue]) -> bool:
    """Tell whether a finished store was made from exactly this configuration and these sources.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        As :func:`read_fingerprint`: no answer, rather than a wrong one.
    """
    return read_fingerprint(directory)["sha256"] == fingerprint.get("sha256")


def validate_sources(
    directory: Path, config: Mapping[str, JsonValue], files: Mapping[str, Path], *, strict: bool = False
) -> bool:
    """Tell whether a finished store was made from exactly this configuration and these files as they are now.

    A file whose size and modification time are those in ``stamps.json`` is not read; of any other the content decides.

    Parameters
    ----------
    files
        Every source, by root-relative name.
    strict
        Read every file all the same.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        As :func:`read_fingerprint`.
    """
    stored = read_fingerprint(directory)
    sources = stored["sources"]
    assert isinstance(sources, Mapping), "a fingerprint whose digest is right holds what compute_fingerprint put in"
    digests = {name: str(digest) for name, digest in sources.items()}
    wanted = compute_fingerprint(config, {})
    if set(files) != set(digests) or any(wanted[part] != stored[part] for part in ("cache_version", "config")):
        return False
    unread = {name: RowStamp(digest, 0, None) for name, digest in digests.items()}
    kept = {name: stamp for name, stamp in read_stamps(directory).items() if digests.get(name) == stamp.sha256}
    return not any(changed_files(files, {**unread, **kept}, strict=strict))


def fingerprint_differences(stored: Mapping[str, JsonValue], wanted: Mapping[str, JsonValue]) -> list[str]:
    """Name what differs between two fingerprints, one line each, sorted: for messages about why a store is rebuilt."""
    lines = []
    for part in ("config", "sources"):
        old, new = stored.get(part), wanted.get(part)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            for name in sorted({*old, *new}):
                if name not in old:
                    lines.append(f"{part}: {name!r} is new")
                elif name not in new:
                    lines.append(f"{part}: {name!r} is gone")
                elif old[name] != new[name]:
                    lines.append(f"{part}: {name!r} changed")
    if stored.get("cache_version") != wanted.get("cache_version"):
        lines.append("the layout version changed")
    return lines
