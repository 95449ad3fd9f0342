"""Steps of a build at a locked location: remove, adopt or resume the remains of killed builds, and publish."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.store.artefacts.root import Root
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
    """A location while this process holds its lock; ``resumed`` names the work directory that it may resume."""

    root: Root
    name: str
    lease: WriterLease
    resumed: str | None

    @property
    def link(self) -> Path:
        """Path of the published link."""
        return self.root.link_of(self.name)

    def generations(self) -> Iterator[Path]:
        """Yield the linked generation, then the others, which a kill may have prevented from being linked."""
        linked = None
        try:
            linked = resolve_generation(self.link)
        except (MissingResourceError, CorruptResourceError):
            pass
        else:
            yield linked
        yield from (path for path in generations_of(self.link) if path != linked)

    def adopt(self, generation: Path) -> None:
        """Point the link at an intact generation, and remove the work directories of the location."""
        if not is_linked(generation):
            with self.lease.fenced():
                switch_link(self.link, generation)
        self.root.sweep(self.name, self.lease)

    def work_dir(self) -> Path:
        """Return the directory to build in: the resumable one if it exists, otherwise an empty one."""
        return self.root.work_dir(self.name, self.lease, name=self.resumed)

    def publish(self, work: Path, digest12: str) -> Path:
        """Publish a finished work directory, unless the lock was lost; return the generation."""
        if self.resumed is None or not generation_path(self.link, digest12).exists():
            generation = publish_generation(work, self.link, digest12, fenced=self.lease.fenced)
        else:
            generation = self._heal(work, digest12)
        self.root.sweep(self.name, self.lease)
        return generation

    def _heal(self, work: Path, digest12: str) -> Path:
        # Files are moved out one by one, so the directory gives up its resumable name first.
        work = work.rename(self.root.work_dir(self.name, self.lease))
        try:
            return publish_generation(work, self.link, digest12, fenced=self.lease.fenced)
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def locked_location(
    root: Root, name: str, *, resumed: str | None, wait_s: float | None = None
) -> Iterator[LockedLocation]:
    """Hold the lock of a location, after removing the work directories that cannot be resumed."""
    with root.storage_errors(name), root.lock(name, wait_s=wait_s) as lease:
        check_publishable(root.link_of(name))
        root.sweep(name, lease, keep=resumed)
        yield LockedLocation(root, name, lease, resumed)
