from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import InputError
from genolewm_assets.lewm.holdouts.phased import PhasedGenotypes


@given(st.integers(1, 12), st.integers(0, 40), st.randoms(use_true_random=False))
def test_bits_are_those_of_the_matrix(n_alleles: int, n_haplotypes: int, random) -> None:  # type: ignore[no-untyped-def]
    cells = [[random.random() < 0.5 for _ in range(n_haplotypes)] for _ in range(n_alleles)]
    carried = np.array(cells, dtype=bool).reshape(n_alleles, n_haplotypes)
    genotypes = PhasedGenotypes.from_bools(carried)
    rows = np.arange(n_alleles)[::-1]
    assert (len(genotypes), genotypes.n_haplotypes) == (n_alleles, n_haplotypes)
    np.testing.assert_array_equal(genotypes.carried(rows), carried[rows])
    together = genotypes.are_together(rows[:-1], rows[1:])
    wanted = [any(a and b for a, b in zip(cells[i], cells[i - 1], strict=True)) for i in range(n_alleles - 1, 0, -1)]
    assert together.tolist() == wanted


def test_shapes_that_do_not_match_are_refused() -> None:
    with pytest.raises(InputError, match="not a matrix: expected 2 dimensions, got 1"):
        PhasedGenotypes.from_bools(np.ones(3, dtype=bool))
    with pytest.raises(InputError, match=r"shape is wrong: expected \(2, 1\) bytes, got \(3, 1\)"):
        PhasedGenotypes.from_bools(np.ones((3, 2), dtype=bool), np.ones(2, dtype=bool))
