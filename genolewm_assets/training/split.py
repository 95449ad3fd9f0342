"""Open one split of a package: its windows, the alleles to sample edits from, and the alleles that no edit may make.

Not here: the files that are opened (``memory_mapped``), sampling (``training.sampler``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.edits import AlleleIndex, EditSource, HeldSequences
from genolewm_assets.genome import Holdout, Split
from genolewm_assets.memory_mapped import MappedWindows, open_mapped
from genolewm_assets.packages import Package, VariantSource
from genolewm_assets.training.options import Coverage


@dataclass(frozen=True, slots=True)
class SplitSources:
    """Windows and alleles of one split.

    Attributes
    ----------
    windows
        Windows of the split.
    real
        Alleles of the split to sample edits from, by source.
    held_out
        Alleles that no edit may make.
    haplotypes
        Rows of ``HOLDOUT_HAPLOTYPES`` of the split; None unless the holdout is ``holdout-haplotypes``.
    held_sequences
        The bases that the alleles of ``held_out`` make; None unless a training window has no exact placement.
    """

    windows: MappedWindows
    real: Mapping[EditSource, AlleleIndex]
    held_out: AlleleIndex
    haplotypes: pa.Table | None = None
    held_sequences: HeldSequences | None = None


def read_split(
    package: Package, split: Split, holdout: str | None, coverage: Coverage = Coverage.WINDOWS
) -> SplitSources:
    """Open the windows and alleles of a split; none of them is read.

    Parameters
    ----------
    package
        Package to read.
    split
        Split to read.
    holdout
        Holdout whose validation or test windows are read; None for training.
    coverage
        ``windows``: the windows of the running loss; ``alleles``: also those that are there to score alleles.

    Returns
    -------
    SplitSources
        Edits of training sample ClinVar's pathogenic alleles (P, LP); edits of validation and test sample all decided
        ones (P, LP, B, LB) with the review stars of the package's policy.

    Raises
    ------
    ConfigurationError
        If the split has no window of the holdout.
    MissingResourceError, CorruptResourceError, ResourceError
        As :func:`genolewm_assets.memory_mapped.open_mapped`.
    """
    mapped = open_mapped(package, split)
    sources = {EditSource.GNOMAD: VariantSource.GNOMAD, EditSource.CLINVAR: VariantSource.CLINVAR}
    return SplitSources(
        windows=MappedWindows(mapped, holdout, frozen_only=coverage is Coverage.WINDOWS),
        real={edits: mapped.real_alleles(source, holdout) for edits, source in sources.items()},
        held_out=mapped.held_out(),
        haplotypes=_haplotypes(package, split) if holdout == Holdout.HAPLOTYPES else None,
        held_sequences=mapped.held_sequences(),
    )


def _haplotypes(package: Package, split: Split) -> pa.Table:
    table = package.holdouts("haplotypes")
    return table.filter(pc.equal(table["role"], split))
