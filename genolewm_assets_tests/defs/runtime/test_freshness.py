"""Freshness: the catalogue's days are the policy, and Dagster's own evaluator goes by them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.freshness_evaluator import FRESHNESS_EVALUATORS_BY_POLICY_TYPE
from dagster._core.loader import LoadingContextForTest
from dagster._core.test_utils import freeze_time
from dagster._time import get_current_datetime

from genolewm_assets.definitions import defs
from genolewm_assets.defs.runtime.partitions import release_freshness
from genolewm_assets.defs.runtime.settings import configured_catalog
from genolewm_assets.sources.catalog.catalog import load_catalog
from genolewm_assets_tests.places import REPOSITORY

GRAPH = defs.resolve_asset_graph()
RELEASE, CURRENT = dg.AssetKey(["clinvar", "release"]), dg.AssetKey(["packages", "current"])


def days_of(policy: object) -> tuple[float, float]:
    assert policy is not None
    windows = (policy.warn_window, policy.fail_window)
    return tuple(window.to_timedelta() / timedelta(days=1) for window in windows)


@pytest.mark.parametrize("key", [RELEASE, CURRENT], ids=str)
def test_the_policy_is_the_catalogues(key: dg.AssetKey) -> None:
    stated = load_catalog(configured_catalog()).clinvar.freshness
    assert days_of(GRAPH.get(key).freshness_policy) == (stated.warn_days, stated.fail_days) == (35, 45)


def test_another_catalogue_has_another_policy(tmp_path: Path) -> None:
    document = yaml.safe_load(load_catalog("sample").file.read_text())
    document["clinvar"]["freshness"] = {"warn_days": 1.5, "fail_days": 3}
    path = tmp_path / "hasty.yaml"
    path.write_text(yaml.safe_dump(document))
    assert days_of(release_freshness(load_catalog(path))) == (1.5, 3)


def test_nothing_else_grows_stale() -> None:
    keys = {key for key in GRAPH.get_all_asset_keys() if GRAPH.get(key).freshness_policy is not None}
    assert keys == {RELEASE, CURRENT}


def state_of(instance: dg.DagsterInstance, key: dg.AssetKey) -> str:
    """Ask Dagster's evaluator, as its freshness daemon does."""
    node = GRAPH.get(key)
    evaluator = FRESHNESS_EVALUATORS_BY_POLICY_TYPE[type(node.freshness_policy)]()
    return asyncio.run(evaluator.evaluate_freshness(LoadingContextForTest(instance), node)).name


@pytest.mark.parametrize(("key", "partition"), [(RELEASE, "2025-01-05"), (CURRENT, None)], ids=str)
@pytest.mark.parametrize(
    ("age_days", "state"), [(0, "PASS"), (34.9, "PASS"), (35.1, "WARN"), (44.9, "WARN"), (45.1, "FAIL")]
)
def test_an_old_materialisation_is_noticed(
    key: dg.AssetKey, partition: str | None, age_days: float, state: str
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert state_of(instance, key) == "UNKNOWN"
        with freeze_time(get_current_datetime() - timedelta(days=age_days)):
            instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition))
        assert state_of(instance, key) == state


def test_a_new_release_makes_it_fresh_again() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        with freeze_time(get_current_datetime() - timedelta(days=100)):
            instance.report_runless_asset_event(dg.AssetMaterialization(RELEASE, partition="2024-01-07"))
        assert state_of(instance, RELEASE) == "FAIL"
        instance.report_runless_asset_event(dg.AssetMaterialization(RELEASE, partition="2025-01-05"))
        assert state_of(instance, RELEASE) == "PASS"


def test_the_daemon_evaluates_it(tmp_path: Path) -> None:
    settings = REPOSITORY / "dagster.yaml"
    (tmp_path / "dagster.yaml").write_text(settings.read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.freshness_enabled
        assert "FRESHNESS_DAEMON" in instance.get_required_daemon_types()
