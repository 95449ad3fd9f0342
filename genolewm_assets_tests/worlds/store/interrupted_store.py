"""An array store that a test interrupts, and what it must hold afterwards."""

from __future__ import annotations

from pathlib import Path

from genolewm_assets.store import is_complete
from genolewm_assets_tests.worlds.store.array_stores import FINGERPRINT, open_writer, values, write_rows

ROWS = 19  # commits at 8, 16 and 19


def write_store(directory: Path, *, n_rows: int = ROWS, step: int = 3) -> None:
    """Continue a store and finish it, as a build does."""
    with open_writer(directory) as writer:
        for first in range(writer.n_rows, n_rows, step):
            write_rows(writer, first, min(first + step, n_rows))
        writer.finalize(FINGERPRINT)


def check_prefix(directory: Path) -> int:
    """Open what a kill left: either finished, or a prefix of the rows."""
    with open_writer(directory) as writer:
        rows = writer.n_rows
        if not is_complete(directory):
            wanted = values(0, rows)
            for spec in writer.layout.arrays:
                assert (directory / spec.file_name).read_bytes() == wanted[spec.name].tobytes()
    return rows
