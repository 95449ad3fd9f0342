"""Write docs/data_model.md from the declared schemas: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from genolewm_assets.defs.assets.packages import audit_table
from genolewm_assets.encoders import state_cache
from genolewm_assets.evaluation import table as evaluation_table
from genolewm_assets.forensic.runs import tables as run_tables
from genolewm_assets.geno_lewm_layout import columns as geno_lewm_columns
from genolewm_assets.holdouts import schema as holdout_schema
from genolewm_assets.memory_mapped import layout
from genolewm_assets.mito.genomes import table as genome_table
from genolewm_assets.mito.tokens import store as token_store
from genolewm_assets.mito.variants import schema as variant_schema
from genolewm_assets.packages import schema as package_schema
from genolewm_assets.store.tables.schema import TableSchema
from genolewm_assets.training.precomputed_epochs import rows as frozen_rows
from genolewm_assets.variants import schema
from genolewm_assets.windows.corpus import windows as corpus_windows
from genolewm_assets.windows.reference import schema as window_schema

MODULES = (
    schema,
    window_schema,
    corpus_windows,
    state_cache,
    holdout_schema,
    package_schema,
    audit_table,
    frozen_rows,
    evaluation_table,
    genome_table,
    token_store,
    variant_schema,
    run_tables,
    geno_lewm_columns,
)
EVERY_TABLE = [table for module in MODULES for table in module.TABLES]
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


def render_arrays() -> str:
    """Return the section of the mapped form in Markdown."""
    folders = {
        f"{layout.WINDOWS}/": {**layout.WINDOW_COLUMNS, layout.VIEW_ROWS: layout.VIEW_ROWS_COLUMN},
        "gnomad/, clinvar/, held_out/": layout.ALLELE_COLUMNS,
        "clinvar/": layout.CLASS_COLUMNS,
        f"{layout.HELD_SEQUENCES}/": layout.KMER_COLUMNS,
    }
    lines = [
        "## Mapped form",
        "",
        "What trainers read of a package: the rows of `package_windows` in file order, the alleles that edits of the "
        "split are drawn from, and those that no edit may make. NumPy files, `arrays/SPLIT/FOLDER/NAME.npy`; "
        "`arrays/SPLIT/index.json` has the names of the codes. `held_sequences` is there only for windows without an "
        "exact place. The check `mapped_form_right` compares them with the tables.",
        "",
        "Most windows of train are in the folder `pieces/NAME` of a package, one for each contig and piece of the "
        "corpus: `windows.parquet` (a link to the table [`windows`](#windows) or [`corpus_windows`](#corpus_windows), "
        "all rows), `bases.npy` (a link too) and `trains.npy` (bool, one a row: whether it trains). The other rows may "
        "be held out. As rows of `package_windows` they have the same columns, but `source` is `origin`, "
        "`placed_contig`, `placed_start` and `placed_end` are `contig`, `start` and `end`, `frame` is `start` modulo "
        "6, and `cache_row` is the number of the row.",
        "",
        "| folder | array | type | meaning |",
        "|---|---|---|---|",
    ]
    for folder, columns in folders.items():
        lines += [f"| `{folder}` | `{name}` | {one.dtype.name} | {one.meaning} |" for name, one in columns.items()]
    return "\n".join(lines)


def render() -> str:
    """Return the whole document."""
    head = (
        "# Data model\n\nMade by `make docs` from the declared schemas; do not edit.\n\n"
        "`start`, `end` are 0-based half-open; `pos` is 1-based as in VCF. Contig names are canonical (`chr21`)."
    )
    return "\n\n".join([head, *map(render_table, EVERY_TABLE), render_arrays()]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render())
