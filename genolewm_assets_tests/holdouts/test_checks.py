from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.holdouts.build import HoldoutInputs, HoldoutTables, build_holdouts
from genolewm_assets.holdouts.checks import HOLDOUT_CHECKS, check_holdouts
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.schema import HOLDOUT_CORPUS
from genolewm_assets.holdouts.window_checks import check_corpus
from genolewm_assets_tests.holdouts.genotypes import genotypes_of
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import corpus, corpus_row, simulated_inputs

POLICY = HoldoutPolicy(contigs_validation=("20",), contigs_test=("21",), link_bp=150, max_block_bp=1_000)
Fault = Callable[[HoldoutTables], HoldoutTables]


@pytest.fixture(scope="module")
def sound() -> tuple[HoldoutTables, HoldoutInputs]:
    inputs = simulated_inputs(5)
    return build_holdouts(inputs, POLICY), inputs


def failed(held: HoldoutTables, inputs: HoldoutInputs, policy: HoldoutPolicy = POLICY) -> list[str]:
    results = check_holdouts(held, inputs, policy)
    assert tuple(result.name for result in results) == HOLDOUT_CHECKS
    return [result.name for result in results if not result.passed]


def with_value(table: pa.Table, row: int, column: str, value: object) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    at = table.column_names.index(column)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


def row_of(table: pa.Table, holdout: str) -> int:
    return int(table["holdout"].to_pylist().index(holdout))


def flip(table: pa.Table, row: int) -> pa.Table:
    role = table["role"][row].as_py()
    return with_value(table, row, "role", "test" if role == "validation" else "validation")


def beside(table: pa.Table, row: int) -> pa.Table:
    """Add a unit with the other role that shares the last base of a row."""
    other = with_value(flip(table.slice(row, 1), 0), 0, "unit", "gene:other")
    last = other["end"][0].as_py() - 1
    moved = with_value(with_value(other, 0, "start", last), 0, "end", last + 9)
    return pa.concat_tables([table, moved])


def put(name: str, row: int, column: str, value: object) -> Fault:
    return lambda tables: replace(tables, **{name: with_value(getattr(tables, name), row, column, value)})


def without(table: pa.Table, holdout: str) -> pa.Table:
    return table.filter(pa.compute.not_equal(table["holdout"], holdout))


FAULTS: list[tuple[str, Fault]] = [
    ("haplotypes_as_carried", lambda t: replace(t, haplotypes=t.haplotypes.slice(1))),
    ("haplotypes_as_carried", lambda t: replace(t, haplotypes=flip(t.haplotypes, 0))),
    ("haplotypes_as_carried", put("haplotypes", 0, "n_carriers", 5)),
    ("haplotypes_as_carried", put("haplotypes", 0, "alleles", [{"pos": 1, "ref": "A", "alt": "C"}] * 2)),
    ("schema_as_declared", lambda t: replace(t, alleles=t.alleles.drop_columns(["stars"]))),
    ("rows_sorted_and_unique", lambda t: replace(t, corpus=pa.concat_tables([t.corpus, t.corpus.slice(0, 1)]))),
    ("units_have_one_role", lambda t: replace(t, alleles=flip(t.alleles, row_of(t.alleles, "holdout-haplotypes")))),
    (
        "units_have_one_role",
        lambda t: replace(t, intervals=beside(t.intervals, row_of(t.intervals, "holdout-clinvar"))),
    ),
    ("contigs_held_out_whole", put("intervals", 0, "end", 119_999)),
    ("contigs_held_out_whole", put("intervals", 1, "start", 1)),
    ("alleles_in_stretches_named", lambda t: replace(t, alleles=t.alleles.slice(1))),
    ("alleles_in_stretches_named", lambda t: replace(t, intervals=without(t.intervals, "holdout-clinvar"))),
    ("corpus_windows_in_doubt_named", lambda t: replace(t, corpus=t.corpus.slice(1))),
    ("corpus_windows_in_doubt_named", put("corpus", 0, "record_id", "other")),
    ("corpus_windows_in_doubt_named", lambda t: replace(t, counts={**t.counts, "corpus_windows": 1})),
    ("haplotype_share_in_bounds", put("intervals", -1, "start", 0)),
]


def test_sound_tables_pass(sound: tuple[HoldoutTables, HoldoutInputs]) -> None:
    assert failed(*sound) == []


@each_row(("name", "fault"), FAULTS)
def test_planted_faults_are_found(sound: tuple[HoldoutTables, HoldoutInputs], name: str, fault: Fault) -> None:
    held, inputs = sound
    assert name in failed(fault(held), inputs)


def test_a_window_of_which_only_the_contig_is_known_is_in_doubt() -> None:
    rows = [corpus_row(1, "contig_name", placed_contig="chr17"), corpus_row(2, "contig_name", placed_contig="chr5")]
    inputs = replace(simulated_inputs(5), corpus=[corpus(rows)])
    held = build_holdouts(inputs, POLICY)
    assert set(held.corpus["window_index"].to_pylist()) == {rows[0]["window_index"]}
    assert failed(held, inputs) == []
    assert "corpus_windows_in_doubt_named" in failed(replace(held, corpus=held.corpus.slice(1)), inputs)


def test_too_few_windows_only_where_blocks_are_used_up(sound: tuple[HoldoutTables, HoldoutInputs]) -> None:
    held, inputs = sound
    kept = {name: without(getattr(held, name), "holdout-haplotypes") for name in ("intervals", "alleles", "corpus")}
    none = replace(held, **kept, haplotypes=held.haplotypes.slice(0, 0))
    assert failed(none, inputs) == ["haplotype_share_in_bounds"]
    assert failed(replace(none, counts={**held.counts, "haplotype_blocks.used_up": 1}), inputs) == []


@pytest.fixture(scope="module")
def phased() -> tuple[HoldoutTables, HoldoutInputs]:
    """Return holdouts of which the blocks of chr17 are those of 40 haplotypes."""
    inputs = simulated_inputs(5)
    carried = np.random.default_rng(2).random((inputs.gnomad["chr17"].num_rows, 40)) < 0.3
    inputs = replace(inputs, phased={"chr17": genotypes_of(carried)})
    return build_holdouts(inputs, POLICY), inputs


def test_sound_phased_tables_pass(phased: tuple[HoldoutTables, HoldoutInputs]) -> None:
    held, inputs = phased
    assert failed(held, inputs) == []
    assert held.haplotypes["phased"].to_pylist().count(True) > 10


def test_a_number_of_carriers_and_a_haplotype_too_few_are_found(phased: tuple[HoldoutTables, HoldoutInputs]) -> None:
    held, inputs = phased
    row = held.haplotypes["phased"].to_pylist().index(True)
    more = with_value(held.haplotypes, row, "n_carriers", held.haplotypes["n_carriers"][row].as_py() + 1)
    assert failed(replace(held, haplotypes=more), inputs) == ["haplotypes_as_carried"]
    rest = pa.concat_tables([held.haplotypes.slice(0, row), held.haplotypes.slice(row + 1)])
    assert failed(replace(held, haplotypes=rest), inputs) == ["haplotypes_as_carried"]
    joined = held.haplotypes["alleles"].to_pylist()
    other = next(i for i in range(row + 1, len(joined)) if joined[i] != joined[row])
    swapped = with_value(held.haplotypes, row, "alleles", joined[other])
    assert failed(replace(held, haplotypes=swapped), inputs) == ["haplotypes_as_carried"]


def test_another_contig_than_the_policy_s(sound: tuple[HoldoutTables, HoldoutInputs]) -> None:
    assert failed(*sound, replace(POLICY, contigs_test=("chr17",))) == ["contigs_held_out_whole"]


def test_what_holds_nothing_out_compared_nothing(sound: tuple[HoldoutTables, HoldoutInputs]) -> None:
    held, inputs = sound
    nothing = replace(
        held, **{name: getattr(held, name).slice(0, 0) for name in ("intervals", "alleles", "corpus", "haplotypes")}
    )
    open_policy = replace(POLICY, contigs_validation=(), contigs_test=(), haplotype_fraction=0.0)
    results = {check.name: check for check in check_holdouts(nothing, inputs, open_policy)}
    assert all(check.passed for check in results.values())
    assert (
        results["contigs_held_out_whole"].figures["not_compared"]
        == "the policy holds out no contig and no block of one"
    )
    assert results["units_have_one_role"].figures["not_compared"] == "nothing is held out"
    assert results["haplotype_share_in_bounds"].figures["compared"] > 0
    # A policy that holds out contigs cannot have empty tables.
    named = {check.name: check.passed for check in check_holdouts(nothing, inputs, POLICY)}
    assert not named["rows_sorted_and_unique"]
    assert not named["contigs_held_out_whole"]


UNPLACED = [
    corpus_row(1, "none"),
    corpus_row(2, "mappy", placed_contig="chr20", placed_start=90_000, placed_end=91_200, stated_contig="chr21"),
    corpus_row(3, "stated", placed_contig="chr20", placed_start=90_000, placed_end=91_200),
    corpus_row(4, "coordinates", placed_contig="chr20", placed_start=90_000, placed_end=91_200),
    corpus_row(5, "none", maybe_human=False),
    corpus_row(6, "contig_name", placed_contig="chr5"),
]


@pytest.mark.parametrize(("contig", "expected"), [("5", {1, 2, 3, 6}), ("21", {2})])
def test_windows_in_doubt_are_those_of_another_pass(contig: str, expected: set[int]) -> None:
    """The genome lacks chr5, so that a search of it shows nothing."""
    inputs = replace(simulated_inputs(), corpus=[corpus(UNPLACED)])
    policy = HoldoutPolicy(contigs_validation=(), contigs_test=(contig,), clinvar_genes=(), haplotype_fraction=0)
    held = build_holdouts(inputs, policy)
    assert set(held.corpus["record_id"].to_pylist()) == {f"record{n}" for n in expected}
    assert failed(held, inputs, policy) == []
    for row in range(held.corpus.num_rows):
        rest = pa.concat_tables([held.corpus.slice(0, row), held.corpus.slice(row + 1)])
        assert failed(replace(held, corpus=rest), inputs, policy) == ["corpus_windows_in_doubt_named"]
    wrong = build_holdouts(
        replace(inputs, corpus=[corpus([*UNPLACED[:3], corpus_row(4, "none"), *UNPLACED[4:]])]), policy
    )
    assert ("corpus_windows_in_doubt_named" in failed(wrong, inputs, policy)) is (contig == "5")


ROWS = st.frozensets(
    st.tuples(st.sampled_from(["eukaryote_generator", "mrna_evo2"]), st.integers(0, 5).map(str), st.integers(0, 1)),
    max_size=12,
)


@given(ROWS, ROWS, st.integers(1, 5))
def test_corpus_windows_listed_wrongly_are_those_of_a_referee_of_sets(expected, listed, at_once):
    inputs = simulated_inputs(5)
    held = build_holdouts(replace(inputs, corpus=()), POLICY)
    names, on_21 = HOLDOUT_CORPUS.key[:3], {"maybe_human": False, "stated_contig": "chr21"}
    rows = [corpus_row(0, "none", **dict(zip(names, key, strict=True)), **on_21) for key in sorted(expected)]
    tables = [corpus(rows[first : first + at_once]) for first in range(0, len(rows), at_once)]
    holdouts = {row["holdout"] for row in held.intervals.to_pylist() if row["contig"] == "chr21"}
    table = [
        {**dict(zip(names, key, strict=True)), "holdout": holdout, "reason": "fail_closed"}
        for key in sorted(listed)
        for holdout in sorted(holdouts)
    ]
    wrong = replace(
        held, corpus=pa.Table.from_pylist(table, schema=HOLDOUT_CORPUS.arrow), counts={"corpus_windows": len(rows)}
    )
    problems = check_corpus(wrong, replace(inputs, corpus=tables), POLICY)
    found = {(*(row[name] for name in names), row["holdout"]) for row in problems}
    assert holdouts
    assert found == {(*key, holdout) for key in expected ^ listed for holdout in holdouts}
