"""``packages/current``: the package in use."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from genolewm_assets.defs.assets.packages import packages_split
from genolewm_assets.defs.display import check_description, check_metadata
from genolewm_assets.defs.runtime import (
    FOLLOWING,
    Currency,
    GatedEvents,
    PublishingAsset,
    Workspace,
    WorkspaceResource,
    on_every_partition,
)
from genolewm_assets.errors import GenoLeWMError, MissingResourceError
from genolewm_assets.lewm.packages import (
    find_current,
    move_current,
    read_current,
    read_current_version,
    read_pin,
    write_current_version,
)
from genolewm_assets.store.artefacts import ArtefactId, CheckResult

#: Fields of ``packages/current.json``.
_COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn("release", "string", description="ClinVar release of the package"),
        dg.TableColumn("path", "string", description="folder of the package, relative to the root"),
        dg.TableColumn("manifest_sha256", "string", description="SHA-256 of the package's manifest.json"),
    ]
)

_VERIFIES = "package_verifies"


@dataclass(frozen=True, eq=False, kw_only=True)
class PointerAsset(PublishingAsset):
    """Declaration of the pointer to the package in use."""

    of_packages = True

    def currency(self, workspace: Workspace, partition: str | None) -> Currency:
        """Compare the package in use with the one that a build of now would choose; contents are not read."""
        artefact, root = ArtefactId(self.key, partition), workspace.root.path
        try:
            used = read_current(root)
        except MissingResourceError:
            return Currency(artefact, "not built")
        except GenoLeWMError as err:
            return Currency(artefact, "not compared", (str(err),))
        try:
            chosen, version = find_current(root), read_current_version(root)
        except (GenoLeWMError, OSError) as err:
            return Currency(artefact, "not compared", (str(err),))
        stale = []
        if version is None:
            return Currency(artefact, "not compared", ("it is not recorded which code version moved the pointer",))
        if version != self.code_version:
            stale.append(f"code version: built by {version}, now {self.code_version}")
        if chosen != used:
            pin = f" (pinned: {read_pin(root)})" if read_pin(root) else ""
            stale.append(f"input: {used.path} is in use, now {chosen.path} would be chosen{pin}")
        return Currency(artefact, "stale" if stale else "current", tuple(stale))

    def newest_release(self, workspace: Workspace, keys: Sequence[str]) -> str | None:
        """Return the release of the package in use, if it is one of the given keys; None if there is none."""
        try:
            release = read_current(workspace.root.path).release
        except GenoLeWMError:
            return None
        return release if release in keys else None

    def release_shown(self, workspace: Workspace, release: str) -> str:
        """Return words for the release of the package in use."""
        try:
            pinned = " (pinned)" if read_pin(workspace.root.path) else ""
        except GenoLeWMError:
            pinned = " (the pin cannot be read)"
        return f"the release of the package in use, {release}{pinned}"


def _move_pointer(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[WorkspaceResource]) -> GatedEvents:
    opened = workspace.open()
    root = opened.root.path
    try:
        ref = move_current(root)
        write_current_version(root, packages_current.code_version)
    except GenoLeWMError as err:
        row = {"where": err.where, "problem": err.problem, "expected": err.expected, "got": err.got}
        check = CheckResult(_VERIFIES, passed=False, figures={"error": str(err)}, rows=[row])
        said = check_description(check)
        yield dg.AssetCheckResult(check_name=_VERIFIES, passed=False, metadata=check_metadata(check), description=said)
        raise dg.Failure(str(err), allow_retries=False) from err
    context.log.info("package in use: release %s, %s", ref.release, ref.path)
    yield dg.MaterializeResult(
        metadata={
            "release": ref.release,
            "path": dg.MetadataValue.path(str(root / ref.path)),
            "dagster/row_count": 1,
        },
        data_version=dg.DataVersion(f"sha256:{ref.manifest_sha256}"),
        check_results=[
            dg.AssetCheckResult(check_name=_VERIFIES, passed=True),
            *packages_current.advice(opened, packages_current.currency(opened, None), context.instance),
        ],
    )


packages_current = PointerAsset(
    key="packages/current",
    description="""
    One row per package in use: the package of the pinned release, or of the newest release whose package verifies.

    Trainers that name no release open this package. A release that is missing or damaged is skipped, unless it is
    pinned.
    """,
    kinds={"json"},
    deps=(on_every_partition(packages_split),),
    automation=FOLLOWING,
    follows_releases=True,
    columns=_COLUMNS,
    checks=(_VERIFIES,),
    body=_move_pointer,
)
