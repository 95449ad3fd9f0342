"""Metadata of assets and materialisations for the Dagster UI: columns, rows, paths, sizes, counts, sample rows."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.defs.display.check_results import table_of
from genolewm_assets.defs.display.column_lineage import Sources, column_lineage
from genolewm_assets.defs.display.markdown import after_a_click, as_code, as_table, is_picture, link_pictures
from genolewm_assets.store.artefacts import FileEntry, Published
from genolewm_assets.store.files import link_of_generation
from genolewm_assets.store.tables import TableSchema

OWNERS = ["team:genolewm"]

#: Entries with the number of rows of an asset without partitions, and of a partition.
ROW_COUNTS = ("dagster/row_count", "dagster/partition_row_count")

#: Entry that says in one sentence what a person wants to know first.
HEADLINE = "headline"

#: Entry that says that the published files were kept, and since when they are there.
KEPT = "kept"

#: Places in reading order of entries that are told by their names, the last of which say where the files are.
_NAMED: Mapping[str, float] = {
    **{KEPT: -2, HEADLINE: -1},
    **dict.fromkeys(ROW_COUNTS, 0),
    **{"pictures": 1.25, "sample_rows": 2.5},
    "counts": 4,  # the longest table: every count of the manifest
    **dict.fromkeys(("path", "dagster/uri", "size", "files", "reused", "dagster/size_bytes"), 5),
}

#: Places in reading order of the kinds of entries that come after figures and short texts.
_RANKS: Mapping[type, int] = {
    dg.MarkdownMetadataValue: 3,
    dg.TableMetadataValue: 3,
    dg.JsonMetadataValue: 6,
    dg.TableColumnLineage: 7,
    dg.TableColumnLineageMetadataValue: 7,
    dg.TableSchema: 7,
    dg.TableSchemaMetadataValue: 7,
}

#: Characters that fit into the box of a value where the window is 1,366 wide, and those between two columns.
_BOX, _COLUMN_GAP = 38, 2.5

#: Characters of a line of a Markdown table, of which short ones have line breaks in their cells.
_WIDE_LINE = 60

#: Rows of each table that people look at first.
_ROWS = 5
#: Longer values are cut; so are sequences and digests.
_CHARACTERS = 12
#: Bytes read at a time: a row is read without its row group.
_BUFFER_BYTES = 1 << 16

#: A digest of at least 32 digits, of which the first 12 are shown.
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b")

#: Greatest number of files listed with a materialisation; the manifest lists all.
_FILES_SHOWN = 50


def definition_metadata(tables: Mapping[str, TableSchema], sources: Sources) -> dict[str, object]:
    """Return the metadata of an asset's definition: column schema, lineage.

    Parameters
    ----------
    tables
        Schemas by noun. Columns are shown as ``<noun>.<column>``, or as ``<column>`` if the noun is empty.
    """
    return {"dagster/column_schema": column_schema(tables, sources), **lineage_metadata(sources)}


def lineage_metadata(sources: Sources) -> dict[str, dg.TableColumnLineage]:
    """Return the metadata of the column lineage; empty if no column has a source."""
    lineage = column_lineage(sources)
    return {} if lineage is None else {"dagster/column_lineage": lineage}


def column_schema(tables: Mapping[str, TableSchema], sources: Sources) -> dg.TableSchema:
    """Return the columns of tables; their descriptions name upstream columns, because the UI shows no lineage."""
    return dg.TableSchema(columns=list(_columns(tables, sources)))


def _columns(tables: Mapping[str, TableSchema], sources: Sources) -> Iterator[dg.TableColumn]:
    for noun, table in tables.items():
        for field in table.arrow:
            name = f"{noun}.{field.name}" if noun else field.name
            upstream = ", ".join(f"`{source}`" for source in sources.get(name, ()))
            yield dg.TableColumn(
                name,
                str(field.type),
                description=table.describe(field.name) + (f"; from {upstream}" if upstream else ""),
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )


def describe_published(
    published: Published, *, rows: int | None = None, stated: Collection[str] = ()
) -> dict[str, dg.MetadataValue]:
    """Return the metadata that every materialisation reports: rows, path, bytes, files, counts of the manifest.

    Counts whose names are in ``stated`` are not repeated. The path is not reported as ``dagster/uri``, which the UI
    reads from the definition and leaves out of the latest materialisation.
    """
    manifest = published.manifest
    row_key = ROW_COUNTS[published.artefact.partition is not None]
    counts = {name: n for name, n in sorted(manifest.counts.items()) if name not in stated}
    size_bytes = sum(file.size_bytes for file in manifest.files)
    return {
        **_describe_kept(published),
        **({} if rows is None else {row_key: dg.MetadataValue.int(rows)}),
        "path": dg.MetadataValue.path(str(link_of_generation(published.directory))),
        "size": dg.MetadataValue.text(megabytes(size_bytes)),
        # The UI shows the number as storage, and plots it.
        "dagster/size_bytes": dg.MetadataValue.int(size_bytes),
        "reused": dg.MetadataValue.bool(published.reused),
        "files": list_files(manifest.files),
        **({"counts": _list_counts(counts)} if counts else {}),
    }


def _list_counts(counts: Mapping[str, int]) -> dg.MetadataValue:
    # A colon lets the UI break a long name.
    lines = "\n".join(f"| {name.replace('.', ': ')} | {n:,} |" for name, n in counts.items())
    return dg.MetadataValue.md(f"| what | count |\n|---|---:|\n{lines}")


def _describe_kept(published: Published) -> dict[str, dg.MetadataValue]:
    """Return that nothing was built, and when what is published was; empty if this run built it."""
    if not published.reused:
        return {}
    built_at = str(published.provenance.get("built_at", "an earlier time"))[:16].replace("T", " ")
    return {KEPT: dg.MetadataValue.text(f"nothing to build: what was built on {built_at} is current, and was kept")}


def megabytes(size_bytes: int) -> str:
    """Return a size as text in MB (10^6 bytes)."""
    return f"{size_bytes / 1e6:,.2f} MB" if size_bytes >= 10_000 else f"{size_bytes / 1e6:.4f} MB"


def as_shown(
    published: Published, metadata: Mapping[str, Any], root: Path, run_id: str, *, private: bool = False
) -> dict[str, Any]:
    """Return the metadata of a materialisation as pages show it: in reading order, with pictures and sample rows.

    Parameters
    ----------
    metadata
        What ``describe`` and ``after`` of the asset returned.
    private
        Whether its tables are personal data, so that no row is shown.
    """
    rows = {} if private else sample_rows(published)
    linked = link_pictures(in_reading_order(metadata), published.artefact.asset, run_id)
    return for_readers(in_reading_order({**linked, **metadata, **rows}), root)


def for_readers(metadata: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return metadata with digests cut to 12 digits, and paths from the root: longer ones leave their box."""

    def shorten(value: Any) -> Any:
        if isinstance(value, str):
            text = _DIGEST.sub(r"\1", value)
            return text.replace(f"{root}/", "").replace(str(root), "ROOT")
        if isinstance(value, dg.TextMetadataValue):
            return dg.MetadataValue.text(shorten(value.text))
        if isinstance(value, dg.PathMetadataValue):
            return dg.MetadataValue.text(shorten(value.path))  # which has line breaks
        if isinstance(value, dg.MarkdownMetadataValue) and not is_picture(value):
            text = shorten(value.md_str)
            wide = "```" in text or any(len(line) > _WIDE_LINE for line in text.splitlines() if line.startswith("|"))
            return after_a_click(text) if wide else dg.MetadataValue.md(text)
        if isinstance(value, dg.TableMetadataValue):
            rows = [{name: shorten(cell) for name, cell in row.data.items()} for row in value.records]
            return _as_table(rows, value.schema)
        return value

    return {name: shorten(value) for name, value in metadata.items()}


def _as_table(rows: Sequence[Mapping[str, Any]], schema: dg.TableSchema) -> dg.MetadataValue:
    """Return a table, as Markdown after a click if it would leave its box."""
    names = [column.name for column in schema.columns]
    cells = [["" if row.get(name) is None else str(row[name]) for name in names] for row in rows]
    longest = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    if sum(longest) + _COLUMN_GAP * len(names) <= _BOX:
        return dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows], schema=schema)
    return after_a_click(as_table([names, *(list(map(as_code, row)) for row in cells)]))


def in_reading_order(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as a person reads it, because the UI shows entries in the given order.

    That files were kept, the headline, rows, then figures and short texts, pictures, tables and longer texts, all
    counts, the place on disk, raw documents, and what the UI shows elsewhere (columns, lineage). Entries of one kind
    keep their order.
    """
    return dict(sorted(metadata.items(), key=lambda entry: _reading_rank(*entry)))


def _reading_rank(name: str, value: object) -> float:
    if name in _NAMED:
        return _NAMED[name]
    if is_picture(value):
        return 2 - name.endswith("_by_contig") / 2  # what compares contigs comes before what is of one
    return next((rank for kind, rank in _RANKS.items() if isinstance(value, kind)), 1)


def list_files(files: tuple[FileEntry, ...]) -> dg.MetadataValue:
    """Return the files of an artefact as a table of path, rows, and size in MB, the arrays last."""
    ordered = sorted(files, key=lambda file: file.path.endswith(".npy"))
    rows = [
        {"file": file.path, "rows": file.rows, "size": megabytes(file.size_bytes)} for file in ordered[:_FILES_SHOWN]
    ]
    if left_out := ordered[_FILES_SHOWN:]:
        rest = megabytes(sum(file.size_bytes for file in left_out))
        rows.append({"file": f"and {len(left_out):,} more: see manifest.json", "rows": None, "size": rest})
    has_rows = any(row["rows"] for row in rows)
    return table_of([{name: row[name] for name in row if has_rows or name != "rows"} for row in rows])


def plotted(**figures: float | None) -> dict[str, dg.MetadataValue]:
    """Return figures that the UI plots by partition and over time; None, NaN and infinite values are left out."""
    return {
        name: dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.float(round(value, 6))
        for name, value in figures.items()
        if value is not None and math.isfinite(value)
    }


def in_words(**figures: float | None) -> dict[str, dg.MetadataValue]:
    """Return figures that never vary, or say how a run went, as text, which the UI does not plot."""
    shown = {
        name: f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
        for name, value in figures.items()
        if value is not None
    }
    return {name: dg.MetadataValue.text(text) for name, text in shown.items()}


def share(part: float, whole: float) -> float | None:
    """Return ``part / whole``; None if ``whole`` is 0."""
    return part / whole if whole else None


#: Type and description of each field of ClinVar's VCF that ``sources.clinvar`` reads, in file order; names of INFO
#: fields begin with ``INFO/``. The published file is kept as it is and has further fields.
CLINVAR_FIELDS: Mapping[str, tuple[str, str]] = {
    "CHROM": ("String", "contig in NCBI's spelling, without 'chr'"),
    "POS": ("Integer", "1-based position of the first base of REF"),
    "ID": ("Integer", "VariationID"),
    "REF": ("String", "reference allele"),
    "ALT": ("String", "alternate alleles, ',' between several"),
    "INFO/ALLELEID": ("Integer", "AlleleID"),
    "INFO/CLNSIG": ("String", "aggregate germline classification"),
    "INFO/CLNSIGCONF": ("String", "classifications in conflict, with their numbers of submissions"),
    "INFO/CLNSIGINCL": ("String", "classification of haplotypes or genotypes that include the allele"),
    "INFO/CLNREVSTAT": ("String", "review status, which determines the stars"),
    "INFO/ONC": ("String", "aggregate oncogenicity classification"),
    "INFO/SCI": ("String", "aggregate somatic clinical impact"),
    "INFO/GENEINFO": ("String", "genes as symbol:GeneID, '|' between several"),
    "INFO/CLNVC": ("String", "variant type"),
    "INFO/MC": ("String", "molecular consequence: Sequence Ontology id and term"),
    "INFO/CLNDN": ("String", "preferred names of the conditions"),
    "INFO/CLNHGVS": ("String", "top-level HGVS expression"),
    "INFO/RS": ("String", "dbSNP numbers without 'rs'"),
}


def clinvar_vcf_schema() -> dg.TableSchema:
    """Return the fields of :data:`CLINVAR_FIELDS` as columns."""
    return dg.TableSchema(
        columns=[dg.TableColumn(name, kind, description=text) for name, (kind, text) in CLINVAR_FIELDS.items()]
    )


def sample_rows(published: Published) -> dict[str, dg.MetadataValue]:
    """Return five rows of each Parquet table of an artefact as Markdown, from row groups that are evenly spaced."""
    tables: dict[tuple[str, ...], list[Path]] = {}
    for entry in published.manifest.files:
        if entry.path.endswith(".parquet") and entry.rows:
            path = published.file(entry.path)
            tables.setdefault(tuple(pq.read_schema(path).names), []).append(path)
    shown = [_as_markdown(published.directory, files) for files in tables.values()]
    return {"sample_rows": after_a_click("\n\n".join(shown))} if shown else {}


def _as_markdown(folder: Path, files: Sequence[Path]) -> str:
    rows = [row for _, row in zip(range(_ROWS), _read_rows(files), strict=False)]
    first, *others = (str(path.relative_to(folder)) for path in files)
    more = f" and {len(others)} more file{'s' * (len(others) != 1)}" if others else ""
    lines = [[name, *(_cell(row[name]) for row in rows)] for name in rows[0]]
    return f"**{first}**{more}\n\n{as_table([['column', *[''] * len(rows)], *lines])}"


def _read_rows(files: Sequence[Path]) -> Iterator[Mapping[str, object]]:
    """Yield rows, by way of the fewest pages that hold them."""
    groups = [(path, group) for path in files for group in range(pq.read_metadata(path).num_row_groups)]
    chosen = sorted({int(at) for at in np.linspace(0, len(groups) - 1, _ROWS)})
    for n, at in enumerate(chosen):
        path, group = groups[at]
        # The last group fills up.
        wanted = _ROWS - n if at == chosen[-1] else 1
        with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
            batch = next(file.iter_batches(batch_size=wanted, row_groups=[group]), None)
        yield from pa.Table.from_batches([batch]).to_pylist() if batch is not None else []


def _cell(value: object) -> str:
    """Return a value as text of a Markdown cell, cut to its first characters."""
    if value is None:
        return ""
    joined = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    text = f"{value:.5g}" if isinstance(value, float) else joined
    return as_code(text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…")
