"""Search ten million training tuples for held-out alleles and intervals, as a Markdown table.

The search reads edited windows as bytes, and the tables of the package; it shares no code with the rules of sampling.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.stream.jobs import HELD, PLAIN, RELEASE, keep_verified, open_dataset
from benchmarks.stream.tables import inputs_of
from benchmarks.vcf.tables import Setting

#: Tuples of the package that holds alleles out, and of the one that holds nothing out, where some must be found.
_SEARCHED, _COMPARED = 10_000_000, 1_000_000
_K = 31
#: Rows of contexts that are compared at once.
_ROWS = 4_096
#: Bases around the first base of every edit that are searched: an edit before it moves it by 30 at most.
_BEFORE, _BEHIND = 62, 98
#: 31-mers of an allele that a tuple with a place must show: other alleles can have a few of them in common.
_ENOUGH = 8
_NEAR_BITS = 27
_CODES = np.full(256, 255, dtype=np.uint8)
_CODES[np.frombuffer(b"ACGT", dtype=np.uint8)] = np.arange(4)
Kmers = NDArray[np.uint64]


def kmers_of(codes: NDArray[np.uint8]) -> Kmers:
    """Return the 31-mers of texts as numbers, the smaller of both strands: shape (n, bases - 30)."""
    n = codes.shape[1] - _K + 1
    forward, backward = np.zeros((len(codes), n), np.uint64), np.zeros((len(codes), n), np.uint64)
    for at in range(_K):
        own = codes[:, at : at + n].astype(np.uint64)
        forward |= own << np.uint64(2 * (_K - 1 - at))
        backward |= (np.uint64(3) - own) << np.uint64(2 * at)
    return np.minimum(forward, backward)


def _scattered(kmers: Kmers) -> NDArray[np.int64]:
    """Return a number of few bits for each 31-mer, by which most that are not held out are told."""
    return (kmers * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - _NEAR_BITS)).astype(np.int64)


def _made(contexts: list[dict[str, str]]) -> Kmers:
    """Return the 31-mers that alleles have, with the bases around them, and that the reference there lacks."""
    found = []
    alts, refs = (
        [row["left_context"] + row[name] + row["right_context"] for row in contexts] for name in ("alt", "ref")
    )
    for size in {*map(len, alts)}:
        rows = [row for row, text in enumerate(alts) if len(text) == size]
        made = kmers_of(np.array([_CODES[np.frombuffer(alts[row].encode(), np.uint8)] for row in rows]))
        for row, own in zip(rows, made, strict=True):
            there = kmers_of(_CODES[np.frombuffer(refs[row].encode(), np.uint8)][None])[0]
            found.append(own[~np.isin(own, there)])
    return np.concatenate(found)


class HeldOut:
    """What a package keeps from training: 31-mers that only its held-out alleles have, and intervals."""

    def __init__(self, package: Path) -> None:
        contexts = pq.read_table(package / "holdouts" / "contexts.parquet").to_pylist()
        made = [_made(contexts[first : first + _ROWS]) for first in range(0, len(contexts), _ROWS)]
        self.kmers = np.unique(np.concatenate(made))
        self._near = np.zeros(1 << _NEAR_BITS, dtype=np.bool_)
        self._near[_scattered(self.kmers)] = True
        intervals = pq.read_table(package / "holdouts" / "intervals.parquet").to_pylist()
        self.intervals = {(row["contig"], row["start"], row["end"]) for row in intervals}

    def count(self, kmers: Kmers) -> NDArray[np.int64]:
        """Return how many of the 31-mers of each row are held out."""
        counted = np.zeros(len(kmers), dtype=np.int64)
        row, at = np.nonzero(self._near[_scattered(kmers)])
        near = kmers[row, at]
        found = np.minimum(np.searchsorted(self.kmers, near), len(self.kmers) - 1)
        np.add.at(counted, row, self.kmers[found] == near)
        return counted

    def windows_inside(self, package: Path) -> int:
        """Return how many training windows with a place overlap an interval."""
        inside = 0
        for path in sorted((package / "data").glob("train-*.parquet")):
            table = pq.read_table(path, columns=["contig", "start", "end", "placement_exact"])
            for contig in {name for name, _, _ in self.intervals}:
                spans = np.array(sorted((start, end) for name, start, end in self.intervals if name == contig))
                rows = [row for row in table.to_pylist() if row["placement_exact"] and row["contig"] == contig]
                inside += sum(bool(((spans[:, 0] < row["end"]) & (spans[:, 1] > row["start"])).any()) for row in rows)
        return inside


def edited_texts(batch: Any) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Yield tuples of a batch, and the bases of their edited windows around one of their edits, as codes."""
    windows, edits = batch.edits.edited_windows(batch.unpacked), batch.edits
    for place in range(3):
        rows = np.flatnonzero(edits.n_edits > place)
        first = np.clip(edits.edit_rel_pos[rows, place] - _BEFORE, 0, windows.shape[1] - _BEFORE - _BEHIND)
        yield rows, _CODES[windows[rows[:, None], first[:, None] + np.arange(_BEFORE + _BEHIND)]]


def search(folder: Path, name: str, held: HeldOut, n_tuples: int) -> dict[str, int]:
    """Draw tuples of a package, and count those that show a held-out allele."""
    dataset = open_dataset(folder, name, with_states=False)
    found = {"tuples": 0, "placed": 0, "unplaced": 0, "windows": held.windows_inside(dataset.package.directory)}
    for epoch in count():
        dataset.set_epoch(epoch)
        for batch in dataset:
            shown = np.zeros(len(batch), dtype=np.int64)
            for rows, codes in edited_texts(batch):
                np.add.at(shown, rows, held.count(kmers_of(codes)))
            placed = batch.windows.contig[batch.edits.window] >= 0
            found["placed"] += int((shown[placed] >= _ENOUGH).sum())
            found["unplaced"] += int((shown[~placed] > 0).sum())
            found["tuples"] += len(batch)
            if found["tuples"] >= n_tuples:
                return found
    raise AssertionError("epochs do not end")


def recreated_table(setting: Setting, *, shrink: int) -> Iterator[str]:
    """Search tuples of the package that holds alleles out and of the one that does not; yield the table's lines."""
    folder = inputs_of(setting, shrink=shrink)
    keep_verified(folder)
    held = HeldOut(folder / "root" / "packages" / RELEASE / HELD)
    yield "\n| package | tuples | that show a held-out allele, with a place | without | windows in an interval |"
    yield "|---|---:|---:|---:|---:|"
    for name, title, n in ((HELD, "holds 100,000 alleles out", _SEARCHED), (PLAIN, "holds none out", _COMPARED)):
        found = search(folder, name, held, max(1, n // shrink))
        yield f"| {title} | " + " | ".join(f"{each:,}" for each in found.values()) + " |"
