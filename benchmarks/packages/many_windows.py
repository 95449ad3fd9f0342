"""Memory of a package of many millions of windows: ``python -m benchmarks.packages.many_windows FOLDER PIECES``.

A genome of 16 Mbp, and PIECES pieces (610: 40 million windows) of 65,536 windows of 180 bases, unplaced and without
states; one of 15 states a held-out contig, so that it is held out. Each piece has ids and records of its own and the
bases of one of 16, so that few bytes are written. Holdouts and package are written and checked as their assets do, and
the package is audited as the successor of itself: a week that changes nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from benchmarks.packages.root import RELEASES, TENTH, make_root, open_root, publish
from benchmarks.stopwatch import status_bytes
from genolewm_assets.audit import audit_package
from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.assets.packages.split import packages_split, record_latest
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.packages import read_latest
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.store.artefacts import BuildReport, build
from genolewm_assets.store.tables import memory_given_back, read_table, write_table
from genolewm_assets.windows.bases import write_bases
from genolewm_assets.windows.corpus.windows import CORPUS_WINDOWS

_SOURCES = ("eukaryote_generator", "mrna_evo2", "mrna_splice_evo2", "prokaryote_evo2")
_ROWS, _BP, _MARGIN_BP, _DIFFERENT, _AT_ONCE, _HELD_EVERY = 65_536, 180, 256, 16, 1_024, 15
_MIB = 1 << 20


def main() -> None:
    folder, n_pieces, *step = sys.argv[1:]
    names = [f"{_SOURCES[number % 4]}-{number // 4:05d}" for number in range(int(n_pieces))]
    if not step:
        if not Path(folder).exists():
            _make(Path(folder), names)
        # Each step in a process of its own, whose memory nothing else has used.
        for each in _STEPS:
            subprocess.run([sys.executable, "-m", __spec__.name, folder, n_pieces, each], check=True)
        return
    Workspace.divided_pieces = lambda _: names  # type: ignore[method-assign]
    workspace = open_root(Path(folder))
    _measured(step[0], lambda: _STEPS[step[0]](workspace))


def _manifest(workspace: Workspace) -> None:
    build(workspace.root, GATED["holdouts/manifest"].build_plan(workspace, RELEASES[-1], NO_PROGRESS))


def _split(workspace: Workspace) -> None:
    plan = packages_split.build_plan(workspace, RELEASES[-1], NO_PROGRESS)
    record_latest(workspace, plan, build(workspace.root, plan))


def _audit(workspace: Workspace) -> None:
    fasta = next(workspace.root.path.glob("reference/*/genome.fa.gz"))
    package = workspace.root.path / read_latest(workspace.root.path, RELEASES[-1]).path
    with memory_given_back(), tempfile.TemporaryDirectory(dir=workspace.root.path) as scratch:
        audit_package(package, fasta, contents="sizes", planted=20, folder=Path(scratch), earlier=package)


_STEPS: Mapping[str, Callable[[Workspace], None]] = {
    "holdouts/manifest": _manifest,
    "packages/split": _split,
    "packages/audit": _audit,
}


def _make(folder: Path, names: list[str]) -> None:
    made = make_root(folder, shrink=20, states=False)
    genome = GATED["reference/genome"].open(made)
    catalog = yaml.safe_load((folder / "catalog.yaml").read_text())
    catalog["packages"]["max_visits"] = 100_000
    (folder / "catalog.yaml").write_text(yaml.safe_dump(catalog))
    first = dict[int, Path]()
    for number, name in enumerate(names):
        kind = number % _DIFFERENT

        def write(work: Path, number: int = number, kind: int = kind) -> BuildReport:
            table = read_table(first[kind] / "windows.parquet") if kind in first else pa.concat_tables(_windows(kind))
            parts = (table.slice(at, _AT_ONCE) for at in range(0, _ROWS, _AT_ONCE))
            write_table(map(_with_ids(number), parts), work / "windows.parquet", CORPUS_WINDOWS)
            if kind in first:
                os.link(first[kind] / "bases.npy", work / "bases.npy")
            else:
                write_bases(work / "windows.parquet")
            return BuildReport({"windows": _ROWS}, {"windows.parquet": _ROWS})

        first.setdefault(kind, publish(made, "corpus/windows", name, write, genome).directory)


def _windows(kind: int) -> Iterator[pa.Table]:
    rng, bases = np.random.default_rng([5, kind]), np.frombuffer(b"ACGT", np.uint8)
    flanks = [text.tobytes().decode() for text in bases[np.random.default_rng(6).integers(0, 4, (2, _MARGIN_BP))]]
    for _ in range(0, _ROWS, _AT_ONCE):
        texts = [text.tobytes().decode() for text in bases[rng.integers(0, 4, (_AT_ONCE, _BP))]]
        given = {
            "source": _SOURCES[kind % 4], "start": _MARGIN_BP, "end": _MARGIN_BP + _BP, "window_bp": _BP, "gc": 0.5,
            "left_flank": flanks[0], "right_flank": flanks[1], "placement_how": "none",
            **dict.fromkeys(("maybe_human", "spliced", "placement_exact"), False), "window_index": 0,
        }  # fmt: skip
        columns: dict[str, list[Any]] = {name: [value] * _AT_ONCE for name, value in given.items()} | {
            "sequence": texts
        }
        columns["stated_contig"] = [None if row % _HELD_EVERY else TENTH[-1].name for row in range(_AT_ONCE)]
        empty = {field.name: [None] * _AT_ONCE for field in CORPUS_WINDOWS.arrow if field.name not in columns}
        yield pa.table(columns | empty, schema=CORPUS_WINDOWS.arrow)


def _with_ids(number: int) -> Callable[[pa.Table], pa.Table]:
    rng, rows = np.random.default_rng([7, number]), count()

    def changed(table: pa.Table) -> pa.Table:
        digests = [rng.bytes(32) for _ in range(table.num_rows)]
        columns = {
            "record_id": [f"{number}.{next(rows)}" for _ in digests],
            "window_hash": digests,
            "window_id": [each.hex()[:32] for each in digests],
        }
        for name, values in columns.items():
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
        return table

    return changed


def _measured(name: str, work: Callable[[], None]) -> None:
    before, used, done, peak = status_bytes("RssAnon"), time.process_time(), Event(), [0]

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], status_bytes("RssAnon") - before)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    work()
    done.set()
    watcher.join()
    print(f"{name}: {time.process_time() - used:.0f} CPU s, {peak[0] / _MIB:,.0f} MiB above imports", flush=True)


if __name__ == "__main__":
    main()
