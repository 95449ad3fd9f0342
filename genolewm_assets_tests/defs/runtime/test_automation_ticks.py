"""Conditions on a graph of two assets: what happens within a tick, and in which order; where the graph has them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator

import dagster as dg
import pytest

from genolewm_assets.definitions import defs
from genolewm_assets.defs.runtime.automation import (
    RECOMPUTED,
    REFRESH_TAG,
    cpu_automation_sensor,
    gpu_automation_sensor,
)
from genolewm_assets.defs.runtime.watched import Watched
from genolewm_assets_tests.worlds.graph.built_world import QUIET

GRAPH = defs.resolve_asset_graph()
CONDITIONED = sorted(key for key in GRAPH.get_all_asset_keys() if GRAPH.get(key).automation_condition is not None)


def ticks(assets: list[dg.AssetsDefinition], instance: dg.DagsterInstance) -> Callable[[], int]:
    """Return what evaluates the next tick on a graph, and tells how many partitions it asks for."""
    graph, cursors = dg.Definitions(assets), [None]

    def tick() -> int:
        options = {"asset_selection": dg.AssetSelection.all(), "cursor": cursors[-1]}
        result = dg.evaluate_automation_conditions(graph, instance, **options)
        cursors.append(result.cursor)
        return result.total_requested

    return tick


class Pair:
    """``downstream`` is built from ``upstream``, of which each change has a new data version."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.version, self.works = 1, True
        self.may_end = threading.Event()
        self.begun = threading.Event()
        self.may_end.set()
        self._instance = instance
        self._assets = self._define()
        self._ticks = ticks(self._assets, instance)
        self.change()
        self.tick()
        self.build()
        self.tick()

    def _define(self) -> list[dg.AssetsDefinition]:
        pair = self

        @dg.asset(code_version="1")
        def upstream() -> dg.MaterializeResult[None]:
            return dg.MaterializeResult(data_version=dg.DataVersion(str(pair.version)))

        @dg.asset(deps=[upstream], automation_condition=RECOMPUTED, code_version="1")
        def downstream() -> dg.MaterializeResult[None]:
            version = pair.version
            pair.begun.set()
            assert pair.may_end.wait(300)
            if not pair.works:
                raise dg.Failure("broken")
            return dg.MaterializeResult(data_version=dg.DataVersion(f"from {version}"))

        return [upstream, downstream]

    def change(self) -> None:
        self.version += 1
        self.touch()

    def touch(self) -> None:
        assert self._make(self._assets[0])

    def build(self) -> None:
        assert self._make(self._assets[1])

    def fail(self) -> None:
        self.works = False
        assert not self._make(self._assets[1])
        self.works = True

    def _make(self, asset: dg.AssetsDefinition) -> bool:
        options = {"instance": self._instance, "run_config": QUIET, "raise_on_error": False}
        return dg.materialize(self._assets, selection=[asset], **options).success

    def tick(self) -> bool:
        """Tell whether the next tick asks for ``downstream``."""
        return self._ticks() == 1


@pytest.fixture
def pair() -> Iterator[Pair]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Pair(instance)


@pytest.mark.parametrize(
    ("before", "between", "requested"),
    [
        ([], ["change"], True),
        ([], ["touch"], False),
        ([], ["change", "build"], False),
        ([], ["build", "change"], True),
        ([], ["change", "fail"], False),
        (["change"], [], False),
        (["change"], ["build"], False),
        (["change"], ["fail"], False),
        (["change"], ["build", "touch"], False),
        (["change"], ["build", "change"], True),
        (["change"], ["change", "build"], False),
    ],
)
def test_what_happens_between_two_ticks(pair: Pair, before: list[str], between: list[str], requested: bool) -> None:
    """``before`` lies before a tick that requests; the next tick sees what lies ``between`` the two."""
    for action in before:
        getattr(pair, action)()
    assert pair.tick() is bool(before)
    for action in between:
        getattr(pair, action)()
    assert pair.tick() is requested
    assert pair.tick() is False


def test_what_failed_is_requested_again_when_its_input_changes(pair: Pair) -> None:
    for action, requested in ((pair.change, True), (pair.fail, False), (pair.change, True)):
        action()
        assert pair.tick() is requested


def test_a_change_while_something_is_built_from_the_former_version_is_not_lost(pair: Pair) -> None:
    pair.may_end.clear()
    pair.begun.clear()
    run = threading.Thread(target=pair.build)
    run.start()
    assert pair.begun.wait(300)
    assert not pair.tick()
    pair.change()
    assert not pair.tick()
    pair.may_end.set()
    run.join()
    assert pair.tick()
    pair.build()
    assert not pair.tick()


@pytest.mark.parametrize(("tags", "requested"), [({REFRESH_TAG: "true"}, False), ({}, True)])
def test_what_runs_in_order_build_between_ticks_is_read_by_those_behind(tags: dict[str, str], requested: bool) -> None:
    """The queue keeps the later runs of ``build_everything`` in progress from its start."""
    keys, versions = dg.StaticPartitionsDefinition(["a", "b"]), itertools.count()
    begun, may_end = threading.Event(), threading.Event()

    @dg.asset(partitions_def=keys)
    def upstream() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(data_version=dg.DataVersion(str(next(versions))))

    @dg.asset(deps=[upstream], automation_condition=RECOMPUTED)
    def downstream() -> None:
        begun.set()
        assert may_end.wait(300)

    assets: list[dg.AssetsDefinition] = [upstream, downstream]
    with dg.DagsterInstance.ephemeral() as instance:
        tick = ticks(assets, instance)

        def make(asset: dg.AssetsDefinition, key: str | None = None) -> None:
            dg.materialize(assets, selection=[asset], instance=instance, partition_key=key, run_config=QUIET, tags=tags)

        may_end.set()
        for asset, key in ((upstream, "a"), (upstream, "b"), (downstream, None)):
            make(asset, key)
            tick()
        begun.clear()
        may_end.clear()
        run = threading.Thread(target=make, args=(downstream,))
        run.start()
        assert begun.wait(300)
        assert tick() == 0
        for key in ("a", "b"):
            make(upstream, key)
        assert tick() == 0
        may_end.set()
        run.join()
        assert tick() == requested


def test_each_conditioned_asset_is_watched_by_one_sensor() -> None:
    cpu, gpu = (sensor.asset_selection.resolve(GRAPH) for sensor in (cpu_automation_sensor, gpu_automation_sensor))
    assert not cpu & gpu
    assert set(CONDITIONED) <= cpu | gpu
    assert {key.path[0] for key in gpu} - {"embeddings", "tuples"} == {"packages"}
    assert {key.to_user_string() for key in gpu if key.path[0] == "packages"} == {"packages/evaluation"}
    assert all(GRAPH.get(key).tags.get("genolewm/accelerator") == "h100" for key in gpu)
    # The sensor of releases requests the first, a schedule the second.
    requested = {dg.AssetKey(["clinvar", "release"]), dg.AssetKey(["platform", "status"])}
    assert set(CONDITIONED) == GRAPH.materializable_asset_keys - requested


@pytest.mark.parametrize("key", CONDITIONED, ids=lambda key: key.to_user_string())
def test_no_two_conditions_of_an_asset_share_what_they_remember(key: dg.AssetKey) -> None:
    """Dagster files what ``since`` and ``newly_true`` remember under their names and those of their parts only."""
    condition = GRAPH.get(key).automation_condition
    assert isinstance(condition, Watched)
    known: dict[tuple[bool, str], str] = {}
    # What a condition asks of other assets is remembered for each of these.
    waiting = [(condition, False)]
    while waiting:
        node, of_another = waiting.pop()
        waiting += [(child, of_another or "DEPS_MATCH" in node.name) for child in node.children]
        if type(node).__name__ in {"SinceCondition", "NewlyTrueCondition"}:
            place = of_another, node.get_node_unique_id(parent_unique_id=None, index=0, target_key=None)
            assert known.setdefault(place, repr(node)) == repr(node)
    assert len(known) > 1
