"""One Parquet or Arrow IPC file written from batches: whole or not at all, also after kill -9."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import InputError, ResourceError
from genolewm_assets.store.files import sync_directory
from genolewm_assets.store.locks import flock

# A page of distinct texts may be as long as there are such texts; beyond the limit each row would hold its own.
_DICTIONARY_BYTES = 1 << 30


class TableFormat(StrEnum):
    """A file format that others read: Parquet, or the Arrow IPC file format, which can be mapped."""

    PARQUET = "parquet"
    ARROW = "arrow"


def write_table_file(
    output: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: TableFormat, *, overwrite: bool = False
) -> None:
    """Write batches as they come to one file, which appears at its name when it is complete and on disk.

    Killed, it leaves what was there before; the next call for the same file removes the hidden remains.

    Parameters
    ----------
    batches
        Of that schema; each makes one row group or record batch, so the bytes depend on how they are cut.
    overwrite
        Replace a file of that name.

    Raises
    ------
    InputError
        If the file is there already, or its folder is not.
    ResourceError
        If the storage refuses; nothing is left then.
    """
    check_output(output, overwrite=overwrite)
    try:
        with _scratch(output) as handle, ExitStack() as stack:
            writer = stack.enter_context(_open_writer(handle, schema, form))
            for batch in batches:
                writer.write_batch(batch)
            # Before the file is synced: closing writes its end.
            stack.close()
            handle.flush()
            os.fsync(handle.fileno())
            check_output(output, overwrite=overwrite)
            os.replace(handle.name, output)  # noqa: PTH105 - the crash tests kill at the functions of `os`
        sync_directory(output.parent)
    except ResourceError:
        raise
    except OSError as err:
        raise ResourceError(
            str(output),
            f"the storage refused to write ({err.strerror or err})",
            remedy="Put that right and run it again; nothing of it was kept",
        ) from err


def check_output(output: Path, *, overwrite: bool) -> None:
    """Raise :class:`InputError` unless a file of that name may be made, so that long work does not end in a refusal."""
    if not output.parent.is_dir():
        raise InputError(str(output.parent), "no such folder", remedy="Create it, or correct the output")
    if output.is_dir() or (os.path.lexists(output) and not overwrite):
        kind = "folder" if output.is_dir() else "file"
        remedy = "Choose another output" + ("" if output.is_dir() else ", or overwrite it (--force)")
        raise InputError(str(output), f"a {kind} of that name exists", remedy=remedy)


def _open_writer(handle: BinaryIO, schema: pa.Schema, form: TableFormat) -> Any:
    if form is TableFormat.ARROW:
        return pa.ipc.new_file(handle, schema)
    # Numbers of arrays hardly ever repeat; for them a dictionary would be built and thrown away.
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)]
    return pq.ParquetWriter(
        handle,
        schema,
        compression="zstd",
        compression_level=3,
        use_dictionary=texts,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        write_page_checksum=True,
    )


@contextmanager
def _scratch(output: Path) -> Iterator[BinaryIO]:
    """Lend a hidden file beside the output, locked while its writer lives; gone afterwards unless it was renamed."""
    _sweep(output)
    while True:
        path = output.with_name(f".{output.name}.{secrets.token_hex(4)}.tmp")
        with path.open("x+b") as handle:
            try:
                flock(handle.fileno(), wait=True)
                # A sweep may have come between making the file and locking it.
                if not os.fstat(handle.fileno()).st_nlink:
                    continue
                yield handle
            finally:
                path.unlink(missing_ok=True)
            return


def _sweep(output: Path) -> None:
    """Remove what killed writers of the same file left; a living one holds a lock on its own."""
    pattern = re.compile(rf"\.{re.escape(output.name)}\.[0-9a-f]{{8}}\.tmp", re.DOTALL)
    for path in sorted(path for path in output.parent.iterdir() if pattern.fullmatch(path.name)):
        with suppress(FileNotFoundError), path.open("rb") as handle:
            if flock(handle.fileno()):
                path.unlink()
