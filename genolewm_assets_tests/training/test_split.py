from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
import pytest

from genolewm_assets.edits.rules import EditSource
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import Split
from genolewm_assets.memory_mapped.split import MappedSplit
from genolewm_assets.memory_mapped.writer import SplitWriter
from genolewm_assets.packages.schema import PACKAGE_VARIANTS
from genolewm_assets.training import opening
from genolewm_assets.training.opening import read_split
from genolewm_assets_tests.worlds.lewm.package_world import held_alleles, table
from genolewm_assets_tests.worlds.lewm.stream_world import CONTIG, as_batch, make_window, simulate_reference

REFERENCE = simulate_reference()
START = 4_000


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


@pytest.fixture(autouse=True)
def mapped_form(tmp_path, monkeypatch) -> None:
    numbers = count()

    def open_mapped(package: OpenPackage, name: Split) -> MappedSplit:
        folder = tmp_path / str(next(numbers)) / name
        with SplitWriter(folder, name, min_stars=2, contexts=()) as writer:
            writer.add_windows(package.batch)
            writer.add_variants(table(package.rows, PACKAGE_VARIANTS.arrow))
            writer.finish(package.held)
        return MappedSplit(folder)

    monkeypatch.setattr(opening, "open_mapped", open_mapped)


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
