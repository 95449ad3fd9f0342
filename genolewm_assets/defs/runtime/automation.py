"""When automation asks for an asset: the conditions, and the two sensors that evaluate them.

Changed data versions ask for a rebuild, updates do not: a partition that was materialised again with the same bytes
moves nothing. Every condition waits behind ``GATE``, and until what lies upstream has caught up in its turn, so that a
change passes through the graph step by step and each partition is built once.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import dagster as dg

from genolewm_assets.defs.runtime.gates import GATE
from genolewm_assets.defs.runtime.op_tags import H100_ASSET_TAGS

AC = dg.AutomationCondition

#: Dagster types a condition by what it is evaluated for; these are for assets, and for what those depend on.
Condition: TypeAlias = dg.AutomationCondition[Any]

#: Files outside the root, which ``observations`` asks about. That one changed is a reason to build again, not to build
#: for the first time; one that was never observed holds nothing up.
SOURCES = dg.AssetSelection.assets(["reference", "source"], ["gnomad", "source"], ["mito", "source"])

#: Tag of the runs that make everything of a release, one asset after the other.
REFRESH_TAG = "genolewm/refresh"

# "Updated, and not with the same version." ``data_version_changed`` alone says so too, but not when, and of two events
# within one tick Dagster then takes the change for the earlier one: a change that comes right after a request, or after
# a build from the former version, would be lost.
_CHANGED: Condition = AC.newly_updated().since(~AC.data_version_changed())

_UPSTREAM_CHANGED = AC.any_deps_match(_CHANGED)

_NEWLY_FAILED = AC.execution_failed().newly_true()


def _since_handled(changed: Condition) -> Condition:
    """Remember a change until its target was requested, built or has failed after it."""
    # Not one ``since`` of three joined by ``|``, which forgets the times that each is compared by.
    return changed.since(AC.newly_requested()) & changed.since(AC.newly_updated()) & changed.since(_NEWLY_FAILED)


def _changed_while_built() -> Condition:
    """Remember a change that came while its target was being built from the former version, until it is requested."""
    # In a run that makes both, the change is part of the build.
    elsewhere = ~AC.executed_with_root_target() & ~AC.executed_with_tags(tag_keys={REFRESH_TAG})
    begun_before = AC.run_in_progress() & ~AC.run_in_progress().newly_true()
    changed: Condition = AC.any_deps_match(AC.data_version_changed() & elsewhere) & begun_before
    return changed.since(AC.newly_requested())


def _due() -> Condition:
    """Return true where data upstream changed that the target was not built from."""
    renewed: Condition = _UPSTREAM_CHANGED.allow(SOURCES) & ~AC.missing()
    changed: Condition = _since_handled(_UPSTREAM_CHANGED.ignore(SOURCES))
    return (changed | renewed.since_last_handled() | _changed_while_built()).with_label("upstream_changed")


def _newly_missing() -> Condition:
    """Return true for what became missing, a new partition for instance, and was not tried since."""
    handled: Condition = AC.newly_requested() | AC.newly_updated() | AC.initial_evaluation()
    return AC.newly_missing().since(handled | _NEWLY_FAILED)


def _when(reason: Condition) -> Condition:
    """Wait until everything upstream is there, is at rest, has caught up with what changed, and passed its checks."""
    behind = AC.any_deps_match(_UPSTREAM_CHANGED.since(AC.newly_updated())).with_label("upstream_is_behind")
    return (
        reason
        & ~AC.any_deps_missing().ignore(SOURCES)
        & ~AC.any_deps_in_progress()
        & ~AC.in_progress()
        & ~behind
        & GATE
    )


#: Built when it is newly missing, and again when data upstream changed.
AUTOMATED = _when(_newly_missing() | _due())

#: Built again when data upstream changed, but first by ``refresh_release`` or a person: not every release is packaged.
REBUILT = _when(~AC.missing() & _due())

#: Built when data upstream changed; never for being missing.
RECOMPUTED = _when(_due())

#: Moved when any package changed. No gate, and no release that is missing, failed or in progress, holds it: what it
#: points to is verified by itself. That takes time, in which another package may change: only a request settles it.
FOLLOWING: Condition = (_newly_missing() | _UPSTREAM_CHANGED.since(AC.newly_requested())) & ~AC.in_progress()

_ON_GPU = dg.AssetSelection.tag(*next(iter(H100_ASSET_TAGS.items())))

cpu_automation_sensor = dg.AutomationConditionSensorDefinition(
    "cpu_automation_sensor",
    target=dg.AssetSelection.all() - _ON_GPU,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Builds what is missing and what reads changed data, as far as that needs no accelerator.",
)

gpu_automation_sensor = dg.AutomationConditionSensorDefinition(
    "gpu_automation_sensor",
    target=_ON_GPU,
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="Encodes windows again when they changed. Stopped until somebody starts it: it spends H100 hours.",
)
