"""Open the mapped form of a package's split: the package's own, or one that this machine makes from its tables.

::

    <cache folder>/mapped/<digest of package.json and of the form>/<split>/     as below arrays/<split> of a package
    <cache folder>/mapped/<digest of package.json and of the form>/<split>.json     {"files"}

A package of format 2.2 has one of another version, and an older one has none. Its form is made when the split is first
opened on a machine, and made again if one of its files changed since: no digest covers it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow.compute as pc

from genolewm_assets.errors import CorruptResourceError, GenoLeWMError, ResourceError
from genolewm_assets.genome import IntervalArray, Split
from genolewm_assets.lewm.mapped.layout import FORM_VERSION, INDEX, OTHER_FORMS
from genolewm_assets.lewm.mapped.split import MappedSplit
from genolewm_assets.lewm.mapped.window_writer import READ_COLUMNS
from genolewm_assets.lewm.mapped.writer import VARIANT_COLUMNS, SplitWriter
from genolewm_assets.lewm.packages import (
    REFERENCE_ORIGIN,
    Package,
    arrays_path,
    find_damage_once,
)
from genolewm_assets.own_caches import cache_folder, is_own, own_cache
from genolewm_assets.store.files import (
    canonical_json,
    read_document,
    remove_tree,
    sync_tree,
    write_atomic,
)
from genolewm_assets.store.locks import guarded
from genolewm_assets.store.tables import memory_given_back
from genolewm_assets.variants import ALLELE_KEY

#: Seconds that a process waits for another one that makes the form of the same split.
_WAIT_S: Final = 7_200.0
_REMEDY: Final = "Remove the folder; it is made again when the package is opened"


def open_mapped(package: Package, split: Split) -> MappedSplit:
    """Open the mapped form of a split.

    Parameters
    ----------
    package
        An open package.
    split
        The split.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        If a file is missing or damaged, or, in a package without a mapped form, a training window overlaps a held-out
        interval.
    ResourceError
        If a package without a mapped form of this version is opened, and this machine's cache folder cannot hold it.
    """
    path = arrays_path(split)
    carried = any(entry.path == f"{path}/{INDEX}" for entry in package.info.files)
    if carried and package.info.format_version not in OTHER_FORMS:
        return MappedSplit(package.directory / path)
    name = hashlib.sha256(f"{FORM_VERSION}\n".encode() + package.info.to_bytes()).hexdigest()[:32]
    return _LocalForm(package, split, name).open()


class _LocalForm:
    """The mapped form of a split in the cache folder."""

    def __init__(self, package: Package, split: Split, name: str) -> None:
        self._package, self._split, self._name = package, split, name

    def open(self) -> MappedSplit:
        try:
            self._folder = own_cache("mapped", self._name) / self._split
            if not self._is_whole():
                with guarded(self._folder.with_name(f"{self._split}.lock"), _WAIT_S):
                    if not self._is_whole():
                        self._make()
        except GenoLeWMError:
            raise
        except OSError as err:
            raise ResourceError(
                str(cache_folder()),
                f"cannot hold the mapped form of {self._package.directory.name} ({err.strerror})",
                remedy="Set GENOLEWM_CACHE to a folder of yours with room for a quarter of the windows' bases, or "
                "rebuild the package with this version, which carries the form",
            ) from err
        return MappedSplit(self._folder, remedy=_REMEDY)

    def _is_whole(self) -> bool:
        """Tell whether the files are those that were made."""
        with suppress(GenoLeWMError, OSError):
            return is_own(self._record) and bool(read_document(self._record, remedy="") == self._stamps())
        return False

    @property
    def _record(self) -> Path:
        return self._folder.with_name(f"{self._split}.json")

    def _stamps(self) -> Mapping[str, object]:
        """Return inode, size, modification and change time of every file."""
        found = {}
        for path in sorted(path for path in self._folder.rglob("*") if path.is_file()):
            stat = path.lstat()
            stamp = [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
            found[path.relative_to(self._folder).as_posix()] = stamp
        return {"files": found}

    def _make(self) -> None:
        package, split = self._package, self._split
        for damage in find_damage_once(package.directory):
            raise CorruptResourceError(
                f"{package.directory}/{damage.file}",
                damage.problem,
                expected=damage.expected,
                got=damage.got,
                remedy="Rebuild the package, or copy it again",
            )
        if split is Split.TRAIN:
            check_no_held_window(package)
        for left in self._folder.parent.glob(f".{split}.*.tmp"):
            remove_tree(left)  # of a process that was killed
        scratch = self._folder.with_name(f".{split}.{secrets.token_hex(4)}.tmp")
        try:
            with memory_given_back():
                write_from_tables(scratch, package, split)
            sync_tree(scratch)
            self._record.unlink(missing_ok=True)
            remove_tree(self._folder)
            scratch.rename(self._folder)
        except BaseException:
            with suppress(OSError):
                remove_tree(scratch)
            raise
        write_atomic(self._record, canonical_json(self._stamps(), str(self._record)))
        self._record.chmod(0o600)


def write_from_tables(folder: Path, package: Package, split: Split) -> None:
    """Write the mapped form of a split from the tables of its package into a folder, which is made."""
    stars = package.info.policy["min_stars"]
    with SplitWriter(folder, split, min_stars=int(str(stars))) as writer:
        for batch in package.window_batches(split, READ_COLUMNS):
            writer.add_windows(batch)
        for batch in package.variant_batches(split, VARIANT_COLUMNS):
            writer.add_variants(batch)
        writer.finish(package.holdouts("alleles", ["role", *ALLELE_KEY]), package.context_batches())


def check_no_held_window(package: Package) -> None:
    """Raise if a training window with an exact placement overlaps a held-out interval.

    The build of a package excludes such windows. A reference window counts with its margin of ``margin_bp`` bases.

    Raises
    ------
    CorruptResourceError
        If one does.
    """
    intervals = package.holdouts("intervals")
    columns = ["origin", "contig", "start", "end", "placement_exact"]
    windows = package.windows(Split.TRAIN, columns).filter(pc.field("placement_exact"))
    for contig in pc.unique(intervals["contig"]).to_pylist():
        held = intervals.filter(pc.equal(intervals["contig"], contig))
        region = IntervalArray.from_unsorted(held["start"].to_numpy(), held["end"].to_numpy())
        ours = windows.filter(pc.equal(windows["contig"], contig))
        margin = pc.if_else(pc.equal(ours["origin"], REFERENCE_ORIGIN), package.info.margin_bp, 0)
        footprints = IntervalArray.from_unsorted(ours["start"].to_numpy(), pc.add(ours["end"], margin).to_numpy())
        overlapping = int((region.overlap_bases(footprints) > 0).sum())
        if overlapping:
            raise CorruptResourceError(
                f"{package.directory.name}: training windows of {contig}",
                "some overlap held-out intervals",
                expected="none",
                got=f"{overlapping}",
                remedy="Rebuild the package",
            )
