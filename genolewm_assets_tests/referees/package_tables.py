"""Count what differs between two packages, from their Parquet files, with sets and dictionaries of plain rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

SPLITS = ("train", "validation", "test")
Row = dict[str, Any]


def rows_of(package: Path, pattern: str) -> list[Row]:
    """Return the rows of all files of a package that match a pattern, without long texts."""
    return [
        row
        for path in sorted(package.glob(pattern))
        for row in pq.ParquetFile(path).read().drop_columns(["sequence"] if "data/" in pattern else []).to_pylist()
    ]


def window_key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in ("holdout", "origin", "contig", "start", "record_id", "window_index"))


def allele_key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in ("holdout", "source", "chrom", "pos", "ref", "alt"))


def count_rows(before: Path, after: Path) -> dict[str, int]:
    """Return rows added and removed by split, as ``<split>_windows_added`` and so on."""
    figures = {}
    for split in SPLITS:
        for noun, pattern, key in (
            ("windows", f"data/{split}-*.parquet", window_key),
            ("alleles", f"variants/{split}.parquet", allele_key),
        ):
            old, new = ({key(row) for row in rows_of(package, pattern)} for package in (before, after))
            figures |= {f"{split}_{noun}_added": len(new - old), f"{split}_{noun}_removed": len(old - new)}
    return figures


def bench(package: Path) -> dict[tuple[str, str], dict[tuple[object, ...], Row]]:
    """Return the alleles to score by holdout and split, and in them by key."""
    found: dict[tuple[str, str], dict[tuple[object, ...], Row]] = {}
    for split in SPLITS[1:]:
        for row in rows_of(package, f"variants/{split}.parquet"):
            if row["scoring"] is not None:
                found.setdefault((row["holdout"], split), {})[allele_key(row)] = row
    return found


def compare_benches(before: Path, after: Path) -> dict[tuple[str, str], tuple[int, int, int, int, int, int]]:
    """Return, by holdout and split: alleles before, added, removed, of another label, otherwise different, now."""
    old, new = bench(before), bench(after)
    counted = {}
    for place in {*old, *new}:
        a, b = old.get(place, {}), new.get(place, {})
        both = [(a[key], b[key]) for key in a if key in b]
        labels = sum(x["label"] != y["label"] for x, y in both)
        others = sum(
            x["label"] == y["label"] and (x["stars"], x["scoring"]) != (y["stars"], y["scoring"]) for x, y in both
        )
        counted[place] = (len(a), len(b) - len(both), len(a) - len(both), labels, others, len(b))
    return counted


def labels_in_train(package: Path) -> dict[tuple[object, ...], str]:
    rows = rows_of(package, "variants/train.parquet")
    return {allele_key(row): row["label"] for row in rows if row["source"] == "clinvar"}


def compare_training(before: Path, after: Path) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return ClinVar alleles that training gained and lost by class, and relabelled ones as ``VUS -> P``."""
    old, new = labels_in_train(before), labels_in_train(after)
    return (
        Counter(new[key] for key in new.keys() - old.keys()),
        Counter(old[key] for key in old.keys() - new.keys()),
        Counter(f"{old[key]} -> {new[key]}" for key in old.keys() & new.keys() if old[key] != new[key]),
    )


def move_figures(before: Path, after: Path) -> dict[str, int]:
    """Return the figures of the report of a move from one package to another, but those of ClinVar's own changes."""
    benches = compare_benches(before, after).values()
    return {
        **count_rows(before, after),
        "bench_alleles_added": sum(each[1] for each in benches),
        "bench_alleles_removed": sum(each[2] for each in benches),
        "bench_labels_changed": sum(each[3] for each in benches),
        "train_labels_changed": sum(compare_training(before, after)[2].values()),
    }
