"""Write a copy of a package with planted leaks, its arrays and digests made anew so that trainers open it."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.audit.planting.field import Field, window_schema
from genolewm_assets.audit.planting.planted import PLANTS, Harvest, Planted, Row, plant_all
from genolewm_assets.audit.reading.package_files import RECORD, TRAIN, open_files
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.errors import InputError, UnknownTermError
from genolewm_assets.genome import Split
from genolewm_assets.memory_mapped import write_from_tables

#: Folders and file in the output of a planting.
PACKAGE, HOLDOUTS, LIST = "package", "holdouts", "planted.json"
#: Folder of a package in which trainers read the windows and alleles of training.
ARRAYS = f"arrays/{TRAIN}"

_GROUP_ROWS = 1_024
_JSON: dict[str, Any] = {"sort_keys": True, "indent": 2, "ensure_ascii": False}


def plant_leaks(
    package: Path,
    out: Path,
    fasta: Path,
    kinds: Sequence[str] = (),
    *,
    number: int = 1,
    seed: int = 0,
    holdouts: Path | None = None,
) -> tuple[tuple[Planted, ...], dict[str, str]]:
    """Write ``out/package``, a copy of a package with planted leaks, and ``out/holdouts``, what it is to be audited by.

    Parameters
    ----------
    kinds, number
        Names in :data:`PLANTS`, none for all, and how many leaks of each.
    seed
        Seed of every random choice.
    holdouts
        Folder of the holdout tables that count; None: the package's own.

    Returns
    -------
    tuple, dict
        What was planted, as in ``out/planted.json``; why a kind could not be planted, by its name.

    Raises
    ------
    UnknownTermError, InputError
        If a kind is unknown; if ``out`` exists, or lies in a folder that is copied.
    """
    unknown = [name for name in kinds if name not in PLANTS]
    if unknown:
        raise UnknownTermError(
            f"--kind {unknown[0]}", "is unknown", expected=f"one of {', '.join(PLANTS)}", got=repr(unknown[0])
        )
    if out.exists():
        raise InputError(str(out), "exists already", remedy="Name a folder that does not exist")
    files = open_files(package, holdouts)
    if any(out.resolve().is_relative_to(copied) for copied in (files.directory, files.holdouts)):
        raise InputError(str(out), "lies in a folder that is copied", remedy="Name a folder outside of it")
    shards = sorted(path.name for path in files.directory.glob(f"data/{TRAIN}-*.parquet"))
    with Reference(fasta) as reference:
        own = files.directory / f"variants/{TRAIN}.parquet"
        field = Field(files, reference, np.random.default_rng(seed))
        field.variants = pq.read_table(own)
        harvest, failed = plant_all(field, list(kinds or PLANTS), number)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as work:
        unfinished = Path(work) / out.name
        copy, truth = unfinished / PACKAGE, unfinished / HOLDOUTS
        shutil.copytree(files.directory, copy)
        shutil.copytree(files.holdouts, truth)
        shard = copy / "data" / (shards[-1] if shards else f"{TRAIN}-00000-of-00001.parquet")
        if not shards:
            _write(shard, window_schema(files).empty_table())
            listed = {"path": f"data/{shard.name}", "size_bytes": 0, "sha256": "0" * 64, "rows": 0}
            entries = sorted([*files.record["files"], listed], key=lambda entry: entry["path"])
            (copy / RECORD).write_text(json.dumps(files.record | {"files": entries}, **_JSON) + "\n")
        _add_rows(shard, harvest.windows)
        _write(copy / f"variants/{TRAIN}.parquet", changed_variants(field.variants, harvest))
        _add_rows(truth / "alleles.parquet", harvest.held_alleles)
        # Trainers read what is planted in the tables.
        shutil.rmtree(copy / ARRAYS, ignore_errors=True)
        write_arrays(copy)
        _restate(copy, harvest)
        (unfinished / LIST).write_text(json.dumps([asdict(one) for one in harvest.planted], **_JSON) + "\n")
        unfinished.rename(out)
    return tuple(harvest.planted), failed


def write_arrays(package: Path) -> None:
    """Write the arrays of training from the tables of a package."""
    write_from_tables(package / ARRAYS, package, Split.TRAIN)


def write_record(package: Path, record: Row) -> None:
    """Write ``package.json`` of a part of a package, whose record is given: files have sizes, and no digests."""
    paths = sorted(path for path in package.rglob("*") if path.is_file() and path != package / RECORD)
    nothing = {"rows": None, "sha256": "0" * 64}
    files = [
        {"path": path.relative_to(package).as_posix(), "size_bytes": path.stat().st_size} | nothing for path in paths
    ]
    (package / RECORD).write_text(json.dumps(record | {"files": files}, **_JSON) + "\n")


def _add_rows(path: Path, rows: list[Row]) -> None:
    if rows:
        table = pq.read_table(path)
        _write(path, pa.concat_tables([table, pa.Table.from_pylist(rows, schema=table.schema)]))


def changed_variants(table: pa.Table, harvest: Harvest) -> pa.Table:
    """Return alleles of training with planted labels and alleles."""
    labels = table["label"].to_pylist()
    for at, label in harvest.labels.items():
        labels[at] = label
    at = table.schema.get_field_index("label")
    table = table.set_column(at, table.schema.field(at), pa.array(labels, table.schema.field(at).type))
    added = pa.Table.from_pylist(harvest.variants, schema=table.schema)
    # Readers may count on the order of a shard: by contig and position.
    order = [(name, "ascending") for name in ("chrom", "pos", "ref", "alt")]
    return pa.concat_tables([table, added]).sort_by(order) if harvest.variants else table


def _write(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, row_group_size=_GROUP_ROWS)


def _restate(package: Path, harvest: Harvest) -> None:
    """Write digests and counts of the planted tables into ``package.json`` and ``manifest.json``."""
    record = json.loads((package / RECORD).read_bytes())
    added = [f"windows.{row['origin']}.train" for row in harvest.windows]
    for name in (*added, *(f"alleles.{row['source']}.train" for row in harvest.variants)):
        record["counts"][name] = record["counts"].get(name, 0) + 1
    record["files"] = _measured(package, record["files"])
    for split, stated in record["splits"].items():
        names = (f"data/{split}-", f"variants/{split}.", f"controls/{split}.")
        pieces, folder = (record.get("pieces", []), ("pieces/",)) if split == TRAIN else ([], ())
        ours = [entry for entry in record["files"] if entry["path"].startswith(names + folder)]
        lines = sorted(f"{entry['sha256']}  {entry['path']}\n" for entry in ours)
        stated["sha256"] = hashlib.sha256("".join(lines).encode()).hexdigest()
        for noun, start in (("windows", names[0]), ("variants", names[1]), ("controls", names[2])):
            stated[noun] = sum(entry["rows"] for entry in ours if entry["path"].startswith(start))
        stated["windows"] += sum(piece["training"] for piece in pieces)
    (package / RECORD).write_text(json.dumps(record, **_JSON) + "\n")
    manifest = package / "manifest.json"
    if manifest.is_file():
        stated = json.loads(manifest.read_bytes()) | {"counts": record["counts"]}
        stated["files"] = _measured(package, stated["files"])
        manifest.write_text(json.dumps(stated, **_JSON) + "\n")


def _measured(package: Path, entries: list[Row]) -> list[Row]:
    """Return entries of files with their digests and sizes, those of the arrays and windows of training made anew."""
    known = {entry["path"]: entry for entry in entries if not entry["path"].startswith(f"{ARRAYS}/")}
    made = [*(package / ARRAYS).rglob("*"), *package.glob(f"data/{TRAIN}-*")]
    paths = [path.relative_to(package).as_posix() for path in made if path.is_file()]
    known |= {path: {"path": path, "rows": None} for path in paths if path not in known}
    for name, entry in known.items():
        path = package / name
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        entry |= {"sha256": digest, "size_bytes": path.stat().st_size}
        if path.suffix == ".parquet":
            entry["rows"] = int(pq.read_metadata(path).num_rows)
    return [known[name] for name in sorted(known)]
