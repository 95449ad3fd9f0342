"""Automation conditions of the assets, and the two sensors that evaluate them.

A changed data version triggers a rebuild; the same bytes once more do not. Every condition but ``FOLLOWING`` waits
until the upstream partitions are up to date, so each partition is built once. Of ClinVar releases only the newest are
looked at (``watched``). Labels say in words what a condition waits for; the UI shows them with each evaluation.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import dagster as dg

from genolewm_assets.defs.engines import H100_ASSET_TAGS
from genolewm_assets.defs.runtime.gates import GATE
from genolewm_assets.defs.runtime.watched import BriefSensor, Watched

AC = dg.AutomationCondition

#: Dagster types a condition by the kind of key it is evaluated for; these are evaluated for assets and dependencies.
Condition: TypeAlias = dg.AutomationCondition[Any]

#: Observable assets of files outside the root (``assets.observations``). A change of such a file triggers a rebuild but
#: no first build; a file that was never observed does not delay a build.
SOURCES = dg.AssetSelection.assets(
    *([domain, "source"] for domain in ("reference", "gnomad", "haplotypes", "mito", "corpus", "encoder", "forensic"))
)

#: Tag of runs that follow each other in order: of ``refresh_release`` and of ``build_everything``. What such a run
#: changes is read by those after it, even if they were created before.
REFRESH_TAG = "genolewm/refresh"

# Only assets that the GPU sensor targets read it, and that sensor is stopped by default.
_ENCODER = dg.AssetSelection.assets(["encoder", "source"])

# Updated, with a different data version. ``data_version_changed`` alone carries no time: of two events within one tick
# Dagster takes the change for the earlier one, so a change right after a request, or right after a build from the
# previous version, would be lost.
_CHANGED: Condition = AC.newly_updated().since(~AC.data_version_changed())

_UPSTREAM_CHANGED = AC.any_deps_match(_CHANGED)

_NEWLY_FAILED = AC.execution_failed().newly_true()


def _labelled(condition: Any, label: str) -> Condition:
    """Return a condition that the UI shows by this label; every condition that Dagster offers can have one."""
    labelled: Condition = condition.with_label(label)
    return labelled


def _since_handled(changed: Condition) -> Condition:
    """Return a condition that is true from a change until its target is requested, is updated or fails."""
    # Three separate ``since``: one ``since`` of the three joined by ``|`` loses the time of each event.
    return changed.since(AC.newly_requested()) & changed.since(AC.newly_updated()) & changed.since(_NEWLY_FAILED)


def _changed_while_built() -> Condition:
    """Return a condition for a change that came during a build of the target, true until the target is requested.

    Such a build reads the previous version, so the target must be built once more.
    """
    # A run that builds both assets reads the new version. Of runs with the tag every new update is asked: other
    # conditions of Dagster know of the latest partition only, and several are built between two ticks.
    elsewhere = ~AC.executed_with_root_target() & ~AC.all_new_updates_have_run_tags(tag_keys={REFRESH_TAG})
    begun_before = AC.run_in_progress() & ~AC.run_in_progress().newly_true()
    changed: Condition = AC.any_deps_match(AC.data_version_changed() & elsewhere) & begun_before
    return changed.since(AC.newly_requested())


def _due() -> Condition:
    """Return a condition that is true if upstream data changed after the target's last build read it."""
    renewed: Condition = _UPSTREAM_CHANGED.allow(SOURCES) & ~AC.missing()
    changed = _labelled(
        _since_handled(_UPSTREAM_CHANGED.ignore(SOURCES)), "an input changed since the last request, build or failure"
    )
    observed = _labelled(renewed.since_last_handled(), "a source file outside the root changed since the last build")
    during = _labelled(_changed_while_built(), "an input changed while this was being built")
    return _labelled(changed | observed | during, "an input or source file changed since the last build")


def _newly_missing() -> Condition:
    """Return a condition that is true if the target became missing (a new partition does) and was not tried since."""
    handled: Condition = AC.newly_requested() | AC.newly_updated() | AC.initial_evaluation()
    missing = AC.newly_missing().since(handled | _NEWLY_FAILED)
    return _labelled(missing, "the partition is new and was not tried yet")


_IDLE = _labelled(~AC.in_progress(), "waits while it is being built itself")


def _when(reason: Condition, label: str, *, newest_only: bool = True) -> Watched:
    """Return ``reason``, held back until all upstream partitions exist, are up to date and passed their checks.

    Neither the target nor an upstream partition may be in progress. States of a changed encoder do not count as behind.
    """
    outdated = _UPSTREAM_CHANGED.ignore(_ENCODER).since(AC.newly_updated())
    behind = _labelled(AC.any_deps_match(outdated), "an input is itself due to be rebuilt")
    whole: Condition = (
        reason
        & _labelled(~AC.any_deps_missing().ignore(SOURCES), "waits until every input exists")
        & _labelled(~AC.any_deps_in_progress(), "waits while an input is being built")
        & _IDLE
        & _labelled(~behind, "waits until every input is up to date")
        & _labelled(GATE, "waits until every blocking check of every input has passed")
    )
    return Watched(_labelled(whole, label), newest_only=newest_only)


_NEW_OR_DUE = _labelled(_newly_missing() | _due(), "the partition is new, or an input changed")

#: Built when the partition is newly missing, and again when upstream data changed.
AUTOMATED = _when(_NEW_OR_DUE, "build if new, rebuild if changed")

#: The same for every release: any of them may be T0 of the newest, which then reads it.
AUTOMATED_OF_EVERY_RELEASE = _when(_NEW_OR_DUE, "build if new, rebuild if changed", newest_only=False)

#: Rebuilt when upstream data changed. The first build is requested by ``refresh_release`` or by a person, because not
#: every release is packaged.
REBUILT = _when(_labelled(~AC.missing(), "was built before") & _due(), "rebuild when an input changed")

#: Built when upstream data changed; a missing partition alone triggers no build.
RECOMPUTED = _when(_due(), "compute again when an input changed")

#: An audit that passed changed with the package that it audited; a package without one cannot be chosen.
_AUDITS = dg.AssetSelection.assets(["packages", "audit"])

_AUDITED = _labelled(
    AC.any_deps_match(_CHANGED).allow(_AUDITS).since(AC.newly_requested()),
    "a package passed its audit since the last request",
)
_AUDIT_FAILED = _labelled(
    # Where a release fails before its package, the audit of the same run counts as failed too. The reset has another
    # form than that above: Dagster files what two conditions of one form remember in one place. Both as one condition,
    # joined by ``|``, would lose the time of a change.
    AC.any_deps_match(_NEWLY_FAILED & ~AC.any_deps_missing())
    .allow(_AUDITS)
    .since(AC.newly_requested() | AC.initial_evaluation()),
    "a package failed its audit since the last request",
)

#: Built when it is newly missing, or any package passed or failed its audit: after a failed one it chooses no package
#: that is known to leak, and its page says so. ``GATE`` does not apply, and a release that is missing, failed or in
#: progress does not delay it, because its build verifies the package it selects. Another package may change during that
#: verification, so a change counts as handled only when the asset is requested after it.
FOLLOWING = Watched(
    _labelled(
        _labelled(_newly_missing() | _AUDITED | _AUDIT_FAILED, "nothing is in use yet, or a package was audited")
        & _IDLE,
        "follow every audit of a package",
    ),
    newest_only=False,
)

_ON_GPU = dg.AssetSelection.tag(*next(iter(H100_ASSET_TAGS.items())))

cpu_automation_sensor = BriefSensor(
    "cpu_automation_sensor",
    target=dg.AssetSelection.all() - _ON_GPU,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Requests builds of missing partitions and rebuilds after upstream changes, except for H100 assets.",
)

gpu_automation_sensor = BriefSensor(
    "gpu_automation_sensor",
    target=_ON_GPU,
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="Requests the states of changed windows again. Stopped by default, because it uses H100 hours.",
)
