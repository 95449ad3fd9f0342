"""Index of a release: every file of it with size and SHA-256, below a folder that opens like a root.

::

    package/...              the package
    audits/<release>/...     the audit that it passed
    embeddings/<key>/...     the state caches that it names
    root.json                the genome that the root of the package is of
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from genolewm_assets.errors import CorruptResourceError, GenoLeWMError, MissingResourceError
from genolewm_assets.store.artefacts import MANIFEST, ROOT_FILE, FileEntry
from genolewm_assets.store.files import canonical_json, parse_json

#: Name of the index where a release is a folder of files.
INDEX = "release.json"
#: Folder of the package in a release.
PACKAGE = "package"
#: Bytes that are read at once.
BLOCK_BYTES = 8 << 20
#: First part of the paths of state caches.
STATES = "embeddings"

_SCHEMA, _SCHEMA_VERSION = "genolewm.release", "1.0"
_DIGEST_LENGTH = 12
_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})-([0-9a-f]{12})")
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Paths below the folders of a release, without parts that lead elsewhere.
_PATH = re.compile(rf"{ROOT_FILE}|(?:{PACKAGE}|audits|{STATES})(?:/(?!\.\.?(?:/|\Z))[^/\\\x00-\x1f\x7f]+)+")
_REMEDY = "Publish the release again"


def release_name(release: str, manifest_sha256: str) -> str:
    """Return the name of a published package: its ClinVar release, and 12 digits of its manifest's digest."""
    return f"{release}-{manifest_sha256[:_DIGEST_LENGTH]}"


def is_pinned(reference: str) -> bool:
    """Tell whether a reference always means the same package: a name, 12 or more digits of its digest, a commit."""
    return _NAME.fullmatch(reference) is not None or re.fullmatch(r"[0-9a-f]{12,64}", reference) is not None


@dataclass(frozen=True, slots=True)
class ReleaseIndex:
    """What a release is made of.

    Attributes
    ----------
    release, manifest_sha256
        ClinVar release of the package, ISO date, and SHA-256 of its ``manifest.json``.
    files
        Every file, sorted by path.
    """

    release: str
    manifest_sha256: str
    files: tuple[FileEntry, ...]

    @property
    def name(self) -> str:
        """Name under which the release is published."""
        return release_name(self.release, self.manifest_sha256)

    @property
    def digest(self) -> str:
        """SHA-256 of the index."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def contents(self) -> dict[str, FileEntry]:
        """First file of each content, by SHA-256."""
        return {entry.sha256: entry for entry in reversed(self.files)}

    def without_states(self) -> ReleaseIndex:
        """Return the index without state caches."""
        kept = (entry for entry in self.files if not entry.path.startswith(f"{STATES}/"))
        return ReleaseIndex(self.release, self.manifest_sha256, tuple(kept))

    def to_bytes(self) -> bytes:
        """Return the index as canonical JSON."""
        files = [{"path": each.path, "size_bytes": each.size_bytes, "sha256": each.sha256} for each in self.files]
        stated = {"release": self.release, "manifest_sha256": self.manifest_sha256, "files": files}
        return canonical_json({"schema": _SCHEMA, "schema_version": _SCHEMA_VERSION, **stated}, INDEX)


def parse_index(data: bytes, where: str) -> ReleaseIndex:
    """Parse an index.

    Raises
    ------
    CorruptResourceError
        If it is not what :meth:`ReleaseIndex.to_bytes` writes, lists a path twice or one that leads out of the folders
        of a release, or has another package's manifest.
    """
    document = parse_json(data, where, remedy=_REMEDY)
    try:
        version, files = document["schema_version"], document["files"]
        major, found = _SCHEMA_VERSION.partition(".")[0], f"{document['schema']} {version}"
        if not found.startswith(f"{_SCHEMA} {major}."):
            raise _corrupt(where, "cannot be read by this code", f"{_SCHEMA} {major}.x", found)
        entries = tuple(FileEntry(str(each["path"]), int(each["size_bytes"]), str(each["sha256"])) for each in files)
        index = ReleaseIndex(str(document["release"]), str(document["manifest_sha256"]), entries)
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        if isinstance(err, GenoLeWMError):
            raise
        raise _corrupt(where, f"is no index of a release ({err!r})") from err
    paths = [entry.path for entry in index.files]
    for entry in index.files:
        if not _PATH.fullmatch(entry.path) or not _SHA256.fullmatch(entry.sha256) or entry.size_bytes < 0:
            raise _corrupt(where, "lists a file that no release has", got=repr(entry.path))
    if paths != sorted(set(paths)):
        raise _corrupt(where, "lists a path twice, or not in order")
    stated = {entry.path: entry.sha256 for entry in index.files}.get(f"{PACKAGE}/{MANIFEST}")
    if stated != index.manifest_sha256 or not _NAME.fullmatch(index.name):
        raise _corrupt(where, "names another package than its files are", index.manifest_sha256, str(stated))
    return index


def _corrupt(where: str, problem: str, expected: str | None = None, got: str | None = None) -> CorruptResourceError:
    return CorruptResourceError(where, problem, expected=expected, got=got, remedy=_REMEDY)


def choose_name(names: Iterable[str], reference: str | None, where: str) -> str:
    """Return the name that a reference means: itself, a release, a digest or its beginning; None: the newest one."""
    parts = [match for name in names if (match := _NAME.fullmatch(name))]
    if reference is None:
        newest = max((match[1] for match in parts), default=None)
        found = [match[0] for match in parts if match[1] == newest]
    else:
        told = (reference, reference[:_DIGEST_LENGTH] if is_pinned(reference) else reference)
        found = [match[0] for match in parts if match[0] == reference or match[1] == reference or match[2] == told[1]]
    if len(found) == 1:
        return found[0]
    raise MissingResourceError(
        where,
        "several builds of this release are published" if found else "no such release is published here",
        expected="one of " + ", ".join(sorted(match[0] for match in parts)) if parts else "a release",
        got=reference or ("none named" if found else "nothing"),
        remedy="Name one by its name or digest, as SOURCE@NAME" if parts else "Correct the URL",
    )
