"""Write one Parquet or Arrow IPC file from batches, atomically: kill -9 leaves no partial file."""

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
from genolewm_assets.store.files import GENERATIONS, sync_directory
from genolewm_assets.store.locks import flock

# Limit of a dictionary page in bytes. Above it Parquet would store the text of every row.
_DICTIONARY_BYTES = 1 << 30


class TableFormat(StrEnum):
    """File format of an export: Parquet, or the Arrow IPC file format, which can be memory-mapped."""

    PARQUET = "parquet"
    ARROW = "arrow"


def write_table_file(
    output: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: TableFormat, *, overwrite: bool = False
) -> None:
    """Write batches in order to one file, which appears under its name when it is complete and synced to disk.

    If the process is killed, an existing file is unchanged; the next call for the same file removes the temporary one.
    Each batch becomes one row group or record batch, so the bytes depend on their sizes.

    Raises
    ------
    InputError
        If the file exists and ``overwrite`` is False, or its folder does not exist.
    ResourceError
        If the storage fails; no temporary file remains then.
    """
    check_output(output, overwrite=overwrite)
    try:
        with _scratch(output) as handle, ExitStack() as stack:
            writer = stack.enter_context(_open_writer(handle, schema, form))
            for batch in batches:
                writer.write_batch(batch)
            # Closed before the sync, because closing writes the footer.
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
            remedy="Correct the cause and run this again; no part of the file was kept",
        ) from err


def check_output(output: Path, *, overwrite: bool) -> None:
    """Raise :class:`InputError` if a file cannot be created at this path; call it before long work."""
    if not output.parent.is_dir():
        raise InputError(str(output.parent), "no such folder", remedy="Create it, or correct the output")
    if GENERATIONS in output.parent.resolve().parts:
        raise InputError(str(output), "lies in a published artefact", remedy="Choose another output")
    if output.is_dir() or (os.path.lexists(output) and not overwrite):
        kind = "folder" if output.is_dir() else "file"
        remedy = "Choose another output" + ("" if output.is_dir() else ", or overwrite it (--force)")
        raise InputError(str(output), f"a {kind} of that name exists", remedy=remedy)


def _open_writer(handle: BinaryIO, schema: pa.Schema, form: TableFormat) -> Any:
    if form is TableFormat.ARROW:
        return pa.ipc.new_file(handle, schema)
    # Numbers in arrays rarely repeat; a dictionary for them would be built and discarded.
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
    """Yield a hidden temporary file beside the output, locked by its writer; it is removed unless it was renamed."""
    _sweep(output)
    while True:
        path = output.with_name(f".{output.name}.{secrets.token_hex(4)}.tmp")
        with path.open("x+b") as handle:
            try:
                flock(handle.fileno(), wait=True)
                # Another process may have swept the file between its creation and the lock.
                if not os.fstat(handle.fileno()).st_nlink:
                    continue
                yield handle
            finally:
                path.unlink(missing_ok=True)
            return


def _sweep(output: Path) -> None:
    """Remove the temporary files of killed writers of the same output; a running writer holds a lock on its file."""
    pattern = re.compile(rf"\.{re.escape(output.name)}\.[0-9a-f]{{8}}\.tmp", re.DOTALL)
    for path in sorted(path for path in output.parent.iterdir() if pattern.fullmatch(path.name)):
        with suppress(FileNotFoundError), path.open("rb") as handle:
            if flock(handle.fileno()):
                path.unlink()
