"""What a job tells besides its log, as one Pipes message: how its build ended, or the class and facts of its error."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.store.artefacts import BuildRejectedError, CheckResult

_FACTS = ("where", "problem", "expected", "got", "remedy")


def as_failure(err: GenoLeWMError) -> dict[str, Any]:
    """Return an error as a message: class, facts, results of checks, and the error of the system behind it."""
    checks = err.checks if isinstance(err, BuildRejectedError) else ()
    return {
        "outcome": "failed",
        "kind": type(err).__name__,
        "facts": {name: getattr(err, name) for name in _FACTS},
        "checks": [
            {"name": each.name, "passed": each.passed, "figures": each.figures, "rows": each.rows} for each in checks
        ],
        "system": _system_error(err),
    }


def failure_in(messages: Sequence[object]) -> GenoLeWMError | None:
    """Return the error that a job stated; None if it stated none, or one that this code does not know."""
    stated = _only(messages, "failed")
    kind = None if stated is None else _kinds().get(str(stated.get("kind")))
    if stated is None or kind is None:
        return None
    try:
        facts = stated["facts"]
        err = kind(facts["where"], facts["problem"], **{name: facts[name] for name in _FACTS[2:]})
        if isinstance(err, BuildRejectedError):
            err.checks = tuple(CheckResult(**check) for check in stated["checks"])
        if stated["system"] is not None:
            number, file = stated["system"]
            err.__cause__ = OSError(number, os.strerror(number), file)
    except (KeyError, TypeError, ValueError):
        return None
    return err


def outcome_in(messages: Sequence[object]) -> Mapping[str, Any] | None:
    """Return what a job states of a build that succeeded; None if it states none."""
    return _only(messages, "built")


def _only(messages: Sequence[object], outcome: str) -> Mapping[str, Any] | None:
    """Return the one message of a job, if it has this outcome; several would contradict each other."""
    stated = [each for each in messages if isinstance(each, dict)]
    return stated[0] if len(stated) == len(messages) == 1 and stated[0].get("outcome") == outcome else None


def _kinds() -> dict[str, type[GenoLeWMError]]:
    def below(kind: type[GenoLeWMError]) -> Iterator[type[GenoLeWMError]]:
        yield kind
        for further in kind.__subclasses__():
            yield from below(further)

    return {kind.__name__: kind for kind in below(GenoLeWMError)}


def _system_error(err: BaseException | None) -> tuple[int, str | None] | None:
    """Return number and file of the first error of the system that an error was raised from."""
    while err is not None:
        # Errors of ours that are an OSError too have no number of the system.
        if isinstance(err, OSError) and isinstance(err.errno, int):
            return err.errno, os.fsdecode(err.filename) if isinstance(err.filename, str | bytes) else None
        err = err.__cause__
    return None
