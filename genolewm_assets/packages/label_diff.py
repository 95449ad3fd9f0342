"""Compare the ClinVar alleles of two packages: what training gained or lost, and whether the benches are equal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import counted
from genolewm_assets.genome import EVALUATION, Split
from genolewm_assets.packages.reader import Package
from genolewm_assets.packages.schema import HOLDOUT_PATHS, VariantSource, variants_path
from genolewm_assets.store.tables import read_encoded, repeated_text
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s

#: Numbers that may stand for a row.
_MOST_CODES = 1 << 63


@dataclass(frozen=True, slots=True)
class AlleleState:
    """What a package says of a ClinVar allele: class, review stars, places (``train``, or holdout and split)."""

    label: str
    stars: int | None
    places: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.label} {self.stars}* ({', '.join(self.places)})"


@dataclass(frozen=True, slots=True)
class AlleleChange:
    """One ClinVar allele that two packages have differently; a state is None where the package lacks the allele."""

    chrom: str
    pos: int
    ref: str
    alt: str
    before: AlleleState | None
    after: AlleleState | None

    def __str__(self) -> str:
        return f"{self.chrom}:{self.pos} {self.ref}>{self.alt}  {self.before or '-'} -> {self.after or '-'}"


@dataclass(frozen=True, slots=True)
class LabelDiff:
    """Numbers of ClinVar alleles that came and went, by class, and of relabelled ones, by ``VUS -> P``."""

    added: Mapping[str, int]
    removed: Mapping[str, int]
    relabelled: Mapping[str, int]

    @property
    def is_empty(self) -> bool:
        """Whether the ClinVar alleles and their labels are the same."""
        return not (self.added or self.removed or self.relabelled)

    def __add__(self, other: LabelDiff) -> LabelDiff:
        """Return the sums for two parts of the alleles."""
        pairs = ((self.added, other.added), (self.removed, other.removed), (self.relabelled, other.relabelled))
        return LabelDiff(*(dict(sorted((Counter(a) + Counter(b)).items())) for a, b in pairs))

    def lines(self) -> list[str]:
        """Return one line of text per class and direction, for alleles of training."""
        return [
            *(f"train: + {label}  {n:,}" for label, n in self.added.items()),
            *(f"train: - {label}  {n:,}" for label, n in self.removed.items()),
            *(f"relabelled in train: {change}  {n:,}" for change, n in self.relabelled.items()),
        ]


@dataclass(frozen=True, slots=True)
class BenchDiff:
    """Comparison of one bench: the labelled alleles of a holdout and split that are to be scored."""

    holdout: str
    split: str
    alleles: int
    added: int
    removed: int
    #: Alleles with another label, other stars, or another outcome in ``scoring``.
    changed: int
    relabelled: int
    #: Gene components of these alleles, or contigs of those held out by their place alone; empty if nothing differs.
    units: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether both packages have the same alleles with the same labels, stars and outcomes."""
        return not (self.added or self.removed or self.changed)

    def line(self) -> str:
        """Return the comparison as one line of text."""
        name = f"bench {self.holdout}, {self.split}"
        if self.is_equal:
            return f"{name}: equal, {counted(self.alleles, 'allele')}"
        units = ", ".join(self.units[:5]) + (f" and {len(self.units) - 5:,} more" if len(self.units) > 5 else "")
        changes = f"{self.added:,} added, {self.removed:,} removed, {self.changed:,} changed"
        return f"{name}: differs, {changes}, in {units}"


def touched_alleles(old: Package, new: Package, contig: str) -> list[pa.Table]:
    """Return the alleles of a contig of two packages, but those of which both have the same rows in all splits.

    Columns ``split``, ``holdout``, ``source``, the key, ``label`` and ``stars``, texts as dictionaries; one row per
    split and holdout.
    """
    pair = [_alleles(package, contig) for package in (old, new)]
    keys = row_codes(pair, [*ALLELE_KEY, "source"])
    full = row_codes(pair, ["split", "holdout", "label", "stars"], begin=keys)
    alone = _in_one(*full)
    touched = pa.concat_arrays(
        [key.filter(pc.is_in(rows, value_set=alone)) for key, rows in zip(keys, full, strict=True)]
    )
    found = [table.filter(pc.is_in(key, value_set=touched)) for table, key in zip(pair, keys, strict=True)]
    return [table.filter(pc.equal(table["chrom"], contig)) for table in found]


def _in_one(old: pa.Array, new: pa.Array) -> pa.Array:
    """Return the numbers, not negative, that only one of two arrays has."""
    # A stable sort is fast where numbers are nearly sorted, as those of rows are.
    parts = [np.sort(part.to_numpy(), kind="stable") for part in (old, new)]
    both = np.sort(np.concatenate([part[_begins(part)] for part in parts]), kind="stable")
    begins = _begins(both)
    return pa.array(both[begins & np.append(begins[1:], True)])


def _begins(numbers: Int64s) -> Bools:
    """Return where another number begins in sorted ones."""
    begins: Bools = np.diff(numbers, prepend=numbers[:1] - 1) != 0
    return begins


def find_allele_changes(pair: Sequence[pa.Table]) -> tuple[AlleleChange, ...]:
    """Return the ClinVar alleles among those of :func:`touched_alleles`, sorted by position and bases."""
    before, after = (_states(table.filter(pc.equal(table["source"], VariantSource.CLINVAR))) for table in pair)
    found = (AlleleChange(*key, before.get(key), after.get(key)) for key in sorted({*before, *after}))
    return tuple(change for change in found if change.before != change.after)


def compare_labels(pair: Sequence[pa.Table]) -> LabelDiff:
    """Count the ClinVar alleles that one of two tables has, and those whose label differs in their last rows."""
    pair = [table.filter(pc.equal(table["source"], VariantSource.CLINVAR)) for table in pair]
    before, after = (
        dict(zip(codes.to_pylist(), table["label"].cast(pa.string()).to_pylist(), strict=True))
        for codes, table in zip(row_codes(pair, ALLELE_KEY), pair, strict=True)
    )
    in_both = before.keys() & after.keys()
    changes = (f"{before[key]} -> {after[key]}" for key in in_both if before[key] != after[key])
    added, removed = after.keys() - before.keys(), before.keys() - after.keys()
    return LabelDiff(Counter(after[key] for key in added), Counter(before[key] for key in removed), Counter(changes))


def compare_benches(old: Package, new: Package) -> tuple[BenchDiff, ...]:
    """Compare every bench of a package, by split and holdout: the rows of ``variants`` with a ``scoring``."""
    listed = ["holdout", "role", "unit", *ALLELE_KEY]
    held = [read_encoded(package.directory / HOLDOUT_PATHS["alleles"], listed) for package in (old, new)]
    found: list[BenchDiff] = []
    for split in EVALUATION:
        columns = ["holdout", *ALLELE_KEY, "label", "stars", "scoring"]
        rows = [read_encoded(package.directory / variants_path(split), columns) for package in (old, new)]
        scored = [table.filter(pc.field("scoring").is_valid()) for table in rows]
        for holdout in sorted({name for table in scored for name in pc.unique(table["holdout"]).to_pylist()}):
            pair = [table.filter(pc.equal(table["holdout"], holdout)) for table in scored]
            here = (pc.field("holdout") == holdout) & (pc.field("role") == str(split))
            ours = [table.filter(here) for table in held]
            found.append(_compare_bench(pair, ours, holdout, split))
    return tuple(found)


def _compare_bench(pair: Sequence[pa.Table], held: Sequence[pa.Table], holdout: str, split: Split) -> BenchDiff:
    masks = find_differing(pair, ALLELE_KEY, ("label", "stars", "scoring"))
    units: set[str] = set()
    for name, mask in masks.items():
        at = name != "removed"
        units.update(_units(pair[at].filter(mask), held[at]))
    masks["relabelled"] = find_differing(pair, ALLELE_KEY, ["label"])["changed"]
    figures = {name: count_true(mask) for name, mask in masks.items()}
    return BenchDiff(holdout, str(split), pair[1].num_rows, **figures, units=tuple(sorted(units)))


def _units(alleles: pa.Table, held: pa.Table) -> Iterator[str]:
    """Yield the unit of each allele that is held out by its key, and the contig of each that is not."""
    keys, listed = row_codes((alleles, held), ALLELE_KEY)
    yield from pc.unique(held["unit"].filter(pc.is_in(listed, value_set=keys))).to_pylist()
    yield from pc.unique(alleles["chrom"].filter(pc.invert(pc.is_in(keys, value_set=listed)))).to_pylist()


def _alleles(package: Package, contig: str) -> pa.Table:
    """Return the alleles of all splits on a contig, and some of others, those of the benches with their holdouts."""
    columns, parts = ["holdout", "source", *ALLELE_KEY, "label", "stars"], []
    for split in Split:
        table = read_encoded(package.directory / variants_path(split), columns, near=("chrom", contig))
        parts.append(table.add_column(0, "split", repeated_text(str(split), table.num_rows).dictionary_encode()))
    return pa.concat_tables(parts)


def _states(table: pa.Table) -> dict[tuple[str, int, str, str], AlleleState]:
    places: defaultdict[tuple[str, int, str, str], list[str]] = defaultdict(list)
    said: dict[tuple[str, int, str, str], tuple[str, int | None]] = {}
    names = (*ALLELE_KEY, "split", "holdout", "label", "stars")
    for *key, split, holdout, label, stars in zip(*(table[name].to_pylist() for name in names), strict=True):
        allele = tuple(key)
        places[allele].append(split if holdout is None else f"{holdout} {split}")
        said[allele] = label, stars
    return {key: AlleleState(*said[key], tuple(sorted(found))) for key, found in places.items()}


def find_differing(pair: Sequence[pa.Table], key: Sequence[str], value: Sequence[str]) -> dict[str, pa.Array]:
    """Return masks of ``added`` and ``changed`` rows of the second table, and of ``removed`` ones of the first."""
    (old, new), (old_full, new_full) = (row_codes(pair, names) for names in (key, [*key, *value]))
    kept = pc.is_in(new, value_set=old)
    changed = pc.and_not(kept, pc.is_in(new_full, value_set=old_full))
    return {"added": pc.invert(kept), "removed": pc.invert(pc.is_in(old, value_set=new)), "changed": changed}


def count_true(mask: pa.Array) -> int:
    """Return the number of rows that a mask marks."""
    return int(pc.sum(mask).as_py() or 0)


def row_codes(tables: Sequence[pa.Table], names: Sequence[str], begin: Sequence[pa.Array] = ()) -> list[pa.Array]:
    """Return a number per row of each table, int64: equal for rows with equal values; a null equals a null.

    ``begin`` has such numbers for other columns, which are to be equal too.
    """
    codes, n_codes = np.zeros(sum(table.num_rows for table in tables), np.int64), 1
    if begin and len(codes):
        codes = np.concatenate(begin)
        n_codes = int(codes.max()) + 1
    for name in names:
        column = pa.concat_tables([table.select([name]) for table in tables]).combine_chunks()[name]
        numbers, n_values = _value_codes(column.combine_chunks())
        if n_codes * n_values >= _MOST_CODES:
            (codes, n_codes), (numbers, n_values) = (_encoded(pa.array(each)) for each in (codes, numbers))
        codes *= n_values
        codes += numbers
        n_codes *= n_values
    ends = np.cumsum([table.num_rows for table in tables])
    return [pa.array(part) for part in np.split(codes, ends[:-1])]


def _value_codes(column: pa.Array) -> tuple[npt.NDArray[np.integer[Any]], int]:
    """Return a number for every value, equal for equal ones, and how many there may be."""
    if pa.types.is_dictionary(column.type):
        n_values = len(column.dictionary)
        return column.indices.fill_null(n_values).to_numpy(), n_values + 1
    if pa.types.is_integer(column.type) and len(column) and not column.null_count:
        numbers = column.to_numpy().astype(np.int64)
        return numbers - (least := numbers.min()), int(numbers.max()) - int(least) + 1
    return _encoded(column)


def _encoded(column: pa.Array) -> tuple[Int64s, int]:
    encoded = column.dictionary_encode("encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
