"""Every check of the table of genomes passes on what was built and fails on the fault it is there for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.genomes.checks import GENOME_CHECKS, check_genomes
from genolewm_assets.mito.genomes.split import SplitPolicy
from genolewm_assets.mito.genomes.table import MITO_GENOMES, genome_tables, place_genomes, reject_table
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets_tests.worlds.mito.genome_world import QC, REFERENCE, collection

POLICY = SplitPolicy(validation=0.25, test=0.25)
SCHEMA, ACCOUNT, SOURCES, SPELLING, SIDES = GENOME_CHECKS


@dataclass(frozen=True)
class Built:
    """What the checks are given; a test changes one part of it."""

    table: pa.Table
    rejects: pa.Table
    counts: Mapping[str, int]
    policy: SplitPolicy = POLICY

    def check(self) -> dict[str, CheckResult]:
        return {
            check.name: check for check in check_genomes(self.table, self.rejects, self.counts, REFERENCE, self.policy)
        }

    def failed(self) -> set[str]:
        return {name for name, check in self.check().items() if not check.passed}

    def with_value(self, name: str, column: str, value: object) -> Built:
        """Change one value of the genome of a name."""
        values = self.table[column].to_pylist()
        values[self.table["name"].to_pylist().index(name)] = value
        at = self.table.schema.get_field_index(column)
        field = self.table.schema.field(at)
        return replace(self, table=self.table.set_column(at, field, pa.array(values, field.type)))

    def value(self, name: str, column: str) -> object:
        return self.table[column].to_pylist()[self.table["name"].to_pylist().index(name)]

    def other_side(self, name: str) -> str:
        return "test" if self.value(name, "split") == "train" else "train"


@pytest.fixture(scope="module")
def built() -> Built:
    placed = place_genomes(collection(), CircularAligner(REFERENCE), QC)
    _, tables = genome_tables(placed.genomes, REFERENCE, POLICY)
    return Built(pa.concat_tables(tables), reject_table(placed.rejected), placed.counts())


def test_what_was_built_passes(built: Built) -> None:
    checks = built.check()
    assert tuple(checks) == GENOME_CHECKS
    assert built.failed() == set()
    assert checks[ACCOUNT].figures == {"records": 14, "kept": 8, "rejected": 6}
    assert checks[SPELLING].figures == checks[SOURCES].figures == {"genomes": 8, "wrong": 0, "first_wrong": "none"}
    assert checks[SIDES].figures["parted_haplogroups"] == 0
    assert checks[SIDES].figures["least_difference"] > POLICY.max_differences  # type: ignore[operator]


def test_an_empty_collection_passes() -> None:
    empty = Built(MITO_GENOMES.empty(), reject_table([]), {"records": 0, "kept": 0})
    assert empty.failed() == set()
    assert empty.check()[SIDES].figures["least_difference"] == "one side only"


def test_a_base_that_was_changed(built: Built) -> None:
    bases = str(built.value("u5", "sequence"))
    other = bases[:700] + "ACGT"["ACGT".index(bases[700]) ^ 1] + bases[701:]
    changed = built.with_value("u5", "sequence", other)
    assert changed.failed() == {SOURCES, SPELLING}
    assert changed.check()[SOURCES].figures == {"genomes": 8, "wrong": 1, "first_wrong": "u5"}


@pytest.mark.parametrize("edit", [lambda names: names[1:], lambda names: [*names[:-1], "3999d"], lambda names: []])
def test_a_difference_that_was_lost_or_changed(built: Built, edit: Callable[[list[str]], list[str]]) -> None:
    names = built.value("u5", "differences")
    assert isinstance(names, list)
    changed = built.with_value("u5", "differences", edit(names))
    assert SPELLING in changed.failed() <= {SPELLING, SIDES}
    assert changed.check()[SPELLING].figures["first_wrong"] == "u5"


def test_a_sequence_and_differences_that_agree_and_are_not_the_source(built: Built) -> None:
    changed = built.with_value("near", "sequence", built.value("lone", "sequence"))
    changed = changed.with_value("near", "differences", built.value("lone", "differences"))
    assert changed.failed() == {SOURCES}


def test_another_rotation_or_strand_is_no_fault_of_the_source_but_of_the_spelling(built: Built) -> None:
    bases = str(built.value("lone", "sequence"))
    assert built.with_value("lone", "sequence", bases[9:] + bases[:9]).failed() == {SPELLING}


def test_a_near_copy_on_another_side(built: Built) -> None:
    changed = built.with_value("near", "split", built.other_side("near"))
    assert changed.failed() == {SIDES}
    assert changed.check()[SIDES].figures["least_difference"] == 1
    assert replace(changed, policy=replace(POLICY, max_differences=1)).failed() == {SIDES}
    assert replace(changed, policy=replace(POLICY, max_differences=0)).failed() == set()


def test_a_haplogroup_on_two_sides(built: Built) -> None:
    changed = built.with_value("h2", "split", built.other_side("h2"))
    assert changed.failed() == {SIDES}
    assert changed.check()[SIDES].figures["parted_haplogroups"] == 1
    assert replace(changed, policy=replace(POLICY, by_haplogroup=False)).failed() == set()


@pytest.mark.parametrize("part", ["table", "rejects"])
@pytest.mark.parametrize("lost", ["first", "last"])
def test_a_row_that_was_lost(built: Built, part: str, lost: str) -> None:
    whole: pa.Table = getattr(built, part)
    rest = whole.slice(1) if lost == "first" else whole.slice(0, whole.num_rows - 1)
    assert replace(built, **{part: rest}).failed() == {ACCOUNT}


def test_a_row_twice(built: Built) -> None:
    table = pa.concat_tables([built.table.slice(0, 1), built.table.slice(0, 1), built.table.slice(2)])
    assert ACCOUNT in replace(built, table=table).failed()


@pytest.mark.parametrize("count", ["records", "kept", "rejected.too_short", "rejected.no_name"])
def test_a_wrong_count(built: Built, count: str) -> None:
    for wrong in (built.counts[count] + 1, built.counts[count] - 1):
        assert replace(built, counts={**built.counts, count: wrong}).failed() == {ACCOUNT}


def test_a_reason_outside_the_closed_set(built: Built) -> None:
    first, *others = built.rejects["reason"].to_pylist()
    at = built.rejects.schema.get_field_index("reason")
    rejects = built.rejects.set_column(at, built.rejects.schema.field(at), pa.array(["odd", *others]))
    assert replace(built, rejects=rejects).failed() == {ACCOUNT}
    # Nor does it pass where the counts know as little of it as the set.
    without = {**built.counts, f"rejected.{first}": built.counts[f"rejected.{first}"] - 1}
    assert replace(built, rejects=rejects, counts=without).failed() == {ACCOUNT}


def test_a_schema_that_is_not_the_declared_one(built: Built) -> None:
    narrow = built.table.drop_columns(["cluster"])
    for faulty in (
        replace(built, table=narrow),
        built.with_value("u5", "name", None),
        replace(built, rejects=built.rejects.drop_columns(["detail"])),
        replace(built, rejects=built.table),
    ):
        checks = faulty.check()
        assert tuple(checks) == GENOME_CHECKS
        assert not any(check.passed for check in checks.values())
        assert "not run" in str(checks[SIDES].figures["error"])
