"""A published artefact and its files, and the comparison of a directory with its manifest."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import genolewm_assets
from genolewm_assets.errors import GenoLeWMError, MissingResourceError
from genolewm_assets.progress import ByteCount
from genolewm_assets.store.artefacts.manifest import (
    MANIFEST,
    PROVENANCE,
    UNLISTED,
    FileEntry,
    InputRef,
    Manifest,
    first_symlink,
)
from genolewm_assets.store.files import (
    FileDigests,
    JsonValue,
    Measured,
    canonical_json,
    read_document,
    split_generation_name,
    walk,
    write_atomic,
)

MISSING_FILE = "file is missing"


@dataclass(frozen=True, slots=True)
class ArtefactId:
    """An asset partition; ``partition`` is None for an asset without partitions."""

    asset: str
    partition: str | None = None

    def __str__(self) -> str:
        return self.asset if self.partition is None else f"{self.asset}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class Published:
    """A published artefact.

    Attributes
    ----------
    directory
        The generation, resolved once; it does not change when the link is switched.
    reused
        Whether the artefact existed already, so nothing was built.
    """

    artefact: ArtefactId
    directory: Path
    manifest: Manifest
    reused: bool

    @property
    def ref(self) -> InputRef:
        """The entry for this artefact in the inputs of another manifest."""
        return InputRef(self.artefact.asset, self.artefact.partition, self.manifest.sha256)

    @property
    def provenance(self) -> Mapping[str, JsonValue]:
        """When, where and by what it was built; empty if ``provenance.json`` cannot be read."""
        with suppress(GenoLeWMError):
            record = read_document(self.directory / PROVENANCE, remedy="")
            return record if isinstance(record, dict) else {}
        return {}

    @property
    def run_facts(self) -> Mapping[str, JsonValue]:
        """What the run that built it states of itself; empty if nothing, or if ``provenance.json`` cannot be read."""
        facts = self.provenance.get("run")
        return facts if isinstance(facts, dict) else {}

    def file(self, name: str) -> Path:
        """Return the path of a file, or raise :class:`MissingResourceError` if the manifest does not list it."""
        known = [entry.path for entry in self.manifest.files]
        if name not in known:
            raise MissingResourceError(
                f"{self.artefact} ({self.directory})",
                "the manifest does not list this file",
                expected=str(known),
                got=repr(name),
            )
        return self.directory / name


@dataclass(frozen=True, slots=True)
class Damage:
    """One difference between a directory and its manifest; ``file`` is relative to the directory."""

    file: str
    problem: str
    expected: str | None = None
    got: str | None = None


def total_bytes(manifest: Manifest) -> int:
    """Return the total size in bytes of the files of a manifest."""
    return sum(entry.size_bytes for entry in manifest.files)


def bytes_to_hash(manifest: Manifest, digests: FileDigests) -> int:
    """Return the size in bytes of the files of a manifest that are not known, so that they will be hashed."""
    return sum(entry.size_bytes for entry in manifest.files if not digests.known(entry.path))


def find_damage(
    directory: Path, manifest: Manifest, count: ByteCount, digests: FileDigests | None = None
) -> Iterator[Damage]:
    """Yield every difference between a directory and its manifest: directory name, file contents, unlisted files.

    Without ``digests`` contents are not compared, only sizes.
    """
    parts = split_generation_name(directory.name)
    if parts is None or parts[1] != manifest.sha256[:12]:
        yield Damage(
            MANIFEST,
            "digest of the manifest differs from the one in the directory's name",
            expected=parts[1] if parts else None,
            got=manifest.sha256[:12],
        )
        # An altered manifest cannot be trusted about the files.
        return
    yield from find_file_damage(directory, manifest, count, digests)


def find_file_damage(
    directory: Path, manifest: Manifest, count: ByteCount, digests: FileDigests | None = None
) -> Iterator[Damage]:
    """Yield every difference between the files of a directory and its manifest, as :func:`find_damage`.

    The name of the directory is not compared, so a plain copy of a generation can be intact.
    """
    for entry in manifest.files:
        if damage := _file_damage(directory, entry, count, digests):
            yield damage
    listed = {entry.path for entry in manifest.files}
    try:
        found = list_files(directory)
    except OSError as err:
        yield Damage(os.path.relpath(err.filename, directory), f"cannot be read ({err.strerror})")
        return
    for extra in found:
        if extra not in listed:
            yield Damage(extra, "is not listed in the manifest")


def _file_damage(directory: Path, entry: FileEntry, count: ByteCount, digests: FileDigests | None) -> Damage | None:
    if through := first_symlink(directory, entry.path):
        return Damage(entry.path, f"the symlink {through!r} is in the place of a published file or folder")
    path = directory / entry.path
    try:
        status = path.lstat()
        # Tested before opening: a FIFO would block for ever.
        if not stat.S_ISREG(status.st_mode):
            return Damage(entry.path, "is not a regular file")
        # A file of another size is damaged; it need not be read.
        if digests is None or status.st_size != entry.size_bytes:
            found = Measured(status.st_size, entry.sha256, None)
        else:
            found = digests.of(entry.path, count)
    except (FileNotFoundError, NotADirectoryError):
        return Damage(entry.path, MISSING_FILE)
    except OSError as err:
        return Damage(entry.path, f"cannot be read ({err.strerror})")
    if found.size_bytes != entry.size_bytes:
        return Damage(entry.path, "size differs", f"{entry.size_bytes} bytes", f"{found.size_bytes} bytes")
    same = found.sha256 == entry.sha256
    return None if same else Damage(entry.path, "content differs", f"sha256 {entry.sha256}", f"sha256 {found.sha256}")


def list_files(directory: Path) -> list[str]:
    """Return the sorted relative paths of everything below ``directory`` but folders and :data:`UNLISTED` files.

    Raises
    ------
    OSError
        If a folder cannot be read.
    """
    found: list[str] = []
    for folder, folders, names in walk(directory):
        links = [name for name in folders if (folder / name).is_symlink()]
        found += [str((folder / name).relative_to(directory)) for name in names + links]
    return sorted(set(found) - UNLISTED)


def has_listed_sizes(directory: Path, manifest: Manifest) -> bool:
    """Return whether the directory name and the size of every listed file match the manifest; reads no file."""
    parts = split_generation_name(directory.name)
    if parts is None or parts[1] != manifest.sha256[:12]:
        return False
    try:
        stats = [(directory / entry.path).lstat() for entry in manifest.files]
    except OSError:
        return False
    pairs = zip(stats, manifest.files, strict=True)
    return all(stat.S_ISREG(s.st_mode) and s.st_size == entry.size_bytes for s, entry in pairs)


def write_provenance(
    directory: Path, *, run_id: str | None, duration_s: float, facts: Mapping[str, JsonValue] | None = None
) -> None:
    """Write ``directory/provenance.json``: when, where and by which run it was built; no digest covers this file."""
    record: dict[str, JsonValue] = {
        "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "duration_s": round(duration_s, 3),
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "run_id": run_id,
        "version": genolewm_assets.__version__,
    }
    if facts:
        record["run"] = dict(facts)
    write_atomic(directory / PROVENANCE, canonical_json(record, PROVENANCE))
