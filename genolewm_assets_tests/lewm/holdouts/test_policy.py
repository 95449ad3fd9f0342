from __future__ import annotations

import json

import pytest

from genolewm_assets.errors import ConfigurationError, UnknownContigError
from genolewm_assets.genome import Split
from genolewm_assets.lewm.holdouts.policy import HoldoutPolicy
from genolewm_assets_tests.worlds.lewm.holdout_world import CONTIGS


@pytest.mark.parametrize(
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


def test_the_tenth_file_of_a_day_comes_after_the_ninth() -> None:
    temporal = ("2026-02-26.9", "2026-02-26.10")
    assert HoldoutPolicy(temporal=temporal).temporal == temporal


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


@pytest.mark.parametrize("seed", range(6))
def test_neither_side_is_empty(seed: int) -> None:
    policy = HoldoutPolicy(seed=seed)
    assert policy.divide([]) == {}
    assert policy.divide(["a"]) == {"a": Split.VALIDATION}
    for n in range(2, 6):
        assert set(policy.divide(map(str, range(n))).values()) == {Split.VALIDATION, Split.TEST}


def test_recipe_is_json_and_says_everything() -> None:
    recipe = HoldoutPolicy(temporal=("2020-11-07", "2026-02-26")).as_recipe()
    assert json.loads(json.dumps(recipe)) == recipe
    assert set(recipe) == set(HoldoutPolicy.__dataclass_fields__)
