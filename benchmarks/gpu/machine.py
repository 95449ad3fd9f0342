"""The machine's own rates, and the tests that are marked ``gpu``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from benchmarks.gpu.turns import Record, Setting, Work, in_turns

_COPIES, _PRODUCTS = 4, {"cpu": 8, "cuda": 40}
_ROOT = Path(__file__).parents[2]
_TESTS = "genolewm_assets_tests/encoders"


def measure_machine(setting: Setting) -> Iterator[Record]:
    """Measure products of square matrices (operations) and copies within the memory (bytes read and written)."""
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    jobs: dict[str, Callable[[], Work]] = {
        "float32 products": partial(_products, setting, torch.float32),
        "bfloat16 products": partial(_products, setting, torch.bfloat16),
        "copy": partial(_copies, setting),
    }
    yield from in_turns(setting, jobs)


def _products(setting: Setting, dtype: torch.dtype) -> Work:
    size, n = setting.shape.matrix, _PRODUCTS[setting.device]
    left, right = (torch.randn(size, size, device=setting.device).to(dtype) for _ in range(2))
    product = left @ right

    def run() -> int:
        for _ in range(n):
            torch.mm(left, right, out=product)
        return n * 2 * size**3

    return Work(run)


def _copies(setting: Setting) -> Work:
    size = setting.shape.copied_bytes
    one, other = (torch.zeros(size, dtype=torch.uint8, device=setting.device) for _ in range(2))

    def run() -> int:
        for _ in range(_COPIES):
            other.copy_(one)
        return _COPIES * 2 * size

    return Work(run)


def run_gpu_tests(setting: Setting) -> Iterator[Record]:
    """Run the tests that are marked ``gpu``; without a card they are skipped."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", _TESTS]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if " in " in line and any(map(str.isdigit, line))]
    said = lines[-1].strip("= ") if lines else (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    if not lines:
        yield "tests marked gpu", {"failure": said}
    elif setting.device == "cpu":
        yield "tests marked gpu", {"said": said}
    else:
        yield "tests marked gpu", {"passed": done.returncode == 0 and "skipped" not in said, "said": said}
