"""Open a published table by asset and partition, as a pyarrow table or a pandas frame, for people and scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts import MANIFEST, Manifest, Root, links, read_manifest
from genolewm_assets.store.files import is_published_link, measure_file, resolve_generation
from genolewm_assets.store.tables.parquet import reading_parquet

if TYPE_CHECKING:
    import pandas as pd

_PARQUET = ".parquet"


def open_table(
    root: Path | str,
    asset: str,
    partition: str | None = None,
    *,
    file: str | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Read one Parquet table of a root into memory, after comparing its bytes with the manifest.

    Columns are those of the data model (``docs/data_model.md``).

    Parameters
    ----------
    asset, partition
        Key of an asset and its partition, such as ``gnomad/shard`` and ``chr17``; or the path of one artefact below the
        root, such as ``packages/2025-01-05/0123456789ab``, which then has no partition.
    file
        Name of the Parquet file inside the artefact; None if there is only one.
    columns
        Columns to read; None: all.

    Raises
    ------
    MissingResourceError
        If the root, the artefact or the file does not exist, or several artefacts or files fit.
    CorruptResourceError
        If the file differs from the manifest.
    """
    directory, manifest = _find(Root(Path(root)), asset, partition)
    entries = {entry.path: entry for entry in manifest.files if entry.path.endswith(_PARQUET)}
    if file is None and len(entries) == 1:
        (file,) = entries
    if file not in entries:
        raise MissingResourceError(
            manifest.where,
            "no such table" if file else "has no table" if not entries else "has several tables",
            expected=f"file= one of {sorted(entries)}" if entries else None,
            got=None if file is None else repr(file),
        )
    path, entry = directory / file, entries[file]
    size_bytes, sha256, *_ = measure_file(path, ByteCount(NO_PROGRESS, 0))
    if (size_bytes, sha256) != (entry.size_bytes, entry.sha256):
        raise CorruptResourceError(
            f"{manifest.where} ({path})",
            "content differs from the manifest",
            expected=f"{entry.size_bytes} bytes, sha256 {entry.sha256}",
            got=f"{size_bytes} bytes, sha256 {sha256}",
            remedy=f"Rebuild {manifest.where}",
        )
    with reading_parquet(path), pq.ParquetFile(path) as table:
        return table.read(columns=None if columns is None else list(columns))


def open_frame(
    root: Path | str,
    asset: str,
    partition: str | None = None,
    *,
    file: str | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Read one Parquet table of a root as a pandas frame; parameters and errors are those of :func:`open_table`.

    Columns keep their Arrow types, so that an integer column with missing values stays one of integers.
    """
    # pandas takes half a second to import, and builds do without it.
    import pandas as pd

    table = open_table(root, asset, partition, file=file, columns=columns)
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def _find(root: Root, asset: str, partition: str | None) -> tuple[Path, Manifest]:
    """Return folder and manifest of the only artefact of an asset partition, or of the artefact at a path."""
    root.check_is_root()
    if partition is None and (root.link_of(asset) / MANIFEST).is_file():
        directory = resolve_generation(root.link_of(asset))
        return directory, read_manifest(directory)
    published = [found for found in _published(root) if found[2].asset == asset]
    matching = [found for found in published if found[2].partition == partition]
    if len(matching) == 1:
        return matching[0][1:]
    partitions = sorted({str(manifest.partition) for _, _, manifest in published})
    raise MissingResourceError(
        f"{root.path}: {asset if partition is None else f'{asset}[{partition}]'}",
        "is published at several paths" if matching else "is not published",
        expected=f"the path of one of {[location for location, _, _ in matching]}"
        if matching
        else f"partition one of {partitions}"
        if published
        else None,
        remedy="" if published else "Check the asset's key in docs/data_model.md, or build it",
    )


def _published(root: Root) -> Iterator[tuple[str, Path, Manifest]]:
    """Yield root-relative path, folder and manifest of every published artefact that can be read."""
    for link in links(root.path):
        if is_published_link(link):
            try:
                directory = resolve_generation(link)
                yield str(link.relative_to(root.path)), directory, read_manifest(directory)
            except (MissingResourceError, CorruptResourceError):
                continue
