"""Write docs/data_model.md from the declared schemas: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from genolewm_assets.encoders.state_cache import STATE_ROWS
from genolewm_assets.lewm.corpus_windows import CORPUS_SKIPPED, CORPUS_WINDOWS
from genolewm_assets.lewm.holdout_schema import HOLDOUT_TABLES
from genolewm_assets.lewm.package_schema import PACKAGE_TABLES
from genolewm_assets.lewm.schema import TABLES
from genolewm_assets.lewm.window_schema import WINDOW_TABLES
from genolewm_assets.mito.genome_table import MITO_GENOME_REJECTS, MITO_GENOMES
from genolewm_assets.mito.token_store import MITO_TOKENS
from genolewm_assets.mito.variant_schema import MITO_TABLES
from genolewm_assets.store.table_schema import TableSchema

EVERY_TABLE = (
    *TABLES,
    *WINDOW_TABLES,
    CORPUS_WINDOWS,
    CORPUS_SKIPPED,
    STATE_ROWS,
    *HOLDOUT_TABLES,
    *PACKAGE_TABLES,
    MITO_GENOMES,
    MITO_GENOME_REJECTS,
    MITO_TOKENS,
    *MITO_TABLES,
)
TARGET = Path(__file__).parent / "data_model.md"


def render_table(table: TableSchema) -> str:
    """Return one table's section in Markdown."""
    lines = [
        f"## `{table.name}`",
        "",
        f"One row per {table.one_row_per}. Key: {', '.join(f'`{name}`' for name in table.key)}.",
        "",
        "| column | type | null | meaning |",
        "|---|---|---|---|",
    ]
    for field in table.arrow:
        null = "yes" if field.nullable else "no"
        lines.append(f"| `{field.name}` | {field.type} | {null} | {table.describe(field.name)} |")
    return "\n".join(lines)


def render() -> str:
    """Return the whole document."""
    head = (
        "# Data model\n\nMade by `make docs` from the declared schemas; do not edit.\n\n"
        "`start`, `end` are 0-based half-open; `pos` is 1-based as in VCF. Contig names are canonical (`chr21`)."
    )
    return "\n\n".join([head, *map(render_table, EVERY_TABLE)]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render())
