"""Kernels compiled ahead: all are listed, and a process that cannot write their folder compiles nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets.own_caches.kernels import find_kernels, parse_type, read_signatures, state_type
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.own_caches.compiled_calls import COMPILED, write_signatures
from genolewm_assets_tests.places import REPOSITORY

#: Loads or compiles kernels whose names hold a text, calls each listed call, and prints hits and misses of the cache.
LOAD = """
import sys
from genolewm_assets.own_caches import kernels
found = [(name, each) for name, each in kernels.find_kernels() if sys.argv[1] in name]
for name, each in found:
    for call in kernels.read_signatures()[name]:
        each.compile(call)
print(sum(sum(each.stats.cache_hits.values()) for _, each in found),
      sum(sum(each.stats.cache_misses.values()) for _, each in found))
"""
#: Takes the privilege to write everything from root.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()


def test_every_kernel_is_listed_with_types_that_numba_has() -> None:
    signatures = read_signatures()
    assert {name for name, _ in find_kernels()} == signatures.keys()
    # Of these, numba inlines constants: their callers compile them.
    assert [name for name, calls in signatures.items() if not calls] == [
        "genolewm_assets.audit.difference_kernels:_matches",
        "genolewm_assets.sources.files.md5_kernels:_turned",
        "genolewm_assets.sources.similarity.kmer_kernels:_has_trimers",
        "genolewm_assets.sources.similarity.presence_kernels:_set",
    ]
    for calls in signatures.values():
        for each in (each for call in calls for each in call):
            assert parse_type(state_type(each)) == each


def started(folder: Path, kernels: str, *before: str) -> list[int]:
    """Load kernels in a new process without a home, and return hits and misses."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "NUMBA_CACHE_DIR": str(folder)}
    command = [*before, sys.executable, "-c", LOAD, kernels]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


def seal(folder: Path, mode: int) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(mode if path.is_dir() else mode & 0o666)


@pytest.mark.nightly
def test_a_process_that_cannot_write_the_folder_compiles_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o755)
    assert started(folder, "bgzf_kernels") == [0, 1]
    files = sorted(folder.rglob("*"))
    seal(folder, 0o555)
    assert started(folder, "bgzf_kernels", *UNPRIVILEGED) == [1, 0]
    # What is missing there is compiled and not kept.
    assert started(folder, "split_kernels", *UNPRIVILEGED) == [0, 2]
    assert sorted(folder.rglob("*")) == files
    # Others may have written what they can write.
    next(folder.rglob("*.nbi")).chmod(0o666)
    assert started(folder, "bgzf_kernels", *UNPRIVILEGED)[0] <= 1
    seal(folder, 0o755)


@pytest.mark.nightly
def test_after_the_command_nothing_that_the_tests_of_kernels_call_is_compiled(tmp_path: Path) -> None:
    """With ``GENOLEWM_WRITE_GOLDEN``, what was compiled is added to the list."""
    folder = tmp_path / "kernels"
    compile_all = [sys.executable, "-m", "genolewm_assets", "compile", str(folder), "--json"]
    told = subprocess.run(compile_all, cwd=REPOSITORY, capture_output=True, check=True).stdout
    signatures = read_signatures()
    assert json.loads(told)["kernels"] == len(signatures)
    seal(folder, 0o555)
    assert started(folder, "", *UNPRIVILEGED) == [sum(map(len, signatures.values())), 0]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), COMPILED: str(tmp_path / "compiled.json")}
    listed = f"@{Path(__file__).with_name('calling_tests.txt')}"
    tests = ["-m", "pytest", "-q", "-p", "no:xdist", "-p", f"{__package__}.compiled_calls", listed]
    subprocess.run([*UNPRIVILEGED, sys.executable, *tests], env=environment, cwd=REPOSITORY, check=True)
    compiled = json.loads((tmp_path / "compiled.json").read_text())
    if compiled and os.environ.get("GENOLEWM_WRITE_GOLDEN"):
        write_signatures(compiled)
    assert compiled == {}
    seal(folder, 0o755)


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run(monkeypatch, "compile", tmp_path / "file") == 4
    assert len(capsys.readouterr().err.splitlines()) == 1
