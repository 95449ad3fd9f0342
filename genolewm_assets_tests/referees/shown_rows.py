"""What a failed check must show: rows at fault with plain values, or why it could not run."""

from __future__ import annotations

from collections.abc import Iterable

from genolewm_assets.store.artefacts import NOT_RUN, CheckResult


def check_shown(checks: Iterable[CheckResult]) -> None:
    """Assert that each failed check has one to ten rows of plain values, or states that it was not run."""
    for check in checks:
        assert not (check.passed and check.rows), check
        if not check.passed and not str(check.figures.get(NOT_RUN, "")).startswith("not run: "):
            assert 1 <= len(check.rows) <= 10, check
            for row in check.rows:
                assert row, check
                assert all(value is None or isinstance(value, str | int | float) for value in row.values()), row
