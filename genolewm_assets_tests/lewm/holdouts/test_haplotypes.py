from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import Interval, Split
from genolewm_assets.lewm.holdouts.haplotype_blocks import HaplotypeBlock, list_haplotypes
from genolewm_assets.lewm.holdouts.phased import PhasedGenotypes
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_HAPLOTYPES
from genolewm_assets_tests.worlds.lewm.holdout_world import gnomad

ALLELES = [(10 * n + 1, "A", "C") for n in range(6)]


@given(st.lists(st.sets(st.integers(0, 5)), max_size=12), st.sets(st.integers(0, 5), min_size=2))
def test_rows_are_those_of_a_plain_count(haplotypes: list[set[int]], members: set[int]) -> None:
    carried = np.array([[row in carrier for carrier in haplotypes] for row in range(6)], dtype=bool).reshape(6, -1)
    rows = tuple(sorted(members))
    block = HaplotypeBlock("b", Interval("chr17", 0, 60), rows, phased=True)
    genotypes = {"chr17": PhasedGenotypes.from_bools(carried)}
    table = list_haplotypes([block], {"b": Split.TEST}, {"chr17": gnomad(ALLELES)}, genotypes)
    assert table.schema.equals(HOLDOUT_HAPLOTYPES.arrow)
    found = table.to_pylist()
    wanted = Counter(tuple(sorted(carrier & members)) for carrier in haplotypes if len(carrier & members) > 1)
    stated = {tuple((each["pos"] - 1) // 10 for each in row["alleles"]): row["n_carriers"] for row in found}
    assert stated == wanted
    assert [row["number"] for row in found] == list(range(len(wanted)))
    assert [row["n_carriers"] for row in found] == sorted(wanted.values(), reverse=True)
    assert all((row["role"], row["unit"], row["phased"]) == ("test", "b", True) for row in found)


def test_a_block_by_distance_has_one_row_with_all_its_alleles() -> None:
    blocks = [HaplotypeBlock(name, Interval("chr17", 0, 60), rows) for name, rows in (("b", (3, 4)), ("a", (0, 2, 5)))]
    roles = {"a": Split.VALIDATION, "b": Split.TEST}
    found = list_haplotypes(blocks, roles, {"chr17": gnomad(ALLELES)}, {}).to_pylist()
    assert [(row["unit"], row["role"], row["phased"], row["n_carriers"]) for row in found] == [
        ("a", "validation", False, None),
        ("b", "test", False, None),
    ]
    assert found[0]["alleles"] == [{"pos": pos, "ref": "A", "alt": "C"} for pos in (1, 21, 51)]


def test_no_block_gives_an_empty_table() -> None:
    assert list_haplotypes([], {}, {}, {}).equals(HOLDOUT_HAPLOTYPES.empty())
