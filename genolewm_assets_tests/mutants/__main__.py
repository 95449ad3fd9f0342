"""``python -m genolewm_assets_tests.mutants``: which test catches each of some faults put into the product.

Each mutant is run in a copy of the repository: the tests of its room, then those of the rooms above, up to the first
that fails. That one has to pass without the fault. Further arguments are passed to pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from genolewm_assets_tests.mutants.drawing import Mutant, draw
from genolewm_assets_tests.places import REPOSITORY, SHARED_DATA
from genolewm_assets_tests.rooms import PRODUCT, TESTS, own_tests, tests_of

_HERE = "not nightly and not gpu and not network"
_PASSED, _FAILED, _INTERRUPTED, _NOT_STARTED, _NO_TESTS = 0, 1, 2, 4, 5
_FAULT = re.compile(rf"^(?:FAILED|ERROR|SUBFAIL\w*(?:\[.*\])?) ({TESTS}/[^\s\[]+)", re.MULTILINE)
_NO_CONFTEST = re.compile(rf"^ImportError while loading conftest '\S*?({TESTS}/\S*)'", re.MULTILINE)


class Copy:
    """A copy of a repository in a folder, with one fault at a time."""

    def __init__(self, repository: Path, folder: Path, arguments: Sequence[str]) -> None:
        self._repository, self._output, self._arguments = repository, folder / "output", arguments
        self.root = folder / "main"
        for name in _files_of(repository):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            self._copy(name)
        (folder / "shared").symlink_to(SHARED_DATA.parent)

    def _copy(self, name: Path | str) -> None:
        # With its time, by which a file compiled from it is known.
        shutil.copy2(self._repository / name, self.root / name)

    def put(self, path: str, faulty: bytes | None) -> None:
        """Write a faulty file, or None for the true one; what numba compiled of it may be in the caches of others."""
        if faulty is None:
            self._copy(path)
        else:
            (self.root / path).write_bytes(faulty)
        if path.endswith("kernels.py") or b"numba" in (self.root / path).read_bytes():
            for cache in self.root.rglob("*.nb[ic]"):
                cache.unlink()

    def test(self, paths: Sequence[str], timeout_s: float) -> tuple[int | None, str]:
        """Return the exit status of pytest, None if it was too slow, and what it printed."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *self._arguments]
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                [*command, *paths],
                cwd=self.root,
                env={**kept, "PYTHONPATH": str(self.root)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(max(timeout_s, 0))
            except subprocess.TimeoutExpired:
                status = None
            finally:
                # Also a worker that a mutant keeps in a loop, after pytest has ended.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return status, self._output.read_text(errors="replace")


def _files_of(repository: Path) -> Iterator[Path]:
    """Yield the files that git knows or would add, and what has been compiled."""
    command = ["git", "-C", str(repository), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    yield from (Path(name) for name in dict.fromkeys(names) if name and (repository / name).is_file())
    for folder in (PRODUCT, TESTS):
        for path in (repository / folder).rglob("__pycache__/*"):
            if path.suffix in {".pyc", ".nbi", ".nbc"}:
                yield path.relative_to(repository)


def _stages(room: str, repository: Path) -> list[list[str]]:
    """Return the tests of a room, and those of the rooms above."""
    everything = tests_of([room], repository)
    own = [path for path in everything if path == Path(TESTS, room) or path in own_tests(room, repository)]
    return [list(map(str, own)), [str(path) for path in everything if path not in own]]


def verdict(mutant: Mutant, repository: Path, arguments: Sequence[str], timeout_s: float) -> str:
    """Return what became of a mutant, with the test that caught it."""
    end, ran = time.monotonic() + timeout_s, False
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        copy = Copy(repository, Path(folder).resolve(), arguments)
        try:
            copy.put(mutant.path, mutant.applied(mutant.source(repository)))
        except ValueError as error:
            return f"not run: {error}"
        for paths in _stages(mutant.room, repository):
            status, output = copy.test(paths, end - time.monotonic())
            if status is None:
                return f"caught: no end after {timeout_s:.0f} s"
            if status in {_PASSED, _NO_TESTS}:
                ran |= status == _PASSED
                continue
            # With xdist, the first failure interrupts the run.
            found = (_NO_CONFTEST if status == _NOT_STARTED else _FAULT).search(output)
            if not found or status not in {_FAILED, _INTERRUPTED, _NOT_STARTED}:
                return f"not run: pytest ended with {status}: {output.strip()[-200:]!r}"
            copy.put(mutant.path, None)
            passes = copy.test([found[1]], timeout_s)[0] in {_PASSED, _NO_TESTS}
            return f"caught: {found[1]}" if passes else f"not run: fails without the mutant too: {found[1]}"
    return "survived" if ran else "not run: no tests"


def _code(text: str) -> str:
    """Return source text as code in a cell of a table."""
    line = " ".join(text.split())
    return f"`{line if len(line) <= 90 else f'{line[:87]}...'}`".replace("|", r"\|")


def _row(number: int, mutant: Mutant, result: dict[str, Any]) -> str:
    """Return the row of a mutant, which shows what is beside it in its line."""
    source, end = mutant.source(), mutant.start + len(mutant.before.encode())
    left = source[: mutant.start].rpartition(b"\n")[2][-30:].decode(errors="ignore")
    right = source[end:].partition(b"\n")[0][:30].decode(errors="ignore")
    change = " → ".join(_code(f"{left}{middle}{right}") for middle in (mutant.before, mutant.after))
    said = result["said"].replace("|", "/")
    return f"| {number} | {mutant.room} | {mutant.path}:{mutant.line} | {change} | {said} | {result['seconds']:.0f} |"


def _read(results: Path | None) -> dict[str, dict[str, Any]]:
    """Return the earlier results by mutant, without those of runs that showed nothing."""
    rows = map(json.loads, results.read_text().splitlines() if results and results.exists() else [])
    return {json.dumps(row["mutant"]): row for row in rows if not row["said"].startswith("not run")}


def main() -> None:
    """Print a table of mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=17, help="same seed, same mutants")
    parser.add_argument("--count", type=int, default=24, help="from 12 on, each first-level room has one")
    parser.add_argument("--marks", default=_HERE, help="tests that are run (default: those of `make test`)")
    parser.add_argument("--workers", default="2", help="processes that pytest runs tests in")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="numbers of mutants")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="another checkout of the same product")
    parser.add_argument("--results", type=Path, help="file to append results to; those in it are not run again")
    parser.add_argument("--timeout", type=float, default=1_200, help="seconds after which a mutant counts as caught")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options, further = parser.parse_known_args()
    arguments = ["-n", options.workers, "-m", options.marks, f"--timeout={options.timeout / 2:.0f}", *further]
    known = _read(options.results)
    print("| n | room | place | change | result | s |\n| --- | --- | --- | --- | --- | --- |", flush=True)  # noqa: T201
    for number, mutant in enumerate(draw(options.seed, options.count), 1):
        if options.only and number not in options.only:
            continue
        row = known.get(json.dumps(asdict(mutant)), {"said": "", "seconds": 0})
        if not row["said"] and not options.list:
            began = time.monotonic()
            said = verdict(mutant, options.repository.resolve(), arguments, options.timeout)
            row = {"mutant": asdict(mutant), "said": said, "seconds": round(time.monotonic() - began, 1)}
            if options.results:
                with options.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        print(_row(number, mutant, row), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
