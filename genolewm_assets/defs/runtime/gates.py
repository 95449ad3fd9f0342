"""Assets that publish files: declaration, build, checks, and the gate that automation applies to their inputs.

A build that fails a check publishes nothing: the results are recorded, its work directory is kept under ``rejected/``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import dagster as dg

from genolewm_assets.defs.display import (
    as_shown,
    check_description,
    check_metadata,
    check_pages,
    failed_checks,
    lineage_metadata,
)
from genolewm_assets.defs.runtime.currency import REFUSED, Currency, PublishingAsset
from genolewm_assets.defs.runtime.job_builds import build_again_in_job, build_in_job, is_job
from genolewm_assets.defs.runtime.release_age import ReleaseRun
from genolewm_assets.defs.runtime.run_log import LogProgress, tag_kept
from genolewm_assets.defs.runtime.settings import WorkspaceResource
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.errors import (
    BusyError,
    ChecksumError,
    DeviceError,
    FetchError,
    GenoLeWMError,
    MissingResourceError,
    counted,
)
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import (
    REMEDY,
    ArtefactId,
    BuildPlan,
    BuildRejectedError,
    BuildReport,
    Check,
    CheckResult,
    Damage,
    Manifest,
    Published,
    build,
    build_again,
    is_current,
    open_input,
    read_manifest,
    reasons_to_build,
    stating_compared,
)
from genolewm_assets.store.files import JsonValue, resolve_generation

#: First check of every gated asset: the sources could be read and the inputs could be opened.
INPUTS_ACCEPTED = Check(
    "inputs_accepted",
    "The sources could be read, and every upstream input is published, passed its checks and is unaltered.",
    "Do what the row says. If an upstream asset is missing or failed, materialise that one first; if a source cannot "
    "be read, compare its URL and MD5 in the catalogue with the file.",
)

#: Every file has the size and SHA-256 that the manifest states. Reported by each build and by each ``verify_all``.
BYTES_MATCH_MANIFEST = Check(
    "bytes_match_manifest",
    "Every published file has the size and the SHA-256 that its manifest states.",
    "The named files changed after they were published: a disk, a copy or a person altered them. Materialise the "
    "partition again, which writes them anew, then what was built from them; see how the files could change.",
)

#: Checks that every gated asset has in addition to its own.
STANDING_CHECKS = (INPUTS_ACCEPTED, BYTES_MATCH_MANIFEST)

#: Meaning of the entries of every gated asset.
_PUBLISHED = {
    "files": "the published files; 1 MB is 10^6 bytes",
    "reused": "whether the published files were kept, because a build would give the same",
}

#: Tag of runs that build what they would keep once more, and fail if the bytes differ from the published ones.
BUILD_AGAIN_TAG = "genolewm/build_again"

#: True only if every blocking check of every upstream partition passed on its latest materialisation.
#: ``all_deps_blocking_checks_passed`` is not used: it is true as soon as any one upstream partition passed.
GATE = ~dg.AutomationCondition.any_deps_match(
    ~dg.AutomationCondition.all_checks_match(dg.AutomationCondition.check_passed(), blocking_only=True)
)

#: Events that the body of a gated asset yields.
GatedEvents: TypeAlias = Iterator[dg.AssetCheckResult | dg.MaterializeResult[None] | dg.AssetObservation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Plan of the build of one partition.

    Attributes
    ----------
    recipe, write, note
        As in ``store.BuildPlan``.
    inputs
        Published artefacts that the build reads.
    location
        Root-relative path of publication if it is not the asset's ``place``: the path of a package contains a digest of
        its inputs and recipe.
    """

    recipe: Mapping[str, JsonValue]
    write: Callable[[Path], BuildReport]
    inputs: tuple[Published, ...] = ()
    location: str | None = None
    note: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class GatedAsset(PublishingAsset):
    """Declaration of an asset that publishes files with a manifest.

    Attributes
    ----------
    place
        Returns the root-relative path that consumers open, from workspace and partition key; the key is empty for an
        asset without partitions.
    plan
        Opens, and so verifies, the inputs of a partition and returns its plan, from workspace, partition key and
        progress sink.
    describe
        Returns the metadata that the UI shows, from the published artefact.
    after
        Called with the published artefact before the run reports it; returns further metadata for the UI.
    shelf
        Root-relative folder in which versions made from other inputs lie under other names; None if a partition has one
        place.
    array_store
        Whether the asset is an array store, which verifies a checksum with each batch it reads.
    advisories
        Checks of the contents that block nothing.
    advise
        Returns the results of ``advisories``, from workspace and published artefact.
    surface, resumable
        As in ``store.BuildPlan``.
    """

    place: Callable[[Workspace, str], str]
    plan: Callable[[Workspace, str, Progress], Plan]
    describe: Callable[[Published], dict[str, dg.MetadataValue]]
    after: Callable[[Workspace, BuildPlan, Published], dict[str, dg.MetadataValue]] | None = None
    advisories: tuple[Check, ...] = ()
    advise: Callable[[Workspace, Published], Iterable[CheckResult]] = lambda *_: ()
    shelf: str | None = None
    array_store: bool = False
    surface: bool = False
    resumable: bool = False
    pictured: bool = True

    @property
    def check_names(self) -> tuple[Check, ...]:
        """All blocking checks of the asset, the standing ones first."""
        return (*STANDING_CHECKS, *self.checks)

    @property
    def advisory_names(self) -> tuple[Check, ...]:
        """The checks that block nothing, those of the contents first."""
        return (*self.advisories, *super().advisory_names)

    @property
    def entry_meanings(self) -> Mapping[str, str]:
        """Meaning of all entries, last of those that every gated asset has."""
        return {**self.entries, **_PUBLISHED}

    def step(self) -> Callable[..., Any]:
        """Return the function that the step runs: ``body``, or the build of the run's partition."""

        def build_partition(
            context: dg.AssetExecutionContext, workspace: dg.ResourceParam[WorkspaceResource]
        ) -> GatedEvents:
            yield from self.run(context, workspace.open())

        return self.body or build_partition

    def location(self, workspace: Workspace, partition: str | None = None) -> str:
        """Return the root-relative path of a partition; needs the published artefact on which the path depends."""
        return self.place(workspace, partition or "")

    def open(
        self,
        workspace: Workspace,
        partition: str | None = None,
        *,
        contents: Literal["hash", "sizes"] | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Published:
        """Open a published partition; raises the errors of :func:`genolewm_assets.store.open_input`.

        Files are hashed in full. Of an array store, and in a survey, only sizes are compared unless ``contents`` is
        ``"hash"``.
        """
        contents = contents or ("sizes" if self.array_store or workspace.surveyed else "hash")
        artefact, location = ArtefactId(self.key, partition), self.location(workspace, partition)
        return open_input(workspace.root, artefact, location, contents=contents, progress=progress)

    def build_plan(self, workspace: Workspace, partition: str | None, progress: Progress) -> BuildPlan:
        """Return the plan of a partition as a ``store.BuildPlan``."""
        plan = self.plan(workspace, partition or "", progress)
        return BuildPlan(
            artefact=ArtefactId(self.key, partition),
            location=plan.location or self.location(workspace, partition),
            code_version=self.code_version,
            recipe=plan.recipe,
            inputs=tuple(each.ref for each in plan.inputs),
            write=plan.write,
            surface=self.surface,
            resumable=self.resumable,
            note=plan.note,
        )

    def currency(self, workspace: Workspace, partition: str | None) -> Currency:
        """Compare a published partition, in a survey, with what a build of now would be made from; raises nothing."""
        artefact, surveyed = ArtefactId(self.key, partition), workspace.survey()
        try:
            found = self._published(surveyed, artefact)
            if found is None:
                return Currency(artefact, "not built")
            plan = self.build_plan(surveyed, partition, NO_PROGRESS)
            failed = (REFUSED,) if surveyed.root.is_rejected(plan.location) else ()
            stale = (*failed, *reasons_to_build(plan, found))
        except (GenoLeWMError, OSError, ValueError) as err:
            return Currency(artefact, "not compared", (str(err),))
        return Currency(artefact, "stale" if stale else "current", stale)

    def newest_release(self, workspace: Workspace, keys: Sequence[str]) -> str | None:
        """Return the newest release, of the given keys (oldest first), that is published; None if none is."""
        for key in reversed(keys):
            with suppress(GenoLeWMError):
                return str(self.open(workspace, key, contents="sizes").artefact.partition)
        return None

    def _published(self, workspace: Workspace, artefact: ArtefactId) -> Manifest | None:
        """Return the manifest published at the place of a partition, else the newest one on the shelf; None if none."""
        try:
            return read_manifest(
                resolve_generation(workspace.root.link_of(self.location(workspace, artefact.partition)))
            )
        except MissingResourceError:
            if self.shelf is None:
                return None
        found = []
        for link in sorted(workspace.root.link_of(self.shelf).glob("*")):
            with suppress(GenoLeWMError):
                directory = resolve_generation(link)
                manifest = read_manifest(directory)
                if (manifest.asset, manifest.partition) == (artefact.asset, artefact.partition):
                    found.append((directory.stat().st_mtime_ns, directory.name, manifest))
        return max(found, key=lambda each: each[:2])[2] if found else None

    def run(self, context: dg.AssetExecutionContext, workspace: Workspace) -> GatedEvents:
        """Build one partition and yield its materialisation with the check results.

        Raises
        ------
        dg.Failure
            If the build fails, after the results of its checks have been yielded. ``allow_retries`` is set for faults
            of machines: a lock held by another process, a failed download, accelerator or storage of the root.
        """
        partition = context.partition_key if context.has_partition_key else None
        try:
            published, further = self._publish(context, workspace, partition)
            entries = {**self.describe(published), **lineage_metadata(self.sources), **further}
            shown = as_shown(published, entries, workspace.root.path, context.run.run_id, private=self.private)
        except GenoLeWMError as err:
            rejected = isinstance(err, BuildRejectedError)
            yield self._as_dagster(_inputs_accepted(None if rejected else err))
            evaluated = err.checks if isinstance(err, BuildRejectedError) else ()
            yield from map(self._as_dagster, evaluated)
            text, pages = _stated_failure(self.key, err, evaluated)
            said = ReleaseRun("refused", context.run.run_id, text)
            yield from self.advice(workspace, self.currency(workspace, partition), context.instance, refused=said)
            fault = isinstance(err, (BusyError, DeviceError, FetchError)) and not isinstance(err, ChecksumError)
            retry = fault or workspace.root.is_storage_error(err)
            raise dg.Failure(text, metadata={**pages, "exit_code": err.exit_code}, allow_retries=retry) from err
        self.registers(workspace, context.instance)
        if published.reused:
            context.log.info("%s is current: the published version was verified and kept", published.artefact)
            tag_kept(context.instance, context.run.run_id, self.key)
        # Metadata of the result would be stored once more, with the output of the step.
        context.add_asset_metadata(shown)
        yield dg.MaterializeResult(
            data_version=dg.DataVersion(f"sha256:{published.manifest.sha256}"),
            check_results=[
                self._as_dagster(_inputs_accepted(None, inputs=len(published.manifest.inputs))),
                # The files were hashed while they were written or, if reused, again now.
                self._as_dagster(_bytes_match(published.manifest)),
                *map(self._as_dagster, published.manifest.checks),
                *(self._as_dagster(check, dg.AssetCheckSeverity.WARN) for check in self.advise(workspace, published)),
                *self.advice(workspace, Currency(published.artefact, "current"), context.instance),
            ],
        )
        if published.reused and BUILD_AGAIN_TAG in context.run.tags:
            yield self._build_again(context, workspace, published)

    def _publish(
        self, context: dg.AssetExecutionContext, workspace: Workspace, partition: str | None
    ) -> tuple[Published, Mapping[str, dg.MetadataValue]]:
        with LogProgress(context.log.info) as progress:
            plan = self.build_plan(workspace, partition, progress)
            if plan.note and not is_current(workspace.root, plan):
                context.log.info(plan.note)
            if not is_job(h100=self.h100):
                published = build(workspace.root, plan, run_id=context.run.run_id, progress=progress)
                return published, self._said_after(workspace, plan, published)
        # The job reports its own progress.
        published = build_in_job(context, workspace.root, plan)
        return published, self._said_after(workspace, plan, published)

    def _said_after(
        self, workspace: Workspace, plan: BuildPlan, published: Published
    ) -> Mapping[str, dg.MetadataValue]:
        return {} if self.after is None else self.after(workspace, plan, published)

    def _build_again(
        self, context: dg.AssetExecutionContext, workspace: Workspace, published: Published
    ) -> dg.AssetObservation:
        """Build a partition that was kept once more, and return the observation that its bytes are the same.

        Raises ``dg.Failure`` if they differ or the build fails. The published version and the results of its checks
        stay.
        """
        log = dg.get_dagster_logger()
        log.info("%s is built again, to compare its bytes with the published ones", published.artefact)
        try:
            differences = self._differences(context, workspace, published)
        except GenoLeWMError as err:
            raise dg.Failure(str(err), metadata={"exit_code": err.exit_code}, allow_retries=False) from err
        if differences:
            raise dg.Failure(
                f"{published.artefact} ({published.directory}): a second build from the same inputs gives other bytes; "
                "the published version is kept. Other hardware or libraries may be the reason: compare provenance.json",
                metadata={each.file: f"{each.problem}: {each.expected} -> {each.got}" for each in differences},
                allow_retries=False,
            )
        facts = {"built_again": f"{counted(len(published.manifest.files), 'file')} with the published bytes"}
        return dg.AssetObservation(self.path, partition=published.artefact.partition, metadata=facts)

    def _differences(
        self, context: dg.AssetExecutionContext, workspace: Workspace, published: Published
    ) -> tuple[Damage, ...]:
        """Build a published partition once more, and return how its bytes differ."""
        with LogProgress(context.log.info) as progress:
            again = self.build_plan(workspace, published.artefact.partition, progress)
            if not is_job(h100=self.h100):
                return build_again(workspace.root, again, published, progress=progress)
        return build_again_in_job(context, workspace.root, again)

    def _as_dagster(
        self, check: CheckResult, severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    ) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(
            passed=check.passed,
            severity=severity,
            asset_key=self.path,
            check_name=check.name,
            metadata=check_metadata(check, self.remedy(check.name)),
            description=check_description(check),
        )


def _inputs_accepted(err: GenoLeWMError | None, **figures: int) -> CheckResult:
    """Return the check that the sources and inputs can be read, given the error that says that they cannot."""
    if err is None:
        return CheckResult(INPUTS_ACCEPTED, passed=True, figures=figures)
    row = {"where": err.where, "problem": err.problem, "expected": err.expected, "got": err.got}
    stated = {"error": str(err), **({REMEDY: f"{err.remedy}."} if err.remedy else {})}
    return CheckResult(INPUTS_ACCEPTED, passed=False, figures=stated, rows=[row])


def _stated_failure(
    asset: str, err: GenoLeWMError, checks: Sequence[CheckResult]
) -> tuple[str, Mapping[str, dg.MetadataValue]]:
    """Return the message of a failed step, and links to the pages of the checks that failed."""
    failed = failed_checks(checks)
    if not failed:
        return str(err), check_pages(asset, [_inputs_accepted(err)])
    own = " ".join(f"{check.figures[REMEDY]}." for check in failed if REMEDY in check.figures)
    names = ", ".join(check.name for check in failed)
    where = f"The rows at fault and what to do are in the UI: Assets > {asset} > Checks > {names}."
    return " ".join(part for part in (f"{err.where}: {err.problem}.", own, where) if part), check_pages(asset, checks)


def _bytes_match(manifest: Manifest) -> CheckResult:
    """Return the check of an artefact whose files have been compared with its manifest, and match."""
    n = len(manifest.files)
    return stating_compared(CheckResult(BYTES_MATCH_MANIFEST, True, {"files": n}), n, "the manifest lists no file")
