"""What the Dagster UI shows of an asset and of a materialisation: columns, rows, places, sizes, counts.

Not here: pictures (``pictures``), which columns come from which (``column_lineage``), what a check means
(``check_descriptions``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import dagster as dg

from genolewm_assets.defs.display.column_lineage import Sources, column_lineage
from genolewm_assets.store.artefacts import FileEntry, Published
from genolewm_assets.store.tables import TableSchema

OWNERS = ["team:genolewm"]

#: Files listed with a materialisation at most; the manifest lists all.
_FILES_SHOWN = 50


def definition_metadata(asset: str, tables: Mapping[str, TableSchema], sources: Sources) -> dict[str, object]:
    """Return the metadata that an asset carries before anything is materialised.

    Parameters
    ----------
    asset
        ``domain/noun``.
    tables
        By noun, whose columns are shown as ``<noun>.<column>``; those of the one without a noun by their own names.
    """
    return {
        "dagster/column_schema": column_schema(tables, sources),
        "dagster/table_name": asset.replace("/", "."),
        **lineage_metadata(sources),
    }


def lineage_metadata(sources: Sources) -> dict[str, dg.TableColumnLineage]:
    """Return the lineage of columns, if any is declared."""
    lineage = column_lineage(sources)
    return {} if lineage is None else {"dagster/column_lineage": lineage}


def column_schema(tables: Mapping[str, TableSchema], sources: Sources) -> dg.TableSchema:
    """Return the columns of tables, with types, nullability, descriptions and where they come from.

    Parameters
    ----------
    tables
        By noun, as in :func:`definition_metadata`.
    sources
        The UI of open-source Dagster draws no lineage of columns, so the description says it.
    """
    return dg.TableSchema(columns=list(_columns(tables, sources)))


def _columns(tables: Mapping[str, TableSchema], sources: Sources) -> Iterator[dg.TableColumn]:
    for noun, table in tables.items():
        for field in table.arrow:
            name = f"{noun}.{field.name}" if noun else field.name
            came = ", ".join(f"`{source}`" for source in sources.get(name, ()))
            yield dg.TableColumn(
                name,
                str(field.type),
                description=table.describe(field.name) + (f"; from {came}" if came else ""),
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )


def describe_published(published: Published, *, rows: int | None = None) -> dict[str, dg.MetadataValue]:
    """Return what every materialisation reports: rows, place, size, files, and every count of the manifest."""
    manifest = published.manifest
    row_key = "dagster/row_count" if published.artefact.partition is None else "dagster/partition_row_count"
    counts = "\n".join(f"| {name} | {count:,} |" for name, count in sorted(manifest.counts.items()))
    return {
        **({} if rows is None else {row_key: dg.MetadataValue.int(rows)}),
        "dagster/uri": dg.MetadataValue.path(str(published.directory)),
        "dagster/size_bytes": dg.MetadataValue.int(sum(file.size_bytes for file in manifest.files)),
        "reused": dg.MetadataValue.bool(published.reused),
        "files": list_files(manifest.files),
        "counts": dg.MetadataValue.md(f"| what | count |\n|---|---:|\n{counts}"),
    }


def list_files(files: tuple[FileEntry, ...]) -> dg.MetadataValue:
    """Return the files of an artefact as a table; paths are relative to ``dagster/uri``."""
    shown = [(file.path, file.rows, file.size_bytes, file.sha256[:12]) for file in files[:_FILES_SHOWN]]
    if left_out := files[_FILES_SHOWN:]:
        rest = sum(file.size_bytes for file in left_out)
        shown.append((f"and {len(left_out):,} more: see manifest.json", None, rest, ""))
    columns = {"file": "string", "rows": "int", "size_bytes": "int", "sha256": "string"}
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(columns, row, strict=True))) for row in shown],
        schema=dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()]),
    )


def plotted(**figures: float | None) -> dict[str, dg.MetadataValue]:
    """Return the figures that the UI plots by partition and over time; one that is no number is left out."""
    return {
        name: dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.float(round(value, 6))
        for name, value in figures.items()
        if value is not None and math.isfinite(value)
    }


def share(part: float, whole: float) -> float | None:
    """Return a part's share of the whole, 0 to 1; None where there is no whole."""
    return part / whole if whole else None


#: Fields of ClinVar's VCF that the shard is made from, in the order of the file; ``INFO/`` before those of the INFO
#: column. The file is kept as NCBI published it and has more; ``sources.clinvar`` reads these.
CLINVAR_FIELDS: Mapping[str, tuple[str, str]] = {
    "CHROM": ("String", "contig as NCBI spells it, without 'chr'"),
    "POS": ("Integer", "1-based position of the first base of REF"),
    "ID": ("Integer", "VariationID"),
    "REF": ("String", "reference allele"),
    "ALT": ("String", "alternate alleles, ',' between several"),
    "INFO/ALLELEID": ("Integer", "AlleleID"),
    "INFO/CLNSIG": ("String", "aggregate germline classification"),
    "INFO/CLNSIGCONF": ("String", "classifications in conflict, with their numbers of submissions"),
    "INFO/CLNSIGINCL": ("String", "classification of haplotypes or genotypes that include the allele"),
    "INFO/CLNREVSTAT": ("String", "review status, from which the stars follow"),
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
    """Return the fields of ClinVar's VCF as columns."""
    return dg.TableSchema(
        columns=[dg.TableColumn(name, kind, description=text) for name, (kind, text) in CLINVAR_FIELDS.items()]
    )
