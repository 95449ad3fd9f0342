"""Parquet files in the two layouts of the corpus, written by the test that needs them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def gene_row(**more: object) -> dict[str, object]:
    row: dict[str, object] = {
        "record_id": "G1",
        "sequence": "ACGT" * 10,
        "taxonomy": "Homo sapiens",
        "chrom": "chr21",
        "start": 100,
        "end": 140,
        "strand": "-",
    }
    return {**row, **more}


def text_row(
    note: str | None = "Ensembl transcript, chr21", source: str | None = "ensembl", **more: object
) -> dict[str, object]:
    return {"text": "ACGT" * 10, "record": "T1", "metadata": {"source": source, "note": note}, **more}


def write_rows(path: Path, *rows: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path
