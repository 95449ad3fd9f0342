from __future__ import annotations

import pyarrow as pa
import pytest

from genolewm_assets.errors import ConfigurationError, UnknownContigError
from genolewm_assets.genome import GRCH38, Split
from genolewm_assets.holdouts.corpus import CONCLUSIVE_SHARE, GRCH38_BASES, assembled_shares
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import CONTIGS, genome


@each_row(
    "setting",
    [
        {"clinvar_gene_fraction": 1.1},
        {"haplotype_fraction": -0.1},
        {"haplotype_max_blocks": 2},
        {"link_bp": -1},
        {"max_block_bp": 999},
        {"min_stars": 5},
        {"validation_windows": -1},
        {"temporal": ("2026-02-26", "2020-11-07")},
        {"temporal": ("2026-02-26", "2026-02-26")},
        {"temporal": ("2026-02-26.10", "2026-02-26.9")},
        {"contigs_test": ("chr20",)},
    ],
)
def test_impossible_settings(setting: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=r"holdouts\."):
        HoldoutPolicy(**setting)  # type: ignore[arg-type]


def test_contigs_by_any_name() -> None:
    policy = HoldoutPolicy(contigs_validation=("20", "NC_000005.10"), contigs_test=("21",)).canonical(CONTIGS)
    assert policy.contig_roles() == {"chr20": Split.VALIDATION, "chr5": Split.VALIDATION, "chr21": Split.TEST}
    with pytest.raises(UnknownContigError):
        HoldoutPolicy(contigs_test=("chr99",)).canonical(CONTIGS)


def test_two_names_of_one_contig_in_both_roles() -> None:
    with pytest.raises(ConfigurationError, match="'chr21' has both roles"):
        HoldoutPolicy(contigs_validation=("21",), contigs_test=("chr21",)).canonical(CONTIGS)


def test_side_depends_on_the_unit_alone() -> None:
    units = [f"gene:{n}" for n in range(1_000)]
    policy = HoldoutPolicy()
    roles = policy.divide(units)
    assert policy.divide(reversed(units[:500])) == {unit: roles[unit] for unit in units[:500]}
    assert 430 < list(roles.values()).count(Split.TEST) < 570
    assert roles != HoldoutPolicy(seed=1).divide(units)


@each_row("seed", range(6))
def test_neither_side_is_empty(seed: int) -> None:
    policy = HoldoutPolicy(seed=seed)
    assert policy.divide([]) == {}
    assert policy.divide(["a"]) == {"a": Split.VALIDATION}
    for n in range(2, 6):
        assert set(policy.divide(map(str, range(n))).values()) == {Split.VALIDATION, Split.TEST}


def contigs_table(**acgt: int) -> pa.Table:
    table = genome(contigs=type(GRCH38)(GRCH38[name] for name in acgt))
    return table.set_column(table.column_names.index("acgt_bases"), "acgt_bases", pa.array(list(acgt.values())))


def test_every_contig_of_grch38_has_a_figure_below_its_length() -> None:
    assert list(GRCH38_BASES) == list(GRCH38.names)
    assert all(0.4 * GRCH38[name].length < bases < GRCH38[name].length for name, bases in GRCH38_BASES.items())


def test_analysis_set_and_whole_assembly_are_conclusive() -> None:
    # What the analysis sets blank on chr21 is 5.1 % of the whole assembly's bases.
    whole = 40_088_619
    assert 38_038_574 / whole < CONCLUSIVE_SHARE
    assert assembled_shares(contigs_table(chr21=38_038_574), ["chr21"]) == {"chr21": 1.0}
    assert assembled_shares(contigs_table(chr21=whole), ["chr21"]) == {"chr21": 1.0}


def test_missing_contig_and_foreign_genome() -> None:
    assert assembled_shares(genome({"chr21": 0.5}), ["chr21", "chr5"]) == {"chr21": 1.0, "chr5": 0.0}
