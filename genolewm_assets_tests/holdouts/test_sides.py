"""What an earlier package of a root held out stays held out, whatever a later release says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from genolewm_assets.genome import Holdout
from genolewm_assets.holdouts import (
    EarlierSides,
    HoldoutIndex,
    HoldoutInputs,
    HoldoutPolicy,
    build_holdouts,
    check_holdouts,
)
from genolewm_assets.holdouts.build import HoldoutTables
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import simulated_inputs

POLICY = HoldoutPolicy(
    contigs_validation=("chr20",),
    contigs_test=("chr21",),
    temporal=("2024-01-07", "2025-01-05"),
    haplotype_fraction=0.05,
)
INPUTS = simulated_inputs()
HELD = build_holdouts(INPUTS, POLICY)
BEFORE = EarlierSides("2025-01-05", HELD.intervals, HELD.alleles, INPUTS.clinvar)


#: Renames the genes of a row, given its number, symbols and GeneIDs.
Change = Callable[[int, list[str], list[int]], tuple[list[str], list[int]]]


def rewritten(change: Change) -> HoldoutInputs:
    """Return the release of the next week, in which ``change`` names the genes of each row of each contig."""
    tables = {}
    for contig, table in INPUTS.clinvar.items():
        rows = table.to_pylist()
        for number, row in enumerate(rows):
            row["gene_symbols"], row["gene_ids"] = change(number, row["gene_symbols"], row["gene_ids"])
        tables[contig] = pa.Table.from_pylist(rows, schema=table.schema)
    return replace(INPUTS, clinvar=tables, corpus=list(INPUTS.corpus), before=BEFORE)


def own_genes(number: int, symbols: list[str], ids: list[int]) -> tuple[list[str], list[int]]:
    """Give a fifth of the rows a gene of their own, whose small GeneID names the component anew."""
    return ([f"OWN{number}"], [100 * number + ids[0] // 1_000]) if number % 5 == 0 else (symbols, ids)


def all_renumbered(number: int, symbols: list[str], ids: list[int]) -> tuple[list[str], list[int]]:
    """Give every gene another GeneID, and so every component another draw."""
    return symbols, [gene % 1_000 * 100 + gene // 1_000 for gene in ids]


def failed(held: HoldoutTables, inputs: HoldoutInputs, policy: HoldoutPolicy = POLICY) -> set[str]:
    return {check.name for check in check_holdouts(held, inputs, policy) if not check.passed}


def in_training(held: HoldoutTables) -> tuple[set[tuple[str, int]], set[tuple[object, ...]]]:
    """Return windows, and ClinVar alleles of the first release, that training may use."""
    index = HoldoutIndex(held.intervals, held.alleles, held.corpus, held.similar, contigs=INPUTS.contigs)
    windows: set[tuple[str, int]] = set()
    for contig, (start, end) in INPUTS.footprints().items():
        met = np.zeros(len(start), bool)
        for row in held.intervals.to_pylist():
            if row["contig"] == contig:
                met |= (start < row["end"]) & (end > row["start"])
        windows |= {(contig, at) for at in start[~met].tolist()}
    alleles: set[tuple[object, ...]] = set()
    for table in INPUTS.clinvar.values():
        keys = zip(*(table[name].to_pylist() for name in ("chrom", "pos", "ref", "alt")), strict=True)
        alleles |= {key for key, out in zip(keys, index.allele_is_held_out(table), strict=True) if not out}
    return windows, alleles


@each_row("change", [own_genes, all_renumbered])
def test_nothing_that_was_evaluated_trains_after_a_damaged_release(change: Change) -> None:
    inputs = rewritten(change)
    windows, alleles = in_training(HELD)
    alone = build_holdouts(replace(inputs, before=EarlierSides()), POLICY)
    held = build_holdouts(inputs, POLICY)
    now, by_itself = in_training(held), in_training(alone)
    assert now[0] <= windows
    assert now[1] <= alleles
    assert failed(held, inputs) == {"moves_in_bounds"}
    assert held.counts["moves.genes_changed"] > 0.02 * held.counts["moves.persisting"] > 0
    # Without what is kept, held-out alleles would train, and the check names them.
    assert not by_itself[1] <= alleles
    assert "evaluated_stays_held_out" in failed(alone, inputs)


def test_a_block_in_what_is_tested_now_is_tested_whatever_it_was_before() -> None:
    def validated(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        return pa.Table.from_pylist(
            [row | ({"role": "validation"} if row["holdout"] == Holdout.HAPLOTYPES else {}) for row in rows],
            schema=table.schema,
        )

    policy = replace(POLICY, haplotype_fraction=0.2)
    first = build_holdouts(replace(INPUTS, corpus=list(INPUTS.corpus)), policy)
    before = replace(BEFORE, intervals=validated(first.intervals), alleles=validated(first.alleles))
    held = build_holdouts(replace(INPUTS, corpus=list(INPUTS.corpus), before=before), policy)
    rows = held.intervals.to_pylist()
    tested = [row for row in rows if row["holdout"] != Holdout.HAPLOTYPES and row["role"] == "test"]
    inside = [
        row["role"]
        for row in rows
        if row["holdout"] == Holdout.HAPLOTYPES
        and any(
            each["contig"] == row["contig"] and each["start"] < row["end"] and row["start"] < each["end"]
            for each in tested
        )
    ]
    assert len(inside) > 4
    assert set(inside) == {"test"}


def test_the_same_release_again_holds_out_the_same() -> None:
    inputs = replace(INPUTS, corpus=list(INPUTS.corpus), before=BEFORE)
    again = build_holdouts(inputs, POLICY)
    for name in ("intervals", "alleles", "corpus", "haplotypes"):
        assert getattr(again, name) == getattr(HELD, name), name
    moves = {name: n for name, n in again.counts.items() if name.startswith("moves.")}
    assert moves.pop("moves.persisting") == sum(table.num_rows for table in INPUTS.clinvar.values())
    assert set(moves.values()) == {0}
    assert failed(again, inputs) == set()


def test_moves_are_those_from_what_the_release_would_hold_out_alone() -> None:
    def of_clinvar(held: HoldoutTables) -> set[tuple[object, ...]]:
        rows = (row for row in held.alleles.to_pylist() if row["source"] == "clinvar")
        return {
            (row["chrom"], row["pos"], row["ref"], row["alt"]) for row in rows if row["holdout"] != Holdout.TEMPORAL
        }

    first = build_holdouts(replace(INPUTS, corpus=[]), replace(POLICY, seed=2))
    before = EarlierSides("2025-01-05", first.intervals, first.alleles, INPUTS.clinvar)
    held, alone = (build_holdouts(replace(INPUTS, corpus=[], before=each), POLICY) for each in (before, EarlierSides()))
    was, own = of_clinvar(first), of_clinvar(alone)
    assert held.counts["moves.to_training"] == len(was - own) > 0
    assert held.counts["moves.from_training"] == len(own - was) > 0


def test_what_was_tested_never_becomes_validation() -> None:
    """Two held-out genes of different roles are one component now: it is tested."""
    roles = {row["unit"]: row["role"] for row in HELD.intervals.to_pylist() if row["holdout"] == Holdout.CLINVAR}
    if set(roles.values()) != {"validation", "test"}:
        pytest.fail("the world has no genes of both roles")
    inputs = rewritten(lambda number, symbols, ids: (["ONE"], [7]) if ids else (symbols, ids))
    held = build_holdouts(inputs, POLICY)
    columns = ("holdout", "source", "chrom", "pos", "ref", "alt")
    now = {tuple(row[name] for name in columns): row["role"] for row in held.alleles.to_pylist()}
    for row in HELD.alleles.to_pylist():
        if row["role"] == "test":
            assert now[tuple(row[name] for name in columns)] == "test"
    assert failed(held, inputs) == {"moves_in_bounds"}


def test_a_removed_allele_is_kept_for_the_release_that_brings_it_back() -> None:
    table = INPUTS.clinvar["chr17"]
    gone = replace(INPUTS, clinvar={**INPUTS.clinvar, "chr17": table.slice(0, 0)}, corpus=[], before=BEFORE)
    held = build_holdouts(gone, POLICY)
    kept = [row for row in held.alleles.to_pylist() if row["chrom"] == "chr17" and row["source"] == "clinvar"]
    assert {row["reason"] for row in kept} == {"kept"}
    assert {(row["label"], row["stars"]) for row in kept} == {(None, None)}
    again = replace(INPUTS, corpus=[], before=EarlierSides("2025-01-12", held.intervals, held.alleles, gone.clinvar))
    assert in_training(build_holdouts(again, POLICY))[1] <= in_training(HELD)[1]


@each_row("change", [own_genes, all_renumbered])
def test_a_release_that_mends_the_damage_trains_nothing_either(change: Change) -> None:
    """The third release names the genes of the first."""
    damaged = rewritten(change)
    between = build_holdouts(damaged, POLICY)
    before = EarlierSides("2025-01-12", between.intervals, between.alleles, damaged.clinvar)
    held = build_holdouts(replace(INPUTS, corpus=[], before=before), POLICY)
    windows, alleles = in_training(HELD)
    now = in_training(held)
    assert now[0] <= windows
    assert now[1] <= alleles
    genes = EarlierSides("2025-01-05", HELD.intervals, HELD.alleles).of_genes()
    assert genes.keys() <= EarlierSides("2025-01-19", held.intervals, held.alleles).of_genes().keys()


@each_row(
    ("changes", "kept"),
    [
        *(({}, True), ({"temporal": ("2024-01-07", "2025-02-02")}, True), ({"temporal": None}, True)),
        ({"buffer": "none", "max_moved_fraction": 0.5, "validation_windows": 7, "min_stars": 2}, True),
        *(({"temporal": ("2024-02-04", "2025-01-05")}, False), ({"seed": 1}, False)),
        *(({"contigs_test": ("chr17",)}, False), ({"clinvar_gene_fraction": 0.3}, False)),
    ],
)
def test_a_policy_changed_by_hand_decides_anew(changes: dict[str, object], kept: bool) -> None:
    assert replace(POLICY, **changes).keeps_sides_of(POLICY.as_recipe()) is kept


def test_blocks_decide_only_where_there_are_some() -> None:
    older = {name: value for name, value in POLICY.as_recipe().items() if not name.startswith("block_")}
    assert replace(POLICY, block_test_fraction=0.3).keeps_sides_of(older)
    assert not replace(POLICY, block_bp=100_000).keeps_sides_of(older)
    assert not replace(POLICY, block_bp=100_000).keeps_sides_of(replace(POLICY, block_bp=50_000).as_recipe())


def test_a_bound_that_is_declared() -> None:
    inputs = rewritten(own_genes)
    policy = replace(POLICY, max_moved_fraction=0.5)
    assert failed(build_holdouts(inputs, policy), inputs, policy) == set()
