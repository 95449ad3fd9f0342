"""Open and verify a package, then read its tables. Not here: building a package (``package_build``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.genome import Split
from genolewm_assets.packages.audits import find_audit
from genolewm_assets.packages.caches import as_finding, cache_exists, check_root, find_cache, verify_caches
from genolewm_assets.packages.damage import (
    Hashed,
    bytes_to_hash,
    find_false_claims,
    find_package_damage,
    find_size_damage,
)
from genolewm_assets.packages.files import GROUP_ROWS
from genolewm_assets.packages.info import PackageInfo, read_package_info
from genolewm_assets.packages.schema import (
    CONTEXTS_PATH,
    HOLDOUT_PATHS,
    PACKAGE_FILE,
    PACKAGE_WINDOWS,
    PIECE_WINDOWS,
    PieceRef,
    controls_path,
    piece_path,
    variants_path,
)
from genolewm_assets.packages.verified import find_damage_once
from genolewm_assets.packages.window_rows import Membership, columns_read, package_rows, piece_rows, read_trains
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.store.artefacts import MANIFEST, Finding, enclosing_root
from genolewm_assets.store.tables import read_batches, read_encoded, read_rows, read_table
from genolewm_assets.variants import Bools, Int64s

#: What is compared when a package is opened.
Contents: TypeAlias = Literal["once", "hash", "sizes"]
HoldoutNoun: TypeAlias = Literal["intervals", "alleles", "corpus", "haplotypes"]


@dataclass(frozen=True, slots=True)
class Package:
    """An open package; its pickle is small, so workers receive it without verifying the package again."""

    #: Folder of the package, with links resolved when it was opened.
    directory: Path
    #: Content of ``package.json``.
    info: PackageInfo
    #: Folder of the cache of encoder states, by contig or corpus source; no entry where there is no cache.
    caches: Mapping[str, Path]

    def window_files(self, split: Split) -> tuple[Path, ...]:
        """Return the paths of a split's own window files, in the order of the rows."""
        return tuple(self.directory / entry.path for entry in self.info.split_files(split))

    def window_batches(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read windows of a split (schema ``PACKAGE_WINDOWS``), at most 1,024 a batch: of pieces, then of own files."""
        for ref in self.info.pieces if split is Split.TRAIN else ():
            for table, trains in self.piece_rows(ref, columns or PACKAGE_WINDOWS.columns):
                yield from table.filter(pa.array(trains)).combine_chunks().to_batches()
        yield from self.own_batches(split, columns)

    def own_batches(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the windows of a split that the package holds itself."""
        for path in self.window_files(split):
            yield from read_batches(path, GROUP_ROWS, columns)

    def piece_rows(self, ref: PieceRef, columns: Sequence[str]) -> Iterator[tuple[pa.Table, Bools]]:
        """Read all windows of a piece as rows of train, at most 1,024 at a time, and tell which of them train."""
        return piece_rows(self.directory, ref, self.info.cache_of(ref.source), columns)

    def trains(self, ref: PieceRef) -> Bools:
        """Return which windows of a piece train: bool, shape (rows,)."""
        return read_trains(self.directory, ref)

    def rows_of_piece(self, ref: PieceRef, rows: Int64s, columns: Sequence[str]) -> pa.Table:
        """Read windows of a piece by their numbers as rows of train; only the row groups that hold one are read."""
        path, cache = self.directory / piece_path(ref.source, PIECE_WINDOWS), self.info.cache_of(ref.source)
        found = read_rows(path, rows.tolist(), columns_read(columns, ref.origin))
        return package_rows(found, rows, ref.origin, member=Membership(Split.TRAIN), cache=cache, columns=columns)

    def windows(self, split: Split, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all windows of a split (schema ``PACKAGE_WINDOWS``) into memory; all columns take about 13 kB a row."""
        schema = pa.schema([PACKAGE_WINDOWS.arrow.field(name) for name in columns or PACKAGE_WINDOWS.columns])
        return pa.Table.from_batches([batch.cast(schema) for batch in self.window_batches(split, columns)], schema)

    def variants(
        self, split: Split, columns: Sequence[str] | None = None, *, where: pc.Expression | None = None
    ) -> pa.Table:
        """Read the alleles of a split (schema ``PACKAGE_VARIANTS``), with ``where`` only the rows that meet it.

        ``columns`` None: all. Row groups whose statistics exclude every row are not read.
        """
        return read_table(self.directory / variants_path(split), columns=columns, filters=where)

    def variant_batches(self, split: Split, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read columns of a split's alleles (schema ``PACKAGE_VARIANTS``) in file order, 65,536 rows at a time."""
        yield from read_batches(self.directory / variants_path(split), 65_536, columns)

    def variant_contigs(self) -> set[str]:
        """Return the contigs of the alleles of all splits."""
        columns = [read_encoded(self.directory / variants_path(split), ["chrom"])["chrom"] for split in Split]
        return {contig for column in columns for contig in pc.unique(column).to_pylist()}

    def controls(self, split: Split) -> pa.Table:
        """Read the control windows (schema ``PACKAGE_CONTROLS``) of validation or test; train has none."""
        return read_table(self.directory / controls_path(split))

    def holdouts(self, noun: HoldoutNoun, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a holdout table; the schemas are in ``holdouts.schema``. ``columns`` None: all."""
        return read_table(self.directory / HOLDOUT_PATHS[noun], columns=columns)

    def context_batches(self) -> Iterator[pa.RecordBatch]:
        """Read the held-out alleles with the reference around them (``PACKAGE_CONTEXTS``), 65,536 rows at a time."""
        yield from read_batches(self.directory / CONTEXTS_PATH, 65_536)


def open_package(
    path: Path | str,
    *,
    cache_root: Path | str | None = None,
    contents: Contents = "once",
    allow_unaudited: bool = False,
) -> Package:
    """Verify a package and the caches that it refers to, and open it.

    Parameters
    ----------
    path
        Folder of the package, or a link to it.
    cache_root
        Root that contains the caches; None: the root that contains the package.
    contents
        ``once`` reads and hashes every byte of the package, unless this machine did so and no file has changed since;
        ``hash`` does it always; ``sizes`` only tests that each table exists with its recorded size. Caches are always
        compared by manifest and sizes; each batch read from a cache has its own checksum.
    allow_unaudited
        Open a package whose audit has not passed. Its audit is ``audits/RELEASE`` of ``cache_root``, or of a folder
        that the package is in, such as its root.

    Raises
    ------
    RejectedResourceError
        If the audit of the package failed.
    MissingResourceError
        If there is no package, it is not audited, a cache is missing, or the package refers to caches and no root
        contains it.
    CorruptResourceError
        If a file differs from its record in the package, or a different cache is stored at the path of a cache.
    RootError
        If the root belongs to another genome, or ``root.json`` cannot be read.
    """
    package = open_tables(path, cache_root=cache_root, contents=contents, allow_unaudited=allow_unaudited)
    root = _root_of(package.directory, package.info, cache_root)
    if root is None and package.info.caches:
        raise MissingResourceError(
            str(package.directory),
            "the package refers to caches of encoder states, but no root contains the package",
            remedy="Name the root that contains the caches (cache_root)",
        )
    return replace(package, caches={} if root is None else {r.source: find_cache(root, r) for r in package.info.caches})


def open_available(
    path: Path | str,
    *,
    cache_root: Path | str | None = None,
    contents: Contents = "once",
    allow_unaudited: bool = False,
) -> Package:
    """Verify a package and open it with those of its caches that exist.

    Parameters and errors are those of :func:`open_package`, but a missing cache, or root, is no error: its source is
    not in ``Package.caches``.
    """
    package = open_tables(path, cache_root=cache_root, contents=contents, allow_unaudited=allow_unaudited)
    root = _root_of(package.directory, package.info, cache_root)
    if root is None:
        return package
    refs = [ref for ref in package.info.caches if cache_exists(root, ref)]
    return replace(package, caches={ref.source: find_cache(root, ref) for ref in refs})


def open_tables(
    path: Path | str,
    *,
    cache_root: Path | str | None = None,
    contents: Contents = "once",
    allow_unaudited: bool = False,
) -> Package:
    """Verify a package and open it without its caches, to read tables only.

    Parameters and errors are those of :func:`open_package`; ``Package.caches`` is empty.
    """
    directory = Path(path).resolve()
    info = read_package_info(directory)
    if not allow_unaudited:
        find_audit(directory, info.release, None if cache_root is None else Path(cache_root))
    if contents == "sizes":
        damages = list(find_size_damage(directory, info.files))
    else:
        damages = find_damage_once(directory, again=contents == "hash")
    for damage in damages:
        raise CorruptResourceError(
            f"{directory}/{damage.file}",
            damage.problem,
            expected=damage.expected,
            got=damage.got,
            remedy="Rebuild the package, or copy it again",
        )
    return Package(directory, info, {})


def verify_package(
    path: Path | str, *, cache_root: Path | str | None = None, hashed: Hashed = "all", progress: Progress = NO_PROGRESS
) -> list[Finding]:
    """Compare every file of a package and of the caches that it refers to with what is recorded of them.

    Parameters
    ----------
    path
        Folder of the package, or a link to it.
    cache_root
        Root that contains the caches; None: the root that contains the package. Without a root every cache is reported
        as missing.
    hashed
        ``all``, or only the files ``modified`` since they were published; of the others names and sizes are compared,
        and bases and counts of no file.
    progress
        Receives the number of bytes hashed.

    Returns
    -------
    list of Finding
        One per damaged or missing file, with its name; if there is none, one per false statement of ``package.json``.
        Empty if all is as stated. If ``package.json`` is damaged, caches are not verified.

    Raises
    ------
    MissingResourceError
        If ``path`` is not a folder, or has neither ``package.json`` nor ``manifest.json``.
    RootError
        If the root belongs to another genome, or ``root.json`` cannot be read.
    """
    directory = Path(path).resolve()
    if not directory.is_dir():
        raise MissingResourceError(str(path), "no such package", remedy="Name a package's folder")
    if not any((directory / name).exists() for name in (PACKAGE_FILE, MANIFEST)):
        raise MissingResourceError(
            str(path), f"not a package: {PACKAGE_FILE} and {MANIFEST} are missing", remedy="Name a package's folder"
        )
    count = ByteCount(progress, bytes_to_hash(directory, hashed))
    findings = [as_finding(directory.name, damage) for damage in find_package_damage(directory, count, hashed)]
    if any(finding.file == PACKAGE_FILE for finding in findings):
        return findings
    info = read_package_info(directory)
    if not findings and hashed == "all":
        findings = [as_finding(directory.name, claim) for claim in find_false_claims(directory, info, count)]
    return [*findings, *verify_caches(_root_of(directory, info, cache_root), info, count, hashed)]


def _root_of(directory: Path, info: PackageInfo, cache_root: Path | str | None) -> Path | None:
    """Return the named root, or the one that contains a package, after comparing its genome with the package's."""
    root = enclosing_root(directory) if cache_root is None else Path(cache_root)
    if root is not None:
        check_root(root, info)
    return root
