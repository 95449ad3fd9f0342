"""Collect the wheels that the kit needs and a bare CUDA image lacks: ``python -m benchmarks.gpu.wheels FOLDER``.

The image has :data:`IMAGE` and what these need. Versions are those of ``constraints.txt``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: What a CUDA image for PyTorch has.
IMAGE = (
    "numba", "numpy", "pandas", "pyarrow", "pytest", "pyyaml", "rich", "safetensors", "tokenizers", "torch",
    "transformers",
)  # fmt: skip
#: What the kit imports beside it: states, stores, packages, and the tests that are marked ``gpu``.
NEEDED = (
    "annotated-types", "google-crc32c", "hypothesis", "isal", "lazy-loader", "platformdirs", "pydantic",
    "pydantic-core", "pysam", "pytest-timeout", "sortedcontainers", "tenacity", "typing-inspection",
)  # fmt: skip
_LARGEST_BYTES = 60 << 20
#: pip compares the version of the C library exactly, so that each one is named.
_PLATFORMS = ("manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in range(17, 40)))


def collect(folder: Path, python: str) -> int:
    """Download the wheels for x86-64 Linux and a Python version such as ``3.12``, and return their size in bytes.

    Raises
    ------
    RuntimeError
        If a wheel is not found, or all together are larger than fits beside a working tree.
    """
    for former in folder.glob("*.whl"):
        former.unlink()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp", "--dest", str(folder)]
    command += [part for platform in _PLATFORMS for part in ("--platform", platform)]
    done = subprocess.run(
        [*command, "--constraint", str(_ROOT / "constraints.txt"), *NEEDED], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"pip download ended with status {done.returncode}: {done.stderr.strip()}")
    size = sum(wheel.stat().st_size for wheel in folder.glob("*.whl"))
    if size > _LARGEST_BYTES:
        raise RuntimeError(f"{folder}: {size:,} bytes of wheels: expected at most {_LARGEST_BYTES:,}")
    return size


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.wheels", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the wheels; what it had is replaced")
    parser.add_argument("--python", default="3.12", help="version of Python on the image (default: 3.12)")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    size = collect(given.folder, given.python)
    print(f"{given.folder}: {len(list(given.folder.glob('*.whl')))} wheels, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
