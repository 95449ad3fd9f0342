"""Builds a generated genome step by step, each in a process whose memory is watched, and keeps the figures."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.genome.inputs import offer_second
from benchmarks.genome.variants import RELEASES
from benchmarks.stopwatch import status_bytes

#: The first build of everything, and what follows from a second release of ClinVar.
FIRST, SECOND = 1, 2
_REPOSITORY = Path(__file__).parents[2]
#: Assets without partitions that are built for each release.
_FOLLOWING = {"packages/current", "platform/status"}
_SAMPLED_S = 0.02
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What a step took: CPU and wall seconds and bytes, imports not counted.

    ``anonymous`` and ``mapped`` are the largest RssAnon and RssFile above those after imports. ``read`` and ``written``
    are bytes of system calls, ``hashed`` those of whole files.
    """

    release: int
    asset: str
    partition: str | None
    cpu_s: float
    wall_s: float
    anonymous: int
    mapped: int
    read: int
    hashed: int
    written: int


class StepError(RuntimeError):
    """A step failed; the message is its error, or the last lines of its output."""


def read_figures(path: Path) -> list[StepFigures]:
    """Read the figures that :func:`build` has written."""
    return [StepFigures(**json.loads(line)) for line in path.read_text().splitlines()] if path.is_file() else []


def build(folder: Path, catalog: Path, *, without: Collection[str], say: Callable[[str], object]) -> list[StepFigures]:
    """Build every asset, offer a second ClinVar release, build what follows it, and return the figures of all steps.

    Figures are appended to ``figures.jsonl`` in the folder; a step that is there is not run again.
    """
    root, path = folder / "root", folder / "figures.jsonl"
    for release in (FIRST, SECOND):
        if release == SECOND:
            offer_second(folder)
        steps = [
            (asset, partition)
            for asset, partition in _planned(catalog, root)
            if asset not in without and _is_of(release, asset, partition)
        ]
        done = {(each.release, each.asset, each.partition) for each in read_figures(path)}
        for number, (asset, partition) in enumerate(steps, start=1):
            if (release, asset, partition) in done:
                continue
            figures = run_step(catalog, root, release, asset, partition)
            with path.open("a") as file:
                file.write(f"{json.dumps(asdict(figures))}\n")
            name = asset if partition is None else f"{asset}[{partition}]"
            took = f"{figures.cpu_s:.1f} CPU s, {figures.anonymous / _MIB:,.0f} MiB"
            say(f"release {release}, {number}/{len(steps)} {name}: {took}")
    return read_figures(path)


def run_step(catalog: Path, root: Path, release: int, asset: str, partition: str | None) -> StepFigures:
    """Run one step in a process, and watch its memory from outside."""
    command = [*_command(catalog, root), asset, *([partition] if partition else [])]
    log = root.parent / "step.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=_REPOSITORY) as run,
    ):
        assert run.stdin is not None
        assert run.stdout is not None
        if not run.stdout.readline():
            run.wait()
            raise StepError(f"{asset}: {log.read_text()[-2_000:]}")
        before = [status_bytes(name, run.pid) for name in ("RssAnon", "RssFile")]
        run.stdin.write(b"\n")
        run.stdin.flush()
        peak = list(before)
        while not select.select([run.stdout], [], [], _SAMPLED_S)[0]:
            peak = [
                max(most, status_bytes(name, run.pid)) for most, name in zip(peak, ("RssAnon", "RssFile"), strict=True)
            ]
        said = run.stdout.readline()
    answer = json.loads(said) if said else {"failed": [log.read_text()[-2_000:]]}
    if "failed" in answer:
        raise StepError(f"{asset} {partition or ''}: {answer['failed'][0]}")
    anonymous, mapped = (most - then for most, then in zip(peak, before, strict=True))
    return StepFigures(release, asset, partition, anonymous=anonymous, mapped=mapped, **answer)


def _planned(catalog: Path, root: Path) -> list[tuple[str, str | None]]:
    """Return the steps of the graph in dependency order, after new releases were registered and sources observed."""
    root.parent.mkdir(parents=True, exist_ok=True)
    run = subprocess.run(_command(catalog, root), capture_output=True, text=True, cwd=_REPOSITORY, check=False)
    if run.returncode:
        raise StepError(run.stderr[-2_000:])
    return [(asset, partition) for asset, partition in json.loads(run.stdout.splitlines()[-1])]


def _is_of(release: int, asset: str, partition: str | None) -> bool:
    """Whether a step is a part of the build; the listing may have the second release already."""
    if release == FIRST:
        return partition != RELEASES[1]
    return partition == RELEASES[1] or asset in _FOLLOWING


def _command(catalog: Path, root: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.genome.step", str(catalog), str(root)]
