"""One part of the kit, in a process: ``python -m benchmarks.gpu.part PART SHAPE DEVICE FOLDER RUNS RESULTS``.

Every record is appended to ``RESULTS`` when it is there, as one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

#: Function that measures, and the share of the time, of every part; the most valuable first.
PARTS = {
    "machine": ("benchmarks.gpu.machine:measure_machine", 1),
    "tests": ("benchmarks.gpu.machine:run_gpu_tests", 2),
    "windows": ("benchmarks.gpu.windows:measure_windows", 5),
    "compiler": ("benchmarks.gpu.windows:measure_compiler", 3),
    "edits": ("benchmarks.gpu.edits:measure_edits", 4),
    "cache": ("benchmarks.gpu.stores:measure_cache", 4),
    "frozen": ("benchmarks.gpu.stores:measure_frozen", 3),
}


def append(results: Path, record: dict[str, object]) -> None:
    """Append a record as one line; a line that a killed process began is ended first."""
    with results.open("a+b") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(record).encode() + b"\n")


def main() -> None:
    part, shape, device, folder, runs, results = sys.argv[1:]
    import torch

    from benchmarks.gpu.shapes import SHAPES, write_model
    from benchmarks.gpu.turns import Setting

    torch.set_num_threads(1)
    if device == "cuda":
        torch.zeros(1, device=device)  # A wrong driver, or a card that is taken, is the first error.
    setting = Setting(SHAPES[shape], device, Path(folder), int(runs))
    write_model(setting.model, setting.shape)
    module, function = PARTS[part][0].split(":")
    for name, figures in getattr(importlib.import_module(module), function)(setting):
        append(Path(results), {"part": part, "name": name, **figures})


if __name__ == "__main__":
    main()
