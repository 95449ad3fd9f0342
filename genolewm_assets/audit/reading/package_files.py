"""Files of a package, read by their documented names and columns (docs/data_model.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, MissingResourceError

TRAIN, VALIDATION, TEST = "train", "validation", "test"

_BATCH_ROWS = 256
_REMEDY = "Name the folder of a package"


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """The files of a package, and the holdouts that it is audited against.

    Attributes
    ----------
    directory
        Folder of the package.
    holdouts
        Folder of the tables ``intervals``, ``alleles`` and ``corpus``.
    record
        Content of ``package.json``.
    """

    directory: Path
    holdouts: Path
    record: dict[str, Any]

    @property
    def release(self) -> str:
        """ClinVar release of the package, an ISO date."""
        return str(self.record.get("release", ""))

    @property
    def knowledge(self) -> str:
        """Release whose labels training uses: ``newest`` or ``T0``."""
        return str(self.record.get("knowledge", "newest"))

    def windows(self, split: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split's windows in file order."""
        paths = sorted(self.directory.glob(f"data/{split}-*.parquet"))
        if not paths:
            raise MissingResourceError(f"{self.directory}/data", f"holds no windows of {split}", remedy=_REMEDY)
        for path in paths:
            yield from _rows(path, columns)

    def variants(self, split: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split's alleles."""
        yield from _rows(self.directory / f"variants/{split}.parquet", columns)

    def holdout_rows(self, noun: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a holdout table."""
        yield from _rows(self.holdouts / f"{noun}.parquet", columns)


def open_files(package: Path, holdouts: Path | None = None) -> PackageFiles:
    """Open a package.

    Parameters
    ----------
    package
        Its folder, or a link to it.
    holdouts
        Folder of holdout tables; None: the package's own.

    Raises
    ------
    MissingResourceError
        If the folder or ``package.json`` is missing.
    CorruptResourceError
        If ``package.json`` is no JSON object.
    """
    directory = package.resolve()
    path = directory / "package.json"
    try:
        record = json.loads(path.read_bytes())
    except OSError as err:
        raise MissingResourceError(str(package), f"cannot be read ({err})", remedy=_REMEDY) from err
    except ValueError as err:
        raise CorruptResourceError(str(path), f"is no JSON ({err})", remedy="Copy the package again") from err
    if not isinstance(record, dict):
        raise CorruptResourceError(str(path), "is no JSON object", remedy="Copy the package again")
    return PackageFiles(directory, (directory / "holdouts" if holdouts is None else holdouts).resolve(), record)


def _rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(path) as file:
            missing = [name for name in columns if name not in file.schema_arrow.names]
            if missing:
                raise CorruptResourceError(
                    str(path), f"lacks the column {missing[0]!r}", remedy="Audit a package of format 2"
                )
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns)):
                yield from batch.to_pylist()
    except FileNotFoundError as err:
        raise MissingResourceError(str(path), "is missing", remedy=_REMEDY) from err
    except pa.ArrowInvalid as err:
        raise CorruptResourceError(str(path), f"is no Parquet file ({err})", remedy="Copy the package again") from err


def window_key(row: dict[str, Any]) -> str:
    """Return the text that names a window in findings: by its record, or by its place on the reference."""
    if row.get("record_id") is not None:
        return f"{row['origin']} {row['record_id']}:{row['window_index']}"
    return f"{row['origin']} {row['contig']}:{row['start']}"
