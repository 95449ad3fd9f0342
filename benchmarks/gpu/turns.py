"""Jobs of one process, measured in turns on the clock of the device; imports torch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch

from benchmarks.gpu.shapes import Shape

#: What is measured: its name, and figures or the reason why there are none.
Record: TypeAlias = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a part runs on.

    Attributes
    ----------
    shape
        Shape of the model.
    device
        Torch device, ``cuda`` or ``cpu``.
    folder
        Folder of the model and of what a part writes.
    runs
        Runs of each job after its warm-up.
    """

    shape: Shape
    device: str
    folder: Path
    runs: int

    @property
    def model(self) -> Path:
        """Folder of the model."""
        return self.folder / "model"


class Work(NamedTuple):
    """A job that is ready.

    Attributes
    ----------
    run
        Does the work once and returns the number of its items.
    about
        Returns figures that are known after the first run.
    """

    run: Callable[[], int]
    about: Callable[[], dict[str, Any]] = dict


def in_turns(setting: Setting, jobs: Mapping[str, Callable[[], Work]]) -> Iterator[Record]:
    """Prepare and warm up every job, run all in turns, and yield a record after each run.

    Figures: ``items`` of a run, ``rate``, the median of items per second of wall-clock time (on the CPU of CPU time),
    ``runs``, ``first_s``, seconds of the warm-up, and ``accelerator_bytes``, the most memory that the job took there.
    """
    ready = dict[str, tuple[Work, dict[str, Any]]]()
    for name, prepare in jobs.items():
        try:
            ready[name] = _warm_up(setting, prepare)
        except Exception as err:  # noqa: BLE001 - a job that fails leaves the others their time
            yield name, failure(err)
    rates = {name: list[float]() for name in ready}
    for _ in range(setting.runs):
        for name, (work, figures) in list(ready.items()):
            try:
                items, seconds = _clocked(setting, work)
            except Exception as err:  # noqa: BLE001
                yield name, failure(err)
                del ready[name]
                continue
            rates[name].append(items / seconds)
            rate = statistics.median(rates[name])
            yield name, {**figures, "items": items, "rate": rate, "runs": len(rates[name])}


def failure(err: Exception) -> dict[str, Any]:
    """Return one line that says why there are no figures."""
    (said, *_) = str(err).strip().splitlines() or [""]
    return {"failure": f"{type(err).__name__}: {said}"}


def _warm_up(setting: Setting, prepare: Callable[[], Work]) -> tuple[Work, dict[str, Any]]:
    on_card = setting.device == "cuda"
    before = torch.cuda.memory_allocated() if on_card else 0
    if on_card:
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    work = prepare()
    prepared = time.perf_counter()
    work.run()
    figures = {"prepare_s": round(prepared - started, 2), "first_s": round(time.perf_counter() - prepared, 2)}
    taken = torch.cuda.max_memory_allocated() - before if on_card else 0
    return work, {**figures, "accelerator_bytes": taken, **work.about()}


def _clocked(setting: Setting, work: Work) -> tuple[int, float]:
    on_card = setting.device == "cuda"
    if on_card:
        torch.cuda.synchronize()
    clock = time.perf_counter if on_card else time.process_time
    started = clock()
    items = work.run()
    if on_card:
        torch.cuda.synchronize()
    return items, clock() - started
