"""Partitions that a build reads but does not make itself: which they are, and which of them are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import dagster as dg

from genolewm_assets.defs.assets import GATED
from genolewm_assets.defs.display import ROW_COUNTS
from genolewm_assets.defs.runtime import GatedAsset, Workspace
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.store.artefacts import ArtefactId

#: Missing partitions that :func:`describe_missing` names one by one.
_NAMED = 3


def inputs_of(
    assets: Collection[GatedAsset], partition: str | None, instance: dg.DagsterInstance
) -> list[tuple[GatedAsset, str | None]]:
    """Return, in graph order, the partitions that a run of ``assets`` for one partition reads and does not make."""
    made = {asset.key for asset in assets}
    read = {
        (dep.asset_key.to_user_string(), upstream)
        for asset in assets
        for dep in asset.deps
        if dep.asset_key.to_user_string() in GATED.keys() - made
        for upstream in _mapped(dep, partition, instance)
    }
    return [
        (asset, key) for asset in GATED.values() for key in asset.partitions.keys(instance) if (asset.key, key) in read
    ]


def _mapped(dep: dg.AssetDep, partition: str | None, instance: dg.DagsterInstance) -> Iterable[str | None]:
    """Return the upstream partitions of a dependency; see ``on_same_key`` and its siblings."""
    match dep.partition_mapping:
        case dg.IdentityPartitionMapping():
            return [partition]
        case dg.SpecificPartitionsPartitionMapping(partition_keys=keys):
            return list(keys)
        case _:
            return GATED[dep.asset_key.to_user_string()].partitions.keys(instance)


def is_published(workspace: Workspace, asset: GatedAsset, partition: str | None) -> bool:
    """Tell whether a consumer could open a partition; compares sizes, not contents."""
    try:
        asset.open(workspace, partition, contents="sizes")
    except GenoLeWMError:
        return False
    return True


def is_recorded(instance: dg.DagsterInstance, artefact: ArtefactId, sha256: str) -> bool:
    """Tell whether the instance's latest materialisation of a partition has a manifest with this SHA-256."""
    latest = _latest(instance, artefact)
    return latest is not None and (latest.tags or {}).get("dagster/data_version") == f"sha256:{sha256}"


def rows_recorded(instance: dg.DagsterInstance, artefact: ArtefactId) -> int | None:
    """Return the rows that the latest materialisation of a partition reports; None if it reports none."""
    latest = _latest(instance, artefact)
    found = [latest.metadata[name].value for name in ROW_COUNTS if name in latest.metadata] if latest else []
    return int(str(found[0])) if found else None


def _latest(instance: dg.DagsterInstance, artefact: ArtefactId) -> dg.AssetMaterialization | None:
    key = dg.AssetKey(artefact.asset.split("/"))
    event = instance.get_latest_data_version_record(key, partition_key=artefact.partition)
    return event.asset_materialization if event else None


def missing_inputs(
    workspace: Workspace, assets: Collection[GatedAsset], partition: str | None, instance: dg.DagsterInstance
) -> list[ArtefactId]:
    """Return the inputs of :func:`inputs_of` that no consumer could open; nothing is downloaded or written."""
    surveyed = workspace.survey()
    inputs = inputs_of(assets, partition, instance)
    return [ArtefactId(asset.key, key) for asset, key in inputs if not is_published(surveyed, asset, key)]


def describe_missing(missing: Collection[ArtefactId]) -> str:
    """Return one line that says what a build waits for.

    >>> describe_missing([ArtefactId("reference/genome"), *(ArtefactId("windows/index", c) for c in "abc")])
    'waits for reference/genome, windows/index[a], windows/index[b] and 1 more'
    """
    named = [str(artefact) for artefact in missing][:_NAMED]
    more = len(missing) - len(named)
    return f"waits for {', '.join(named)}" + (f" and {more} more" if more else "")
