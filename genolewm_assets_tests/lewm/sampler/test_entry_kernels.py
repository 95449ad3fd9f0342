"""Entries are cached on disk by the text of all kernels."""

from __future__ import annotations

from genolewm_assets.lewm.sampler.entry_kernels import entries


def test_entries_close_over_the_digest_alone():
    """Numba hashes what an entry closes over; a kernel there would make the key another one in every process."""
    cells = [cell.cell_contents for entry in entries() for cell in entry.py_func.__closure__]
    assert len(cells) == len(entries())
    assert len(set(cells)) == 1
    assert all(isinstance(cell, int) for cell in cells)
