"""Report on an array store: whether it is intact, sizes, index schema, shared values, memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from genolewm_assets.errors import MissingResourceError, ResourceError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays.layout import COMMIT_LOG, is_complete, sidecar_file
from genolewm_assets.store.arrays.log import committed_rows
from genolewm_assets.store.arrays.reader import ArrayStoreReader
from genolewm_assets.store.files import GENERATIONS, JsonValue, normal_json


@dataclass(frozen=True, slots=True)
class ArrayStoreReport:
    """Report on one store; of an unfinished one, ``rows`` are the committed ones and all but the files is empty.

    ``sidecars`` has the number of distinct values, and mean and largest length of a value in bytes, of each side-car.
    """

    directory: str
    complete: bool
    rows: int
    files: Mapping[str, int]
    arrays: Mapping[str, str]
    index_schema: Mapping[str, str]
    index_string_bytes: Mapping[str, int]
    sidecars: Mapping[str, Mapping[str, int]]
    realise_bytes: int

    def as_dict(self) -> dict[str, JsonValue]:
        """Return the report as JSON values."""
        return normal_json(asdict(self), self.directory)

    def as_text(self) -> str:
        """Return the report as readable text."""
        lines = [f"=== {self.directory} ===", f"  complete marker:  {self.complete}"]
        lines.append(f"  {'rows (n):' if self.complete else 'committed rows:':<17} {self.rows:,}")
        lines += [f"  {name}: {shape}" for name, shape in self.arrays.items()]
        lines += ["  on-disk:", *(f"    {name:<20} {_megabytes(size)}" for name, size in self.files.items())]
        if self.index_schema:
            lines += ["  index schema:", *(f"    {name:<20} {kind}" for name, kind in self.index_schema.items())]
            costs = {**self.index_string_bytes, "STRING TOTAL": sum(self.index_string_bytes.values())}
            lines.append("  index in-RAM (string columns):")
            lines += [f"    {name:<20} {_megabytes(size)}" for name, size in costs.items()]
        for name, car in self.sidecars.items():
            lengths = f"avg={car['mean_bytes']} B, max={car['max_bytes']} B"
            lines.append(f"  {sidecar_file(name)}:   {car['unique']:,} unique of {self.rows:,} rows ({lengths})")
        if self.complete:
            lines.append(f"  memmap realize: {self.realise_bytes / 2**30:.2f} GB if load_in_memory=True")
        return "\n".join(lines)


def inspect_cache(directory: Path) -> ArrayStoreReport:
    """Report on one store, or on the one that a published link leads to, without reading its arrays.

    Raises
    ------
    MissingResourceError
        If the directory has neither a finished nor an unfinished store.
    CorruptResourceError, VersionError
        If a finished store cannot be opened, or another version of this code began an unfinished one.
    """
    files = {path.name: path.stat().st_size for path in sorted(directory.glob("*")) if path.is_file()}
    if not is_complete(directory):
        if COMMIT_LOG not in files:
            raise MissingResourceError(str(directory), "holds no array store", remedy="Check the path")
        return ArrayStoreReport(str(directory), False, committed_rows(directory), files, {}, {}, {}, {}, 0)
    reader = ArrayStoreReader(directory)
    texts = [field.name for field in reader.index.schema if field.type == pa.string()]
    return ArrayStoreReport(
        directory=str(directory),
        complete=True,
        rows=reader.n_rows,
        files=files,
        arrays={name: f"{(reader.n_rows, *spec.shape)} {spec.dtype}" for name, spec in reader.arrays.items()},
        index_schema={field.name: str(field.type) for field in reader.index.schema},
        index_string_bytes={name: reader.index.column(name).nbytes for name in texts},
        sidecars={name: _sidecar_report(reader.sidecar_texts(name)) for name in reader.layout.sidecars},
        realise_bytes=reader.size_bytes,
    )


def _sidecar_report(texts: list[str]) -> dict[str, int]:
    lengths = [len(text.encode()) for text in texts]
    mean_bytes = round(sum(lengths) / max(1, len(lengths)))
    return {"unique": len(lengths), "mean_bytes": mean_bytes, "max_bytes": max(lengths, default=0)}


def find_caches(path: Path) -> Iterator[Path]:
    """Yield the path of every store at or below a directory, sorted within each folder.

    A published store is yielded once, by its link; unfinished stores are included.

    Raises
    ------
    MissingResourceError
        If the directory does not exist or has no store.
    """
    if not path.is_dir():
        raise MissingResourceError(str(path), "the directory does not exist", remedy="Check the path")
    found = _walk_caches(path)
    first = next(found, None)
    if first is None:
        raise MissingResourceError(str(path), "holds no array store", remedy="Check the path")
    yield first
    yield from found


def _walk_caches(path: Path) -> Iterator[Path]:
    for folder, names, _ in os.walk(path):
        here = Path(folder)
        if _is_store(here):
            names.clear()
            yield here
            continue
        names.sort()
        # os.walk lists links as folders but does not follow them; generations are found through their links only.
        yield from (here / name for name in names if (here / name).is_symlink() and _is_store(here / name))
        names[:] = [name for name in names if name != GENERATIONS]


def _is_store(path: Path) -> bool:
    return is_complete(path) or (path / COMMIT_LOG).is_file()


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:10.2f} MB"


def verify_array_store(directory: Path, *, progress: Progress = NO_PROGRESS) -> list[str]:
    """Return one line per difference, as :meth:`ArrayStoreReader.verify`, also if damage prevents opening the store."""
    try:
        return ArrayStoreReader(directory).verify(progress)
    except ResourceError as err:
        return [str(err)]
