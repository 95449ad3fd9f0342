"""Phased genotypes of the common alleles of a contig, as bits. Not here: reading a VCF (``sources.haplotypes``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import InputError
from genolewm_assets.variants import Bools, Int64s


@dataclass(frozen=True, slots=True, eq=False)
class PhasedGenotypes:
    """Which haplotypes carry each allele of a table.

    Attributes
    ----------
    packed
        uint8, shape (n_alleles, ceil(n_haplotypes / 8)): bit ``h % 8``, from the highest, of byte ``h // 8`` is 1 if
        haplotype h carries the allele; unused bits are 0.
    known
        bool, shape (n_alleles,): whether the source has a phased genotype for the allele. Where it has none, no
        haplotype carries the allele.
    n_haplotypes
        Number of haplotypes.

    Raises
    ------
    InputError
        If the shapes do not match.
    """

    packed: NDArray[np.uint8]
    known: Bools
    n_haplotypes: int

    def __post_init__(self) -> None:
        expected = (len(self.known), -(-self.n_haplotypes // 8))
        if self.packed.shape != expected:
            raise InputError(
                "phased genotypes", "shape is wrong", expected=f"{expected} bytes", got=f"{self.packed.shape}"
            )

    def __len__(self) -> int:
        """Return the number of alleles."""
        return len(self.known)

    def carried(self, rows: Int64s) -> Bools:
        """Return which haplotypes carry each of some alleles: bool, shape (len(rows), n_haplotypes)."""
        return np.unpackbits(self.packed[rows], axis=1, count=self.n_haplotypes).astype(bool)

    def are_together(self, ones: Int64s, others: Int64s) -> Bools:
        """Tell for each pair of alleles whether one haplotype carries both: bool, shape (len(ones),)."""
        together: Bools = np.any(self.packed[ones] & self.packed[others], axis=1)
        return together
