"""Metadata of assets and materialisations for the Dagster UI: columns, rows, paths, sizes, counts.

Not here: pictures (``pictures``), lineage of columns (``column_lineage``), descriptions of checks
(``check_descriptions``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from genolewm_assets.defs.display.column_lineage import Sources, column_lineage
from genolewm_assets.store.artefacts import FileEntry, Published
from genolewm_assets.store.tables import TableSchema

OWNERS = ["team:genolewm"]

#: Entries with the number of rows of an asset without partitions, and of a partition.
ROW_COUNTS = ("dagster/row_count", "dagster/partition_row_count")

#: Entry that says in one sentence what a person wants to know first.
HEADLINE = "headline"

#: Entries that say where the files are, and whether a run wrote them.
_PLACE = ("path", "dagster/uri", "dagster/size_bytes", "reused", "files")

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

#: Greatest number of files listed with a materialisation; the manifest lists all.
_FILES_SHOWN = 50


def definition_metadata(tables: Mapping[str, TableSchema], sources: Sources) -> dict[str, object]:
    """Return the metadata of an asset's definition: column schema, lineage.

    Parameters
    ----------
    tables
        Schemas by noun. Columns are shown as ``<noun>.<column>``, or as ``<column>`` if the noun is empty.
    sources
        Upstream columns of each column.
    """
    return {
        "dagster/column_schema": column_schema(tables, sources),
        **lineage_metadata(sources),
    }


def lineage_metadata(sources: Sources) -> dict[str, dg.TableColumnLineage]:
    """Return the metadata of the column lineage; empty if no column has a source."""
    lineage = column_lineage(sources)
    return {} if lineage is None else {"dagster/column_lineage": lineage}


def column_schema(tables: Mapping[str, TableSchema], sources: Sources) -> dg.TableSchema:
    """Return the columns of tables with types, nullability, descriptions and upstream columns.

    Parameters
    ----------
    tables
        Schemas by noun, as in :func:`definition_metadata`.
    sources
        Upstream columns of each column. They are part of the column's description, because the UI of open-source
        Dagster shows no column lineage.
    """
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


def describe_published(published: Published, *, rows: int | None = None) -> dict[str, dg.MetadataValue]:
    """Return the metadata that every materialisation reports: rows, path, bytes, files, counts of the manifest.

    Notes
    -----
    The path is not reported as ``dagster/uri``: the UI's page of an asset reads that key from the definition, which has
    no path, and leaves it out of what it shows of the latest materialisation.
    """
    manifest = published.manifest
    row_key = ROW_COUNTS[published.artefact.partition is not None]
    counts = "\n".join(f"| {name} | {count:,} |" for name, count in sorted(manifest.counts.items()))
    return {
        **({} if rows is None else {row_key: dg.MetadataValue.int(rows)}),
        "path": dg.MetadataValue.path(str(published.directory)),
        "dagster/size_bytes": dg.MetadataValue.int(sum(file.size_bytes for file in manifest.files)),
        "reused": dg.MetadataValue.bool(published.reused),
        "files": list_files(manifest.files),
        "counts": dg.MetadataValue.md(f"| what | count |\n|---|---:|\n{counts}"),
    }


def in_reading_order(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as a person reads it, because the UI shows entries in the given order.

    The headline, rows, then figures and short texts, pictures, tables and longer texts, all counts, the place on disk,
    raw documents, and what the UI shows elsewhere (columns, lineage). Entries of one kind keep their order.
    """
    return dict(sorted(metadata.items(), key=lambda entry: _reading_rank(*entry)))


def _reading_rank(name: str, value: object) -> int:
    if name == HEADLINE:
        return -1
    if name in ROW_COUNTS:
        return 0
    if name in _PLACE:
        return 5
    if name == "counts":
        return 4  # the longest table: every count of the manifest
    if isinstance(value, dg.MarkdownMetadataValue) and (value.md_str or "").startswith("!["):
        return 2
    return next((rank for kind, rank in _RANKS.items() if isinstance(value, kind)), 1)


def list_files(files: tuple[FileEntry, ...]) -> dg.MetadataValue:
    """Return the files of an artefact as a table of path (relative to the artefact's), rows, size and SHA-256.

    Arrays are listed last: of a package, which has many, people look for the tables.
    """
    ordered = sorted(files, key=lambda file: file.path.endswith(".npy"))
    shown = [(file.path, file.rows, file.size_bytes, file.sha256[:12]) for file in ordered[:_FILES_SHOWN]]
    if left_out := ordered[_FILES_SHOWN:]:
        rest = sum(file.size_bytes for file in left_out)
        shown.append((f"and {len(left_out):,} more: see manifest.json", None, rest, ""))
    columns = {"file": "string", "rows": "int", "size_bytes": "int", "sha256": "string"}
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(columns, row, strict=True))) for row in shown],
        schema=dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()]),
    )


def plotted(**figures: float | None) -> dict[str, dg.MetadataValue]:
    """Return figures that the UI plots by partition and over time; None, NaN and infinite values are left out."""
    return {
        name: dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.float(round(value, 6))
        for name, value in figures.items()
        if value is not None and math.isfinite(value)
    }


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
