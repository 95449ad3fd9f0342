"""Which release is the newest, how old it is, and which one trainers read since when."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from genolewm_assets.defs.runtime import (
    PublishingAsset,
    Workspace,
    judge_age,
    latest_runs,
    recorded_releases,
    seen_releases,
)
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.packages import read_current, read_pin
from genolewm_assets.variants import ReleaseKey, in_order

#: Asset that names the package in use.
CURRENT = "packages/current"

#: Greatest number of materialisations of the pointer that are looked at for the time since when it stays.
_LOOK_BACK = 200


@dataclass(frozen=True, slots=True)
class Releases:
    """The newest release that the root or the latest check knows, and the one in use; None if there is none.

    Ages are days since the date of the release. ``served_since`` is when the package in use was first chosen, in
    seconds since 1970; ``pinned`` the release that a person pinned; ``late`` why the package in use is late, or empty.
    """

    newest: str | None = None
    age_days: int | None = None
    served: str | None = None
    served_path: str | None = None
    served_age_days: int | None = None
    served_since: float | None = None
    pinned: str | None = None
    late: str = ""


def read_releases(
    workspace: Workspace, instance: dg.DagsterInstance | None, assets: Mapping[str, PublishingAsset], now: float
) -> Releases:
    """Read which release is the newest and which one is in use, from records; damaged ones are left out."""
    root, pointer, facts = workspace.root.path, assets[CURRENT], dict[str, Any]()
    known = recorded_releases(workspace) if instance is None else seen_releases(workspace, instance, pointer.path)
    newest = in_order(known.keys)[-1] if known.keys else None
    with suppress(GenoLeWMError):
        facts["pinned"] = read_pin(root)
        used = read_current(root)
        facts |= {"served": used.release, "served_path": used.path, "served_age_days": _age(used.release, now)}
        facts["served_since"] = _chosen(instance, pointer, used.manifest_sha256) if instance else None
    if newest is not None and not known.problem:
        told = {"runs": partial(latest_runs, instance)} if instance else {}
        age = judge_age(workspace, pointer, known, **told, today=datetime.fromtimestamp(now, UTC).date())
        facts["late"] = "" if age.passed else age.reason
    return Releases(newest, _age(newest, now) if newest else None, **facts)


def _age(release: str, now: float) -> int:
    return (datetime.fromtimestamp(now, UTC).date() - ReleaseKey.parse(release).day).days


def _chosen(instance: dg.DagsterInstance, pointer: PublishingAsset, sha256: str) -> float | None:
    """Return the time of the first of the latest materialisations that chose this package; None if none did."""
    since = None
    for record in instance.fetch_materializations(dg.AssetKey(pointer.path), limit=_LOOK_BACK).records:
        tags = (record.asset_materialization.tags if record.asset_materialization else None) or {}
        if tags.get("dagster/data_version") != f"sha256:{sha256}":
            break
        since = record.timestamp
    return since
