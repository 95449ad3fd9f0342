"""The command ``python -m benchmarks genome``: generate, build, print the tables, compare with the budgets."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.genome.budget import broken, read_budget
from benchmarks.genome.inputs import write_inputs
from benchmarks.genome.report import Build, tables
from benchmarks.genome.shapes import CORPUS_WINDOWS, Shape, one_contig, scaled
from benchmarks.genome.steps import StepError, build
from genolewm_assets.genome import GRCH38

_REPOSITORY = Path(__file__).parents[2]
_HELP = """examples:
  python -m benchmarks genome --scale 0.0025               a 400th of the genome, a few minutes
  python -m benchmarks genome --scale 0.025 0.1 --folder grown --check
        two scales: exponents, the whole genome, and exit status 1 if a budget is broken (hours, 40 GB of disk); what
        is in the folder is not measured again
  python -m benchmarks genome --contig chr1 --without packages/audit
  python -m benchmarks genome --chr21                      its real length, gaps and shared variants
"""


def main(arguments: Sequence[str]) -> None:
    """Run the command with arguments of the command line; exits with 1 if ``--check`` finds a broken budget."""
    given = _parse(arguments)
    shapes = [scaled(scale, given.contigs, given.windows) for scale in sorted(given.scale)]
    shapes += [one_contig(name) for name in (given.contig, given.chr21) if name]
    _compile_kernels()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (given.folder or Path(scratch)).absolute()
        try:
            builds = [measure(folder, shape, shared=given.shared, without=given.without) for shape in shapes]
        except StepError as err:
            raise SystemExit(f"benchmarks genome: {err}") from err
    for line in tables(builds):
        print(line, flush=True)
    faults = list(broken(builds, read_budget()))
    print(
        "\n".join(
            ["", "Broken budgets:", *(f"- {each}" for each in faults)] if faults else ["", "No budget is broken."]
        )
    )
    if given.check and faults:
        raise SystemExit(1)


def measure(folder: Path, shape: Shape, *, shared: Path, without: Sequence[str] = ()) -> Build:
    """Generate a genome and build it, unless its figures are kept in the folder."""
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{shape.name} {time.monotonic() - started:6.0f} s  {text}", file=sys.stderr, flush=True)

    place = folder / shape.name
    place.mkdir(parents=True, exist_ok=True)
    catalog = write_inputs(place, shape, shared, say)
    return Build(shape, build(place, catalog, without=without, say=say))


def _compile_kernels() -> None:
    """Compile what is compiled once per machine, so that no step does."""
    command = [sys.executable, "-m", "genolewm_assets", "compile"]
    subprocess.run(command, cwd=_REPOSITORY, check=True, stdout=subprocess.DEVNULL)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks genome",
        description="Build every asset on generated genomes, a process a step, and tell how cost grows with size.",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--scale", type=float, nargs="+", default=[], help="one or two shares of the genome, such as 0.025 0.1"
    )
    what.add_argument("--contig", choices=[each.name for each in GRCH38.linear], help="one contig of this length")
    what.add_argument("--chr21", action="store_const", const="chr21", help="chr21 with its gaps and shared variants")
    parser.add_argument(
        "--contigs", type=int, default=5, help="contigs of a scaled genome, of equal length (default: 5)"
    )
    parser.add_argument(
        "--windows", type=int, default=CORPUS_WINDOWS, help="corpus windows at full size (default: %(default)s)"
    )
    parser.add_argument(
        "--folder", type=Path, help="keeps files, roots and figures; a step with figures is not run again"
    )
    parser.add_argument(
        "--shared", type=Path, default=_REPOSITORY.parent / "shared/data", help="real sample data, if any"
    )
    parser.add_argument(
        "--without", nargs="+", default=[], metavar="ASSET", help="assets left out, such as packages/audit"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a budget of growth_budget.toml is broken")
    given = parser.parse_args(arguments)
    if len(given.scale) > 2 or not all(0 < scale <= 1 for scale in given.scale):
        parser.error(f"--scale: expected one or two shares of the genome, 0 to 1, got {given.scale}")
    return given
