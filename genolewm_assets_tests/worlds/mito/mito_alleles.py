"""Tables of alleles on a circle of nine bases."""

from __future__ import annotations

import pyarrow as pa

from genolewm_assets.store.tables.schema import TableSchema
from genolewm_assets.variants.schema import CLINVAR_VARIANTS, GNOMAD_VARIANTS

#: 1-based: G1 A2 T3 T4 C5 C6 C7 T8 A9, then G1 again.
CIRCLE = b"GATTCCCTA"
Allele = tuple[int, str, str]
Row = dict[str, object]


def gnomad(*rows: tuple[Allele, Row]) -> pa.Table:
    filled = {"filter": "PASS", "ac": 1, "ac_het": 0, "an": 100, "af": 0.01, "af_het": 0.0, "max_hl": 1.0}
    return _table(GNOMAD_VARIANTS, filled, rows)


def clinvar(*rows: tuple[Allele, Row]) -> pa.Table:
    filled = {"clinvar_id": 7, "label": "VUS", "stars": 1, "gene_symbols": ["MT-TF"], "gene_ids": [4_558]}
    return _table(CLINVAR_VARIANTS, filled, rows)


def _table(schema: TableSchema, filled: Row, rows: tuple[tuple[Allele, Row], ...]) -> pa.Table:
    keys = [dict(zip(schema.key, ("chrM", *allele), strict=True)) for allele, _ in rows]
    return pa.Table.from_pylist(
        [filled | key | more for key, (_, more) in zip(keys, rows, strict=True)], schema=schema.arrow
    )
