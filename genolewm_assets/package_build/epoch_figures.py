"""Figures of the first epoch of a written package. Not here: whether they are as wanted (``epoch_checks``)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from genolewm_assets.edits import SamplingRules
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.genome import Split
from genolewm_assets.memory_mapped import MappedWindows, open_mapped
from genolewm_assets.packages import (
    N_EDITS,
    EpochFigures,
    Package,
    Shares,
    VariantSource,
    WindowAlleles,
    figures_of_visits,
    plan_epoch,
)


def plan_of_epoch(package: Package) -> EpochFigures:
    """Return the figures of epoch 0; without a training window that the mix asks for, ``error`` says why."""
    rules, windows_with = SamplingRules(), dict[str, int]()
    try:
        mapped = open_mapped(package, Split.TRAIN)
        real = {str(source): mapped.real_alleles(source, None) for source in VariantSource}
        alleles = WindowAlleles.count(MappedWindows(mapped), real, rules.first_bp, rules.inset_bp)
        windows_with = {name: int(np.count_nonzero(getattr(alleles, name))) for name in real}
        plan = plan_epoch(alleles, package.info.mix, n_edits=N_EDITS)
    except GenoLeWMError as err:
        return EpochFigures(0, Shares({}, {}), {}, windows_with, error=str(err))
    names, code = alleles.strata()
    windows = dict(zip(names, np.bincount(code, minlength=len(names)).tolist(), strict=True))
    return EpochFigures(
        tuples=max(1, round(sum(plan.visits.values()))) * N_EDITS,
        planned=Shares(_rounded(plan.shares.windows), _rounded(plan.shares.edits)),
        visits=figures_of_visits(plan.visits, windows),
        windows_with=windows_with,
    )


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(float(share), 6) for name, share in shares.items()}
