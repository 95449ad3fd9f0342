"""How a check states what it compared: a check without anything to compare does not pass in silence."""

from __future__ import annotations

from dataclasses import replace

from genolewm_assets.store.artefacts.manifest import CheckResult

#: Figure with the number of things that a check compared, and figure that says why it compared none.
COMPARED, NOT_COMPARED = "compared", "not_compared"


def stating_compared(check: CheckResult, n: int, nothing: str, *, declared: bool = False) -> CheckResult:
    """Return a check with the number of things that it compared; with none, it passes only if that is declared.

    Parameters
    ----------
    check
        Result of the check. One that has failed, or that states already that it compared nothing, stays as it is.
    n
        Number of rows, files or windows that were compared; figure ``compared``.
    nothing
        Why there is nothing to compare; figure ``not_compared`` if ``n`` is 0.
    declared
        Whether the catalogue, or an account that another check compares with the source, says that there is nothing.
    """
    if not check.passed or NOT_COMPARED in check.figures:
        return check
    if n:
        return replace(check, figures={**check.figures, COMPARED: n})
    return replace(check, passed=declared, figures={**check.figures, COMPARED: 0, NOT_COMPARED: nothing})
