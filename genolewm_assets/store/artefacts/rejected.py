"""Keep rejected builds behind a link, ``<root>/rejected/<location>``, which also stops consumers of the old version."""

from __future__ import annotations

import hashlib
from pathlib import Path

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.store.artefacts.manifest import MANIFEST, Manifest, read_manifest
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files import (
    GENERATIONS,
    canonical_json,
    publish_generation,
    read_document,
    remove_tree,
    split_generation_name,
    sync_directory,
    write_atomic,
)
from genolewm_assets.store.locks import WriterLease

FAILURE = "failure.json"
#: File of a rejected build with the first rows at fault of each failed check.
ROWS_AT_FAULT = "rows_at_fault.json"


def write_failure(work_dir: Path, artefact: str, err: GenoLeWMError) -> str:
    """Write ``failure.json`` into a work directory and return its SHA-256."""
    data = canonical_json({"artefact": artefact, "error": type(err).__name__, "message": str(err)}, artefact)
    write_atomic(work_dir / FAILURE, data)
    return hashlib.sha256(data).hexdigest()


def write_rows_at_fault(work_dir: Path, manifest: Manifest) -> None:
    """Write ``rows_at_fault.json`` into a work directory: up to ten rows by failed check; no digest covers the file."""
    rows = {check.name: [dict(row) for row in check.rows] for check in manifest.checks if not check.passed}
    write_atomic(work_dir / ROWS_AT_FAULT, canonical_json(rows, manifest.where))


def reject(root: Root, location: str, work_dir: Path, sha256: str, lease: WriterLease) -> Path:
    """Move a failed build to ``rejected/``, remove older ones, and return its path.

    ``sha256`` is the digest of its manifest or ``failure.json``. Raises :class:`BusyError` if the lock was lost.
    """
    marker = root.rejected_path(location)
    if marker.exists() and not marker.is_symlink():
        with lease.fenced():
            remove_tree(marker)
    directory = publish_generation(work_dir, marker, sha256[:12], fenced=lease.fenced)
    with lease.fenced():
        _drop_generations(marker, keep=directory)
    return directory


def clear_rejected(root: Root, location: str) -> None:
    """Remove the marker of a location, then its rejected builds; call it inside ``fenced`` of the location's lease."""
    marker = root.rejected_path(location)
    if root.is_rejected(location):
        remove_tree(marker)
        sync_directory(marker.parent)
    _drop_generations(marker, keep=None)


def _drop_generations(marker: Path, *, keep: Path | None) -> None:
    folder = marker.parent / GENERATIONS
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        parts = split_generation_name(path.name)
        if parts is not None and parts[0] == marker.name and path != keep:
            remove_tree(path)


def rejection_reason(root: Root, location: str) -> str:
    """Return why the latest build of a location failed, from its manifest or ``failure.json``; else its path."""
    directory = root.rejected_path(location)
    try:
        if (directory / MANIFEST).is_file():
            return f"failed checks {read_manifest(directory).failures}"
        return str(read_document(directory / FAILURE, remedy="")["message"])
    except (GenoLeWMError, OSError, KeyError, TypeError):
        return f"see {directory}"
