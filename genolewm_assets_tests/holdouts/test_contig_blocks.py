"""Blocks of contigs that are held out where no whole contig is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import EVALUATION, Holdout, Split
from genolewm_assets.holdouts.build import HoldoutInputs, HoldoutTables, build_holdouts
from genolewm_assets.holdouts.checks import check_holdouts
from genolewm_assets.holdouts.held_intervals import HeldInterval, hold_contigs
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.sides import EarlierSides
from genolewm_assets_tests.worlds.lewm.holdout_world import simulated_inputs

POLICY = HoldoutPolicy(
    contigs_validation=(),
    contigs_test=("21",),
    block_bp=10_000,
    block_validation_fraction=0.2,
    block_test_fraction=0.2,
    clinvar_gene_fraction=0.5,
    link_bp=150,
    max_block_bp=1_000,
)
LENGTHS = {"chr20": 1_000_500, "chr21": 900_000}


def blocks(policy: HoldoutPolicy, starts: Sequence[int]) -> list[HeldInterval]:
    windows = {name: np.array(sorted(starts), np.int64) for name in LENGTHS}
    return [row for row in hold_contigs(policy.canonical(CONTIGS), LENGTHS, windows) if row.contig != "chr21"]


CONTIGS = simulated_inputs(5).contigs


@given(st.sets(st.integers(0, 1_000_000), min_size=30), st.integers(20_000, 120_000), st.integers(0, 5))
def test_each_role_has_its_share_of_the_blocks_with_windows_and_none_touch(
    starts: set[int], size: int, seed: int
) -> None:
    policy = replace(POLICY, block_bp=size, seed=seed)
    there = {start // size for start in starts}
    try:
        found = blocks(policy, [*starts])
    except ConfigurationError:
        assert len(there) < 12
        return
    number = {row.start // size: row.role for row in found}
    assert number.keys() <= there
    assert Counter(number.values()) == dict.fromkeys(EVALUATION, max(1, round(0.2 * len(there))))
    assert all(number.get(n + 1, role) is role for n, role in number.items())
    assert all(row.end == min(row.start + size, LENGTHS["chr20"]) for row in found)
    assert all(row.unit == f"chr20:{row.start + 1}-{row.end}" for row in found)


def test_shares_that_cannot_be_had_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"block_test_fraction.*of 2 blocks with windows, 0 are free"):
        blocks(POLICY, [0, 10_000])
    none = replace(POLICY, block_validation_fraction=0.0)
    assert [row.role for row in blocks(none, [0, 10_000])] == [Split.TEST]


@pytest.fixture(scope="module")
def sound() -> tuple[HoldoutTables, HoldoutInputs]:
    inputs = simulated_inputs(5)
    return build_holdouts(inputs, POLICY), inputs


def failed(held: HoldoutTables, inputs: HoldoutInputs) -> list[str]:
    return [result.name for result in check_holdouts(held, inputs, POLICY) if not result.passed]


def test_genes_and_haplotype_blocks_have_the_role_of_the_block_that_they_meet(
    sound: tuple[HoldoutTables, HoldoutInputs],
) -> None:
    assert failed(*sound) == []
    rows = sound[0].intervals.to_pylist()
    of_contigs = [row for row in rows if row["reason"] == "contig_block"]
    assert {row["role"] for row in of_contigs} == {"validation", "test"}
    met = Counter[bool]()
    for row in rows:
        roles = {
            block["role"]
            for block in of_contigs
            if row["contig"] == block["contig"] and row["start"] < block["end"] and block["start"] < row["end"]
        }
        if row["holdout"] != Holdout.CHR and roles:
            # One that overlaps a gene of another block, or has been given its role, is at least as strict.
            met[row["role"] in roles] += 1
            assert row["role"] in {*roles, "test"}
    assert met[True] > 5


def test_what_was_tested_before_and_what_meets_a_block_of_test_is_test() -> None:
    inputs = simulated_inputs(5)
    held = build_holdouts(inputs, POLICY)
    genes = held.intervals.filter(pc.equal(held.intervals["reason"], "gene_component"))
    flipped = {"validation": "test", "test": "validation"}
    before = [row | {"role": flipped[row["role"]]} for row in genes.to_pylist()]
    earlier = EarlierSides("2020-01-01", pa.Table.from_pylist(before, genes.schema))
    again = build_holdouts(replace(inputs, before=earlier), POLICY).intervals.to_pylist()
    blocks = [row for row in again if row["holdout"] == Holdout.CHR]
    roles = [
        (row["role"], block["role"])
        for row in again
        for block in blocks
        if row["reason"] == "gene_component" and row["contig"] == block["contig"]
        if row["start"] < block["end"] and block["start"] < row["end"]
    ]
    # Whatever the block is: the other role had been given before.
    assert roles
    assert {role for role, _ in roles} == {"test"}


def _first_block(table: pa.Table) -> int:
    return int(pc.index(table["reason"], "contig_block").as_py())


def _put(column: str, value: Callable[[dict[str, object]], object]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        rows, at = table.to_pylist(), _first_block(table)
        rows[at][column] = value(rows[at])
        return pa.Table.from_pylist(rows, table.schema)

    return change


def _dropped(table: pa.Table) -> pa.Table:
    at = _first_block(table)
    return pa.concat_tables([table.slice(0, at), table.slice(at + 1)])


@pytest.mark.parametrize(
    "fault",
    [
        _put("end", lambda row: int(str(row["end"])) - 1),
        _put("start", lambda row: int(str(row["start"])) + 1),
        _put("role", lambda row: "test" if row["role"] == "validation" else "validation"),
        _dropped,
    ],
)
def test_a_wrong_block_is_found(
    sound: tuple[HoldoutTables, HoldoutInputs], fault: Callable[[pa.Table], pa.Table]
) -> None:
    held, inputs = sound
    assert "contigs_held_out_whole" in failed(replace(held, intervals=fault(held.intervals)), inputs)
