"""Split packages as trainers and people open them: a folder that is verified, then read table by table.

A package holds windows, alleles and holdouts by value and the caches of states by reference. Not here: writing one
(``package_writer``), which row goes where (``package_plan``, ``package_split``), publication (``store``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.genome import Split
from genolewm_assets.lewm.packages.caches import as_finding, check_root, find_cache, verify_caches
from genolewm_assets.lewm.packages.damage import find_package_damage, find_size_damage
from genolewm_assets.lewm.packages.files import GROUP_ROWS
from genolewm_assets.lewm.packages.info import PackageInfo, read_package_info
from genolewm_assets.lewm.packages.schema import (
    CHECKSUMS,
    HOLDOUT_PATHS,
    PACKAGE_FILE,
    controls_path,
    variants_path,
)
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.store.artefacts import Finding, enclosing_root

HoldoutNoun: TypeAlias = Literal["intervals", "alleles", "corpus"]


@dataclass(frozen=True, slots=True)
class Package:
    """An open package; small to pickle, so that workers share one verification.

    Attributes
    ----------
    directory
        The package, links resolved once.
    info
        Its ``package.json``.
    caches
        Folder of the cache of every contig and corpus source that has one.
    """

    directory: Path
    info: PackageInfo
    caches: Mapping[str, Path]

    def window_files(self, split: Split) -> tuple[Path, ...]:
        """Return the window files of a split, in order."""
        return tuple(self.directory / entry.path for entry in self.info.split_files(split))

    def window_batches(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read a split's windows (``PACKAGE_WINDOWS``) in their order, about a thousand at a time."""
        for path in self.window_files(split):
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(GROUP_ROWS, columns=columns)

    def windows(self, split: Split, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a split's windows; without ``columns`` about 13 kB a row."""
        return pa.concat_tables([pq.read_table(path, columns=columns) for path in self.window_files(split)])

    def variants(self, split: Split) -> pa.Table:
        """Read a split's alleles (``PACKAGE_VARIANTS``)."""
        return pq.read_table(self.directory / variants_path(split))

    def controls(self, split: Split) -> pa.Table:
        """Read the re-framed windows (``PACKAGE_CONTROLS``) of validation or test."""
        return pq.read_table(self.directory / controls_path(split))

    def holdouts(self, noun: HoldoutNoun) -> pa.Table:
        """Read a holdout table (``lewm.holdout_schema``)."""
        return pq.read_table(self.directory / HOLDOUT_PATHS[noun])


def open_package(
    path: Path | str, *, cache_root: Path | str | None = None, contents: Literal["hash", "sizes"] = "hash"
) -> Package:
    """Open a package after comparing it, and the caches that it points to, with their digests.

    Parameters
    ----------
    path
        The package's folder, or the link to it.
    cache_root
        Root in which the caches lie; None: the one that encloses the package.
    contents
        ``hash`` reads every byte of the package; ``sizes`` only looks at names and sizes. Caches are compared by
        manifest and sizes either way; each batch that is read from one has its own checksum.

    Raises
    ------
    MissingResourceError
        If there is no package, or a cache is missing.
    CorruptResourceError
        If a file differs from what the package says of it, or another cache lies in the place of one.
    RootError
        If the root belongs to another genome.
    """
    package = open_tables(path, contents=contents)
    return replace(package, caches=_open_caches(package.directory, package.info, cache_root))


def open_tables(path: Path | str, *, contents: Literal["hash", "sizes"] = "hash") -> Package:
    """Open a package without its caches, for those who only read its tables; parameters as :func:`open_package`."""
    directory = Path(path).resolve()
    info = read_package_info(directory)
    by_size, count = contents == "sizes", ByteCount(NO_PROGRESS, 0)
    for damage in find_size_damage(directory, info.files) if by_size else find_package_damage(directory, count):
        raise CorruptResourceError(
            f"{directory}/{damage.file}",
            damage.problem,
            expected=damage.expected,
            got=damage.got,
            remedy="Rebuild the package, or fetch it again",
        )
    return Package(directory, info, {})


def verify_package(
    path: Path | str, *, cache_root: Path | str | None = None, progress: Progress = NO_PROGRESS
) -> list[Finding]:
    """Re-hash a package and every cache that it points to.

    Returns
    -------
    list of Finding
        One per damaged or missing file, which it names; empty if every byte is as it was written.

    Raises
    ------
    MissingResourceError
        If there is no package at all.
    RootError
        If the root belongs to another genome.
    """
    directory = Path(path).resolve()
    if not directory.is_dir():
        raise MissingResourceError(str(path), "no such package", remedy="Name a package's folder")
    if not any((directory / name).exists() for name in (PACKAGE_FILE, CHECKSUMS)):
        raise MissingResourceError(
            str(path), f"not a package: {PACKAGE_FILE} and {CHECKSUMS} are missing", remedy="Name a package's folder"
        )
    total = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    count = ByteCount(progress, total)
    findings = [as_finding(directory.name, damage) for damage in find_package_damage(directory, count)]
    if any(finding.file == PACKAGE_FILE for finding in findings):
        return findings
    info = read_package_info(directory)
    root = enclosing_root(directory) if cache_root is None else Path(cache_root)
    if root is not None:
        check_root(root, info)
    return [*findings, *verify_caches(root, info, count)]


def _open_caches(directory: Path, info: PackageInfo, cache_root: Path | str | None) -> dict[str, Path]:
    root = enclosing_root(directory) if cache_root is None else Path(cache_root)
    if root is not None:
        check_root(root, info)
    elif info.caches:
        raise MissingResourceError(
            str(directory),
            "the package points to caches of states, but lies in no root",
            remedy="Name the root that holds them (cache_root)",
        )
    return {ref.source: find_cache(root, ref) for ref in info.caches} if root is not None else {}
