"""A location whose lock is held: what killed builds left there is swept, adopted or gone on with, and one is published.

Artefacts of a root and array caches are built by the same steps; they differ in what they call intact and current.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.work import RESUMABLE
from genolewm_assets.store.files import (
    check_publishable,
    generation_path,
    generations_of,
    is_linked,
    publish_generation,
    resolve_generation,
    switch_link,
)
from genolewm_assets.store.locks import WriterLease


@dataclass(frozen=True, slots=True)
class LockedLocation:
    """A location while this process holds its lock.

    Attributes
    ----------
    name
        Root-relative path of the link.
    resumed
        Name of the work directory that the next build may go on in; None where every build begins anew.
    """

    root: Root
    name: str
    lease: WriterLease
    resumed: str | None

    @property
    def link(self) -> Path:
        """Where readers look."""
        return self.root.link_of(self.name)

    def generations(self) -> Iterator[Path]:
        """Yield the generation that readers reach, then those that a kill may have kept from being linked."""
        linked = None
        try:
            linked = resolve_generation(self.link)
        except (MissingResourceError, CorruptResourceError):
            pass
        else:
            yield linked
        yield from (path for path in generations_of(self.link) if path != linked)

    def adopt(self, generation: Path) -> Path:
        """Make readers reach an intact generation; what builds left in ``work/`` goes."""
        if not is_linked(generation):
            with self.lease.fenced():
                switch_link(self.link, generation)
        self.sweep()
        return generation

    def work_dir(self) -> Path:
        """Return the directory to build in: the one that can be gone on in if there is one, else an empty one."""
        return self.root.work_dir(self.name, self.lease, name=self.resumed)

    def publish(self, work: Path, digest12: str) -> Path:
        """Publish a finished work directory, and return the generation; what other builds left in ``work/`` goes.

        Parameters
        ----------
        work
            What :meth:`work_dir` returned.
        digest12
            First 12 hex digits of the digest of what it holds.
        """
        if self.resumed is None or not generation_path(self.link, digest12).exists():
            generation = publish_generation(work, self.link, digest12, fenced=self.lease.fenced)
        else:
            generation = self._heal(work, digest12)
        self.sweep()
        return generation

    def _heal(self, work: Path, digest12: str) -> Path:
        # Files are moved out one by one; cut in the middle of that, there is nothing to go on from.
        work = work.rename(self.root.work_dir(self.name, self.lease))
        try:
            return publish_generation(work, self.link, digest12, fenced=self.lease.fenced)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what builds left in ``work/``, also what could be gone on with."""
        self.root.sweep(self.name, self.lease)


@contextmanager
def locked_location(
    root: Root, name: str, *, resumed: str | None, wait_s: float | None = None
) -> Iterator[LockedLocation]:
    """Hold the lock of a location from which everything has been swept that cannot be gone on with.

    Parameters
    ----------
    name
        Root-relative path of the link.
    resumed
        As of :class:`LockedLocation`.
    wait_s
        Seconds to wait while another process holds it; None for the root's own setting.

    Raises
    ------
    BusyError
        If another holds it all that time.
    CorruptResourceError
        If something else stands where the link or its generations belong.
    ResourceError
        If the storage refuses, inside too.
    """
    with root.storage_errors(name), root.lock(name, wait_s=wait_s) as lease:
        check_publishable(root.link_of(name))
        root.sweep(name, lease, keep=resumed)
        yield LockedLocation(root, name, lease, resumed)


def resumable_name(digest12: str) -> str:
    """Return the name of the work directory that builds of the same digest share."""
    return f"{RESUMABLE}{digest12}"
