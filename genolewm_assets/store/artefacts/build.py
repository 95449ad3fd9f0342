"""Build one artefact: in a work directory, checked there, published in one step, or kept among the rejected.

Kill the process at any point and the location shows either the former version or the new one; the next build sweeps
what was left and gives the bytes that an undisturbed one would have given.
"""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import genolewm_assets
from genolewm_assets.errors import (
    BusyError,
    ChecksumError,
    CorruptResourceError,
    FetchError,
    GenoLeWMError,
    MissingResourceError,
    RejectedResourceError,
    ResourceError,
    VersionError,
)
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.store.artefacts.location import LockedLocation, locked_location, resumable_name
from genolewm_assets.store.artefacts.manifest import (
    MANIFEST,
    PROVENANCE,
    CheckResult,
    FileEntry,
    InputRef,
    Manifest,
    check_file_path,
    integer,
    read_manifest,
)
from genolewm_assets.store.artefacts.published import (
    ArtefactId,
    Published,
    find_damage,
    has_listed_sizes,
    list_files,
    measure_file,
    total_bytes,
)
from genolewm_assets.store.artefacts.rejected import clear_rejected, reject, write_failure
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.surface import check_surface, hidden_files, lay_surface
from genolewm_assets.store.files import JsonValue, canonical_json, is_linked, resolve_generation, write_atomic


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build says of the files it wrote.

    Attributes
    ----------
    counts
        Rows and records by what became of them.
    rows
        Rows of each file that is a table, by its path relative to the work directory.
    checks
        Outcomes of the content checks; one that failed keeps the build from being published.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What to build, from what, and where it goes.

    Attributes
    ----------
    location
        Root-relative path of the link, such as ``gnomad/4.1/chr17``.
    recipe
        Every parameter that the result depends on; with ``code_version`` and ``inputs`` it decides about reuse.
    write
        Fills the empty directory it is given. A :class:`GenoLeWMError` from it rejects the build.
    note
        What people should know before it starts, such as its size.
    surface
        Whether to show the files one level up too (see ``surface.py``).
    resumable
        Whether ``write`` can go on in the directory that it was given when it was interrupted: by a kill, an error that
        the package does not raise on purpose, or a full disk. The next build of the same code version, recipe and
        inputs hands it over again; any other build of the location removes it.
    """

    artefact: ArtefactId
    location: str
    code_version: str
    recipe: Mapping[str, JsonValue]
    inputs: tuple[InputRef, ...]
    write: Callable[[Path], BuildReport]
    surface: bool = False
    resumable: bool = False
    note: str = ""


class BuildRejectedError(RejectedResourceError):
    """A build was not published because of its checks, which ``checks`` holds, passed ones included."""

    checks: tuple[CheckResult, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"checks": self.checks})


def build(
    root: Root,
    plan: BuildPlan,
    *,
    lock_wait_s: float | None = None,
    run_id: str | None = None,
    progress: Progress = NO_PROGRESS,
) -> Published:
    """Publish an artefact, or reuse the published one if it was made the same way and is intact to the last byte.

    Parameters
    ----------
    lock_wait_s
        Seconds to wait while another process builds the same location; None for the root's own setting.
    run_id
        Identifier of the run for ``provenance.json``.

    Raises
    ------
    BuildRejectedError
        If a check failed. The build lies in ``<root>/rejected/<location>``; what was published before stays.
    BusyError
        If another process is building this location; or took it over while this one was not heard of.
    ResourceError
        If the disk is full, read-only or failing; what was published before stays.
    GenoLeWMError
        Whatever ``plan.write`` raised, its text in ``<root>/rejected/<location>/failure.json``.
    """
    with locked_location(root, plan.location, resumed=_resumed_name(plan), wait_s=lock_wait_s) as site:
        published = _finished(site, plan, progress) or _build_afresh(site, plan, run_id, progress)
        with site.lease.fenced():
            if plan.surface:
                lay_surface(site.link)
            # Last, and never earlier: without its marker a failed build would leave its predecessor looking current.
            clear_rejected(root, plan.location)
    return published


def is_current(root: Root, plan: BuildPlan) -> bool:
    """Tell cheaply whether :func:`build` would have nothing to do: sizes are compared, contents are not read."""
    link = root.link_of(plan.location)
    if root.is_rejected(plan.location):
        return False
    try:
        directory = resolve_generation(link)
        manifest = read_manifest(directory)
        shown = not plan.surface or not any(hidden_files(link))
    except (GenoLeWMError, OSError):
        return False
    return shown and _made_by(plan, manifest) and has_listed_sizes(directory, manifest)


def _made_by(plan: BuildPlan, manifest: Manifest) -> bool:
    wanted = _manifest(plan, (), BuildReport())
    same_recipe = canonical_json(wanted.recipe, plan.location) == canonical_json(manifest.recipe, plan.location)
    facts = (manifest.asset, manifest.partition, manifest.code_version, manifest.inputs)
    same = facts == (wanted.asset, wanted.partition, wanted.code_version, wanted.inputs)
    return same and same_recipe and not manifest.failed_checks


def _manifest(plan: BuildPlan, files: tuple[FileEntry, ...], report: BuildReport) -> Manifest:
    return Manifest(
        asset=plan.artefact.asset,
        partition=plan.artefact.partition,
        code_version=plan.code_version,
        recipe=plan.recipe,
        inputs=plan.inputs,
        files=files,
        counts=report.counts,
        checks=report.checks,
    )


def _finished(site: LockedLocation, plan: BuildPlan, progress: Progress) -> Published | None:
    """Return what is published, or what an earlier build finished and was killed before it could switch the link to."""
    for directory in site.generations():
        # Of a build that cannot be gone on with, what was not linked is not worth reading: it is made again.
        manifest = _intact_manifest(directory, plan, progress) if plan.resumable or is_linked(directory) else None
        if manifest is not None:
            site.adopt(directory)
            return Published(plan.artefact, directory, manifest, reused=True)
    return None


def _intact_manifest(directory: Path, plan: BuildPlan, progress: Progress) -> Manifest | None:
    """Return the manifest of what was made as the plan says and is intact to the last byte; None for anything else."""
    try:
        manifest = read_manifest(directory)
    except (MissingResourceError, CorruptResourceError):
        return None
    if not _made_by(plan, manifest):
        return None
    damages = find_damage(directory, manifest, ByteCount(progress, total_bytes(manifest)))
    return None if any(damages) else manifest


def _resumed_name(plan: BuildPlan) -> str | None:
    """Return the name of the work directory that builds of the same code version, recipe and inputs share."""
    return resumable_name(_manifest(plan, (), BuildReport()).sha256[:12]) if plan.resumable else None


def _build_afresh(site: LockedLocation, plan: BuildPlan, run_id: str | None, progress: Progress) -> Published:
    work = site.work_dir()
    started = time.monotonic()
    try:
        manifest = _write(site, plan, work, progress)
        write_atomic(work / MANIFEST, manifest.to_bytes())
        write_provenance(work, run_id=run_id, duration_s=time.monotonic() - started)
        if manifest.failed_checks:
            err = _rejection(plan, manifest, site.root.rejected_path(plan.location))
            _keep_rejected(site, plan, work, err, sha256=manifest.sha256)
            raise err
        if plan.surface:
            check_surface(site.link, work)
        directory = site.publish(work, manifest.sha256[:12])
    finally:
        # Gone already where it was published or rejected; after another failure what can be continued is kept.
        if not plan.resumable:
            shutil.rmtree(work, ignore_errors=True)
    return Published(plan.artefact, directory, manifest, reused=False)


def write_provenance(directory: Path, *, run_id: str | None, duration_s: float) -> None:
    """Write ``directory/provenance.json``: when, where and by which run a directory was built.

    No digest covers it, and no reader may decide anything by it; what has to be the same in every build is in the
    manifest.

    Parameters
    ----------
    run_id
        Identifier that the orchestrator gave the run, if there was one.
    duration_s
        Wall-clock seconds the build took.
    """
    record: Mapping[str, JsonValue] = {
        "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "duration_s": round(duration_s, 3),
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "run_id": run_id,
        "version": genolewm_assets.__version__,
    }
    write_atomic(directory / PROVENANCE, canonical_json(record, PROVENANCE))


def _write(site: LockedLocation, plan: BuildPlan, work: Path, progress: Progress) -> Manifest:
    """Fill the work directory and describe it; an error that the package raises on purpose rejects the build."""
    try:
        report = plan.write(work)
        if not work.is_dir():
            raise ResourceError(str(work), "was removed while it was written", remedy="Leave it alone and run it again")
        return _manifest(plan, _measure_files(plan, work, report, progress), report)
    except GenoLeWMError as err:
        if work.is_dir() and _blames_content(site.root, err):
            _keep_rejected(site, plan, work, err, sha256=None)
        raise


def _blames_content(root: Root, err: GenoLeWMError) -> bool:
    """Tell an error that casts doubt on the predecessor from a held lock, another version, a failed network or disk."""
    passing = isinstance(err, BusyError | FetchError | VersionError) and not isinstance(err, ChecksumError)
    return not passing and not root.is_storage_error(err)


def _keep_rejected(
    site: LockedLocation, plan: BuildPlan, work: Path, err: GenoLeWMError, *, sha256: str | None
) -> None:
    """Move a failed build to ``rejected/``; where even that fails, the reason of the build's failure goes first."""
    try:
        reject(site.root, plan.location, work, sha256 or write_failure(work, str(plan.artefact), err), site.lease)
    except OSError as refused:
        err.add_note(f"The build could not be kept in {site.root.rejected_path(plan.location)}: {refused}")
        # Nor may it be continued, if it is one that could be.
        shutil.rmtree(work, ignore_errors=True)


def _measure_files(plan: BuildPlan, work: Path, report: BuildReport, progress: Progress) -> tuple[FileEntry, ...]:
    where = str(plan.artefact)
    paths = list_files(work)
    for path in paths:
        check_file_path(path, where)
        if not (work / path).is_file() or (work / path).is_symlink():
            raise CorruptResourceError(where, "the build left something that is not a regular file", got=repr(path))
    if unknown := sorted(set(report.rows) - set(paths)):
        raise CorruptResourceError(where, "the build counts rows of a file it did not write", got=repr(unknown[0]))
    count = ByteCount(progress, sum((work / path).stat().st_size for path in paths))
    rows = {path: integer(n, f"{where} rows[{path!r}]") for path, n in report.rows.items()}
    return tuple(FileEntry(path, *measure_file(work / path, count), rows.get(path)) for path in paths)


def _rejection(plan: BuildPlan, manifest: Manifest, marker: Path) -> BuildRejectedError:
    err = BuildRejectedError(
        str(plan.artefact),
        f"the build failed its checks {list(manifest.failed_checks)} and was not published",
        remedy=f"See the figures in {marker / MANIFEST}",
    )
    err.checks = manifest.checks
    return err
