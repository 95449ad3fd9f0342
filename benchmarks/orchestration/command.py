"""The command ``python -m benchmarks dagster``: an instance at full size, and a table of what Dagster costs on it."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.orchestration.inputs import PIECES, RELEASES, write_inputs

_REPOSITORY = Path(__file__).parents[2]
_PARTS = ("load", "ticks", "partition", "pages")


def main(arguments: Sequence[str]) -> None:
    """Run the command with arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks dagster", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--folder", type=Path, help="keeps the catalogue and the instance, which take minutes to make")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = (given.folder or Path(scratch)).absolute() / "orchestration"
        if not folder.is_dir():
            write_inputs(folder)
            for figures in _measured("record", folder):
                print(f"{figures['name']}: {figures['cpu_s']} CPU s", file=sys.stderr)
        print(f"{sum(PIECES.values())} pieces, {len(RELEASES)} releases, 24 contigs, all recorded as built\n")
        print("| what | CPU s | wall s | MiB | kB of event log | says |\n|---|---:|---:|---:|---:|---|")
        for part in given.parts:
            for figures in _measured(part, folder):
                names = ("name", "cpu_s", "wall_s", "mib", "kb", "said")
                print(f"| {' | '.join(str(figures.get(name, '')) for name in names)} |", flush=True)


def _measured(part: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the figures that a process prints as JSON; its other output is kept beside the instance."""
    command = [sys.executable, "-m", "benchmarks.orchestration.process", part]
    log = folder / f"{part}.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*command, str(folder / "catalog.yaml"), str(folder / "root")],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=_REPOSITORY,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"benchmarks dagster: {part}: {log.read_text()[-2_000:]}")


if __name__ == "__main__":
    main(sys.argv[1:])
