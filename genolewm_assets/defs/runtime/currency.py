"""Whether a published partition is what a build of now would be made from: the check ``built_from_current_inputs``.

A surveyed workspace makes the plan, without building or downloading; the store compares it with the manifest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import dagster as dg

from genolewm_assets.defs.display import failure_entries
from genolewm_assets.defs.runtime.declaration import Declaration
from genolewm_assets.defs.runtime.partitions import BY_CORPUS_PIECE, BY_PACKAGED_RELEASE, BY_RUN_FOLDER
from genolewm_assets.defs.runtime.release_age import (
    NEWEST_RELEASE_BUILT,
    ReleaseRun,
    judge_age,
    latest_runs,
    recorded_releases,
    seen_releases,
)
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.store.artefacts import REMEDY, ArtefactId, Check, CheckResult

#: What a rebuild would read is what was read. Reported by each build and by each ``check_current``; it blocks nothing,
#: because what is published was right when it was built.
BUILT_FROM_CURRENT_INPUTS = Check(
    "built_from_current_inputs",
    "A build of now would read what was read: the source files, the code version, the recipe, and the published "
    "inputs are the same. Blocks nothing: what is published was right when it was built.",
    "Materialise this partition: it is then built from what the rows name. Nothing needs doing if the former inputs "
    "were meant.",
)

State: TypeAlias = Literal["current", "stale", "not compared", "not built"]

#: Reason of a partition whose latest build failed its checks, and what to do.
REFUSED = "the latest build failed its checks"
_AFTER_A_REFUSAL = (
    "The former version stays published. Materialising again repeats the refusal: open the failed check of this "
    "partition, mend what its rows name, then materialise."
)

#: Greatest number of differences that a check shows; the run's log has all.
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Currency:
    """Result of comparing one partition with what a build of now would be made from.

    Attributes
    ----------
    state
        ``not compared`` if a source or an input could not be looked at, ``not built`` if nothing is published.
    reasons
        For ``stale`` each difference, for ``not compared`` the problem; one line each.
    """

    artefact: ArtefactId
    state: State
    reasons: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the result as one line of text."""
        return ": ".join([f"{self.artefact} {self.state}", *(["; ".join(self.reasons)] if self.reasons else [])])

    def as_json(self) -> dict[str, str | list[str] | None]:
        """Return the result as a JSON object, with ``asset`` and ``partition`` in place of ``artefact``."""
        return {**asdict(self.artefact), "state": self.state, "reasons": list(self.reasons)}

    def metadata(self) -> dict[str, dg.MetadataValue]:
        """Return the result as metadata of the check."""
        shown = {"reasons": dg.MetadataValue.md("\n".join(f"- {line}" for line in self.reasons[:_SHOWN]))}
        rows = [{"state": self.state, "difference": line} for line in self.reasons] or [{"state": self.state}]
        remedy = {REMEDY: _AFTER_A_REFUSAL} if REFUSED in self.reasons else {}
        check = CheckResult(BUILT_FROM_CURRENT_INPUTS, self.state == "current", remedy, rows)
        state = {"state": dg.MetadataValue.text(self.state)}
        return {**failure_entries(check, BUILT_FROM_CURRENT_INPUTS.remedy), **state, **(shown if self.reasons else {})}


class PublishingAsset(Declaration, ABC):
    """Declaration of an asset that publishes something, and can tell whether that is current and how old it is."""

    @property
    def advisory_names(self) -> tuple[Check, ...]:
        """The checks that block nothing."""
        return (BUILT_FROM_CURRENT_INPUTS, *super().advisory_names)

    @property
    def of_packages(self) -> bool:
        """Whether the asset is only expected to have the releases that the catalogue packages."""
        return self.partitions is BY_PACKAGED_RELEASE

    @abstractmethod
    def currency(self, workspace: Workspace, partition: str | None) -> Currency:
        """Compare a published partition with what a build of now would be made from; raises nothing."""

    @abstractmethod
    def newest_release(self, workspace: Workspace, keys: Sequence[str]) -> str | None:
        """Return the newest release, of the given keys (oldest first), that the asset has; None if it has none."""

    def advice(
        self, workspace: Workspace, built: Currency, instance: dg.DagsterInstance, *, refused: ReleaseRun | None = None
    ) -> list[dg.AssetCheckResult]:
        """Return the results of the checks that block nothing, for a run that has just built a partition.

        The age of the newest release is judged without the listing: ``instance`` has what the latest evaluation read.
        ``refused`` is the run itself if it fails. Of what is not built nothing is compared.
        """
        warn, results = dg.AssetCheckSeverity.WARN, list[dg.AssetCheckResult]()
        if built.state != "not built":
            results.append(self._advice(BUILT_FROM_CURRENT_INPUTS, built.state == "current", warn, built.metadata()))
        if self.follows_releases:
            own = {str(built.artefact.partition): refused} if refused else {}
            seen = seen_releases(workspace, instance, self.path)
            age = judge_age(workspace, self, seen, lambda keys: {**latest_runs(instance, keys), **own})
            results.append(self._advice(NEWEST_RELEASE_BUILT, age.passed, age.severity, age.metadata()))
        return results

    def release_shown(self, workspace: Workspace, release: str) -> str:  # noqa: ARG002
        """Return words for the newest release that the asset has."""
        return f"the newest built release, {release}"

    def _advice(
        self, name: str, passed: bool, severity: dg.AssetCheckSeverity, metadata: Mapping[str, Any]
    ) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(
            asset_key=self.path, check_name=str(name), passed=passed, severity=severity, metadata=metadata
        )


def survey_root(
    workspace: Workspace, assets: Iterable[PublishingAsset], instance: dg.DagsterInstance | None = None
) -> Iterator[Currency]:
    """Yield the currency of every partition of some assets, in their order.

    Parameters
    ----------
    instance
        Holds the dynamic partitions; None: the releases in the record of the root, the published runs and the pieces of
        divided sources are taken.
    """
    # One workspace for all, so that the identity of the encoder is determined once.
    surveyed = workspace.survey()
    for asset in assets:
        for partition in _keys_of(asset, surveyed, instance):
            yield asset.currency(surveyed, partition)


def _keys_of(asset: PublishingAsset, workspace: Workspace, instance: dg.DagsterInstance | None) -> Sequence[str | None]:
    if instance is not None or not isinstance(asset.partitions.definition, dg.DynamicPartitionsDefinition):
        return asset.partitions.keys(instance)
    if asset.partitions is BY_CORPUS_PIECE:
        return workspace.divided_pieces()
    return workspace.published_runs() if asset.partitions is BY_RUN_FOLDER else recorded_releases(workspace).keys
