"""Every check of the table of genomes passes on what was built and fails on the fault it is there for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import reverse_complement
from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.genomes.checks import GENOME_CHECKS, check_genomes
from genolewm_assets.mito.genomes.qc import GenomeQcPolicy, KeptGenome, RejectedGenome, judge_record, junction_repeat_bp
from genolewm_assets.mito.genomes.records import GenomeRecord, GenomeReject
from genolewm_assets.mito.genomes.split import SplitPolicy
from genolewm_assets.mito.genomes.table import MITO_GENOMES, genome_tables, place_genomes, reject_table
from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets_tests.mito.judged import judge_all
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.mito.genome_world import QC, REFERENCE, collection
from genolewm_assets_tests.worlds.store.changed_tables import with_value


def circle(length: int, seed: int = 1) -> str:
    return "".join("ACGT"[code] for code in np.random.default_rng(seed).integers(0, 4, length))


GENOME = circle(16_569)
AMBIGUOUS = circle(15_839) + "R" + "YKMSWBDHV" * 17 + "YKMSWBD"


def record(sequence: str, name: str = "a", number: int = 1, problem: str = "") -> GenomeRecord:
    return GenomeRecord(name, "", sequence, None, "c.fa", number, problem)


def records(*sequences: str) -> list[GenomeRecord]:
    return [record(sequence, f"g{number}", number) for number, sequence in enumerate(sequences, start=1)]


def fate(sequence: str, **given: object) -> tuple[str, str]:
    judged = judge_record(record(sequence), GenomeQcPolicy(**given))  # type: ignore[arg-type]
    return ("kept", "") if isinstance(judged, KeptGenome) else (str(judged.reason), judged.detail)


def test_all_real_genomes_are_kept(rcrs: str, real_genomes: list[str]) -> None:
    result = judge_all(records(rcrs, *real_genomes))
    assert result.rejected == ()
    assert [genome.record.number for genome in result.kept] == list(range(1, 42))
    assert [genome.n_bases for genome in result.kept] == [1] + [0] * 40
    assert len({genome.circle_sha256 for genome in result.kept}) == 41


@each_row(
    ("sequence", "expected"),
    [
        ("", ("no_sequence", "the record has no base")),
        (circle(15_399), ("too_short", "15,399 bp, expected at least 15,400")),
        (circle(15_400), ("kept", "")),
        (circle(17_700), ("kept", "")),
        (circle(17_701), ("too_long", "17,701 bp, expected at most 17,700")),
        (circle(15_840) + "N" * 160, ("kept", "")),
        (circle(15_839) + "N" * 161, ("too_many_n", "161 N of 16,000 bp, expected at most 1.00%")),
        (circle(15_840) + "RY" * 80, ("kept", "")),
        (AMBIGUOUS, ("too_many_ambiguous", "161 ambiguity codes of 16,000 bp, expected at most 1.00%")),
        (circle(15_680) + "N" * 160 + "RY" * 80, ("kept", "")),
        (GENOME[:9] + "-" + GENOME[9:] + "*", ("alphabet", "2 no IUPAC codes, the first '-' at base 10")),
        (GENOME + "U", ("alphabet", "1 no IUPAC codes, the first 'U' at base 16,570")),
        (GENOME + "a", ("alphabet", "1 no IUPAC codes, the first 'a' at base 16,570")),
        (GENOME + "\ufffd", ("alphabet", "1 no IUPAC codes, the first '\ufffd' at base 16,570")),
        (GENOME + GENOME[:20], ("junction_repeat", "the last 20 bp repeat the first")),
        (GENOME + GENOME[:19], ("kept", "")),
        (GENOME + GENOME[:1_000], ("junction_repeat", "the last 1,000 bp repeat the first")),
    ],
)
def test_every_bound_is_where_it_is_said_to_be(sequence: str, expected: tuple[str, str]) -> None:
    assert fate(sequence) == expected


def test_the_policy_moves_the_bounds() -> None:
    assert fate("ACGTTGCAAC", min_length_bp=10)[0] == "kept"
    assert fate(GENOME, max_length_bp=16_568)[0] == "too_long"
    assert fate(GENOME[1:] + "N", max_n_fraction=0.0)[0] == "too_many_n"
    assert fate(GENOME[1:] + "R", max_ambiguous_fraction=0.0)[0] == "too_many_ambiguous"
    assert fate(GENOME[1:] + "R", max_n_fraction=0.0)[0] == "kept"
    assert fate(GENOME + GENOME[:19], min_junction_repeat_bp=19)[0] == "junction_repeat"


@each_row(
    "given",
    [
        *({"min_length_bp": 0}, {"min_length_bp": 20_000}, {"max_n_fraction": float("nan")}, {"max_n_fraction": 1.01}),
        *({"max_ambiguous_fraction": -0.1}, {"min_junction_repeat_bp": 0}),
    ],
)
def test_an_impossible_policy_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(given))):
        GenomeQcPolicy(**given)  # type: ignore[arg-type]


def test_what_could_not_be_read_and_what_has_no_name_are_told_first() -> None:
    assert judge_record(record("", problem="over 10 characters: 12")) == RejectedGenome(
        "a", "c.fa", 1, GenomeReject.UNREADABLE, "over 10 characters: 12"
    )
    nameless = judge_record(record("", name=""))
    assert isinstance(nameless, RejectedGenome)
    assert nameless.reason is GenomeReject.NO_NAME


def test_the_first_of_equal_circles_stays() -> None:
    turned = GENOME[700:] + GENOME[:700]
    other = circle(16_569, seed=2)
    result = judge_all(records(turned, GENOME, other, reverse_complement(GENOME[9:] + GENOME[:9]), GENOME))
    assert [genome.record.name for genome in result.kept] == ["g1", "g3"]
    assert [(g.name, g.number, g.reason, g.detail) for g in result.rejected] == [
        (f"g{n}", n, GenomeReject.DUPLICATE_SEQUENCE, "same circle as 'g1' (c.fa, record 1)") for n in (2, 4, 5)
    ]
    # One base more or less is another circle.
    assert len(judge_all(records(GENOME, GENOME[1:], GENOME[:99] + "R" + GENOME[100:])).kept) == 3


def test_records_of_one_name_and_circle_are_one_genome() -> None:
    turned = record(GENOME[5:] + GENOME[:5], number=2)
    assert [(r.number, str(r.reason), r.detail) for r in judge_all([record(GENOME), turned]).rejected] == [
        (2, "duplicate_name", "c.fa, record 1 has the name; the same circle")
    ]
    # That of a haplogroup stays, wherever it stands.
    result = judge_all([record(GENOME), replace(turned, haplogroup="H1")])
    assert [(g.record.number, g.record.haplogroup) for g in result.kept] == [(2, "H1")]


@each_row("order", [1, -1])
def test_records_of_one_name_that_differ_are_all_rejected_in_any_order(order: int) -> None:
    given = [record(GENOME), record(circle(16_569, 2), number=2), record(circle(16_569, 2), "b", 3)]
    given += [replace(record(circle(16_569, 3), "c", n), haplogroup=label) for n, label in ((4, "H1"), (5, "U5"))]
    result = judge_all([*given, record(circle(16_569, 3), "c", 6)][::order])
    assert [(g.record.name, g.record.number) for g in result.kept] == [("b", 3)]
    assert [(g.number, str(g.reason)) for g in result.rejected] == [(n, "conflicting_name") for n in (1, 2, 4, 5, 6)]
    details = {g.number: g.detail for g in result.rejected}
    assert details[1] == "c.fa, record 2 has the name; another sequence"
    assert details[4] == "c.fa, record 5 has the name; another haplogroup"


def plain_repeat_bp(sequence: str, least: int) -> int:
    sizes = [n for n in range(least, len(sequence)) if sequence[-n:] == sequence[:n]]
    if not sizes:
        return 0
    end = sequence[-max(sizes) :]
    units = range(1, min(10, len(end) // 2) + 1)
    return 0 if any((end[:unit] * len(end))[: len(end)] == end for unit in units) else len(end)


@given(st.text("AC", min_size=1, max_size=60), st.integers(1, 20), st.integers(1, 40))
def test_junction_repeat_is_the_longest_there_is(sequence: str, least: int, overlap: int) -> None:
    for tried in (sequence, sequence + sequence[:overlap]):
        assert junction_repeat_bp(tried, least) == plain_repeat_bp(tried, least)


@given(st.integers(0, 16_568), st.integers(20, 1_000))
def test_an_overlap_is_found_wherever_the_circle_is_cut(cut: int, overlap: int) -> None:
    turned = GENOME[cut:] + GENOME[:cut]
    assert junction_repeat_bp(turned, 20) == 0
    assert junction_repeat_bp(turned + turned[:overlap], 20) == overlap


def test_a_circle_cut_inside_an_array_is_no_overlap_but_a_longer_unit_is() -> None:
    inside = GENOME[:16_000]
    for unit in ("C", "CA", "CCCCCTCTA", "N", "CCCCCTCTAG"):
        end = (unit * 40)[: 20 + len(unit)]
        assert junction_repeat_bp(end + inside + end, 20) == 0, unit
    unit = "CCCCCTCTAGA" * 2
    assert junction_repeat_bp(unit + inside + unit, 20) == 22


POLICY = SplitPolicy(validation=0.25, test=0.25)
SCHEMA, ACCOUNT, SOURCES, SPELLING, SIDES = GENOME_CHECKS


@dataclass(frozen=True)
class Built:
    table: pa.Table
    rejects: pa.Table
    counts: Mapping[str, int]
    policy: SplitPolicy = POLICY

    def check(self) -> dict[str, CheckResult]:
        checks = check_genomes(self.table, self.rejects, self.counts, REFERENCE, self.policy)
        return {check.name: check for check in checks}

    def failed(self) -> set[str]:
        return {name for name, check in self.check().items() if not check.passed}

    def with_value(self, name: str, column: str, value: object) -> Built:
        row = self.table["name"].to_pylist().index(name)
        return replace(self, table=with_value(self.table, column, row, value))

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


@each_row("edit", [lambda names: names[1:], lambda names: [*names[:-1], "3999d"], lambda names: []])
def test_a_difference_that_was_lost_or_changed(built: Built, edit: Callable[[list[str]], list[str]]) -> None:
    names = built.value("u5", "differences")
    assert isinstance(names, list)
    changed = built.with_value("u5", "differences", edit(names))
    assert SPELLING in changed.failed() <= {SPELLING, SIDES}
    assert changed.check()[SPELLING].figures["first_wrong"] == "u5"


def test_the_placeholder_of_the_reference_is_no_difference(built: Built) -> None:
    written = built.with_value("plain", "sequence", REFERENCE)
    assert SPELLING not in written.with_value("plain", "placeholders", [1_501]).failed()
    assert SPELLING in written.with_value("plain", "differences", ["1501N"]).failed()


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


@each_row("part", ["table", "rejects"])
@each_row("lost", ["first", "last"])
def test_a_row_that_was_lost(built: Built, part: str, lost: str) -> None:
    whole: pa.Table = getattr(built, part)
    rest = whole.slice(1) if lost == "first" else whole.slice(0, whole.num_rows - 1)
    assert replace(built, **{part: rest}).failed() == {ACCOUNT}


def test_a_row_twice(built: Built) -> None:
    table = pa.concat_tables([built.table.slice(0, 1), built.table.slice(0, 1), built.table.slice(2)])
    assert ACCOUNT in replace(built, table=table).failed()


@each_row("count", ["records", "kept", "rejected.too_short", "rejected.no_name"])
def test_a_wrong_count(built: Built, count: str) -> None:
    for wrong in (built.counts[count] + 1, built.counts[count] - 1):
        assert replace(built, counts={**built.counts, count: wrong}).failed() == {ACCOUNT}


def test_a_reason_outside_the_closed_set(built: Built) -> None:
    first, rejects = built.rejects["reason"][0], with_value(built.rejects, "reason", 0, "odd")
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
