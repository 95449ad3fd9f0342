"""Holdouts of a simulated genome: what they hold equals what plain referees find."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from genolewm_assets.errors import ConfigurationError, UnknownContigError
from genolewm_assets.holdouts.build import HoldoutInputs, HoldoutTables, build_holdouts
from genolewm_assets.holdouts.checks import check_holdouts
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets_tests.holdouts.genotypes import genotypes_of
from genolewm_assets_tests.referees.holdout_lookup import footprints, index_of
from genolewm_assets_tests.worlds.lewm.holdout_world import corpus, corpus_row, simulated_inputs

POLICY = HoldoutPolicy(
    contigs_validation=("20",),
    contigs_test=("chr21",),
    temporal=("2024-01-07", "2025-01-05"),
    clinvar_gene_fraction=0.3,
    link_bp=150,
    max_block_bp=1_000,
)
Keys = set[tuple[object, ...]]


@pytest.fixture(scope="module")
def simulated() -> tuple[HoldoutInputs, HoldoutTables]:
    inputs = simulated_inputs()
    return inputs, build_holdouts(inputs, POLICY)


def keys(table: pa.Table) -> Keys:
    return set(zip(*(table[name].to_pylist() for name in ("chrom", "pos", "ref", "alt")), strict=True))


def test_checks_pass(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    assert [check for check in check_holdouts(simulated[1], simulated[0], POLICY) if not check.passed] == []


def test_every_holdout_has_both_sides(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    _, held = simulated
    sides = {(row["holdout"], row["role"]) for table in (held.intervals, held.alleles) for row in table.to_pylist()}
    names = ("holdout-chr", "holdout-clinvar", "holdout-haplotypes", "holdout-temporal")
    assert sides == {(name, role) for name in names for role in ("validation", "test")}


def test_no_base_of_the_test_is_in_validation(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    rows = simulated[1].intervals.to_pylist()
    for one in rows:
        for other in rows:
            genes = one["holdout"] == other["holdout"] == "holdout-clinvar"
            if one["contig"] == other["contig"] and one["role"] != other["role"] and not genes:
                assert one["end"] <= other["start"] or other["end"] <= one["start"]


def test_blocks_take_two_percent_of_the_windows(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    counts = simulated[1].counts
    assert abs(counts["windows.holdout-haplotypes"] / counts["windows"] - 0.02) <= 0.003


def test_windows_and_alleles_equal_a_quadratic_referee(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs, held = simulated
    index, intervals = index_of(held, inputs), held.intervals.to_pylist()

    def sides_of(contig: str, start: int, end: int) -> set[str]:
        met = [row for row in intervals if row["contig"] == contig and row["start"] < end and start < row["end"]]
        return {name for row in met for name in (row["holdout"], f"{row['holdout']}.{row['role']}")}

    counts: Counter[str] = Counter()
    for contig in inputs.windows:
        spans = footprints(inputs, contig)
        sides = [sides_of(contig, start, end) for start, end in spans]
        assert index.window_is_held_out(contig, spans).tolist() == [bool(each) for each in sides]
        for each in sides:
            counts.update(["windows", *(f"windows.{name}" for name in (*each, *["held_out"] * bool(each)))])
        listed = keys(held.alleles)
        for table in (inputs.gnomad[contig], inputs.clinvar[contig]):
            mask = index.allele_is_held_out(table).tolist()
            for row, found in zip(table.to_pylist(), mask, strict=True):
                inside = bool(sides_of(contig, row["pos"] - 1, row["pos"] - 1 + len(row["ref"])))
                key = (row["chrom"], row["pos"], row["ref"], row["alt"])
                assert found == (inside or key in listed)
                assert not inside or key in listed
    assert counts == {name: n for name, n in held.counts.items() if n and name.partition(".")[0] == "windows"}
    assert held.counts.keys() >= {"windows.holdout-temporal.validation"}


def test_temporal_equals_a_referee_of_dictionaries(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs, held = simulated
    labelled = {"P", "LP", "B", "LB"}
    assert inputs.clinvar_earlier is not None
    before = {
        (row["chrom"], row["pos"], row["ref"], row["alt"]): row["label"]
        for table in inputs.clinvar_earlier.values()
        for row in table.to_pylist()
    }
    newly = [
        (key, "new" if key not in before else "became_labelled", row)
        for table in inputs.clinvar.values()
        for row in table.to_pylist()
        for key in [(row["chrom"], row["pos"], row["ref"], row["alt"])]
        if row["label"] in labelled and before.get(key) not in labelled
    ]
    expected = {(key, reason) for key, reason, row in newly if row["stars"] >= 1}
    rows = [row for row in held.alleles.to_pylist() if row["holdout"] == "holdout-temporal"]
    assert {((r["chrom"], r["pos"], r["ref"], r["alt"]), r["reason"]) for r in rows} == expected
    assert len(rows) == len(expected) > 20
    classes = {"P": "pathogenic", "LP": "pathogenic"}
    counts = Counter(f"new_labels.{reason}.{classes.get(row['label'], 'benign')}" for _, reason, row in newly)
    assert counts == {name: n for name, n in held.counts.items() if n and name.startswith("new_labels.")}


def test_counts_add_up(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    _, held = simulated
    counts = held.counts
    tables = {"alleles": held.alleles, "corpus_windows": held.corpus}
    rows = [f"{noun}.{row['holdout']}.{row['reason']}" for noun, table in tables.items() for row in table.to_pylist()]
    units = {(row["holdout"], row["role"], row["unit"]) for row in held.intervals.to_pylist()}
    expected = Counter([*rows, *(f"units.{holdout}.{role}" for holdout, role, _ in units)])
    assert expected == {
        name: n for name, n in counts.items() if n and re.match(r"(alleles|corpus_windows|units)\.holdout-", name)
    }
    assert counts["windows.holdout-chr.validation"] == counts["windows.holdout-chr.test"] == 149
    assert counts["windows.holdout-temporal"] == 0
    assert counts["corpus_windows"] == 128 + 1
    assert counts["corpus_windows.held_out"] == len(
        {(row["source"], row["record_id"], row["window_index"]) for row in held.corpus.to_pylist()}
    )


def test_no_trace_of_order_or_batches(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs, held = simulated
    turned = replace(
        inputs,
        windows=dict(reversed(inputs.windows.items())),
        gnomad=dict(reversed(inputs.gnomad.items())),
        clinvar={name: pa.concat_tables([t.slice(0, 7), t.slice(7)]) for name, t in reversed(inputs.clinvar.items())},
        corpus=[table.slice(n, 1) for table in inputs.corpus for n in reversed(range(table.num_rows))],
    )
    again = build_holdouts(turned, POLICY)
    for name in ("intervals", "alleles", "corpus"):
        assert getattr(again, name).equals(getattr(held, name))
    assert again.counts == held.counts
    assert not build_holdouts(inputs, replace(POLICY, seed=1)).intervals.equals(held.intervals)


def test_contig_that_the_genome_lacks_is_held_out_all_the_same(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    rows = [corpus_row(1, placed_contig="chr5", placed_start=9, placed_end=99), corpus_row(2, "none")]
    rows.append(corpus_row(3, placed_contig="chr17", placed_start=399_000, placed_end=399_500))
    inputs = replace(simulated[0], corpus=[corpus(rows)])
    policy = HoldoutPolicy(contigs_validation=(), contigs_test=("5",), clinvar_genes=(), haplotype_fraction=0)
    held = build_holdouts(inputs, policy)
    assert held.counts["assembled_per_million.chr5"] == 0
    found = dict(zip(held.corpus["record_id"].to_pylist(), held.corpus["reason"].to_pylist(), strict=True))
    assert found == {"record1": "placed", "record2": "fail_closed"}


def test_what_cannot_be_held_out_is_an_error(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs = simulated[0]
    with pytest.raises(ConfigurationError, match="BRCA1"):
        build_holdouts(inputs, replace(POLICY, clinvar_genes=("BRCA1",)))
    with pytest.raises(ConfigurationError, match="2024-01-07"):
        build_holdouts(replace(inputs, clinvar_earlier=None), POLICY)
    with pytest.raises(UnknownContigError):
        build_holdouts(inputs, replace(POLICY, contigs_test=("chrZ",)))


def test_phased_genotypes_decide_where_there_are_some(simulated: tuple[HoldoutInputs, HoldoutTables]) -> None:
    inputs = simulated[0]
    n = inputs.gnomad["chr17"].num_rows
    carried = np.zeros((n, 2), dtype=bool)
    carried[10:13, 1] = True
    policy = replace(POLICY, haplotype_fraction=1, haplotype_max_blocks=1, link_bp=1_000)
    held = build_holdouts(replace(inputs, phased={"chr17": genotypes_of(carried)}), policy)
    blocks = [row for row in held.intervals.to_pylist() if row["holdout"] == "holdout-haplotypes"]
    (phased,) = [row for row in blocks if row["contig"] == "chr17"]
    positions = inputs.gnomad["chr17"]["pos"].to_pylist()[10:13]
    assert (phased["reason"], phased["start"], phased["end"]) == ("phased_block", positions[0] - 1, positions[2])
    assert {row["reason"] for row in blocks if row["contig"] != "chr17"} == {"proximity_block"}
    (row,) = [row for row in held.haplotypes.to_pylist() if row["phased"]]
    assert (row["unit"], row["role"], row["n_carriers"]) == (phased["unit"], phased["role"], 1)
    assert [allele["pos"] for allele in row["alleles"]] == positions
    others = sum(table.num_rows for table in inputs.gnomad.values()) - n
    assert (held.counts["common_alleles.phased"], held.counts["common_alleles.not_phased"]) == (n, others)
    assert held.counts["haplotype_blocks.phased"] == 1
