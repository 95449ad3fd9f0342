"""Declaration of a persisted table (name, meaning of a row, columns, key), its schema check, and rows at fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.artefacts import NOT_RUN, SHOWN_ROWS, Check, CheckResult, Row


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Declaration of one persisted table.

    Attributes
    ----------
    one_row_per
        Meaning of a row, as a noun phrase: "one row per ...".
    arrow
        Columns, types and nullability; each field has a description.
    key
        Columns whose values identify a row.
    closed
        Values that a column may have, of each column whose values are a closed set; nulls are not counted among them.
    """

    name: str
    one_row_per: str
    arrow: pa.Schema
    key: tuple[str, ...]
    closed: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Refuse a closed set of a column that the table does not have; raises ``ValueError``."""
        if unknown := sorted(set(self.closed) - set(self.arrow.names)):
            raise ValueError(f"{self.name}: closed sets of unknown columns {unknown}: expected some of {self.columns}")

    @property
    def columns(self) -> list[str]:
        """Column names in file order."""
        return list(self.arrow.names)

    def describe(self, column: str) -> str:
        """Return the description of a column, with its unit and the values of a closed set."""
        text = str((self.arrow.field(column).metadata or {})[b"description"], "utf-8")
        values = one_of(self.closed.get(column, ()))
        # Files hold the text alone: a further value of a set changes no byte of theirs.
        return text if values in text else f"{text}; values: {values}"

    def empty(self) -> pa.Table:
        """Return a table of this schema without rows."""
        return pa.Table.from_batches([], self.arrow)

    def check(self, schema: pa.Schema, *, where: str, columns: Iterable[str] | None = None) -> None:
        """Raise :class:`CorruptResourceError` unless ``schema`` has the same columns, types and nullability.

        Field metadata, such as descriptions, may differ. ``where`` names the file in the message. ``columns``: those
        that are read, others are not looked at; None: all.
        """
        wanted = self.arrow if columns is None else pa.schema([self.arrow.field(name) for name in columns])
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns if name in schema.names])
        if not schema.equals(wanted, check_metadata=False):
            theirs = {f.name: f for f in schema}
            # pyarrow raises if a field is compared with None.
            differing = [f.name for f in wanted if f.name not in theirs or theirs.pop(f.name) != f]
            differing += sorted(set(theirs) - set(wanted.names))
            raise CorruptResourceError(
                where,
                f"table does not have the schema {self.name!r}",
                expected=str([str(self.arrow.field(n)) for n in differing if n in self.arrow.names] or self.columns),
                got=str([str(schema.field(n)) for n in differing if n in schema.names] or schema.names),
                remedy="Rebuild the asset",
            )

    def differences(self, schema: pa.Schema) -> tuple[Row, ...]:
        """Return one row per column that ``schema`` has otherwise than this one, or out of place: expected and got."""
        theirs, ours = list(schema), list(self.arrow)
        pairs = {f.name: (f, None) for f in ours} | {f.name: (None, f) for f in theirs}
        pairs |= {f.name: (f, schema.field(f.name)) for f in ours if schema.names.count(f.name) == 1}
        found = [
            {"table": self.name, "column": name, "expected": _stated(one), "got": _stated(other)}
            for name, (one, other) in pairs.items()
            if one is None or other is None or one != other
        ]
        if not found and schema.names != self.arrow.names:
            order = ", ".join(self.arrow.names), ", ".join(schema.names)
            found = [{"table": self.name, "column": "order of the columns", "expected": order[0], "got": order[1]}]
        return tuple(found)


def _stated(field: pa.Field | None) -> str:
    return "no such column" if field is None else f"{field.type}{'' if field.nullable else ' not null'}"


def one_of(values: Iterable[str]) -> str:
    """Return the values of a closed set in words.

    >>> one_of(("train", "validation", "test"))
    'train, validation or test'
    """
    *first, last = values or ("",)
    return f"{', '.join(first)} or {last}" if first else str(last)


def column(name: str, kind: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    """Declare a column; its description gives the unit and the meaning of missing values."""
    return pa.field(name, kind, nullable=nullable, metadata={"description": description})


def nullable(name: str, kind: pa.DataType, description: str) -> pa.Field:
    """Declare a column that may contain nulls."""
    return column(name, kind, description, nullable=True)


SCHEMA_AS_DECLARED = Check(
    "schema_as_declared",
    "Every table has the declared columns, types and nullability.",
    "The rows name each column that differs. If an older version of the code wrote the file, materialise the "
    "partition again; otherwise report it with the rows.",
)


def check_schema(table: pa.Table, schema: TableSchema) -> CheckResult:
    """Check a table: columns, types and nullability as declared, valid values, no null in a non-nullable column."""
    try:
        schema.check(table.schema, where=schema.name)
        table.validate(full=True)
    except (CorruptResourceError, pa.ArrowInvalid) as err:
        differing = schema.differences(table.schema) or ({"table": schema.name, "problem": str(err)},)
        return CheckResult(SCHEMA_AS_DECLARED, passed=False, figures={"error": str(err)}, rows=differing)
    nulls = {field.name: table[field.name].null_count for field in schema.arrow if not field.nullable}
    figures = {"rows": table.num_rows, "forbidden_nulls": sum(nulls.values())}
    rows = [
        {**row, "fault": f"{column} is null"}
        for column in (column for column, n in nulls.items() if n)
        for row in table.filter(pc.is_null(table[column])).select(list(schema.key)).slice(0, SHOWN_ROWS).to_pylist()
    ]
    return CheckResult(SCHEMA_AS_DECLARED, passed=not figures["forbidden_nulls"], figures=figures, rows=rows)


def rows_at_fault(
    table: pa.Table, faults: Mapping[str, npt.NDArray[np.bool_]], columns: Sequence[str]
) -> tuple[Row, ...]:
    """Return the first ten rows that have a fault, with a column ``fault`` that names all faults of the row.

    Parameters
    ----------
    faults
        bool, shape (rows,), by name of the fault: whether a row has it.
    columns
        Columns of the table that are shown.
    """
    wrong = np.logical_or.reduce([np.zeros(table.num_rows, dtype=bool), *faults.values()])
    at = np.flatnonzero(wrong)[:SHOWN_ROWS]
    # Rows one by one: `take` would copy whole columns.
    shown = (table.select(list(columns)).slice(row, 1).to_pylist()[0] for row in at.tolist())
    named = ("; ".join(name.replace("_", " ") for name, mask in faults.items() if mask[row]) for row in at.tolist())
    return tuple({**row, "fault": fault} for row, fault in zip(shown, named, strict=True))


def not_run(name: str) -> CheckResult:
    """Return the failed result of a check that cannot run because the table does not have its schema."""
    return CheckResult(name, passed=False, figures={NOT_RUN: "not run: the table does not have its schema"})
