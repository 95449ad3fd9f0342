"""The check that every table comes first to: its schema, its values' types, and no null where none may be."""

from __future__ import annotations

import pyarrow as pa

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.manifest import CheckResult
from genolewm_assets.store.table_schema import TableSchema


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
