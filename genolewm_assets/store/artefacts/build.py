"""Build one artefact: write and check it in a work directory, then publish it atomically or keep it as rejected.

After a kill the location shows the former version or the new one; the next build gives the bytes of an undisturbed one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from genolewm_assets.errors import (
    BusyError,
    ChecksumError,
    CorruptResourceError,
    DeviceError,
    FetchError,
    GenoLeWMError,
    MissingResourceError,
    RejectedResourceError,
    ResourceError,
    VersionError,
)
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.store.artefacts.check_result import CAUSE, REMEDY, CheckResult
from genolewm_assets.store.artefacts.differences import find_differences
from genolewm_assets.store.artefacts.location import LockedLocation, locked_location
from genolewm_assets.store.artefacts.manifest import (
    MANIFEST,
    FileEntry,
    InputRef,
    Manifest,
    check_file_path,
    integer,
    read_manifest,
)
from genolewm_assets.store.artefacts.published import (
    ArtefactId,
    Damage,
    Published,
    find_damage,
    has_listed_sizes,
    list_files,
    total_bytes,
    write_provenance,
)
from genolewm_assets.store.artefacts.rejected import (
    ROWS_AT_FAULT,
    clear_rejected,
    reject,
    write_failure,
    write_rows_at_fault,
)
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.surface import check_surface, hidden_files, lay_surface
from genolewm_assets.store.artefacts.work import RESUMABLE
from genolewm_assets.store.files import FileDigests, JsonValue, is_linked, resolve_generation, write_atomic


@dataclass(frozen=True, slots=True)
class BuildReport:
    """Result of the ``write`` function of a plan: figures and checks of the files that it wrote.

    Attributes
    ----------
    counts
        Counts by name, such as the rows kept and those rejected by reason.
    rows
        Number of rows of each table file, by its path relative to the work directory.
    checks
        Results of the content checks; a build with a failed check is not published.
    run
        Facts of this run for ``provenance.json``, such as the device; no digest covers them.
    digests
        Digests of files that ``write`` has hashed already.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = ()
    run: Mapping[str, JsonValue] = field(default_factory=dict)
    digests: FileDigests | None = None


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """Build rule of one artefact: inputs, recipe, location and the function that writes its files.

    Attributes
    ----------
    location
        Root-relative path of the link, such as ``gnomad/4.1/chr17``.
    recipe
        Every parameter that the files depend on. A published artefact is reused if ``code_version``, ``recipe`` and
        ``inputs`` are equal.
    write
        Writes the files into the given directory, which is empty unless the build is resumed. A
        :class:`GenoLeWMError` that blames the content rejects the build; a busy lock, another version of the code, a
        failed download, device or storage does not.
    note
        A line for the log before the build starts, such as its size; empty for none.
    surface
        Whether to link the files one level up too (see ``surface.py``).
    resumable
        Whether ``write`` can continue in a directory where it was interrupted by a kill, by a full disk, or by an error
        that the package does not raise on purpose. The next build with the same code version, recipe and inputs passes
        the directory to ``write`` again; any other build of the location removes it.
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
    """A build was not published because a check failed; ``checks`` holds all results, with the rows at fault."""

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
    """Publish an artefact, or reuse the published one if it has the same plan and every byte is intact.

    Parameters
    ----------
    lock_wait_s
        Seconds to wait while another process builds the same location; None for the ``lock_wait_s`` of the root.
    run_id
        Identifier of the run for ``provenance.json``.

    Raises
    ------
    BuildRejectedError
        If a check failed. The build is kept in ``<root>/rejected/<location>``; the published version is unchanged.
    BusyError
        If another process is building this location, or took the lock because this process did not renew it.
    ResourceError
        If the disk is full, read-only or failing; the published version is unchanged.
    GenoLeWMError
        The error that ``plan.write`` raised. If it blames the content, its text is in
        ``<root>/rejected/<location>/failure.json``.
    """
    with open_build(root, plan, lock_wait_s=lock_wait_s, run_id=run_id, progress=progress) as begun:
        return begun.finish()


@contextmanager
def open_build(
    root: Root,
    plan: BuildPlan,
    *,
    lock_wait_s: float | None = None,
    run_id: str | None = None,
    progress: Progress = NO_PROGRESS,
) -> Iterator[OpenBuild]:
    """Begin a build whose caller writes files before ``plan.write`` does; parameters and errors are of :func:`build`.

    The lock of the location is held inside the block. :meth:`OpenBuild.finish` publishes.
    """
    # Builds with equal plans share the name of their work directory.
    resumed = f"{RESUMABLE}{_manifest(plan, (), BuildReport()).sha256[:12]}" if plan.resumable else None
    with locked_location(root, plan.location, resumed=resumed, wait_s=lock_wait_s) as site:
        published = _finished(site, plan, progress)
        begun = OpenBuild(site, plan, published, site.root.path if published else site.work_dir(), run_id, progress)
        try:
            yield begun
        finally:
            # After publication or rejection the directory no longer exists; a resumable build keeps it otherwise.
            if published is None and not plan.resumable:
                shutil.rmtree(begun.work, ignore_errors=True)


@dataclass(slots=True)
class OpenBuild:
    """A build whose lock is held: ``published`` if there is nothing to build, else files are written into ``work``."""

    site: LockedLocation
    plan: BuildPlan
    published: Published | None
    work: Path
    run_id: str | None
    progress: Progress
    started_s: float = field(default_factory=time.monotonic)

    def finish(self) -> Published:
        """Call ``plan.write``, check and publish; raises as :func:`build`."""
        published = self.published = self.published or self._publish()
        with self.site.lease.fenced():
            if self.plan.surface:
                lay_surface(self.site.link)
            # Last: without its marker, a failed build would make the former version look current.
            clear_rejected(self.site.root, self.plan.location)
        return published

    def _publish(self) -> Published:
        site, plan, work = self.site, self.plan, self.work
        manifest, facts, digests = _write(site, plan, work, self.progress)
        write_atomic(work / MANIFEST, manifest.to_bytes())
        write_provenance(work, run_id=self.run_id, duration_s=time.monotonic() - self.started_s, facts=facts)
        if manifest.failed_checks:
            write_rows_at_fault(work, manifest)
            err = _rejection(plan, manifest, site.root.rejected_path(plan.location))
            _keep_rejected(site, plan, work, err, sha256=manifest.sha256)
            raise err
        if plan.surface:
            check_surface(site.link, work)
        directory = site.publish(work, manifest.sha256[:12])
        digests.keep(directory)
        return Published(plan.artefact, directory, manifest, reused=False)


def build_again(
    root: Root, plan: BuildPlan, published: Published, *, progress: Progress = NO_PROGRESS
) -> tuple[Damage, ...]:
    """Build an artefact that :func:`build` has kept once more, from nothing, and return every difference.

    Each is a file that differs in size, SHA-256 or rows, is new or is missing; or the manifest, if only counts or the
    figures of checks differ. Nothing is published or rejected, and what was built is removed.

    Raises
    ------
    GenoLeWMError
        As :func:`build`, and whatever ``plan.write`` raises.
    """
    with locked_location(root, plan.location, resumed=None) as site:
        work = site.work_dir()
        try:
            report = plan.write(work)
            again = _manifest(plan, _measure_files(plan, work, report, FileDigests(work), progress), report)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    before, now = ({entry.path: entry for entry in each.files} for each in (published.manifest, again))
    differing = [path for path in sorted({*before, *now}) if before.get(path) != now.get(path)]
    if not differing and again.sha256 != published.manifest.sha256:
        return (Damage(MANIFEST, "counts or figures differ", published.manifest.sha256, again.sha256),)
    return tuple(Damage(path, "differs", _stated(before.get(path)), _stated(now.get(path))) for path in differing)


def _stated(entry: FileEntry | None) -> str:
    return "no such file" if entry is None else f"{entry.size_bytes:,} bytes with SHA-256 {entry.sha256}"


def is_current(root: Root, plan: BuildPlan) -> bool:
    """Return whether :func:`build` would reuse the published artefact; compares file sizes, not contents."""
    link = root.link_of(plan.location)
    if root.is_rejected(plan.location):
        return False
    try:
        directory = resolve_generation(link)
        manifest = read_manifest(directory)
        shown = not plan.surface or not any(hidden_files(link))
    except (GenoLeWMError, OSError):
        return False
    return shown and not reasons_to_build(plan, manifest) and has_listed_sizes(directory, manifest)


def reasons_to_build(plan: BuildPlan, manifest: Manifest) -> tuple[str, ...]:
    """Return, in plain words, why :func:`build` would not keep an artefact with this manifest; see ``differences.py``.

    Empty if the plan made it. Files are not compared.
    """
    return tuple(find_differences(_manifest(plan, (), BuildReport()), manifest))


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
    """Return an intact generation made by this plan: the linked one, or one of a build killed before linking it."""
    for directory in site.generations():
        # An unlinked generation is re-hashed only for resumable builds; other builds are repeated instead.
        manifest = _intact_manifest(directory, plan, progress) if plan.resumable or is_linked(directory) else None
        if manifest is not None:
            site.adopt(directory)
            return Published(plan.artefact, directory, manifest, reused=True)
    return None


def _intact_manifest(directory: Path, plan: BuildPlan, progress: Progress) -> Manifest | None:
    """Return the manifest of a generation that the plan made and of which every byte is intact; otherwise None."""
    try:
        manifest = read_manifest(directory)
    except (MissingResourceError, CorruptResourceError):
        return None
    if reasons_to_build(plan, manifest):
        return None
    digests = FileDigests(directory, again=True)
    if any(find_damage(directory, manifest, ByteCount(progress, total_bytes(manifest)), digests)):
        return None
    digests.keep(directory)
    return manifest


def _write(
    site: LockedLocation, plan: BuildPlan, work: Path, progress: Progress
) -> tuple[Manifest, Mapping[str, JsonValue], FileDigests]:
    """Write the files; return manifest, facts of the run and digests. An error that blames the content rejects."""
    try:
        report = plan.write(work)
        if not work.is_dir():
            raise ResourceError(str(work), "was removed during the build", remedy="Do not touch it, and run this again")
        digests = report.digests or FileDigests(work)
        return _manifest(plan, _measure_files(plan, work, report, digests, progress), report), report.run, digests
    except GenoLeWMError as err:
        if work.is_dir() and _blames_content(site.root, err):
            _keep_rejected(site, plan, work, err, sha256=None)
        raise


def _blames_content(root: Root, err: GenoLeWMError) -> bool:
    """Return whether an error blames the content: not a lock, another code version, a download, a device or a disk."""
    transient = isinstance(err, BusyError | FetchError | VersionError | DeviceError)
    return (isinstance(err, ChecksumError) or not transient) and not root.is_storage_error(err)


def _keep_rejected(
    site: LockedLocation, plan: BuildPlan, work: Path, err: GenoLeWMError, *, sha256: str | None
) -> None:
    """Move a failed build to ``rejected/``; if the move fails, add a note to ``err`` and delete the build."""
    try:
        reject(site.root, plan.location, work, sha256 or write_failure(work, str(plan.artefact), err), site.lease)
    except OSError as refused:
        err.add_note(f"The build could not be kept in {site.root.rejected_path(plan.location)}: {refused}")
        # Deleted, so that no later build resumes it.
        shutil.rmtree(work, ignore_errors=True)


def _measure_files(
    plan: BuildPlan, work: Path, report: BuildReport, digests: FileDigests, progress: Progress
) -> tuple[FileEntry, ...]:
    where = str(plan.artefact)
    paths = list_files(work)
    for path in paths:
        check_file_path(path, where)
        if not (work / path).is_file() or (work / path).is_symlink():
            raise CorruptResourceError(where, "the build wrote something that is not a regular file", got=repr(path))
    if unknown := sorted(set(report.rows) - set(paths)):
        raise CorruptResourceError(
            where, "the build reports rows of a file that it did not write", got=repr(unknown[0])
        )
    count = ByteCount(progress, sum((work / path).stat().st_size for path in paths if not digests.known(path)))
    rows = {path: integer(n, f"{where} rows[{path!r}]") for path, n in report.rows.items()}
    return tuple(FileEntry(path, *digests.of(path, count)[:2], rows.get(path)) for path in paths)


def _rejection(plan: BuildPlan, manifest: Manifest, marker: Path) -> BuildRejectedError:
    failed = [check.figures for check in manifest.checks if not check.passed]
    causes = [str(figures[CAUSE]) for figures in failed if CAUSE in figures]
    remedies = [f"{figures[REMEDY]}." for figures in failed if REMEDY in figures]
    err = BuildRejectedError(
        str(plan.artefact),
        f"the build failed its checks {manifest.failures} and was not published"
        + "".join(f": {cause}" for cause in causes),
        remedy=" ".join(
            [*remedies, f"The figures are in {marker / MANIFEST}, rows at fault in {ROWS_AT_FAULT} beside it"]
        ),
    )
    err.checks = manifest.checks
    return err
