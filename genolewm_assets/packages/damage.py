"""Find damaged, missing and added files of a package or cache, and false statements of ``package.json``.

``manifest.json`` has the digest of every file, and ``package.json`` that of every table and array. If the two differ,
the digest computed from the file shows which of them was altered; no root is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Literal, TypeAlias

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.genome import Split
from genolewm_assets.packages.files import GROUP_ROWS
from genolewm_assets.packages.info import PackageInfo, SplitInfo, read_package_info, split_digest
from genolewm_assets.packages.schema import ARRAYS, PACKAGE_FILE, PIECES, CacheRef, controls_path, variants_path
from genolewm_assets.packages.window_rows import read_trains
from genolewm_assets.progress import ByteCount
from genolewm_assets.store.artefacts import (
    MANIFEST,
    MISSING_FILE,
    Damage,
    FileEntry,
    Manifest,
    first_symlink,
    list_files,
    parse_manifest,
    read_manifest,
)
from genolewm_assets.store.files import FileDigests, read_record, split_generation_name
from genolewm_assets.store.tables import open_parquet, reading_parquet

#: Which files are hashed: all, or those that are not known by their identity (decision 101).
Hashed: TypeAlias = Literal["all", "modified"]


@dataclass(frozen=True, slots=True)
class _RecordFile:
    """Content of one record file: ``manifest.json`` or ``package.json``."""

    name: str
    files: Mapping[str, FileEntry]
    counts: Mapping[str, int]

    def covers(self, path: str) -> bool:
        """Tell whether this record file must list a file."""
        return self.name == MANIFEST or path.endswith(".parquet") or path.startswith((f"{ARRAYS}/", f"{PIECES}/"))


def find_package_damage(directory: Path, count: ByteCount, hashed: Hashed = "all") -> Iterator[Damage]:
    """Compare every file of a package with the package's own records; at most one finding per altered file.

    In a copy with another name, a change of the recipe or of the figures of checks in ``manifest.json`` is not
    detected.
    """
    seen: set[str] = set()
    for damage in _damages(directory, count, hashed):
        if damage.file not in seen:
            seen.add(damage.file)
            yield damage


def find_cache_damage(directory: Path, ref: CacheRef, count: ByteCount, hashed: Hashed = "all") -> Iterator[Damage]:
    """Compare every file of a cache with its manifest, and the manifest with what the package states of it."""
    try:
        manifest = read_manifest(directory)
    except (CorruptResourceError, MissingResourceError) as err:
        yield Damage(MANIFEST, err.problem, err.expected, err.got)
        return
    if manifest.sha256 != ref.manifest_sha256:
        yield Damage(MANIFEST, "is not the manifest that the package refers to", ref.manifest_sha256, manifest.sha256)
        return
    if (rows := manifest.counts.get("windows")) != ref.rows:
        yield Damage(MANIFEST, "has another number of windows than the package states", f"{ref.rows}", f"{rows}")
    digests = FileDigests(directory, again=hashed == "all")
    for entry in manifest.files:
        found = _measure(directory, entry.path, count, digests)
        if isinstance(found, Damage):
            yield found
        elif found != entry.sha256:
            yield Damage(entry.path, "content differs", f"sha256 {entry.sha256}", f"sha256 {found}")
    if hashed == "modified":
        digests.keep(directory)
    for extra in sorted(set(list_files(directory)) - {entry.path for entry in manifest.files}):
        yield Damage(extra, "is not listed in the manifest")


def find_size_damage(directory: Path, entries: Iterable[FileEntry]) -> Iterator[Damage]:
    """Find files that are missing, behind a symlink or of another size; the files are not read."""
    for entry in entries:
        path = directory / entry.path
        if first_symlink(directory, entry.path) or not path.is_file():
            yield Damage(entry.path, MISSING_FILE)
        elif (size := path.stat().st_size) != entry.size_bytes:
            yield Damage(entry.path, "size differs", f"{entry.size_bytes} bytes", f"{size} bytes")


def bytes_to_hash(directory: Path, hashed: Hashed) -> int:
    """Return the size in bytes of the files of a package or cache that are hashed if none of them is damaged."""
    digests = FileDigests(directory, again=hashed == "all")
    stats = [(directory / path).lstat() for path in list_files(directory) if not digests.known(path)]
    return sum(each.st_size for each in stats if S_ISREG(each.st_mode))


def _damages(directory: Path, count: ByteCount, hashed: Hashed) -> Iterator[Damage]:
    manifest, info = _read_manifest(directory), _read_info(directory)
    if isinstance(manifest, Damage):
        yield manifest
        return
    records = [_RecordFile(MANIFEST, {entry.path: entry for entry in manifest.files}, manifest.counts)]
    if isinstance(info, Damage):
        yield info
    else:
        records.append(info)
    digests = FileDigests(directory, again=hashed == "all")
    damages: list[Damage] = []
    for path in sorted(set(list_files(directory)).union(*(record.files for record in records))):
        measured = _measure(directory, path, count, digests)
        for damage in _compare_file(directory, path, [record for record in records if record.covers(path)], measured):
            damages.append(damage)
            yield damage
    if hashed == "modified":
        digests.keep(directory)
    if not damages and any(record.counts != manifest.counts for record in records):
        # The manifest contains the digest of package.json, so the manifest is the one that was altered.
        yield Damage(MANIFEST, f"counts differ from {PACKAGE_FILE}")


def _compare_file(directory: Path, path: str, records: list[_RecordFile], found: str | Damage) -> Iterator[Damage]:
    """Find what is wrong about one file, of digest or damage ``found``: its content, or one of the records of it."""
    stated = {record.name: record.files.get(path) for record in records}
    digests = {name: record.sha256 for name, record in stated.items() if record is not None}
    if isinstance(found, Damage):
        # A path that only some of the record files list was altered in these.
        known_to_all = len(digests) == len(stated)
        yield from ([found] if known_to_all else (Damage(name, f"lists a missing file: {path!r}") for name in digests))
    elif not digests:
        yield Damage(path, f"is not listed in {' or '.join(stated)}")
    elif found not in digests.values():
        name, expected = next(iter(digests.items()))
        yield Damage(path, f"content differs from {name}", f"sha256 {expected}", f"sha256 {found}")
    else:
        for name, record in stated.items():
            if record is None or record.sha256 != found:
                got = None if record is None else f"sha256 {record.sha256}"
                yield Damage(name, f"states a different digest of {path!r}, or none", f"sha256 {found}", got)
            else:
                yield from _compare_figures(directory / path, path, name, record)


def _compare_figures(file: Path, path: str, name: str, record: FileEntry) -> Iterator[Damage]:
    """Compare size and rows that a record file states with those of a file whose digest is right."""
    size = file.stat().st_size
    if record.size_bytes != size:
        yield Damage(name, f"states a different size of {path!r}", f"{size} bytes", f"{record.size_bytes} bytes")
    try:
        with reading_parquet(file):
            rows = pq.read_metadata(file).num_rows if path.endswith(".parquet") else None
    except CorruptResourceError as err:
        yield Damage(path, err.problem)
        return
    if record.rows not in (None, rows):
        yield Damage(name, f"states a different number of rows of {path!r}", f"{rows}", f"{record.rows}")


def _measure(directory: Path, path: str, count: ByteCount, digests: FileDigests) -> str | Damage:
    if through := first_symlink(directory, path):
        return Damage(path, f"the symlink {through!r} replaces a published file or folder")
    # Tested before opening, because opening a FIFO blocks.
    if not (directory / path).is_file():
        return Damage(path, MISSING_FILE if not (directory / path).exists() else "is not a regular file")
    try:
        return digests.of(path, count).sha256
    except OSError as err:
        return Damage(path, f"cannot be read ({err.strerror})")


def _read_manifest(directory: Path) -> Manifest | Damage:
    parts = split_generation_name(directory.name)
    try:
        # read_manifest would report a symlink in place of a listed file as damage of the manifest.
        manifest = parse_manifest(read_record(directory / MANIFEST, remedy=""), MANIFEST)
    except MissingResourceError:
        return Damage(MANIFEST, MISSING_FILE)
    except ResourceError as err:
        return Damage(MANIFEST, err.problem, err.expected, err.got)
    if parts is not None and parts[1] != manifest.sha256[:12]:
        return Damage(MANIFEST, "digest differs from the one in the folder's name", parts[1], manifest.sha256[:12])
    return manifest


def _read_info(directory: Path) -> _RecordFile | Damage:
    try:
        info = read_package_info(directory)
    except (CorruptResourceError, MissingResourceError) as err:
        return Damage(PACKAGE_FILE, err.problem, err.expected, err.got)
    return _RecordFile(PACKAGE_FILE, {entry.path: entry for entry in info.files}, info.counts)


#: What must not be in a column of bases, in every table that has the column.
_FOREIGN = {
    **dict.fromkeys(("sequence", "ref", "alt"), "[^ACGT]|^$"),
    **dict.fromkeys(("left_flank", "right_flank"), "[^ACGT]"),
    **dict.fromkeys(("left_context", "right_context"), "[^ACGTN]"),
}
#: Columns by which the rows of train are counted.
_COUNTED = {"origin": "windows.{}.train", "source": "alleles.{}.train"}
_ROWS_OF_TRAIN = (["windows", "train"], ["alleles", "train"])


def find_false_claims(directory: Path, info: PackageInfo, count: ByteCount) -> Iterator[Damage]:
    """Read every table of a package whose files are undamaged; yield what ``package.json`` states falsely of them."""
    trained: Counter[str] = Counter()
    tables = [entry for entry in info.files if entry.path.endswith(".parquet")]
    count.expect(sum(entry.size_bytes for entry in tables))
    for entry in tables:
        try:
            yield from _find_foreign_bases(directory, entry.path, trained)
        except CorruptResourceError as err:
            yield Damage(entry.path, err.problem)
            return
        count.add(entry.size_bytes)
    try:
        for ref in info.pieces:
            trained[f"windows.{ref.origin}.train"] += int(np.count_nonzero(read_trains(directory, ref)))
    except CorruptResourceError as err:
        yield Damage(PACKAGE_FILE, f"states another piece than its files have ({err.where})", err.expected, err.got)
        return
    for split in Split:
        stated, found = info.splits.get(split), _split_of(info, split)
        if stated != found:
            yield Damage(PACKAGE_FILE, f"states other figures of {split} than its files have", f"{found}", f"{stated}")
    rows_of_train = {name: n for name, n in info.counts.items() if name.split(".")[::2] in _ROWS_OF_TRAIN}
    for name in sorted(trained.keys() | rows_of_train):
        if trained[name] != rows_of_train.get(name, 0):
            yield Damage(PACKAGE_FILE, f"states another {name!r}", f"{trained[name]}", f"{rows_of_train.get(name, 0)}")


def _find_foreign_bases(directory: Path, path: str, trained: Counter[str]) -> Iterator[Damage]:
    """Yield the first value of each column of a table that is no sequence of bases; count the rows of train."""
    is_train = path.startswith((f"data/{Split.TRAIN}-", variants_path(Split.TRAIN)))
    with reading_parquet(directory / path), open_parquet(directory / path) as file:
        columns = [name for name in file.schema_arrow.names if name in _FOREIGN or (is_train and name in _COUNTED)]
        for batch in file.iter_batches(GROUP_ROWS, columns=columns):
            for name in columns:
                if name in _COUNTED:
                    for value in pc.value_counts(batch[name]).to_pylist():
                        trained[_COUNTED[name].format(value["values"])] += value["counts"]
                elif len(foreign := batch[name].filter(pc.match_substring_regex(batch[name], _FOREIGN[name]))):
                    yield Damage(path, f"column {name!r} has other letters than bases: {foreign[0].as_py()[:40]!r}")
                    return


def _split_of(info: PackageInfo, split: Split) -> SplitInfo:
    """Return what the files of a split have."""
    names = (f"data/{split}-", variants_path(split), controls_path(split))
    windows, variants, controls = (
        sum(entry.rows or 0 for entry in info.files if entry.path.startswith(name)) for name in names
    )
    windows += sum(ref.training for ref in info.pieces) if split is Split.TRAIN else 0
    return SplitInfo(windows, variants, controls, split_digest(info.files, split))
