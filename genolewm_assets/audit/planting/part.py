"""Write a small part of a package with planted leaks: few windows and alleles, and no copy of the rest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.audit.alleles.normal_alleles import KEY
from genolewm_assets.audit.planting.field import Field, window_schema
from genolewm_assets.audit.planting.plant import changed_variants, write_arrays, write_record
from genolewm_assets.audit.planting.planted import Harvest, plant_all, variant_of
from genolewm_assets.audit.reading.intervals import HeldSpans, Span
from genolewm_assets.audit.reading.package_files import TRAIN, OwnFiles, Row


class Part(NamedTuple):
    """A part of a package as files, what is planted in it, and why a kind could not be planted, by its name."""

    files: OwnFiles
    harvest: Harvest
    failed: dict[str, str]


def plant_part(files: OwnFiles, field: Field, folder: Path, kinds: list[str], number: int) -> Part:
    """Plant leaks in a part of a package, written to a folder: planted windows only, and some alleles of training."""
    harvest, failed = plant_all(field, kinds, number)
    part = _write_tables(files, folder, harvest.windows, changed_variants(field.variants, harvest))
    return Part(part, harvest, failed)


def plant_sampler(files: OwnFiles, field: Field, folder: Path) -> tuple[OwnFiles, int]:
    """Write a part that trainers draw without the filter of held-out alleles; return it, and how many they can make.

    It has windows with held-out alleles, which stand among those of training, and says of none that it is held out.
    """
    spans = HeldSpans(Span(row["contig"], row["start"], row["end"]) for row in field.near)
    loose = {tuple(row[name] for name in KEY): variant_of(field, row) for row in field.loose if _is_in(spans, row)}
    variants = changed_variants(_alleles_in(spans, files, field.variants.schema), Harvest(variants=[*loose.values()]))
    part = _write_tables(files, folder, field.near, variants)
    # Copies: a link would change the identity of the package's files, by which they are known.
    shutil.copytree(files.directory / "holdouts", folder / "holdouts")
    for path in (folder / "holdouts/alleles.parquet", folder / "holdouts/contexts.parquet"):
        pq.write_table(pq.read_schema(path).empty_table(), path)
    write_record(folder, part.record)
    write_arrays(folder)
    write_record(folder, part.record)
    return part, len(loose)


def _write_tables(files: OwnFiles, folder: Path, windows: list[Row], variants: pa.Table) -> OwnFiles:
    for name, table in (
        (f"data/{TRAIN}-00000-of-00001", pa.Table.from_pylist(windows, schema=window_schema(files))),
        (f"variants/{TRAIN}", variants),
    ):
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table, path)
    return OwnFiles(folder, files.holdouts, files.record | {"pieces": []})


def _is_in(spans: HeldSpans, allele: Row) -> bool:
    start, contig = np.array([allele["pos"] - 1]), pa.array([allele["chrom"]])
    return bool(spans.shared_bp(contig, start, start + 1)[0])


def _alleles_in(spans: HeldSpans, files: OwnFiles, schema: pa.Schema) -> pa.Table:
    """Return the alleles of training in some places."""
    parts = list[pa.RecordBatch]()
    for batch in files.variants(TRAIN, schema.names):
        start = batch["pos"].to_numpy() - 1
        shared = spans.shared_bp(batch["chrom"], start, start + pc.binary_length(batch["ref"]).to_numpy())
        parts.append(batch.filter(pa.array(shared > 0)))
    return pa.Table.from_batches(parts, parts[0].schema if parts else schema)
