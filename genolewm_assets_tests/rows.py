"""Tables of cases as one test, for rows that need no fixture of their own; ``parametrize`` is for the others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def each_row(
    names: str | Sequence[str], table: Iterable[Any], *, ids: Callable[[Any], object] | Sequence[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every row of a table, and report all rows at fault; the parameters are those of ``parametrize``.

    Collecting a test takes longer than running most rows. The rows share the test's fixtures.
    """
    columns = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    rows = [_row(entry, alone=isinstance(names, str) and len(columns) == 1) for entry in table]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        given = inspect.signature(test).parameters

        @functools.wraps(test)
        def run(subtests: pytest.Subtests, **fixtures: Any) -> None:
            own = {"subtests": subtests} if "subtests" in given else {}
            for number, (label, values) in enumerate(rows):
                name = ids[number] if isinstance(ids, Sequence) else label
                with subtests.test(str(name or values)[:200]):
                    test(**dict(zip(columns, values, strict=True)), **fixtures, **own)

        asked = [one for one in given.values() if one.name not in (*columns, "subtests")]
        subtests = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([subtests, *asked])  # type: ignore[attr-defined]
        return run

    return decorate


def _row(entry: Any, *, alone: bool) -> tuple[object, Sequence[Any]]:
    """Return the name, if it has one, and the values of a row."""
    if isinstance(entry, type(pytest.param())):
        return entry.id, entry.values
    return None, [entry] if alone else entry
