"""Write a small part of a package with planted leaks: few windows and alleles, and no copy of the rest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.audit.planting.plant import changed_variants, write_arrays, write_record
from genolewm_assets.audit.planting.planted import Field, Harvest, plant_all, window_schema
from genolewm_assets.audit.reading.intervals import HeldSpans, Span
from genolewm_assets.audit.reading.package_files import TRAIN, OwnFiles, table_of


class Part(NamedTuple):
    """A part of a package as files, what is planted in it, and why a kind could not be planted, by its name."""

    files: OwnFiles
    harvest: Harvest
    failed: dict[str, str]


def plant_part(files: OwnFiles, field: Field, folder: Path, kinds: list[str], number: int, *, emitted: bool) -> Part:
    """Plant leaks in a part of a package, written to an empty folder.

    ``emitted``: the part has windows of the package, with their alleles of training, and can be drawn as trainers do;
    else it has planted windows only, and some alleles of training.
    """
    if emitted:
        field.variants = _alleles_in(field, files)
    harvest, failed = plant_all(field, kinds, number)
    data, variants = folder / "data", folder / "variants"
    data.mkdir(parents=True)
    variants.mkdir()
    schema, record = window_schema(files), files.record | {"pieces": []}
    windows = [*(field.windows if emitted else ()), *harvest.windows]
    pq.write_table(pa.Table.from_pylist(windows, schema=schema), data / f"{TRAIN}-00000-of-00001.parquet")
    pq.write_table(changed_variants(field.variants, harvest), variants / f"{TRAIN}.parquet")
    if emitted:
        # Copies: a link would change the identity of the package's files, by which they are known.
        shutil.copytree(files.directory / "holdouts", folder / "holdouts")
        write_record(folder, record)
        write_arrays(folder)
        write_record(folder, record)
    return Part(OwnFiles(folder, files.holdouts, record), harvest, failed)


def _alleles_in(field: Field, files: OwnFiles) -> pa.Table:
    """Return the alleles of training in the windows that leaks are made from."""
    spans = HeldSpans(
        Span(row["contig"], row["start"], row["end"]) for row in field.windows if row["start"] is not None
    )
    columns, parts = field.variants.column_names, list[pa.RecordBatch]()
    for batch in files.variants(TRAIN, columns):
        start = batch["pos"].to_numpy() - 1
        shared = spans.shared_bp(batch["chrom"], start, start + pc.binary_length(batch["ref"]).to_numpy())
        parts.append(batch.filter(pa.array(shared > 0)))
    return table_of(parts, columns)
