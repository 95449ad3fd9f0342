"""Verify a root: re-hash every generation, test every link, and report the findings; nothing is changed."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, GenoLeWMError, MissingResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.store.artefacts.inventory import generations, links, plain_directories, unfinished_files
from genolewm_assets.store.artefacts.manifest import MANIFEST, InputRef, Manifest, read_manifest
from genolewm_assets.store.artefacts.published import (
    MISSING_FILE,
    ArtefactId,
    find_damage,
    find_file_damage,
    total_bytes,
)
from genolewm_assets.store.artefacts.rejected import rejection_reason
from genolewm_assets.store.artefacts.root import REJECTED, Root, enclosing_root
from genolewm_assets.store.artefacts.surface import hidden_files, shown_through
from genolewm_assets.store.files import (
    GENERATIONS,
    FileDigests,
    is_linked,
    is_published_link,
    link_of_generation,
    link_target,
    reading,
    resolve_generation,
)


class FindingKind(StrEnum):
    """Kind of a finding; the first three are faults, the others are not."""

    CORRUPT = "corrupt"
    MISSING = "missing"
    DANGLING = "dangling"
    STALE = "stale"
    REJECTED = "rejected"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about an artefact, a link or a work directory of a root.

    Attributes
    ----------
    file
        Path of the file at fault, relative to the artefact; None if the finding concerns the whole artefact.
    remedy
        What to do, if that is not building the artefact again.
    """

    kind: FindingKind
    location: str
    file: str | None
    problem: str
    expected: str | None = None
    got: str | None = None
    remedy: str | None = None

    @classmethod
    def of_error(cls, kind: FindingKind, location: str, err: GenoLeWMError) -> Finding:
        """Return the finding that a reader refuses the whole of ``location``."""
        return cls(kind, location, None, err.problem, err.expected, err.got, err.remedy or None)

    @property
    def is_fault(self) -> bool:
        """Whether a published artefact or link is corrupt, missing or dangling."""
        return self.kind in {FindingKind.CORRUPT, FindingKind.MISSING, FindingKind.DANGLING}

    def __str__(self) -> str:
        where = self.location if self.file is None else f"{self.location}/{self.file}"
        facts = f": expected {self.expected}, got {self.got}" if self.expected and self.got else ""
        return f"{where}: {self.problem}{facts}" + (f". {self.remedy}." if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Verified:
    """A generation that was compared with its manifest, and its faults.

    Attributes
    ----------
    location
        Root-relative path of its link, or of the generation itself if it is not linked.
    manifest
        None if it cannot be read.
    """

    location: str
    generation: Path
    manifest: Manifest | None
    findings: tuple[Finding, ...]


def verify_root(root: Root, *, progress: Progress = NO_PROGRESS) -> list[Finding]:
    """Re-hash every generation of a root, linked or not, test every link, and return the findings, faults first.

    Raises
    ------
    MissingResourceError, ResourceError
        If the folder is not a root, or a folder cannot be read.
    """
    verification = Verification(root, progress)
    for _ in verification:
        pass
    return verification.findings


def verify_folder(folder: Path, *, progress: Progress = NO_PROGRESS) -> list[str]:
    """Compare one published artefact, or a plain copy of one, with its ``manifest.json``; return a line per difference.

    A file that the manifest does not list is a difference. A folder outside every root that has no manifest has nothing
    to compare.
    """
    directory = folder.resolve()
    is_generation = directory.parent.name == GENERATIONS
    is_published = is_generation and enclosing_root(directory) is not None
    if not is_published and not os.path.lexists(directory / MANIFEST):
        return []
    try:
        manifest = read_manifest(directory)
    except (CorruptResourceError, MissingResourceError) as err:
        return [str(err)]
    find = find_damage if is_generation else find_file_damage
    damages = find(directory, manifest, ByteCount(progress, total_bytes(manifest)), FileDigests(directory, again=True))
    return [str(Finding(FindingKind.CORRUPT, str(folder), *astuple(damage))) for damage in damages]


class Verification:
    """Verification of a root, one generation at a time; ``findings`` is complete after the iteration.

    Generations that are removed meanwhile are left out.
    """

    def __init__(self, root: Root, progress: Progress = NO_PROGRESS) -> None:
        self._root, self._progress = root, progress
        self.findings: list[Finding] = []

    def __iter__(self) -> Iterator[Verified]:
        """Yield each generation after it was compared; raises as :func:`verify_root`."""
        self._root.check_is_root()
        origins: list[tuple[str, InputRef, tuple[InputRef, ...]]] = []
        with reading(self._root.path):
            findings = [*_link_findings(self._root), *_surface_findings(self._root)]
            for verified in _verify_generations(self._root, self._progress):
                findings += verified.findings
                if (made := verified.manifest) is not None and is_linked(verified.generation):
                    own = InputRef(made.asset, made.partition, made.sha256)
                    origins.append((verified.location, own, made.inputs))
                yield verified
            findings += [*_stale_findings(origins), *_unfinished_findings(self._root)]
        self.findings = sorted(findings, key=lambda f: (not f.is_fault, f.location, f.file or ""))


def _verify_generations(root: Root, progress: Progress) -> Iterator[Verified]:
    """Yield each generation with its findings; only one manifest is in memory at a time."""
    count = ByteCount(progress, sum(_bytes_to_read(generation) for generation in generations(root.path)))
    for generation in generations(root.path):
        location = _name(root, generation)
        manifest, findings = None, []
        try:
            manifest = read_manifest(generation)
        except (CorruptResourceError, MissingResourceError) as err:
            findings.append(Finding(FindingKind.CORRUPT, location, MANIFEST, str(err)))
        digests = FileDigests(generation, again=True)
        for damage in find_damage(generation, manifest, count, digests) if manifest is not None else ():
            kind = FindingKind.MISSING if damage.problem == MISSING_FILE else FindingKind.CORRUPT
            findings.append(Finding(kind, location, damage.file, damage.problem, damage.expected, damage.got))
        if generation.is_dir():
            yield Verified(location, generation, manifest, tuple(findings))


def _bytes_to_read(generation: Path) -> int:
    try:
        return total_bytes(read_manifest(generation))
    except (CorruptResourceError, MissingResourceError):
        return 0


def _relative(root: Root, path: Path) -> str:
    return str(path.relative_to(root.path))


def _name(root: Root, generation: Path) -> str:
    """Return the root-relative path of the link of a generation, or of the generation itself if it is not linked."""
    return _relative(root, link_of_generation(generation) if is_linked(generation) else generation)


def _link_findings(root: Root) -> Iterator[Finding]:
    for link in links(root.path):
        location = _relative(root, link)
        if is_published_link(link):
            try:
                resolve_generation(link)
            except (MissingResourceError, CorruptResourceError) as err:
                dangling = isinstance(err, MissingResourceError)
                yield Finding.of_error(FindingKind.DANGLING if dangling else FindingKind.CORRUPT, location, err)
        elif not link.exists():
            problem = f"the target of the link does not exist: {link_target(link)!r}"
            yield Finding(FindingKind.DANGLING, location, None, problem)
        elif not link.resolve().is_relative_to(root.path):
            yield Finding(FindingKind.CORRUPT, location, None, "the link leads out of the root")
        elif shown_through(link) is None:
            problem = f"the store does not make such links: {link_target(link)!r}"
            yield Finding(FindingKind.CORRUPT, location, None, problem)
    for folder in plain_directories(root.path):
        problem = "a plain copy is in the place of the published link"
        yield Finding(FindingKind.CORRUPT, _relative(root, folder), None, problem)


def _surface_findings(root: Root) -> Iterator[Finding]:
    """Yield the missing and blocked links of every surface; wrong links are reported by :func:`_link_findings`."""
    for link in sorted({through for path in links(root.path) if (through := shown_through(path))}):
        for path in hidden_files(link) if link.is_dir() else ():
            what = f"the link to {link.name}/{path.name}"
            if not os.path.lexists(path):
                yield Finding(FindingKind.MISSING, _relative(root, path), None, f"{what} is missing")
            elif not path.is_symlink():
                yield Finding(FindingKind.CORRUPT, _relative(root, path), None, f"is in the place of {what}")


def _stale_findings(origins: Sequence[tuple[str, InputRef, tuple[InputRef, ...]]]) -> Iterator[Finding]:
    """Yield the outdated inputs of published artefacts: location, artefact and inputs of each."""
    current: dict[ArtefactId, set[str]] = defaultdict(set)
    for _, own, _ in origins:
        current[ArtefactId(own.asset, own.partition)].add(own.manifest_sha256)
    for location, _, inputs in origins:
        for ref in inputs:
            artefact = ArtefactId(ref.asset, ref.partition)
            if ref.manifest_sha256 not in current[artefact]:
                problem = f"made from a version of {artefact} that is no longer published"
                now = ", ".join(sorted(f"manifest {sha256[:12]}" for sha256 in current[artefact])) or "none"
                was = f"manifest {ref.manifest_sha256[:12]}"
                yield Finding(FindingKind.STALE, location, None, problem, was, now)


def _unfinished_findings(root: Root) -> Iterator[Finding]:
    for marker in links(root.path / REJECTED):
        location = str(marker.relative_to(root.path / REJECTED))
        problem = f"the latest build failed: {rejection_reason(root, location)}"
        yield Finding(FindingKind.REJECTED, location, None, problem)
    for location in root.locations_at_work():
        if not root.is_locked(location):
            for path in root.leftovers(location):
                yield Finding(FindingKind.ABANDONED, _relative(root, path), None, "left by a build that was killed")
    for path in unfinished_files(root.path):
        yield Finding(FindingKind.ABANDONED, _relative(root, path), None, "left by a process that was killed")
