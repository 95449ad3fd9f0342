"""What a failed check must show, wherever the product makes one in a test: plain rows at fault, or why it has none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from genolewm_assets.store.artefacts.check_result import NOT_COMPARED, NOT_RUN, SHOWN_ROWS, CheckResult

#: Modules of the product that make a result again: from a manifest, or with more figures.
_COPIED_BY = {"genolewm_assets.store.artefacts.manifest", "dataclasses"}
_MADE: Callable[[CheckResult], None] = CheckResult.__post_init__


def is_shown(check: CheckResult) -> bool:
    """Return whether a result has one to ten rows of plain values, or none and the reason; one that passed has none."""
    if check.passed:
        return not check.rows
    plain = all(value is None or isinstance(value, str | int | float) for row in check.rows for value in row.values())
    if check.rows:
        return plain and len(check.rows) <= SHOWN_ROWS and all(check.rows)
    return NOT_COMPARED in check.figures or str(check.figures.get(NOT_RUN, "")).startswith("not run: ")


@contextmanager
def watched_checks() -> Iterator[list[str]]:
    """Collect the failed results that the product makes without rows and without a reason."""
    faults: list[str] = []
    before = CheckResult.__post_init__

    def watched(self: CheckResult) -> None:
        _MADE(self)
        # This function, the generated initialiser, then who makes the result.
        maker = str(sys._getframe(2).f_globals.get("__name__"))
        if maker.startswith("genolewm_assets.") and maker not in _COPIED_BY and not is_shown(self):
            faults.append(f"{maker}: {self}")

    CheckResult.__post_init__ = watched  # type: ignore[method-assign]
    try:
        yield faults
    finally:
        CheckResult.__post_init__ = before  # type: ignore[method-assign]
