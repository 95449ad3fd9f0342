"""Forked and spawned workers read one array store at once: the right rows, no shared file position, no copies of it."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genolewm_assets.store import ArrayStoreReader, ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.arrays.layout import ArraySpec
from genolewm_assets_tests.faults.killing import outcome

pytestmark = pytest.mark.nightly

N_ROWS, ROW = 24_000, 1_024  # 49 MB of float16 states and 0.2 MB of marks
N_WORKERS, READS, AT_ONCE = 8, 10_000, 100


def states(rows: np.ndarray) -> np.ndarray:
    """Rows that differ from their neighbours in every value; a float16 holds whole numbers up to 2,048."""
    columns = np.arange(ROW, dtype=np.float16) % 1021
    return (rows * 7 % 1019).astype(np.float16)[:, np.newaxis] + columns


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory, step = tmp_path_factory.mktemp("workers") / "store", 4_000
    arrays = [ArraySpec("states", (ROW,), "float16"), ArraySpec("mark", (), "int64")]
    with ArrayStoreWriter(directory, arrays, key_config={}, commit_rows=step, batch_rows=64) as writer:
        for first in range(0, N_ROWS, step):
            rows = np.arange(first, first + step)
            writer.write_batch({"states": states(rows), "mark": rows}, keys=[str(row) for row in rows])
        writer.finalize(compute_fingerprint({}, {}))
    return directory


def private_dirty_bytes() -> int:
    """Memory of this process that no other shares and no file backs (proc(5), smaps_rollup)."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * sum(int(size) for size in re.findall(r"^(?:Private_Dirty|Swap): +(\d+) kB", text, re.MULTILINE))


def positions(directory: Path) -> list[int]:
    """Positions of the files of a store that this process has open; a mapping keeps one, and never moves it."""
    names = os.listdir("/proc/self/fd")  # noqa: PTH208
    names = [name for name in names if os.path.realpath(f"/proc/self/fd/{name}").startswith(str(directory))]
    return [int(Path(f"/proc/self/fdinfo/{name}").read_text().split()[1]) for name in names]


def read(reader: ArrayStoreReader, seed: int, together: Any) -> tuple[int, int, int]:
    """Read many random rows; returns how many are wrong, how far private memory grew and file positions moved."""
    draw = np.random.default_rng(seed)
    together.wait()
    wrong, before = 0, private_dirty_bytes()
    for _ in range(READS // AT_ONCE):
        rows = draw.integers(0, N_ROWS, AT_ONCE)
        wrong += int((reader.get_rows(rows, "states") != states(rows)).any(axis=1).sum())
        wrong += int((reader.get_rows(rows, "mark") != rows).sum())
        wrong += int((reader.get_row(int(rows[0]))["states"] != states(rows[:1])[0]).any())
    # In memory (tmpfs) a page of a file counts as private while one process alone has it mapped, so all workers read
    # their figures before any of them ends.
    together.wait()
    grown = private_dirty_bytes() - before
    together.wait()
    return wrong, grown, sum(positions(reader.directory))


def _work(reader: ArrayStoreReader, seed: int, together: Any, results: Any) -> None:
    results.put(read(reader, seed, together))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("method", "check", "in_memory"),
    [("fork", False, False), ("fork", True, False), ("fork", False, True), ("spawn", True, False)],
)
def test_eight_workers_read_10_000_random_rows_each(store: Path, method: str, *, check: bool, in_memory: bool) -> None:
    reader = ArrayStoreReader(store, check=check, access="random")
    assert positions(store) == []
    reader.get_rows([3], "states")
    if in_memory:
        reader.load_in_memory()
    context: Any = multiprocessing.get_context(method)
    together, results = context.Barrier(N_WORKERS), context.SimpleQueue()
    workers = [context.Process(target=_work, args=(reader, seed, together, results)) for seed in range(N_WORKERS)]
    for worker in workers:
        worker.start()
    found = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * N_WORKERS
    assert [wrong for wrong, _, _ in found] == [0] * N_WORKERS
    assert [moved for _, _, moved in found] == [0] * N_WORKERS, "forked processes share positions"
    most = max(grown for _, grown, _ in found)
    assert most < reader.size_bytes / 8, f"a worker made {most} bytes its own"


def test_what_was_loaded_is_read_by_forked_workers_without_the_file(store: Path, tmp_path: Path) -> None:
    copied = tmp_path / "s"
    copied.mkdir()
    for path in store.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    reader = ArrayStoreReader(copied)
    reader.load_in_memory()
    (copied / "states.bin").unlink()
    rows = np.arange(0, N_ROWS, 7)
    wanted = hashlib.sha256(states(rows).tobytes()).hexdigest()
    assert outcome(lambda: hashlib.sha256(reader.get_rows(rows, "states").tobytes()).hexdigest()) == wanted
