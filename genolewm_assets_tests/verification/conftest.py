"""The built world of the graph, whose root is examined."""

from genolewm_assets_tests.defs.conftest import _quick_dagster, built

__all__ = ["_quick_dagster", "built"]
