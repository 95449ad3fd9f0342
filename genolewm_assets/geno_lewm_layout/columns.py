"""Columns of the allele tables of geno-lewm 0.2.1 (schema version 1.0.0), and how our columns become theirs.

Each description names our column, where its name or value differs, and what is lost or null. All other columns of our
shards have no place there: ``rsid``, counts, ``grpmax``, ``af_mid``, flags, ``stars``, conditions, HGVS, GeneIDs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.store.tables import TableSchema, column, nullable, read_batches, write_table
from genolewm_assets.variants import ALLELE_KEY, Bools, allele_fields

#: Longest REF and ALT that geno-lewm edits: an allele that is longer stops its trainer.
MAX_ALLELE_BP = 16
SCHEMA_VERSION = "1.0.0"
_BATCH_ROWS = 65_536

_GROUPS = ("afr", "ami", "amr", "asj", "eas", "fin", "nfe", "oth", "sas")
_OF_GROUP = {"oth": "af_remaining"}
_FROM_SHARD = "float64 rounded to float32; null in the export of a package, which keeps af alone"
_VERSION = column("schema_version", pa.string(), f"always {SCHEMA_VERSION!r}")

GENO_LEWM_GNOMAD = TableSchema(
    "geno_lewm_gnomad",
    "allele of gnomAD in the columns of geno-lewm 0.2.1 (`--layout geno-lewm`)",
    pa.schema(
        [
            *allele_fields(),
            column("af_global", pa.float32(), "af: allele frequency, 0 to 1, float64 rounded to float32"),
            *(
                nullable(f"af_{group}", pa.float32(), f"{_OF_GROUP.get(group, 'the same')}, {_FROM_SHARD}")
                for group in _GROUPS
            ),
            column("filter", pa.string(), "the same; PASS in the export of a package: its alleles passed"),
            _VERSION,
        ]
    ),
    ALLELE_KEY,
)

GENO_LEWM_CLINVAR = TableSchema(
    "geno_lewm_clinvar",
    "allele of ClinVar in the columns of geno-lewm 0.2.1 (`--layout geno-lewm`)",
    pa.schema(
        [
            *allele_fields(),
            column("clinical_significance", pa.string(), "label: P, LP, VUS, LB, B or OTHER"),
            column("review_status", pa.string(), "clnrevstat; of a package a wording that has the allele's stars"),
            nullable("gene_symbol", pa.string(), "first of gene_symbols; null in the export of a package"),
            column("clinvar_id", pa.int64(), "VariationID (geno-lewm itself writes the AlleleID)"),
            _VERSION,
        ]
    ),
    ALLELE_KEY,
)

#: The tables that this module declares.
TABLES: tuple[TableSchema, ...] = (GENO_LEWM_GNOMAD, GENO_LEWM_CLINVAR)

_RENAMED: Mapping[str, str] = {"af_global": "af", "af_oth": "af_remaining", "clinical_significance": "label"}
#: ClinVar's wording for 0 to 4 stars. Others have 0 or 1 too, but no allele with one decided class has them.
_WORDINGS = pa.array(
    [
        "no_assertion_criteria_provided",
        "criteria_provided,_single_submitter",
        "criteria_provided,_multiple_submitters,_no_conflicts",
        "reviewed_by_expert_panel",
        "practice_guideline",
    ]
)
#: What geno-lewm writes for a record without a review status.
_NO_STATUS = "unknown"


def fits(alleles: pa.Table) -> Bools:
    """Return which alleles geno-lewm can edit: bool, shape (n_rows,)."""
    lengths = [pc.binary_length(alleles[name]).to_numpy() for name in ("ref", "alt")]
    found: Bools = np.maximum(*lengths) <= MAX_ALLELE_BP
    return found


def as_geno_lewm(alleles: pa.Table, schema: TableSchema) -> pa.Table:
    """Make rows of ``schema`` from rows of a shard, or of ``PACKAGE_VARIANTS``."""
    made = {field.name: _values(alleles, field) for field in schema.arrow}
    return pa.table(made).cast(schema.arrow)


def write_geno_lewm(tables: Iterable[pa.Table], path: Path, schema: TableSchema) -> int:
    """Write one Parquet file from rows of a shard or a package that geno-lewm can edit, and return its rows.

    The file's metadata says that its ``clinvar_id`` is the VariationID.
    """
    theirs = (as_geno_lewm(table, schema) for table in tables)
    return write_table(theirs, path, schema, recipe={"clinvar_id": "VariationID"})


def rewrite_shard(path: Path, schema: TableSchema) -> tuple[int, int]:
    """Replace a shard of ours by the alleles of it that geno-lewm can edit; return how many are kept and left out."""
    n_all, theirs = 0, path.with_suffix(".theirs")

    def kept() -> Iterator[pa.Table]:
        nonlocal n_all
        for batch in read_batches(path, _BATCH_ROWS):
            n_all += batch.num_rows
            table = pa.table(batch)
            yield table.filter(pa.array(fits(table)))

    n_kept = write_geno_lewm(kept(), theirs, schema)
    theirs.replace(path)
    return n_kept, n_all - n_kept


def _values(alleles: pa.Table, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """Return one column of theirs, null where the rows do not tell it."""
    name, n, ours = field.name, alleles.num_rows, set(alleles.column_names)
    if name == "schema_version":
        return pa.repeat(SCHEMA_VERSION, n)
    if name == "filter" and name not in ours:
        return pa.repeat("PASS", n)
    if name == "review_status":
        known = "clnrevstat" in ours
        return pc.fill_null(alleles["clnrevstat"], _NO_STATUS) if known else pc.take(_WORDINGS, alleles["stars"])
    if name == "gene_symbol" and "gene_symbols" in ours:
        return pa.array([next(iter(symbols), None) for symbols in alleles["gene_symbols"].to_pylist()], pa.string())
    renamed = _RENAMED.get(name, name)
    return alleles[renamed] if renamed in ours else pa.nulls(n, field.type)
