"""``package.json``: release, settings, row counts and file digests of a package, as canonical JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.genome import Split
from genolewm_assets.packages.mix import PackageMix, Shares, VisitFigures
from genolewm_assets.packages.schema import (
    PACKAGE_FILE,
    PACKAGE_FORMAT,
    PACKAGE_FORMAT_VERSION,
    PIECE_FILES,
    PIECES,
    CacheRef,
    Knowledge,
    PieceRef,
    SourceTerms,
    piece_path,
)
from genolewm_assets.store.artefacts import FileEntry, check_file_path
from genolewm_assets.store.files import canonical_json, read_record

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_REMEDY = "Rebuild the package, or copy it again"


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """Number of windows, alleles and control windows of one split, and a SHA-256 over all files of the split."""

    windows: int
    variants: int
    controls: int
    sha256: str


@dataclass(frozen=True, slots=True)
class EpochFigures:
    """Plan of one epoch of training with default options; ``packages/audit`` states what it emits."""

    #: Tuples of the epoch.
    tuples: int
    #: Shares that the plan gives.
    planned: Shares
    #: Visits by stratum of the windows.
    visits: Mapping[str, VisitFigures]
    #: Number of windows with an allele to train on, by its source.
    windows_with: Mapping[str, int] = field(default_factory=dict)
    #: Why no epoch can be planned, or None; numbers of visits and tuples are then 0.
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PackageInfo:
    """Contents of ``package.json``."""

    #: ClinVar release, ISO date.
    release: str
    #: Digest of the reference genome (:func:`genolewm_assets.genome.genome_digest`).
    genome_digest: str
    #: Length of each flank of a window, in bases.
    margin_bp: int
    #: Caches of encoder states that the package refers to.
    caches: tuple[CacheRef, ...]
    #: Parameters of the holdouts, by name (see :class:`genolewm_assets.holdouts.HoldoutPolicy`).
    policy: Mapping[str, object]
    #: Numbers of windows and alleles by source and outcome, such as ``windows.reference.held_out``.
    counts: Mapping[str, int]
    #: Row counts and digest of every split, by its name.
    splits: Mapping[str, SplitInfo]
    #: Path, size and SHA-256 of every Parquet file, with its number of rows, and of every array; sorted by path.
    files: tuple[FileEntry, ...]
    #: Tables of windows that the package refers to, in the order of the training windows; those of ``data`` follow.
    pieces: tuple[PieceRef, ...] = ()
    #: Wanted and declared shares of the tuples of an epoch.
    mix: PackageMix = field(default_factory=PackageMix)
    #: Plan of an epoch of training; None while the package is written.
    epoch: EpochFigures | None = None
    #: Release whose labels training uses: the package's own (``newest``), or T0 of the temporal holdout.
    knowledge: Knowledge = Knowledge.NEWEST
    #: Whether training windows without an allele of a source that has some were accepted.
    without_alleles: bool = False
    #: Release of each source for the card, by a key such as ``gnomad[chr17]``.
    sources: Mapping[str, str] = field(default_factory=dict)
    #: Release, licence and citation of each kind of source, such as ``gnomad``.
    terms: Mapping[str, SourceTerms] = field(default_factory=dict)
    #: ``format``, ``format_version``: name and version of the file format; readers refuse another major version.
    format: str = PACKAGE_FORMAT
    format_version: str = PACKAGE_FORMAT_VERSION

    def to_bytes(self) -> bytes:
        """Return the canonical JSON that is written to ``package.json``."""
        return canonical_json(asdict(self), PACKAGE_FILE)

    @property
    def sha256(self) -> str:
        """SHA-256, 64 hex digits, of ``package.json``, which has that of every other file."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def cache_of(self, source: str) -> CacheRef | None:
        """Return the cache of a contig or piece of the corpus, or None."""
        return next((cache for cache in self.caches if cache.source == source), None)

    def split_files(self, split: Split) -> tuple[FileEntry, ...]:
        """Return the entries of a split's own window files, in the order of the rows."""
        return tuple(entry for entry in self.files if entry.path.startswith(f"data/{split}-"))


def split_digest(entries: Iterable[FileEntry], split: Split) -> str:
    """Return one SHA-256, 64 hex digits, over the paths and digests of all window, allele and control files of a split.

    The text that is hashed is what ``sha256sum`` prints for these files: ``<sha256>  <path>``, one line each, sorted.
    """
    own = f"data/{split}-", f"variants/{split}.", f"controls/{split}."
    names = (*own, f"{PIECES}/") if split == Split.TRAIN else own
    ours = sorted(f"{entry.sha256}  {entry.path}\n" for entry in entries if entry.path.startswith(names))
    return hashlib.sha256("".join(ours).encode()).hexdigest()


def read_package_info(directory: Path) -> PackageInfo:
    """Read and validate ``package.json``.

    Raises
    ------
    MissingResourceError
        If ``package.json`` is missing.
    CorruptResourceError
        If the file cannot be read, or is not canonical JSON of this format and major version.
    """
    where = f"{directory.name}/{PACKAGE_FILE}"
    try:
        raw = read_record(directory / PACKAGE_FILE, remedy=_REMEDY)
    except MissingResourceError as err:
        raise MissingResourceError(
            str(directory), f"not a package: {PACKAGE_FILE} is missing", remedy="Name a package's folder"
        ) from err
    except ResourceError as err:
        raise CorruptResourceError(where, err.problem, expected=err.expected, remedy=_REMEDY) from err
    return parse_package_info(raw, where)


def parse_package_info(raw: bytes, where: str) -> PackageInfo:
    """Parse and validate the bytes of a ``package.json``."""
    _check_format(raw, where)
    try:
        info = _adapter().validate_json(raw, strict=True)
    except ValueError as err:  # pydantic's ValidationError
        first = str(err).splitlines()
        problem = f"is not a package description ({' '.join(line.strip() for line in first[1:3]) or first[0]})"
        raise CorruptResourceError(where, problem, remedy=_REMEDY) from err
    for entry in info.files:
        check_file_path(entry.path, where)
    listed = {entry.path for entry in info.files}
    for path in (piece_path(ref.source, name) for ref in info.pieces for name in PIECE_FILES):
        if path not in listed:
            raise CorruptResourceError(
                where, "names a piece whose files it does not list", got=repr(path), remedy=_REMEDY
            )
    try:
        unchanged = info.to_bytes() == raw
    except ConfigurationError as err:
        raise CorruptResourceError(where, err.problem, remedy=_REMEDY) from err
    if not unchanged:
        raise CorruptResourceError(
            where, "is not in canonical form, so it was changed after it was written", remedy=_REMEDY
        )
    return info


def _check_format(raw: bytes, where: str) -> None:
    """Raise for a document that names another format; one that names none is told apart later."""
    with suppress(ValueError, AttributeError, RecursionError):
        stated = json.loads(raw)
        found, version = stated.get("format", PACKAGE_FORMAT), str(stated.get("format_version", ""))
        ours = PACKAGE_FORMAT_VERSION.split(".", maxsplit=1)[0]
        if found != PACKAGE_FORMAT or version.split(".", maxsplit=1)[0] != ours:
            raise CorruptResourceError(
                where,
                "cannot be read by this code",
                expected=f"{PACKAGE_FORMAT} {ours}.x",
                got=f"{found} {version}",
                remedy="Rebuild the package or upgrade",
            )


@cache
def _adapter() -> TypeAdapter[PackageInfo]:
    # pydantic is slow to import, and a trainer's workers unpickle packages without parsing package.json.
    from pydantic import TypeAdapter

    return TypeAdapter(PackageInfo)
