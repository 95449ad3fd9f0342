"""What the Dagster UI shows about a materialisation: rows, columns, sizes, counts, pictures."""

from __future__ import annotations

import dagster as dg

from genolewm_assets.lewm.schema import TableSchema
from genolewm_assets.store import Published

OWNERS = ["team:genolewm"]


def column_schema(table: TableSchema) -> dg.TableSchema:
    """Return a table's columns with types, nullability and descriptions."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                field.name,
                str(field.type),
                description=table.describe(field.name),
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in table.arrow
        ]
    )


def definition_metadata(table: TableSchema) -> dict[str, object]:
    """Return the metadata that an asset carries before anything is materialised."""
    return {"dagster/column_schema": column_schema(table), "dagster/table_name": table.name}


def describe_published(
    published: Published, *, rows: int | None = None, partitioned: bool = True
) -> dict[str, dg.MetadataValue]:
    """Return what every materialisation reports: rows, place, size, and every count of the manifest."""
    manifest = published.manifest
    row_key = "dagster/partition_row_count" if partitioned else "dagster/row_count"
    counts = "\n".join(f"| {name} | {count:,} |" for name, count in sorted(manifest.counts.items()))
    return {
        **({} if rows is None else {row_key: dg.MetadataValue.int(rows)}),
        "dagster/uri": dg.MetadataValue.path(str(published.directory)),
        "size_bytes": dg.MetadataValue.int(sum(file.size_bytes for file in manifest.files)),
        "reused": dg.MetadataValue.bool(published.reused),
        "counts": dg.MetadataValue.md(f"| what | count |\n|---|---:|\n{counts}"),
    }
