"""``refresh_release``: all assets of one ClinVar release in one run."""

from __future__ import annotations

import dagster as dg

from genolewm_assets.defs.assets import GATED, clinvar_changes, clinvar_release, clinvar_shard
from genolewm_assets.defs.runtime import REFRESH_TAG, GatedAsset, Workspace, clinvar_release_partitions
from genolewm_assets.sources.clinvar import choose_releases, read_listing

#: Keys of the assets that are partitioned by ClinVar release, in dependency order.
RELEASE_ASSETS = tuple(
    key for key, asset in GATED.items() if asset.partitions.definition is clinvar_release_partitions and not asset.h100
)

#: Assets of a release that need an H100, which its package does not wait for; their partitions may be none.
STATES_OF_RELEASES = tuple(
    asset
    for key, asset in GATED.items()
    if key not in RELEASE_ASSETS and {dep.asset_key.to_user_string() for dep in asset.deps} & set(RELEASE_ASSETS)
)

#: Assets that are built for a release that the catalogue does not package.
UNPACKAGED_ASSETS = (clinvar_release, clinvar_shard, clinvar_changes)

refresh_release_job = dg.define_asset_job(
    "refresh_release",
    selection=dg.AssetSelection.assets(*(dg.AssetKey(key.split("/")) for key in RELEASE_ASSETS)),
    tags={REFRESH_TAG: "true"},
    description=(
        "Build all assets of one ClinVar release: download, shard, changes, mitochondrial variants, holdouts, package "
        "and its audit. One release per run."
    ),
)


def built_for(workspace: Workspace, key: str) -> tuple[GatedAsset, ...]:
    """Return the assets that a release gets, in dependency order: all where the catalogue packages it."""
    return tuple(GATED[name] for name in RELEASE_ASSETS) if workspace.is_packaged(key) else UNPACKAGED_ASSETS


def register_offered(workspace: Workspace, instance: dg.DagsterInstance) -> list[str]:
    """Register every ClinVar release of the catalogue's listing as a partition; return their keys, oldest first."""
    settings = workspace.catalog.clinvar
    listing = read_listing(workspace.url(settings.listing))
    chosen = choose_releases(workspace.root.path, listing, settings.releases, newest_first=settings.newest_first)
    keys = [release.key for release in chosen]
    instance.add_dynamic_partitions(str(clinvar_release_partitions.name), keys)
    return keys
