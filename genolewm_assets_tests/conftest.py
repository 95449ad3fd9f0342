"""Fixtures and Hypothesis profiles shared by every test module."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from genolewm_assets_tests.live.server_logs import log_tails

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# The default profile draws the same examples every time; `make fuzz` looks for new ones.
settings.register_profile("default", derandomize=True, deadline=None)
settings.register_profile(
    "fuzz", max_examples=2_000, deadline=timedelta(seconds=10), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real sample data that lies beside the repository, or skip."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real sample data (../shared/data beside the repository) is absent")
    return SHARED_DATA


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of the servers that run beside a test that fails."""
    report = yield
    if report.failed:
        report.sections.extend(log_tails())
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep each file's tests on one worker, and all of real/ on one: they share what is dear to build."""
    for item in items:
        group = item.path.parent if item.path.parent.name == "real" else item.path
        item.add_marker(pytest.mark.xdist_group(str(group)))
