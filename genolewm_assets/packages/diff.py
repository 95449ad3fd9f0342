"""Compare two packages: windows, alleles, labels, holdouts, settings. What training gained is in ``label_diff``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import EVALUATION, Split
from genolewm_assets.packages.label_diff import (
    AlleleChange,
    BenchDiff,
    LabelDiff,
    compare_benches,
    compare_labels,
    count_true,
    find_allele_changes,
    find_differing,
    row_codes,
    touched_alleles,
)
from genolewm_assets.packages.reader import HoldoutNoun, Package, open_tables
from genolewm_assets.packages.schema import HOLDOUT_PATHS, PACKAGE_WINDOWS
from genolewm_assets.store.tables import read_encoded
from genolewm_assets.variants import ALLELE_KEY

_PLACE = ("origin", "contig", "start", "record_id", "window_index")
_ALLELE = ("source", *ALLELE_KEY)
#: Key and compared columns of each holdout table.
_HOLDOUT_KEYS: Mapping[HoldoutNoun, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "intervals": (("holdout", "contig", "start", "unit"), ("end", "role")),
    "alleles": (("holdout", "source", *ALLELE_KEY), ("role", "label", "stars")),
    "corpus": (("source", "record_id", "window_index", "holdout"), ("reason",)),
}


@dataclass(frozen=True, slots=True)
class TableDiff:
    """Number of rows of one table that only the second package has, only the first has, or that differ."""

    table: str
    added: int
    removed: int
    changed: int

    @property
    def is_empty(self) -> bool:
        """Whether all three numbers are 0."""
        return not (self.added or self.removed or self.changed)

    def __add__(self, other: TableDiff) -> TableDiff:
        """Return the sums for two parts of one table."""
        numbers = (self.added + other.added, self.removed + other.removed, self.changed + other.changed)
        return TableDiff(self.table, *numbers)


@dataclass(frozen=True, slots=True)
class PackageDiff:
    """Differences between a first and a second package."""

    #: ``before``, ``after``: release and folder name of the first and second package.
    before: str
    after: str
    #: Rows added, removed and changed, by table. Rows are matched by holdout and key: windows by placement or corpus
    #: record, alleles by source and normal form.
    tables: tuple[TableDiff, ...]
    #: Number of windows and alleles that moved between splits, by a key such as ``windows, train -> test``.
    moved: Mapping[str, int]
    #: Number of ClinVar alleles in both packages whose label differs, by a key such as ``VUS -> P``.
    relabelled: Mapping[str, int]
    #: ClinVar alleles that training gained, lost or has with another label.
    train: LabelDiff
    #: Comparison of each bench: the alleles to score of a holdout and split, for every holdout that has any.
    benches: tuple[BenchDiff, ...]
    #: Other differences in ``package.json``: value before and after, by name.
    settings: Mapping[str, tuple[str, str]]
    #: Every ClinVar allele whose class, stars or places differ, sorted; empty if they were not to be listed.
    alleles: tuple[AlleleChange, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the packages do not differ."""
        differing = self.moved or self.relabelled or self.settings or self.alleles
        return all(table.is_empty for table in self.tables) and not differing

    def as_dict(self) -> dict[str, object]:
        """Return all differences as JSON values."""
        return asdict(self)

    def to_text(self, *, alleles: bool = False) -> str:
        """Return the differences as an aligned text table; ``alleles`` adds a line for each ClinVar allele."""
        lines = [("", "added", "removed", "changed")]
        lines += [(t.table, f"{t.added:,}", f"{t.removed:,}", f"{t.changed:,}") for t in self.tables]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [f"{self.before} -> {self.after}", ""]
        text += [
            line[0].ljust(widths[0])
            + "".join(f"  {cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
            for line in lines
        ]
        for title, counts in (("moved", self.moved), ("relabelled", self.relabelled)):
            text += ["", *(f"{title}: {name}  {n:,}" for name, n in counts.items())] if counts else []
        text += ["", *self.train.lines()] if not self.train.is_empty else []
        text += ["", *(bench.line() for bench in self.benches)]
        text += (
            ["", *(f"{name}: {old} -> {new}" for name, (old, new) in self.settings.items())] if self.settings else []
        )
        text += ["", *map(str, self.alleles)] if alleles and self.alleles else []
        return "\n".join(text if not self.is_empty else [*text[:1], "", "no difference"]) + "\n"


def diff_packages(before: Path | str, after: Path | str) -> PackageDiff:
    """Verify two packages and compare them.

    Their caches are not read; errors are those of :func:`genolewm_assets.packages.reader.open_tables`.
    """
    return compare_packages(
        open_tables(before, allow_unaudited=True), open_tables(after, allow_unaudited=True), list_alleles=True
    )


def compare_packages(old: Package, new: Package, *, list_alleles: bool = False) -> PackageDiff:
    """Compare two open packages, one source and contig of their alleles at a time.

    Their caches are not read. ``list_alleles`` fills ``PackageDiff.alleles``, which is empty otherwise.
    """
    names = [f"{noun}, {split}" for noun in ("windows", "alleles") for split in Split]
    tables = {name: TableDiff(name, 0, 0, 0) for name in names}
    moved = {f"{noun}, {a} -> {b}": 0 for noun in ("windows", "alleles") for a, b in permutations(Split, 2)}
    train = anywhere = LabelDiff({}, {}, {})
    listed = list[AlleleChange]()

    def compare(noun: str, key: tuple[str, ...], value: str, rows: Mapping[Split, Sequence[pa.Table]]) -> None:
        for split, pair in rows.items():
            found = _diff(f"{noun}, {split}", pair, ("holdout", *key), (value,))
            tables[found.table] += found
        codes = row_codes([table for pair in rows.values() for table in pair], key)
        keys = dict(zip(product(rows, (0, 1)), map(pc.unique, codes), strict=True))
        for name, n in _moved(noun, keys):
            moved[name] += n

    compare("windows", _PLACE, "window_hash", _windows(old, new))
    for contig in sorted({contig for package in (old, new) for contig in package.variant_contigs()}):
        pair = touched_alleles(old, new, contig)
        splits = {split: [table.filter(pc.equal(table["split"], split)) for table in pair] for split in Split}
        compare("alleles", _ALLELE, "label", splits)
        train += compare_labels(splits[Split.TRAIN])
        anywhere += compare_labels(pair)
        listed += find_allele_changes(pair) if list_alleles else ()
    for noun, (key, compared) in _HOLDOUT_KEYS.items():
        held = [read_encoded(each.directory / HOLDOUT_PATHS[noun], [*key, *compared]) for each in (old, new)]
        tables[noun] = _diff(f"holdouts, {noun}", held, key, compared)
    return PackageDiff(
        before=f"{old.info.release} ({old.directory.name})",
        after=f"{new.info.release} ({new.directory.name})",
        tables=tuple(tables.values()),
        moved={name: n for name, n in moved.items() if n},
        relabelled=anywhere.relabelled,
        train=train,
        benches=compare_benches(old, new),
        settings=dict(_settings(old, new)),
        alleles=tuple(listed),
    )


def _windows(old: Package, new: Package) -> dict[Split, list[pa.Table]]:
    """Return the windows of both packages by split, but those of train that both have in one piece."""
    columns = ["holdout", *_PLACE, "window_hash"]
    rows = {split: [package.windows(split, columns) for package in (old, new)] for split in EVALUATION}
    rows[Split.TRAIN] = [_train_windows(*pair, columns) for pair in ((old, new), (new, old))]
    return rows


def _train_windows(package: Package, other: Package, columns: Sequence[str]) -> pa.Table:
    theirs = {ref.manifest_sha256: ref for ref in other.info.pieces}
    parts = [pa.table(batch) for batch in package.own_batches(Split.TRAIN, columns)]
    for ref in package.info.pieces:
        only = package.trains(ref)
        if ref.manifest_sha256 in theirs:
            only = only & ~other.trains(theirs[ref.manifest_sha256])
        parts.append(package.rows_of_piece(ref, np.flatnonzero(only), columns))
    return pa.concat_tables([PACKAGE_WINDOWS.empty().select(columns), *parts])


def _diff(name: str, pair: Sequence[pa.Table], key: Sequence[str], value: Sequence[str]) -> TableDiff:
    return TableDiff(name, **{what: count_true(mask) for what, mask in find_differing(pair, key, value).items()})


def _moved(noun: str, keys: Mapping[tuple[Split, int], pa.Array]) -> Iterator[tuple[str, int]]:
    for source, target in permutations(Split, 2):
        before, after = keys[source, 0], keys[source, 1]
        left = before.filter(pc.invert(pc.is_in(before, value_set=after)))
        # A window of both splits, as those that only show bench alleles may be, does not move by leaving one.
        came = pc.and_not(pc.is_in(left, value_set=keys[target, 1]), pc.is_in(left, value_set=keys[target, 0]))
        if n := count_true(came):
            yield f"{noun}, {source} -> {target}", n


def _settings(old: Package, new: Package) -> Iterator[tuple[str, tuple[str, str]]]:
    names = ("release", "genome_digest", "margin_bp", "mix", "knowledge", "without_alleles", "sources", "caches")
    pairs = {name: (getattr(old.info, name), getattr(new.info, name)) for name in names}
    for name in sorted({*old.info.policy, *new.info.policy}):
        pairs[f"policy.{name}"] = old.info.policy.get(name), new.info.policy.get(name)
    yield from ((name, (_short(a), _short(b))) for name, (a, b) in pairs.items() if a != b)


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} ({', '.join(f'{ref.source} {ref.key}' for ref in value)})" if value else "none"
    return str(value)
