"""What a persisted table is declared with: its name, what a row is, its columns and its key; and the check of it.

The tables themselves are declared where they are made: ``lewm.schema`` and beside it, ``mito.variant_schema``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.artefacts import CheckResult


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Name, row meaning and Arrow schema of one persisted table."""

    name: str
    one_row_per: str
    arrow: pa.Schema
    key: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Column names in file order."""
        return list(self.arrow.names)

    def describe(self, column: str) -> str:
        """Return what a column holds, with its unit."""
        return str((self.arrow.field(column).metadata or {})[b"description"], "utf-8")

    def empty(self) -> pa.Table:
        """Return the table with no rows."""
        return self.arrow.empty_table()

    def check(self, schema: pa.Schema, *, where: str) -> None:
        """Raise :class:`CorruptResourceError` unless a file's schema has these columns, types and nullability."""
        if not schema.equals(self.arrow, check_metadata=False):
            theirs = {f.name: f for f in schema}
            # A field may not be compared with None (pyarrow raises).
            differing = [f.name for f in self.arrow if f.name not in theirs or theirs.pop(f.name) != f]
            differing += sorted(set(theirs) - set(self.arrow.names))
            raise CorruptResourceError(
                where,
                f"table does not have the schema {self.name!r}",
                expected=str([str(self.arrow.field(n)) for n in differing if n in self.arrow.names] or self.columns),
                got=str([str(schema.field(n)) for n in differing if n in schema.names] or schema.names),
                remedy="Rebuild the asset",
            )


def column(name: str, kind: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    """Declare a column; its description says the unit and what missing means."""
    return pa.field(name, kind, nullable=nullable, metadata={"description": description})


def nullable(name: str, kind: pa.DataType, description: str) -> pa.Field:
    """Declare a column that may hold nulls."""
    return column(name, kind, description, nullable=True)


def check_schema(table: pa.Table, schema: TableSchema) -> CheckResult:
    """Compare columns, types and nullability with the declared ones, and every value with its type."""
    try:
        schema.check(table.schema, where=schema.name)
        table.validate(full=True)
    except (CorruptResourceError, pa.ArrowInvalid) as err:
        return CheckResult("schema_as_declared", passed=False, figures={"error": str(err)})
    nulls = sum(table[field.name].null_count for field in schema.arrow if not field.nullable)
    return CheckResult(
        "schema_as_declared", passed=not nulls, figures={"rows": table.num_rows, "forbidden_nulls": nulls}
    )


def not_run(name: str) -> CheckResult:
    """Return the outcome of a check that needs the schema of a table that does not have it."""
    return CheckResult(name, passed=False, figures={"error": "not run: the table does not have its schema"})
