"""Results of checks as the UI shows them: of a failed one the rows at fault, then the remedy, then the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from genolewm_assets.store.artefacts import CAUSE, NOT_COMPARED, NOT_RUN, REMEDY, CheckResult, shown_figures

#: Names of the first entries of a failed check: a table of rows at fault, or why there is none; and what to do.
OFFENDING, WHAT_TO_DO = "offending", "remedy"

#: Entry of an empty list or mapping.
NO_ITEMS = "none"

_COLUMN_TYPES = {bool: "bool", int: "int", float: "float"}


def check_metadata(check: CheckResult, remedy: str) -> dict[str, Any]:
    """Return the metadata of a result; of a failed check the rows at fault and its remedy come before the figures."""
    figures = {name: _entry(value) for name, value in check.figures.items() if value is not None}
    if check.passed:
        return figures
    shown = {name: value for name, value in figures.items() if name not in (OFFENDING, WHAT_TO_DO, REMEDY)}
    return {**failure_entries(check, remedy), **shown}


def failure_entries(check: CheckResult, remedy: str) -> dict[str, dg.MetadataValue]:
    """Return the rows at fault of a failed check and what to do: what the result says, or else ``remedy``."""
    if check.passed:
        return {}
    shown = table_of(check.rows) if check.rows else dg.MetadataValue.text(_without_rows(check))
    return {OFFENDING: shown, WHAT_TO_DO: dg.MetadataValue.text(str(check.figures.get(REMEDY) or remedy))}


def check_description(check: CheckResult) -> str | None:
    """Return a result in words: why nothing was compared, or how a check failed; None for one that passed."""
    if NOT_COMPARED in check.figures:
        return f"not compared: {check.figures[NOT_COMPARED]}"
    if check.passed:
        return None
    if not check.rows and NOT_RUN in check.figures:
        return str(check.figures[NOT_RUN])
    shown = ((name, _in_words(check.figures[name], text)) for name, text in shown_figures(check))
    figures = ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in shown)
    cause = f" {check.figures[CAUSE]}." if CAUSE in check.figures else ""
    first = f" First row at fault: {row_text(check.rows[0])}." if check.rows else ""
    return f"{check.name} does not hold{f': {figures}' if figures else ''}.{cause}{first}"


def table_of(rows: Sequence[Mapping[str, object]]) -> dg.TableMetadataValue:
    """Return rows as a table with all their columns, in the order of their first use; a missing value is empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    schema = dg.TableSchema(columns=[dg.TableColumn(name, _type_of(name, rows)) for name in columns])
    records = [dg.TableRecord({name: _cell(row.get(name)) for name in columns}) for row in rows]
    return dg.MetadataValue.table(records, schema=schema)


def row_text(row: Mapping[str, object]) -> str:
    """Return a row in one line: columns with their values; missing ones are left out."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in row.items() if value not in (None, ""))


def check_page(asset: str, check: str) -> str:
    """Return the address of the page of a check, relative to the UI."""
    return f"/assets/{asset}?view=checks&checkDetail={check}"


def check_pages(asset: str, checks: Sequence[CheckResult]) -> Mapping[str, dg.MetadataValue]:
    """Return links to the pages of the failed checks that were run."""
    return {check.name: dg.MetadataValue.url(check_page(asset, check.name)) for check in failed_checks(checks)}


def failed_checks(checks: Sequence[CheckResult]) -> list[CheckResult]:
    """Return the failed checks, those first that have rows at fault; checks that could not run are left out."""
    failed = [check for check in checks if not check.passed]
    return [check for check in failed if check.rows] or failed


def _entry(figure: object) -> Any:
    """Return a figure as an entry that is read without opening a dialog: lists as texts, mappings as tables."""
    if isinstance(figure, float):
        return float(f"{figure:.6g}")
    if isinstance(figure, Mapping):
        rows = [{"name": name, "value": value} for name, value in _leaves(figure)]
        return table_of(rows) if rows else NO_ITEMS
    if isinstance(figure, list | tuple):
        return "; ".join(map(str, figure)) or NO_ITEMS
    return figure


def _leaves(figure: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values of a mapping of mappings; their names are joined by a space."""
    for name, value in figure.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name} ")
        else:
            yield f"{above}{name}", value


def _cell(value: object) -> str | int | float | None:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _without_rows(check: CheckResult) -> str:
    """Return why a failed check has no rows."""
    why = check.figures.get(NOT_RUN) or check.figures.get(NOT_COMPARED)
    return f"none: {why}" if why else "none: this check compares totals, which are among the figures"


def _type_of(column: str, rows: Sequence[Mapping[str, object]]) -> str:
    kinds = {type(row[column]) for row in rows if row.get(column) is not None}
    return _COLUMN_TYPES.get(kinds.pop(), "string") if len(kinds) == 1 else "string"


def _in_words(figure: object, text: str) -> str:
    """Return the text of a figure; a number with commas between thousands, or with four digits."""
    if isinstance(figure, float):
        return f"{figure:.4g}"
    return f"{figure:,}" if isinstance(figure, int) and not isinstance(figure, bool) else text
