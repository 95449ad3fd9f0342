"""Result of a content check: whether its fact holds, the figures that show it, and the first rows at fault."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import islice
from typing import TypeAlias

from genolewm_assets.errors import printable
from genolewm_assets.store.files import JsonValue

#: Number of rows at fault that a failed check shows.
SHOWN_ROWS = 10
#: Longest text of a cell in full: REF alleles have up to 10,000 bases.
_CELL_CHARACTERS = 200

#: Figures of a failed check that are sentences: why it failed, and what to do.
CAUSE, REMEDY = "cause", "remedy"
#: Figure of a failed check that could not run: why not. Such a check has no rows.
NOT_RUN = "error"
#: Figure with the number of things that a check compared, and figure that says why it compared none.
COMPARED, NOT_COMPARED = "compared", "not_compared"

#: One row at fault by column: plain values, None where a value is missing.
Row: TypeAlias = Mapping[str, str | int | float | bool | None]


#: Remedy of checks that compare what this code wrote with its inputs: nobody's data can make them fail.
_FAULT_OF_THE_CODE = (
    "Materialise the partition again: if it fails with the same rows, the code that built it is wrong. Report it with "
    "these rows, the code version and the catalogue; the last good version stays in use."
)


class Check(str):
    """Name of a content check: the fact that must hold.

    Attributes
    ----------
    means
        The fact in one sentence, which the UI shows with the check.
    remedy
        What to do if the fact does not hold: one or two sentences, which the UI shows beside the rows at fault.
    """

    __slots__ = ("means", "remedy")
    means: str
    remedy: str

    def __new__(cls, name: str, means: str, remedy: str = _FAULT_OF_THE_CODE) -> Check:
        """Declare a check; without ``remedy`` only a fault of the code can make it fail."""
        check = super().__new__(cls, name)
        check.means, check.remedy = means, remedy
        return check

    def __reduce__(self) -> tuple[type[Check], tuple[str, str, str]]:
        """Return what a copy is declared with."""
        return Check, (str(self), self.means, self.remedy)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one content check.

    Attributes
    ----------
    figures
        Figures that show it; JSON values. They are part of the manifest.
    rows
        Rows at fault, in the order of the table: of those given, the first ten, with plain values. A check that passed
        has none. They are no part of the manifest, so its bytes do not depend on them.
    """

    name: str
    passed: bool
    figures: Mapping[str, JsonValue] = field(default_factory=dict)
    rows: Sequence[Mapping[str, object]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str(self.name))  # without the texts of a `Check`
        object.__setattr__(self, "rows", () if self.passed else tuple(map(_plain_row, islice(self.rows, SHOWN_ROWS))))


class RowsAtFault:
    """Counts rows at fault, and keeps the first ten of them."""

    __slots__ = ("_count", "_rows")

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._count = 0

    def add(self, **row: object) -> None:
        """Count a row, and keep it if it is one of the first ten."""
        self._count += 1
        if self.keeps_next():
            self._rows.append(_plain_row(row))

    def keeps_next(self) -> bool:
        """Tell whether the next row is one of the first ten."""
        return len(self._rows) < SHOWN_ROWS

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows that were kept."""
        return iter(self._rows)


def _plain_row(row: Mapping[str, object]) -> Row:
    """Return a row with plain values: numbers that are not finite, bytes, dates and lists as texts."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: object) -> str | int | float | bool | None:
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        text = bytes(value).hex()
    elif isinstance(value, date):
        text = value.isoformat()
    elif isinstance(value, list | tuple | set | frozenset):
        text = ", ".join(sorted(map(str, value)) if isinstance(value, set | frozenset) else map(str, value))
    else:
        text = str(value)
    # A file may hold what a terminal obeys, and surrogates, which have no UTF-8 form.
    text = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in printable(text)
    )
    return text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}... ({len(text):,} characters)"


def stating_compared(check: CheckResult, n: int, nothing: str, *, declared: bool = False) -> CheckResult:
    """Return a check with the number of things that it compared; with none, it passes only if that is declared.

    A check that has failed, or that states already that it compared nothing, stays as it is.

    Parameters
    ----------
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
