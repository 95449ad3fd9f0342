"""What automation looks at, the newest releases, and what it keeps of an evaluation: the parts that people read.

Dagster keeps each changed evaluation of every partition, half a megabyte for a package: it must not grow with releases.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import dagster as dg

# Dagster has no public names for these parts of an evaluation.
from dagster._core.asset_graph_view.asset_graph_view import AssetGraphView
from dagster._core.asset_graph_view.entity_subset import EntitySubset
from dagster._core.definitions.declarative_automation.operators import EntityMatchesCondition
from dagster._core.definitions.declarative_automation.serialized_objects import AutomationConditionEvaluation
from dagster._core.definitions.instigation_logger import InstigationLogger
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionsFilter, BulkActionStatus

from genolewm_assets.defs.runtime.failures import UNFINISHED
from genolewm_assets.defs.runtime.partitions import (
    clinvar_release_partitions,
    corpus_piece_partitions,
    forensic_run_partitions,
)
from genolewm_assets.variants import in_order

#: Releases that automation looks at, of those that are registered and of those for which an asset is built.
NEWEST = 3

#: Ticks after which an evaluation gives what the one before gave if nothing happened: what was new is no more new. Of
#: the later ones one in so many is evaluated all the same.
_SETTLED, _LOOKED_AGAIN = 3, 20

#: Tag by which the limits of an instance know what automation asked for; the daemon sets it where it evaluates itself.
_ASKED = {"dagster/from_automation_condition": "true"}

_DYNAMIC = (clinvar_release_partitions, corpus_piece_partitions, forensic_run_partitions)
_VIEWS = "_of_newest_releases"


class Watched(dg.AutomationCondition[Any]):
    """A condition of which each evaluation is kept in brief, and with ``newest_only`` of the newest releases only."""

    def __init__(self, operand: dg.AutomationCondition[Any], *, newest_only: bool = True) -> None:
        self.operand, self._newest_only = operand, newest_only

    @property
    def children(self) -> Sequence[dg.AutomationCondition[Any]]:
        """The condition itself, which takes the place of this one in all that is shown and remembered."""
        return (self.operand,)

    def get_node_unique_id(self, **place: Any) -> str:
        """Return the identifier by which the condition's state is found."""
        return self.operand.get_node_unique_id(**place)

    def get_snapshot(self, **place: Any) -> Any:
        """Return the condition as the UI shows it."""
        return self.operand.get_snapshot(**place)

    async def evaluate(self, context: dg.AutomationContext[Any]) -> dg.AutomationResult[Any]:  # type: ignore[override]
        """Evaluate the condition."""
        view = context.asset_graph_view
        if self._newest_only and context.partitions_def == clinvar_release_partitions:
            every = context.candidate_subset
            missing = await view.compute_missing_subset(key=context.key, from_subset=every)
            registered = every.expensively_compute_partition_keys()
            built = registered - missing.expensively_compute_partition_keys()
            view = _of_releases(
                view, frozenset(key for keys in (registered, built) for key in in_order(keys)[-NEWEST:])
            )
        subset = view.get_full_subset(key=context.key)
        inner = dataclasses.replace(context, condition=self.operand, asset_graph_view=view, candidate_subset=subset)
        result = await inner.evaluate_async()
        return _Brief(inner, result.true_subset, child_results=result.child_results)


class BriefSensor(dg.AutomationConditionSensorDefinition):
    """A sensor that evaluates conditions in the code server, unless nothing happened, and writes no file of log."""

    _state: object = None
    _idle = 0

    def __init__(self, name: str, **stated: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # use_user_code_server
            super().__init__(name, run_tags=_ASKED, use_user_code_server=True, **stated)

    def evaluate_tick(self, context: dg.SensorEvaluationContext) -> SensorExecutionData:
        """Evaluate the conditions; an error is recorded with the tick."""
        state = _state_of(context.instance)
        self._idle = self._idle + 1 if state == self._state and context.cursor else 0
        if self._idle >= _SETTLED and self._idle % _LOOKED_AGAIN:
            return SensorExecutionData([], "nothing happened since the conditions were evaluated", context.cursor)
        self._state = None
        context._logger = InstigationLogger(level=logging.WARNING)
        found = super().evaluate_tick(context)
        self._state = state
        return found


def _state_of(instance: dg.DagsterInstance) -> object:
    """Return what changes with everything that the conditions ask an instance."""
    unfinished = BulkActionsFilter(statuses=list(set(BulkActionStatus) - set(BULK_ACTION_TERMINAL_STATUSES)))
    return (
        instance.event_log_storage.get_maximum_record_id(),
        [instance.get_dynamic_partitions(str(each.name)) for each in _DYNAMIC],
        instance.get_run_ids(dg.RunsFilter(statuses=list(UNFINISHED))),
        [(backfill.backfill_id, backfill.status) for backfill in instance.get_backfills(unfinished)],
    )


class _Brief(dg.AutomationResult[Any]):
    """The result of a condition, kept as its labelled parts and the inputs of which something is true."""

    @cached_property
    def serializable_evaluation(self) -> AutomationConditionEvaluation[Any]:
        return _in_brief(super().serializable_evaluation)

    @cached_property
    def value_hash(self) -> str:
        """Digest of what is kept; an evaluation with the digest of the one before is not stored."""
        digest = hashlib.sha256()
        for node in self.serializable_evaluation.iter_nodes():
            subsets = (dg.serialize_value(each) for each in (node.true_subset, node.candidate_subset))
            digest.update("\0".join([node.condition_snapshot.unique_id, *subsets]).encode())
        return digest.hexdigest()


class _ViewOfReleases(AssetGraphView):
    """A view of the graph in which all releases are those of ``releases``."""

    releases: frozenset[str]
    full: dict[Any, EntitySubset[Any]]

    def get_full_subset(self, *, key: Any) -> EntitySubset[Any]:
        if key not in self.full:
            full = super().get_full_subset(key=key)
            released = full.partitions_def == clinvar_release_partitions
            self.full[key] = full.compute_intersection_with_partition_keys(self.releases) if released else full
        return self.full[key]


def _of_releases(view: AssetGraphView, releases: frozenset[str]) -> _ViewOfReleases:
    """Return a view that shares what was read with ``view``; conditions on the same releases share it."""
    views: dict[frozenset[str], _ViewOfReleases] = vars(view).setdefault(_VIEWS, {})
    if releases not in views:
        views[releases] = narrowed = _ViewOfReleases.__new__(_ViewOfReleases)
        # Not what its methods remember, which is of all releases.
        vars(narrowed).update({name: value for name, value in vars(view).items() if "cached_method" not in name})
        narrowed.releases, narrowed.full = releases, {}
    return views[releases]


def _in_brief(evaluation: AutomationConditionEvaluation[Any]) -> AutomationConditionEvaluation[Any]:
    children = [kept for child in evaluation.child_evaluations for kept in _kept(child)]
    return dataclasses.replace(evaluation, child_evaluations=children)


def _kept(evaluation: AutomationConditionEvaluation[Any]) -> Iterator[AutomationConditionEvaluation[Any]]:
    node = evaluation.condition_snapshot
    if node.class_name == EntityMatchesCondition.__name__:
        if evaluation.true_subset.size:
            yield dataclasses.replace(evaluation, child_evaluations=[])
    elif node.label:
        yield _in_brief(evaluation)
    else:
        for child in evaluation.child_evaluations:
            yield from _kept(child)
