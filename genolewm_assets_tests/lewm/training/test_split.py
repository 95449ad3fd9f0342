from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.lewm.edits.sources import EditSource
from genolewm_assets.lewm.mapped.opening import check_no_held_window, write_from_tables
from genolewm_assets.lewm.mapped.split import MappedSplit
from genolewm_assets.lewm.packages.schema import PACKAGE_VARIANTS
from genolewm_assets.lewm.training import split
from genolewm_assets.lewm.training.split import read_split
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.package_world import held_alleles, intervals, table
from genolewm_assets_tests.worlds.lewm.stream_world import CONTIG, as_batch, make_window, simulate_reference

REFERENCE = simulate_reference()
START = 4_000
FOOTPRINT_END = START + 3_072 + 256


def variant(
    source: str, pos: int, label: str | None = None, holdout: str | None = None, stars: int = 1
) -> dict[str, object]:
    own = {"source": source, "chrom": CONTIG, "pos": pos, "ref": "A", "alt": "C", "label": label, "gene_ids": []}
    return own | {"holdout": holdout, "role": "train", "stars": stars if source == "clinvar" else None}


@dataclass
class OpenPackage:
    """What a stream reads from a package, held in memory."""

    batch: pa.RecordBatch
    rows: list[dict[str, object]] = field(default_factory=list)
    held: pa.Table = field(default_factory=held_alleles)
    stretches: pa.Table = field(default_factory=intervals)
    directory: Path = Path("pack")
    info: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(margin_bp=256, policy={"min_stars": 2}))

    def variant_batches(self, _, columns):
        return iter(table(self.rows, PACKAGE_VARIANTS.arrow).select(columns).to_batches())

    def holdouts(self, noun, columns=None):
        found = {"alleles": self.held, "intervals": self.stretches}[noun]
        return found if columns is None else found.select(columns)

    def window_batches(self, _, columns):
        return iter([self.batch.select(columns)])

    def context_batches(self):
        return iter(())

    def windows(self, _, columns):
        return pa.Table.from_batches([self.batch]).select(columns)


@pytest.fixture(autouse=True)
def mapped_form(tmp_path, monkeypatch) -> None:
    """Make the mapped form as for a package that carries none."""
    numbers = count()

    def open_mapped(package: OpenPackage, name: Split) -> MappedSplit:
        if name is Split.TRAIN:
            check_no_held_window(package)
        folder = tmp_path / str(next(numbers)) / name
        write_from_tables(folder, package, name)
        return MappedSplit(folder)

    monkeypatch.setattr(split, "open_mapped", open_mapped)


def with_column(batch: pa.RecordBatch, name: str, values: list[object]) -> pa.RecordBatch:
    rows = [row | {name: value} for row, value in zip(batch.to_pylist(), values, strict=True)]
    return pa.RecordBatch.from_pylist(rows, schema=batch.schema)


ONE = as_batch([make_window(REFERENCE, START)])


def positions(index) -> list[int]:
    return [index.allele(row)[0] for rows in index.contigs.values() for row in range(*rows)]


def test_training_draws_from_gnomad_and_pathogenic_clinvar_alleles():
    rows = [
        variant("gnomad", 10),
        *(variant("clinvar", 20 + i, label) for i, label in enumerate(["P", "LP", "B", "LB", "VUS"])),
    ]
    found = read_split(OpenPackage(ONE, rows), Split.TRAIN, None)
    assert positions(found.real[EditSource.GNOMAD]) == [10]
    assert positions(found.real[EditSource.CLINVAR]) == [20, 21]
    assert len(found.windows) == 1


def test_an_evaluation_draws_from_the_labelled_alleles_of_its_holdout():
    two = with_column(as_batch([make_window(REFERENCE, START), make_window(REFERENCE, 9_000)]), "holdout", ["a", "b"])
    labels = ["P", "LP", "B", "LB", "VUS", "OTHER"]
    rows = [variant("clinvar", 20 + i, label, "a", 2) for i, label in enumerate(labels)]
    rows += [variant("clinvar", 30 + i, label, "a", stars) for stars in (0, 1) for i, label in enumerate(labels)]
    rows += [variant("gnomad", 5, None, "b"), variant("gnomad", 6, None, "a")]
    found = read_split(OpenPackage(two, rows), Split.VALIDATION, "a")
    assert positions(found.real[EditSource.CLINVAR]) == [20, 21, 22, 23]
    assert positions(found.real[EditSource.GNOMAD]) == [6]
    assert [found.windows.record(row).start for row in range(len(found.windows))] == [START]


def test_what_is_never_made_depends_on_the_split():
    held = held_alleles(("a", "validation", variant("gnomad", 1)), ("b", "test", variant("gnomad", 2)))
    made = {}
    for name, holdout in SPLITS:
        package = OpenPackage(with_column(ONE, "holdout", [holdout]), held=held)
        made[name] = positions(read_split(package, name, holdout).held_out)
    assert made == {Split.TRAIN: [1, 2], Split.VALIDATION: [2], Split.TEST: []}


SPLITS = ((Split.TRAIN, None), (Split.VALIDATION, "a"), (Split.TEST, "a"))


def test_a_holdout_without_windows_is_named():
    package = OpenPackage(with_column(ONE, "holdout", ["a"]))
    with pytest.raises(ConfigurationError, match=r"expected one of \['a'\], got 'chr21'"):
        read_split(package, Split.TEST, "chr21")


@each_row(
    ("start", "end", "origin", "leaks"),
    [
        (FOOTPRINT_END - 1, FOOTPRINT_END + 9, "reference", True),
        (FOOTPRINT_END, FOOTPRINT_END + 9, "reference", False),
        (START - 9, START + 1, "reference", True),
        (START - 9, START, "reference", False),
        (FOOTPRINT_END - 1, FOOTPRINT_END + 9, "mrna_evo2", False),
        (START + 9, START + 10, "mrna_evo2", True),
    ],
)
def test_a_training_window_in_a_held_out_interval_is_found(start, end, origin, leaks):
    batch = as_batch([make_window(REFERENCE, START, origin=origin), make_window(REFERENCE, 12_000)])
    package = OpenPackage(batch, stretches=intervals(("holdout-chr", "test", CONTIG, start, end)))
    if leaks:
        with pytest.raises(CorruptResourceError, match="some overlap held-out intervals: expected none, got 1"):
            read_split(package, Split.TRAIN, None)
    else:
        assert len(read_split(package, Split.TRAIN, None).windows) == 2
    other = replace(package, stretches=intervals(("holdout-chr", "test", "chr20", start, end)))
    assert len(read_split(other, Split.TRAIN, None).windows) == 2
