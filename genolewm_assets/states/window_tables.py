"""The window table that the rows of a cache belong to: row i to row i of the table whose SHA-256 its recipe states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.progress import ByteCount
from genolewm_assets.store.artefacts import ArtefactId, Manifest, generations, read_manifest
from genolewm_assets.store.files import JsonValue, measure_file, reading
from genolewm_assets.store.tables import read_batches, reading_parquet

#: Assets that publish window tables, and the top folder of a root in which each publishes.
WINDOW_ASSETS: Mapping[str, str] = {"windows/index": "windows", "corpus/windows": "corpus"}

_TABLE, _ROWS_READ = "windows.parquet", 65_536


def cache_config(
    encoder: Mapping[str, JsonValue], *, windows_sha256: str, row_shape: tuple[int, int]
) -> dict[str, JsonValue]:
    """Return the configuration of a cache of states, from whose key the cache has its name.

    ``encoder`` is its identity as a recipe, ``windows_sha256`` that of the window table's Parquet file, and
    ``row_shape`` the blocks of the longest window and the length of one state.
    """
    return {"encoder": dict(encoder), "windows_sha256": windows_sha256, "row_shape": list(row_shape)}


@dataclass(frozen=True, slots=True)
class WindowTable:
    """A window table in a published generation."""

    artefact: ArtefactId
    path: Path
    sha256: str
    size_bytes: int

    def check_bytes(self, count: ByteCount) -> None:
        """Raise :class:`CorruptResourceError` unless the file has the SHA-256 that was published."""
        try:
            found = measure_file(self.path, count)[1]
        except OSError as err:
            raise self._damaged(f"cannot be read ({err.strerror})") from err
        if found != self.sha256:
            raise self._damaged("content differs", f"sha256 {self.sha256}", f"sha256 {found}")

    def check_rows(self, n_rows: int) -> None:
        """Raise :class:`CorruptResourceError` unless the table has ``n_rows`` rows and the column ``window_hash``."""
        with reading(self.path), reading_parquet(self.path), pq.ParquetFile(self.path) as file:
            found, schema = file.metadata.num_rows, file.schema_arrow
        if found != n_rows:
            raise self._damaged("does not have one row per row of the cache", f"{n_rows} rows", f"{found} rows")
        if "window_hash" not in schema.names or schema.field("window_hash").type != pa.binary(32):
            raise self._damaged("has no column window_hash of 32 bytes")

    def _damaged(self, problem: str, expected: str | None = None, got: str | None = None) -> CorruptResourceError:
        remedy = f"Rebuild {self.artefact}"
        return CorruptResourceError(str(self.path), problem, expected=expected, got=got, remedy=remedy)

    def read_batches(self, columns: list[str], batch_rows: int = _ROWS_READ) -> Iterator[pa.RecordBatch]:
        """Yield batches of the given columns, in the order of the rows."""
        with reading(self.path):
            yield from read_batches(self.path, batch_rows, columns)

    def read_hashes(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield ``window_hash`` of all rows in batches: uint8, shape (n, 32)."""
        for batch in self.read_batches(["window_hash"]):
            hashes = batch.column(0)
            size = hashes.type.byte_width
            first, values = hashes.offset * size, np.frombuffer(hashes.buffers()[1], np.uint8)
            yield values[first : first + len(hashes) * size].reshape(-1, size)


def window_table_of(cache: Manifest, root: Path) -> WindowTable:
    """Return the window table that a cache's rows belong to, from any generation that still exists.

    The manifest that the cache names as its input is read first, so that the cost does not grow with other partitions.
    """
    sha256 = cache.recipe.get("windows_sha256")
    if not isinstance(sha256, str):
        raise CorruptResourceError(cache.where, "names no window table", remedy="Rebuild it")
    named = {ref.manifest_sha256[:12] for ref in cache.inputs}
    with reading(root):
        tables = [(asset, path) for asset, folder in WINDOW_ASSETS.items() for path in generations(root / folder)]
        for asset, generation in sorted(tables, key=lambda table: table[1].name[-12:] not in named):
            # A table with a damaged manifest is left out; `verify` reports the manifest.
            with suppress(ResourceError):
                manifest = read_manifest(generation)
                for entry in manifest.files if manifest.asset == asset else ():
                    if (entry.path, entry.sha256) == (_TABLE, sha256):
                        artefact = ArtefactId(asset, manifest.partition)
                        return WindowTable(artefact, generation / _TABLE, sha256, entry.size_bytes)
    raise MissingResourceError(
        cache.where,
        "its window table is not in the root",
        expected=f"a {_TABLE} with sha256 {sha256[:12]}...",
        got="none",
        remedy="Rebuild it, or restore the table",
    )
