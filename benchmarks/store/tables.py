"""Measurements of the array store and its peers as Markdown tables."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.store import jobs as store_jobs
from benchmarks.store import peers as store_peers
from benchmarks.store.array_stores import make_finished, make_unfinished
from benchmarks.store.jobs import MEMMAP, OURS, PLAIN, WRITES, data_file
from benchmarks.store.random_rows import BATCH_ROWS, ROW_VALUES
from benchmarks.vcf.tables import NO_PEERS, Setting
from benchmarks.workers import Figures, Job, measure, measure_fresh

#: Rows of the store that is read and written; rows, and values per row, of the stores that are opened and resumed.
ROWS, MANY_ROWS, MANY_VALUES = 50_000, 1_000_000, (64, ROW_VALUES)
# Turns of reading per run: a read task takes about 3 ms.
_READ_TURNS = 40
_MIB = 1 << 20
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_TITLES = {"row": "one random row", "batch": f"{BATCH_ROWS} random rows"}


@dataclass(frozen=True, slots=True)
class _Entrant:
    """One way to read one store, as a job."""

    store: str
    way: str
    job: Job


def store_tables(setting: Setting, *, shrink: int) -> Iterator[str]:
    """Measure the array store in a temporary folder below the inputs, and yield the lines of all tables."""
    setting.folder.mkdir(parents=True, exist_ok=True)
    if (kind := _file_system(setting.folder)) in _IN_MEMORY:
        yield f"\narray store: not measured: {setting.folder} is in memory ({kind}), name one on a disk with --inputs"
        return
    with tempfile.TemporaryDirectory(dir=setting.folder, prefix="store_") as name:
        folder = Path(name)
        store = _make(folder / "read" / str(ROW_VALUES), ROWS // shrink)
        yield from read_tables(store, replace(setting, runs=_READ_TURNS * setting.runs))
        yield from write_table(store, setting)
        many = [_make(folder / "many" / str(values), MANY_ROWS // shrink) for values in MANY_VALUES]
        yield from open_table(many, setting)


def _make(folder: Path, n_rows: int) -> Path:
    """Make a finished store and an unfinished one in ``folder``, and return the finished one."""
    row_values = _values(folder / "finished")
    make_unfinished(folder / "unfinished", n_rows, row_values)
    make_finished(folder / "finished", folder / "unfinished", row_values)
    return folder / "finished"


def read_tables(store: Path, setting: Setting) -> Iterator[str]:
    """Measure reading one and 256 random rows in every way; the tables show the fastest way of each store."""
    folder = store.parent.parent
    peers_of = {name: _peer_command(name, store, folder / "peers", setting) for name in store_peers.STORES}
    entrants = {read: list(_entrants(read, store, peers_of)) for read in _TITLES}
    jobs = [entrant.job for read in _TITLES for entrant in entrants[read]]
    found = iter(measure(jobs, runs=setting.runs))
    for read, title in _TITLES.items():
        fastest = _fastest([(entrant, next(found)) for entrant in entrants[read]])
        yield f"\n**array store: {title} of {_title(store)}, all in memory**\n"
        yield "| store | wall us | lowest to highest | CPU us | memmap = 1 | ours = 1 | the fastest way |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        for entrant, figures in fastest.values():
            yield _read_row(entrant, figures, fastest)


def _entrants(read: str, store: Path, peers_of: dict[str, Sequence[str]]) -> Iterator[_Entrant]:
    for name, ways in store_jobs.READS.items():
        for way in ways:
            yield _Entrant(name, way, Job(name, _own_command("read", store), task=f"{name}/{way}/{read}"))
    for name, ways in store_peers.WAYS.items():
        for way in ways:
            yield _Entrant(name, way, Job(name, peers_of[name], NO_PEERS, f"{way}/{read}"))


def _fastest(measured: Sequence[tuple[_Entrant, Figures]]) -> dict[str, tuple[_Entrant, Figures]]:
    """Return the fastest way of each store; a failed one if all its ways failed."""
    fastest: dict[str, tuple[_Entrant, Figures]] = {}
    for entrant, figures in measured:
        if entrant.store not in fastest or _each_us(figures) < _each_us(fastest[entrant.store][1]):
            fastest[entrant.store] = (entrant, figures)
    return fastest


def _each_us(figures: Figures) -> float:
    return float("inf") if figures.failure else figures.wall_s / (figures.records or 1) * 1e6


def _read_row(entrant: _Entrant, figures: Figures, fastest: dict[str, tuple[_Entrant, Figures]]) -> str:
    if figures.failure:
        return _failed(entrant.store, figures, columns=7)
    count = figures.records or 1
    low, high = min(figures.wall) / count * 1e6, max(figures.wall) / count * 1e6
    ratios = " | ".join(_ratio(figures, fastest[name][1]) for name in (MEMMAP, OURS))
    return (
        f"| {_label(figures)} | {_each_us(figures):,.2f} | {low:,.2f} to {high:,.2f} "
        f"| {figures.cpu_s / count * 1e6:,.2f} | {ratios} | {entrant.way} |"
    )


def write_table(store: Path, setting: Setting) -> Iterator[str]:
    """Measure writing a store, and the same bytes to a plain file with one sync and with as many syncs."""
    command = _own_command("write", store)
    jobs = [Job("plain file, one sync", command, task=PLAIN)]
    for name in WRITES:
        jobs.append(Job(f"{OURS}, {name}", command, task=name))
        jobs.append(Job("plain file, as many syncs", command, task=f"{PLAIN}/{name}"))
    figures = measure(jobs, runs=setting.runs)
    yield f"\n**array store: writing {_title(store)}, on {_file_system(store)}**\n"
    yield "| job | syncs | wall s | lowest to highest | CPU s | rows/s | MB/s | of plain | of as many syncs |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for number, row in enumerate(figures):
        peer = figures[number + 1] if row.name.startswith(OURS) else None
        yield _write_row(row, figures[0], peer, store)


def _write_row(row: Figures, plain: Figures, same_syncs: Figures | None, store: Path) -> str:
    if row.failure:
        return _failed(row.name, row, columns=9)
    size_bytes = data_file(store).stat().st_size
    rate = f"{_n_rows(store) / row.wall_s:,.0f} | {size_bytes / row.wall_s / 1e6:,.0f} | {_share(row, plain)}"
    costs = f"{row.wall_s:.3f} | {min(row.wall):.3f} to {max(row.wall):.3f} | {row.cpu_s:.2f}"
    return f"| {row.name} | {row.records:,} | {costs} | {rate} | {_share(row, same_syncs) if same_syncs else ''} |"


def open_table(stores: Sequence[Path], setting: Setting) -> Iterator[str]:
    """Measure opening and verifying finished stores, and resuming unfinished ones."""
    yield "\n**array store: many rows; opening and resuming in a new process each time**\n"
    yield "| store | job | wall s | lowest to highest | CPU s | GB/s | peak MiB | of it before |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for row in measure_fresh([job for store in stores for job in _fresh_jobs(store)], runs=setting.runs):
        yield _many_row(row, memory=True)
    for row in measure([job for store in stores for job in _warm_jobs(store)], runs=setting.runs):
        yield _many_row(row, memory=False)


def _fresh_jobs(store: Path) -> Iterator[Job]:
    title, command = _title(store), _own_command("open", store)
    yield Job(f"{title} | open, read the last row", command, task="row")
    yield Job(f"{title} | open, list the keys", command, task="keys")
    unfinished = store.with_name("unfinished")
    yield Job(f"{title} | resume after a kill", _own_command("resume", unfinished), task="resume")


def _warm_jobs(store: Path) -> Iterator[Job]:
    for name, task in (("read the file", "read"), ("verify", "verify")):
        yield Job(f"{_title(store)} | {name}", _own_command("verify", store), task=task)


def _title(store: Path) -> str:
    return f"{_n_rows(store):,} x {_values(store):,} float16, {data_file(store).stat().st_size / 1e6:,.0f} MB"


def _values(store: Path) -> int:
    return int(store.parent.name)


def _n_rows(store: Path) -> int:
    return data_file(store).stat().st_size // (2 * _values(store))


def _many_row(row: Figures, *, memory: bool) -> str:
    if row.failure:
        return _failed(row.name, row, columns=8)
    sizes = f"{row.peak_bytes / _MIB:,.0f} | {row.loaded_bytes / _MIB:,.0f}" if memory else " | "
    rate = "" if memory else f"{(row.records or 0) / row.wall_s / 1e9:.1f}"
    times = f"{row.wall_s:.4f} | {min(row.wall):.4f} to {max(row.wall):.4f} | {row.cpu_s:.4f}"
    return f"| {row.name} | {times} | {rate} | {sizes} |"


def _ratio(figures: Figures, other: Figures) -> str:
    """Return the ratio of times per read, as the median over the turns, because the machine's speed drifts."""
    if other.failure:
        return ""
    counts = (other.records or 1) / (figures.records or 1)
    return f"{statistics.median(a / b for a, b in zip(figures.wall, other.wall, strict=True)) * counts:.2f}"


def _share(figures: Figures, other: Figures) -> str:
    """Return the rate relative to the other's, in per cent; the median over the turns, as in :func:`_ratio`."""
    if other.failure:
        return ""
    return f"{statistics.median(b / a for a, b in zip(figures.wall, other.wall, strict=True)):.0%}"


def _failed(name: str, figures: Figures, *, columns: int) -> str:
    said = figures.failure.replace("|", "/")
    used = name.count("|") + 2
    return f"| {name} | not measured: {said} |" + " |" * (columns - used)


def _label(figures: Figures) -> str:
    version = "" if figures.name.startswith(MEMMAP) or not figures.version else f" ({figures.version})"
    return f"{figures.name}{version}"


def _own_command(part: str, store: Path) -> list[str]:
    out = store.parent.parent / "out"
    return [sys.executable, "-m", "benchmarks.store.jobs", part, str(store), str(out)]


def _peer_command(name: str, store: Path, folder: Path, setting: Setting) -> Sequence[str]:
    python = sys.executable if name in store_peers.INSTALLED else setting.peers_python
    made = folder / name.partition(",")[0].replace(" ", "_").lower()
    return [str(python), "-m", "benchmarks.store.peers", name, str(data_file(store)), str(made)] if python else ()


def _file_system(folder: Path) -> str:
    """Return the type of the file system of a folder, such as ``ext4``; see mountinfo in proc(5)."""
    kinds = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mounted, _, about = line.partition(" - ")
        kinds[Path(mounted.split()[4])] = about.split()[0]
    return next(kinds[each] for each in (folder.resolve(), *folder.resolve().parents) if each in kinds)
