"""Tasks on a package of any size: ``python -m benchmarks.stream.size_jobs PART FOLDER``; the parts are below.

``write`` writes the package of a folder that ``write_inputs`` filled, as a task of ``benchmarks.stopwatch``. ``first``
opens it for the first time on this machine. ``process``, ``fork`` and ``spawn`` open it again and print seconds and
sizes as one line of JSON: in one process, or in a loader's parent and its worker of that start method.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from benchmarks.stopwatch import serve_tasks
from benchmarks.stream.jobs import keep_verified, open_dataset

NAME = "large"
#: Contigs that are held out whole.
VALIDATION, TEST = ("chr20",), ("chr21",)
#: Batches of a loader; of the sizes after each, the largest are stated.
_BATCHES = 256
#: Batches whose CPU time is measured behind them.
_TIMED_BATCHES = 600
#: A file is recorded as verified only if it last changed before this many seconds.
_SETTLED_S = 2.5
Figures = dict[str, float]


def write(folder: Path) -> int:
    """Write the package, with its checks, and return the number of its windows."""
    from benchmarks.stream.simulated_package import HeldOut, publish_package
    from genolewm_assets.packages import read_package_info

    shutil.rmtree(folder / "root" / "packages", ignore_errors=True)
    package = publish_package(folder, NAME, HeldOut(validation=VALIDATION, test=TEST))
    return sum(split.windows for split in read_package_info(package).splits.values())


def opened(folder: Path) -> tuple[Any, Figures]:
    """Open the package, and return it with the seconds that this took after the imports."""
    figures = imported()
    started = time.perf_counter()
    dataset = open_dataset(folder, NAME)
    return dataset, figures | {"open_s": time.perf_counter() - started}


def imported() -> Figures:
    """Import what a trainer imports, and return the sizes of the process."""
    import torch.utils.data  # noqa: F401

    import genolewm_assets.training.dataset  # noqa: F401

    return sizes("imports", "self")


def first(folder: Path) -> Figures:
    """Open the package for the first time, so that it is known as verified."""
    time.sleep(_SETTLED_S)
    shutil.rmtree(folder / "cache", ignore_errors=True)
    return opened(folder)[1]


def process(folder: Path) -> Figures:
    """Open the package and read one batch, then more, and a rate after them, in tuples per CPU second."""
    dataset, figures = opened(folder)
    before = time.perf_counter()
    batches = iter(dataset)
    next(batches)
    figures["first_batch_s"] = time.perf_counter() - before
    figures |= largest(batches, {"process": "self"})
    started = time.process_time()
    figures["tuples"] = sum(map(len, islice(chain(batches, dataset), _TIMED_BATCHES)))
    return figures | {"cpu_s": time.process_time() - started}


def loader(folder: Path, method: Literal["fork", "spawn"]) -> Figures:
    """Read batches through a loader with one worker."""
    from torch.utils.data import DataLoader

    dataset, figures = opened(folder)
    # A persistent worker is there when its sizes are read, also after the last batch of a small package.
    workers: DataLoader[Any] = DataLoader(
        dataset, batch_size=None, num_workers=1, multiprocessing_context=method, persistent_workers=True
    )
    before = time.perf_counter()
    batches: Any = iter(workers)
    next(batches)
    figures["first_batch_s"] = time.perf_counter() - before
    # The list of a loader's processes has no public name.
    (worker,) = batches._workers
    return figures | largest(batches, {"parent": "self", "worker": str(worker.pid)})


def largest(batches: Iterator[Any], processes: Mapping[str, str]) -> Figures:
    """Read batches, and return the largest sizes of some processes, named with their numbers in ``/proc``."""
    found = Figures()
    for _ in islice(batches, _BATCHES):
        now = [size for name, pid in processes.items() for size in sizes(name, pid).items()]
        found |= {name: max(size, found.get(name, 0.0)) for name, size in now}
    return found


def sizes(name: str, pid: str) -> Figures:
    """Return resident, anonymous and proportional size of a process in bytes, as proc(5) names them."""
    lines = [*Path(f"/proc/{pid}/status").read_text().splitlines()]
    lines += [*Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return {f"{name}_{key}": int(found[key].split()[0]) * 1024 for key in ("VmRSS", "RssAnon", "Pss")}


PARTS: Mapping[str, Callable[[Path], Figures]] = {
    "first": first,
    "process": process,
    "fork": lambda folder: loader(folder, "fork"),
    "spawn": lambda folder: loader(folder, "spawn"),
}


def main() -> None:
    part, folder = sys.argv[1], Path(sys.argv[2])
    keep_verified(folder)
    if part == "write":
        serve_tasks({"run": lambda: write(folder)}, version=metadata.version("genolewm-assets"))
    else:
        print(json.dumps(PARTS[part](folder)))


if __name__ == "__main__":
    main()
