"""Commit log of an array store that is being written: records the valid rows and recovers them after a kill.

Data files are synced before the record that commits their rows. A record holds the row count, the CRC-32C of every
batch that contains its rows, and the index values of its rows; each line has its own checksum. Recovery returns to the
last record that agrees with all files on disk, or to the header if none does.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError, VersionError
from genolewm_assets.store.arrays.keys import CACHE_VERSION
from genolewm_assets.store.arrays.layout import COMMIT_LOG, SIDECAR_LOG, ArrayLayout, ArraySpec, crc32c
from genolewm_assets.store.files import open_plain, parse_json, write_atomic

_PREFIX, _MIDDLE, _SUFFIX = b'{"check":"', b'","record":', b"}\n"
# Incremented when the format of records changes. An unfinished store with another version is an error and is kept: its
# rows may have taken days, and the code that began it can finish it.
_LOG_VERSION = 2
#: Index values of the rows of one commit, by column, in the order of the index schema without its first column.
Columns: TypeAlias = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Committed:
    """State after a commit: rows, CRC-32C of the batches from ``first_batch`` on by array, lengths of both logs."""

    rows: int
    first_batch: int
    crc: dict[str, list[int]]
    log_bytes: int
    sidecar_bytes: int
    sidecar_crc: int


def commit_line(
    rows: int, crc: Mapping[str, Sequence[int]], sidecar_log: tuple[int, int], columns: Sequence[Sequence[Any]]
) -> bytes:
    """Return a line of the log: rows so far, CRC-32C of the batches with new rows, side-car log, index values."""
    return _line({"rows": rows, "crc": crc, "sidecars": sidecar_log, "columns": columns})


def extend_checksums(crcs: list[int], rows: npt.NDArray[Any], first_row: int, batch_rows: int) -> None:
    """Add ``rows``, the first of which is ``first_row`` (0-based), to the CRC-32C of each batch, in place."""
    at = 0
    while at < len(rows):
        in_batch = (first_row + at) % batch_rows
        if in_batch == 0:
            crcs.append(0)
        taken = rows[at : at + batch_rows - in_batch]
        crcs[-1] = crc32c(taken, crcs[-1])
        at += len(taken)


def create_log(directory: Path, layout: ArrayLayout) -> None:
    """Write a new log that contains only its header."""
    write_atomic(directory / COMMIT_LOG, _line({"log_version": _LOG_VERSION, **layout.as_json()}))


def read_header(directory: Path) -> dict[str, Any] | None:
    """Return the header of a log; None if there is no log or its header is damaged."""
    return next((document for document, _ in _lines(directory / COMMIT_LOG)), None)


def read_commits(directory: Path) -> Iterator[Columns]:
    """Yield the index values of every commit of a recovered log; the first column holds the keys."""
    for document, _ in islice(_lines(directory / COMMIT_LOG), 1, None):
        yield document["columns"]


def recover(directory: Path, layout: ArrayLayout) -> Committed | None:
    """Find the last commit that agrees with all files; None if there is no log or its header is damaged."""
    header = read_header(directory)
    if header is None:
        return None
    _check_versions(directory, header)
    check_same_layout(directory, header, layout)
    try:
        marks = _read_marks(directory / COMMIT_LOG, layout)
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        # The line's checksum is valid, so a crash cannot be the cause.
        raise CorruptResourceError(
            str(directory / COMMIT_LOG), f"has a line of invalid content ({err!r})", remedy="Remove the directory"
        ) from err
    marks = _agreeing_with_sidecars(marks, directory / SIDECAR_LOG)
    for spec in layout.arrays:
        marks = _agreeing_with_array(marks, directory / spec.file_name, spec, layout.batch_rows)
    crc = {spec.name: [crc for crc, _ in _claims(marks, spec.name, layout.batch_rows)] for spec in layout.arrays}
    return replace(marks[-1], first_batch=0, crc=crc)


def _check_versions(directory: Path, header: Mapping[str, object]) -> None:
    """Raise :class:`VersionError` unless log and layout have the versions of this code."""
    for name, own in (("log_version", _LOG_VERSION), ("layout_version", CACHE_VERSION)):
        if header.get(name) != own:
            what = name.replace("_", " ")
            raise VersionError(
                str(directory),
                "holds an array store begun by another version of this code; nothing was changed",
                expected=f"{what} {own}",
                got=f"{what} {reprlib.repr(header.get(name))}",
                remedy="Finish it with that version, or remove the directory and build again",
            )


def committed_rows(directory: Path) -> int:
    """Return the number of rows committed according to the log of an unfinished store; 0 without a log."""
    rows, lines = 0, _lines(directory / COMMIT_LOG)
    for header, _ in islice(lines, 1):
        _check_versions(directory, header)
    with suppress(LookupError, TypeError):
        for document, _ in lines:
            if document["rows"] != rows + len(document["columns"][0]) or not document["crc"]:
                break
            rows = document["rows"]
    return rows


def check_same_layout(directory: Path, found: object, layout: ArrayLayout) -> None:
    """Raise :class:`ConfigurationError`, naming the first difference, if a store was begun with another layout."""
    wanted = layout.as_json()
    stated: Mapping[str, object] = found if isinstance(found, dict) else {}
    for name, value in wanted.items():
        if stated.get(name) != value:
            raise ConfigurationError(
                str(directory),
                f"holds an array store begun with another {name.replace('_', ' ')}",
                expected=repr(value),
                got=repr(stated.get(name)),
                remedy="Remove the directory, or choose another directory",
            )


def _line(document: Mapping[str, object]) -> bytes:
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return _PREFIX + f"{crc32c(text):08x}".encode() + _MIDDLE + text + _SUFFIX


def _lines(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each line's document and the offset of the line's end, up to the first incomplete or damaged line."""
    offset, head = 0, len(_PREFIX) + 8 + len(_MIDDLE)
    with suppress(MissingResourceError), open_plain(path) as handle:
        for line in handle:
            text = line[head : -len(_SUFFIX)]
            # The whole line is compared, so that a change in any byte, also outside the document, is detected.
            if line != _PREFIX + f"{crc32c(text):08x}".encode() + _MIDDLE + text + _SUFFIX:
                return
            offset += len(line)
            document = parse_json(text, str(path))
            if not isinstance(document, dict):
                raise CorruptResourceError(str(path), "is not a commit log", remedy="Remove the directory")
            yield document, offset


def _read_marks(path: Path, layout: ArrayLayout) -> list[Committed]:
    """Read the records of a log up to the first one that does not continue its predecessor."""
    lines = _lines(path)
    _, offset = next(lines, (None, 0))
    marks = [Committed(0, 0, {}, offset, 0, 0)]
    for document, end in lines:
        rows, before, (sidecar_bytes, sidecar_crc) = document["rows"], marks[-1].rows, document["sidecars"]
        first_batch = before // layout.batch_rows
        n_reached = layout.n_batches(rows) - first_batch
        n_added = len(document["columns"][0])
        if before + n_added != rows or any(len(crc) != n_reached for crc in document["crc"].values()):
            break
        marks.append(Committed(rows, first_batch, document["crc"], end, sidecar_bytes, sidecar_crc))
    return marks


def _claims(marks: Iterable[Committed], name: str, batch_rows: int) -> list[tuple[int, int]]:
    """Return, for each batch of an array, the CRC-32C in the log and the row before which it ends."""
    claims: list[tuple[int, int]] = []
    for mark in marks:
        del claims[mark.first_batch :]
        for batch, crc in enumerate(mark.crc.get(name, ()), start=mark.first_batch):
            claims.append((crc, min((batch + 1) * batch_rows, mark.rows)))
    return claims


def _agreeing_with_sidecars(marks: list[Committed], path: Path) -> list[Committed]:
    """Return the marks up to the first that differs from the side-car log in length or checksum."""
    size = path.stat().st_size if path.is_file() else 0
    if not size:
        return list(takewhile(lambda mark: mark.sidecar_bytes == 0, marks))
    length, crc = 0, 0
    with path.open("rb") as handle:
        for number, mark in enumerate(marks):
            if not length <= mark.sidecar_bytes <= size:
                return marks[:number]
            crc = crc32c(handle.read(mark.sidecar_bytes - length), crc)
            length = mark.sidecar_bytes
            if crc != mark.sidecar_crc:
                return marks[:number]
    return marks


def _agreeing_with_array(marks: list[Committed], path: Path, spec: ArraySpec, batch_rows: int) -> list[Committed]:
    """Return the marks up to the first batch that is incomplete or has another checksum."""
    size = path.stat().st_size if path.is_file() else 0
    kept = [mark for mark in marks if mark.rows * spec.row_bytes <= size]
    if not size:
        return kept
    with path.open("rb") as handle:
        # All batches except the last are full, so consecutive reads start at the right offsets.
        for batch, (crc, end) in enumerate(_claims(kept, spec.name, batch_rows)):
            if crc32c(handle.read((end - batch * batch_rows) * spec.row_bytes)) != crc:
                return [mark for mark in kept if mark.rows <= batch * batch_rows]
    return kept
