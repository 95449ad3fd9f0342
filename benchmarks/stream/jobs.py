"""Tasks on the stream of training tuples: ``python -m benchmarks.stream.jobs PART FOLDER``; the parts are ``PARTS``.

``FOLDER`` is one of :func:`benchmarks.stream.tables.make_folder`. A task reads one whole epoch of batches, and the next
run of the task the next epoch. Packages count as verified once per folder, in its subfolder ``cache``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import metadata
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.stopwatch import serve_tasks

#: Release of all packages of a folder, and names of two of them.
RELEASE, PLAIN, HELD = "2025-01-05", "plain", "held"
#: Store of the first epoch of the plain package.
FROZEN = "frozen"
#: Bytes that the copies read in turn: more than the caches of a processor hold, as an epoch of batches is.
_COPIED_BYTES = 1 << 28
Task = Callable[[], int]


def open_dataset(folder: Path, name: str = PLAIN, **options: Any) -> Any:
    """Open the training split of a package of a folder; its states are in the array stores of the folder's root."""
    from genolewm_assets.training import GenoLeWMDataset

    return GenoLeWMDataset(folder / "root" / "packages" / RELEASE / name, allow_unaudited=True, **options)


def keep_verified(folder: Path) -> None:
    """Keep the records of verified packages in a folder; call this before a package is opened."""
    os.environ["GENOLEWM_CACHE"] = str(folder / "cache")


def _one_process(folder: Path) -> dict[str, Task]:
    from genolewm_assets.training import as_tensors

    states, tables = open_dataset(folder), open_dataset(folder, with_states=False)
    held, frozen = open_dataset(folder, HELD, with_states=False), open_dataset(folder, frozen=folder / FROZEN)
    of_states, of_tables = next(iter(states)), next(iter(tables))
    written = of_tables.edits.edited_windows(of_tables.unpacked).nbytes
    return {
        "states": _epoch(states, as_tensors),
        "tables": _epoch(tables, as_tensors),
        "held": _epoch(held, as_tensors),
        "frozen": _epoch(frozen, as_tensors, n_epochs=1),
        "text": _epoch(tables, lambda batch: batch.edits.edited_windows(batch.unpacked)),
        "copy_states": _copies(_held_bytes(of_states), len(of_states), states.n_batches),
        "copy_tables": _copies(_held_bytes(of_tables), len(of_tables), tables.n_batches),
        "copy_text": _copies(_held_bytes(of_tables) + written, len(of_tables), tables.n_batches),
    }


def _epoch(dataset: Any, use: Callable[[Any], object], n_epochs: int | None = None) -> Task:
    """Return a task that reads the next epoch, or of so many the next in turn, and calls ``use`` with every batch.

    The task returns the number of tuples.
    """
    epochs = count() if n_epochs is None else cycle(range(n_epochs))

    def run() -> int:
        dataset.set_epoch(next(epochs))
        tuples = 0
        for batch in dataset:
            use(batch)
            tuples += len(batch)
        return tuples

    return run


def _held_bytes(batch: Any) -> int:
    """Return the bytes of the arrays of a batch that are made for it."""
    arrays = [getattr(batch.edits, each.name) for each in fields(batch.edits)]
    arrays += [batch.windows.packed, batch.visits, batch.stated.label, batch.source_states]
    return sum(int(array.nbytes) for array in arrays if array is not None)


def _copies(size: int, tuples: int, batches: int) -> Task:
    """Return a task that copies ``size`` bytes once for every batch of an epoch, from other memory each time."""
    places = max(1, _COPIED_BYTES // size)
    source: NDArray[np.uint8] = np.ones((places, size), dtype=np.uint8)
    target = np.empty(size, dtype=np.uint8)

    def run() -> int:
        for number in range(batches):
            np.copyto(target, source[number % places])
        return batches * tuples

    return run


def _loaders(folder: Path) -> dict[str, Task]:
    from torch.utils.data import DataLoader

    from genolewm_assets.training import as_tensors

    tasks = {}
    for workers in (1, 2):
        for form, convert in (("batches", None), ("tensors", as_tensors)):
            dataset = open_dataset(folder)
            loader: DataLoader[Any] = DataLoader(
                dataset, batch_size=None, num_workers=workers, collate_fn=convert, persistent_workers=True
            )
            tasks[f"{form}/{workers}"] = _loaded_epoch(dataset, loader)
    return tasks


def _loaded_epoch(dataset: Any, loader: Any) -> Task:
    epochs = count()

    def run() -> int:
        dataset.set_epoch(next(epochs))
        return sum(len(batch["label"]) if isinstance(batch, dict) else len(batch) for batch in loader)

    return run


def _first_batch(folder: Path) -> dict[str, Task]:
    import torch.utils.data  # noqa: F401 - imported before the measurement, as by a trainer

    import genolewm_assets.training.dataset  # noqa: F401

    opened: list[Any] = []

    def open_it() -> int:
        opened.append(open_dataset(folder))
        return 1

    def both() -> int:
        open_it()
        return len(next(iter(opened[-1])))

    return {"open": open_it, "first_batch": both}


def _cold(folder: Path) -> dict[str, Task]:
    scratch = tempfile.TemporaryDirectory()
    os.environ["NUMBA_CACHE_DIR"] = scratch.name
    opened = _first_batch(folder)["first_batch"]

    def run() -> int:
        with scratch:
            return opened()

    return {"first_batch": run}


PARTS: Mapping[str, Callable[[Path], dict[str, Task]]] = {
    "one_process": _one_process,
    "loaders": _loaders,
    "first_batch": _first_batch,
    "cold": _cold,
}


def main() -> None:
    part, folder = sys.argv[1], Path(sys.argv[2])
    keep_verified(folder)
    serve_tasks(PARTS[part](folder), version=metadata.version("genolewm-assets"))


if __name__ == "__main__":
    main()
