"""Run every part in a process of its own, bounded in time, and print the table; the standard library alone is needed.

A part that is done is not run again with the same card, versions and shape. A part that fails is one line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from benchmarks.gpu.part import PARTS, append
from benchmarks.gpu.report import read_results, report
from benchmarks.gpu.shapes import SHAPES

_ROOT = Path(__file__).parents[2]
#: Printed by a process, because a broken installation of torch must not end the kit.
_ABOUT = """
import json, os, platform, torch, transformers
card = torch.version.cuda is not None and os.path.exists("/dev/nvidiactl")
try:
    name = torch.cuda.get_device_name() if card else f"CPU, {platform.machine()}, one thread"
except (RuntimeError, AssertionError) as err:
    name = "a card that torch cannot use: " + str(err).splitlines()[0]
versions = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__}
print(json.dumps({"device": "cuda" if card else "cpu", "card": name, "versions": versions}))
"""
_HELP = """examples:
  python -m benchmarks gpu                          all parts on the card, at the size of Carbon-500M, in 20 minutes
  python -m benchmarks gpu --parts windows edits    two parts; what is already done is kept
  python -m benchmarks gpu --again                  all parts once more
"""


def main(arguments: list[str]) -> None:
    """Run the kit with arguments of the command line."""
    given = _parse(arguments)
    found = subprocess.run([sys.executable, "-c", _ABOUT], capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"benchmarks gpu: torch cannot be imported: {_last_line(found.stderr)}. Run: make gpu-wheels")
    about = json.loads(found.stdout)
    shape = given.shape or ("carbon-500m" if about["device"] == "cuda" else "tiny")
    about |= {"shape": shape, "date": time.strftime("%Y-%m-%d")}
    results = given.results / f"{_slug(about['card'], shape, about['versions']['torch'])}.jsonl"
    given.results.mkdir(parents=True, exist_ok=True)
    if given.again:
        results.unlink(missing_ok=True)
    if not read_results(results):
        append(results, {"part": "about", **about})
    _run_parts(given, about, results)
    table = report(read_results(results))
    results.with_suffix(".md").write_text(table)
    print(f"\n{table}\n{results.with_suffix('.md')}", flush=True)


def _run_parts(given: argparse.Namespace, about: dict[str, Any], results: Path) -> None:
    """Run the parts that are not done; time that a part leaves goes to those after it."""
    done = {record["part"] for record in read_results(results) if record.get("ended") == "done"}
    todo = [part for part in PARTS if part in given.parts and part not in done]
    deadline = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as scratch:
        for at, part in enumerate(todo):
            left, weights = deadline - time.monotonic(), [PARTS[each][1] for each in todo[at:]]
            # A part may take twice its share, as the first ones are worth more.
            bound = left * min(1.0, 2 * weights[0] / sum(weights))
            if bound < 1:
                print(f"{part}: no time is left. Run it again, or with more --minutes", flush=True)
                continue
            print(f"{part}: at most {bound:.0f} s", flush=True)
            started = time.monotonic()
            folder = (given.models or Path(scratch)) / about["shape"]
            command = [about["device"], str(folder), str(given.runs), str(results.absolute())]
            ended = _run_part([part, about["shape"], *command], bound)
            seconds = time.monotonic() - started
            append(results, {"part": part, "ended": ended, "seconds": round(seconds, 1)})
            print(f"{part}: {ended}, {seconds:.0f} s", flush=True)


def _run_part(arguments: list[str], bound_s: float) -> str:
    """Run a part; return ``done``, or one line that says why it is not."""
    command = [sys.executable, "-m", "benchmarks.gpu.part", *arguments]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, cwd=_ROOT, stdout=said, stderr=said, start_new_session=True)
        try:
            status = process.wait(bound_s)
        except subprocess.TimeoutExpired:
            return f"stopped after {bound_s:.0f} s"
        finally:
            # Its compilers and loaders too.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status < 0:
            return f"ended by signal {-status}"
        return "done" if status == 0 else f"failed: {_read_last(said)}"


def _read_last(said: IO[str]) -> str:
    said.seek(0)
    return _last_line(said.read())


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    # The line that names the error; what follows are hints of CUDA.
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    return (named or lines or ["nothing was said"])[-1].strip()


def _slug(*words: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", "-".join(words).lower()).strip("-")[:120]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu",
        description="Measure everything about states on an accelerator; without one, a small model on the CPU.",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=20, help="time for all parts together (default: 20)")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="default: all")
    parser.add_argument("--shape", choices=list(SHAPES), help="model; default: carbon-500m on a card, tiny on the CPU")
    parser.add_argument("--runs", type=int, default=2, help="runs of each job after its warm-up (default: 2)")
    parser.add_argument(
        "--results", type=Path, default=Path("gpu_results"), help="folder of records and tables (default: gpu_results)"
    )
    parser.add_argument("--models", type=Path, help="folder that keeps the models; default: a temporary one")
    parser.add_argument("--again", action="store_true", help="run parts again that are done")
    return parser.parse_args(arguments)
