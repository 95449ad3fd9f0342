"""Every way in which a package, or a cache that it points to, can differ from what was written.

A package outside a root (copied to a trainer's disk) has to be verifiable too, so its digests stand in three places:
``manifest.json``, ``SHA256SUMS`` and ``package.json``. Where they disagree, the bytes that were read decide which of
them was altered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.lewm.packages.files import read_sha256sums
from genolewm_assets.lewm.packages.info import read_package_info
from genolewm_assets.lewm.packages.schema import CHECKSUMS, PACKAGE_FILE
from genolewm_assets.progress import ByteCount
from genolewm_assets.store.artefacts import (
    MANIFEST,
    MISSING_FILE,
    Damage,
    FileEntry,
    first_symlink,
    list_files,
    measure_file,
    parse_manifest,
    read_manifest,
)
from genolewm_assets.store.files import GENERATIONS, split_generation_name


@dataclass(frozen=True, slots=True)
class _Claim:
    """What one of the files about the files says of one of them; None: nothing."""

    sha256: str
    size_bytes: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class _Claims:
    """All that one of the files about the files says."""

    stated_in: str
    claims: Mapping[str, _Claim]
    counts: Mapping[str, int] | None = None

    def covers(self, path: str) -> bool:
        """Tell whether this record should list a file."""
        if self.stated_in == PACKAGE_FILE:
            return path.endswith(".parquet")
        return path not in {self.stated_in, MANIFEST}


def find_package_damage(directory: Path, count: ByteCount) -> Iterator[Damage]:
    """Compare every byte of a package with what it says of itself; one finding per damaged file.

    Yields
    ------
    Damage
        ``file`` is the file that was altered, which may be one of the three that hold the digests.

    Notes
    -----
    The digest of ``manifest.json`` itself stands in the name of the published folder. In a copy under another name, a
    change of its recipe or of its checks' figures goes unnoticed.
    """
    seen: set[str] = set()
    for damage in _damages(directory, count):
        if damage.file not in seen:
            seen.add(damage.file)
            yield damage


def find_cache_damage(directory: Path, manifest_sha256: str, count: ByteCount) -> Iterator[Damage]:
    """Compare every byte of a cache with its manifest, and the manifest with the digest that the package pins."""
    try:
        manifest = read_manifest(directory)
    except (CorruptResourceError, MissingResourceError) as err:
        yield Damage(MANIFEST, err.problem, err.expected, err.got)
        return
    if manifest.sha256 != manifest_sha256:
        yield Damage(MANIFEST, "is not the manifest that the package pins", manifest_sha256, manifest.sha256)
        return
    for entry in manifest.files:
        found = _measure(directory, entry.path, count)
        if isinstance(found, Damage):
            yield found
        elif found != entry.sha256:
            yield Damage(entry.path, "content differs", f"sha256 {entry.sha256}", f"sha256 {found}")
    for extra in sorted(set(list_files(directory)) - {entry.path for entry in manifest.files}):
        yield Damage(extra, "is not listed in the manifest")


def find_size_damage(directory: Path, entries: Iterable[FileEntry]) -> Iterator[Damage]:
    """Compare sizes only: what can be known without reading the files."""
    for entry in entries:
        path = directory / entry.path
        if first_symlink(directory, entry.path) or not path.is_file():
            yield Damage(entry.path, MISSING_FILE)
        elif (size := path.stat().st_size) != entry.size_bytes:
            yield Damage(entry.path, "size differs", f"{entry.size_bytes} bytes", f"{size} bytes")


def _damages(directory: Path, count: ByteCount) -> Iterator[Damage]:
    records: list[_Claims] = []
    for read in (_manifest_claims, _checksum_claims, _info_claims):
        found = read(directory)
        if isinstance(found, Damage):
            yield found
        elif found is not None:
            records.append(found)
    intact = True
    for path in sorted(set(list_files(directory)).union(*(record.claims for record in records))):
        for damage in _judge(directory, path, [record for record in records if record.covers(path)], count):
            intact = False
            yield damage
    counts = [record.counts for record in records if record.counts is not None]
    if intact and any(each != counts[0] for each in counts):
        # package.json has its digest in SHA256SUMS as well, so it is not the one that was altered.
        yield Damage(MANIFEST, f"counts differ from {PACKAGE_FILE}")


def _judge(directory: Path, path: str, records: list[_Claims], count: ByteCount) -> Iterator[Damage]:
    """Find who is wrong about one file: its bytes, or a record of them."""
    stated = {record.stated_in: record.claims.get(path) for record in records}
    digests = {name: claim.sha256 for name, claim in stated.items() if claim is not None}
    found = _measure(directory, path, count)
    if isinstance(found, Damage):
        # A name that only some of the records know was altered in them.
        known_to_all = len(digests) == len(stated)
        yield from (
            [found] if known_to_all else (Damage(name, f"lists a file that is not there: {path!r}") for name in digests)
        )
    elif not stated and path == CHECKSUMS:
        return  # in a package without a manifest, nothing else speaks of the checksums
    elif not digests:
        yield Damage(path, f"is not listed in {' or '.join(stated) or CHECKSUMS}")
    elif found not in digests.values():
        witness, expected = next(iter(digests.items()))
        yield Damage(path, f"content differs from {witness}", f"sha256 {expected}", f"sha256 {found}")
    else:
        for name, claim in stated.items():
            if claim is None or claim.sha256 != found:
                got = None if claim is None else f"sha256 {claim.sha256}"
                yield Damage(name, f"states another digest of {path!r}, or none", f"sha256 {found}", got)
            else:
                yield from _judge_figures(directory / path, path, name, claim)


def _judge_figures(file: Path, path: str, name: str, claim: _Claim) -> Iterator[Damage]:
    """Compare size and rows that a record states with those of a file whose bytes are right."""
    size = file.stat().st_size
    if claim.size_bytes not in (None, size):
        yield Damage(name, f"states another size of {path!r}", f"{size} bytes", f"{claim.size_bytes} bytes")
    rows = pq.read_metadata(file).num_rows if path.endswith(".parquet") else None
    if claim.rows not in (None, rows):
        yield Damage(name, f"states another number of rows of {path!r}", f"{rows}", f"{claim.rows}")


def _measure(directory: Path, path: str, count: ByteCount) -> str | Damage:
    if through := first_symlink(directory, path):
        return Damage(path, f"the symlink {through!r} stands where a file or folder was published")
    # Before opening: a FIFO would block for ever.
    if not (directory / path).is_file():
        return Damage(path, MISSING_FILE if not (directory / path).exists() else "is not a regular file")
    try:
        return measure_file(directory / path, count)[1]
    except OSError as err:
        return Damage(path, f"cannot be read ({err.strerror})")


def _manifest_claims(directory: Path) -> _Claims | Damage | None:
    parts = split_generation_name(directory.name)
    if not (directory / MANIFEST).is_file() or (directory / MANIFEST).is_symlink():
        published = parts is not None and directory.parent.name == GENERATIONS
        return Damage(MANIFEST, MISSING_FILE) if published or (directory / MANIFEST).is_symlink() else None
    try:
        # Not read_manifest: that blames the manifest for a symlink that took the place of a file.
        manifest = parse_manifest((directory / MANIFEST).read_bytes(), MANIFEST)
    except CorruptResourceError as err:
        return Damage(MANIFEST, err.problem, err.expected, err.got)
    if parts is not None and parts[1] != manifest.sha256[:12]:
        return Damage(MANIFEST, "digest differs from the one in the folder's name", parts[1], manifest.sha256[:12])
    return _Claims(MANIFEST, _entry_claims(manifest.files), manifest.counts)


def _checksum_claims(directory: Path) -> _Claims | Damage | None:
    try:
        digests = read_sha256sums(directory)
    except (CorruptResourceError, MissingResourceError) as err:
        return Damage(CHECKSUMS, err.problem, err.expected, err.got)
    return _Claims(CHECKSUMS, {path: _Claim(sha256) for path, sha256 in digests.items()})


def _info_claims(directory: Path) -> _Claims | Damage | None:
    try:
        info = read_package_info(directory)
    except (CorruptResourceError, MissingResourceError) as err:
        return Damage(PACKAGE_FILE, err.problem, err.expected, err.got)
    return _Claims(PACKAGE_FILE, _entry_claims(info.files), info.counts)


def _entry_claims(entries: Iterable[FileEntry]) -> dict[str, _Claim]:
    return {entry.path: _Claim(entry.sha256, entry.size_bytes, entry.rows) for entry in entries}
