"""Open a published table by asset and partition, as a pyarrow table or a pandas frame, for people and scripts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.store.artefacts import MANIFEST, ArtefactId, Published, Root, links, read_manifest
from genolewm_assets.store.files import is_published_link, link_of_generation, measure_file, resolve_generation
from genolewm_assets.store.tables.parquet import reading_parquet

if TYPE_CHECKING:
    import pandas as pd

_PARQUET = ".parquet"
#: Names that an error shows.
_SHOWN = 8


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
    published = _find(Root(Path(root)), asset, partition)
    directory, manifest = published.directory, published.manifest
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
    size_bytes, sha256, *_ = measure_file(path)
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


def find_published(root: Root, asset: str, partition: str | None = None) -> list[Published]:
    """Return what is published of an asset, of one partition or of all, by the time of its build, the newest last.

    Raises
    ------
    MissingResourceError
        If the folder is no root, or nothing fits; the message has the names that resemble those given.
    """
    root.check_is_root()
    everything = list(_published(root))
    of_asset = [each for each in everything if each.artefact.asset == asset]
    found = [each for each in of_asset if partition is None or each.artefact.partition == partition]
    if found:
        return sorted(found, key=lambda each: (each.directory.stat().st_mtime_ns, each.directory.name))
    if of_asset:
        kind, given, names = "partition", str(partition), {str(each.artefact.partition) for each in of_asset}
    else:
        kind, given, names = "asset", asset, {each.artefact.asset for each in everything}
    known = sorted(names)
    shown = difflib.get_close_matches(given, known, n=_SHOWN) or known[:_SHOWN]
    more = f", and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
    raise MissingResourceError(
        f"{root.path}: {ArtefactId(asset, partition)}",
        "is not published",
        expected=f"{kind} one of {shown}{more}" if known else None,
        remedy="" if of_asset else "Check the asset's key in docs/data_model.md, or build it",
    )


def _find(root: Root, asset: str, partition: str | None) -> Published:
    """Return the only artefact of an asset partition, or the artefact at a path."""
    root.check_is_root()
    if partition is None and (root.link_of(asset) / MANIFEST).is_file():
        return _opened(resolve_generation(root.link_of(asset)))
    found = find_published(root, asset, partition)
    matching = [each for each in found if each.artefact.partition == partition]
    if len(matching) == 1:
        return matching[0]
    places = sorted(str(link_of_generation(each.directory).relative_to(root.path)) for each in matching)
    raise MissingResourceError(
        f"{root.path}: {ArtefactId(asset, partition)}",
        "is published at several paths" if matching else "has partitions",
        expected=f"the path of one of {places}"
        if matching
        else f"partition one of {sorted(str(each.artefact.partition) for each in found)}",
    )


def _published(root: Root) -> Iterator[Published]:
    """Yield every published artefact that can be read."""
    for link in links(root.path):
        if is_published_link(link):
            with suppress(MissingResourceError, CorruptResourceError):
                yield _opened(resolve_generation(link))


def _opened(directory: Path) -> Published:
    manifest = read_manifest(directory)
    return Published(ArtefactId(manifest.asset, manifest.partition), directory, manifest, reused=True)
