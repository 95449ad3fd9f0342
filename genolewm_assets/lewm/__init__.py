"""The data pipeline of the genomic world model, without the edge: tables in, tables, checks and tuples out.

Belongs here: table schemas, the window index, corpus windows, holdouts, split packages, edit sampling, tuples and the
datasets that a trainer opens; checks of tables by code that does not share the builders'. Does not belong here: outside
formats and downloads (``sources``), models (``encoders``), crash-safe files and manifests (``store``), sequence
arithmetic (``genome``), the asset graph (``defs``). Imports neither Dagster nor pysam; torch only with the datasets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genolewm_assets.lewm.training.tuples import TrainingTuple

if TYPE_CHECKING:
    from genolewm_assets.lewm.training.dataset import GenoLeWMDataset, GenoLeWMTestDataset, GenoLeWMValDataset

__all__ = ["GenoLeWMDataset", "GenoLeWMTestDataset", "GenoLeWMValDataset", "TrainingTuple"]


def __getattr__(name: str) -> object:
    """Load the datasets, and with them torch, on first use (PEP 562)."""
    if name in __all__:
        from genolewm_assets.lewm.training import dataset

        return getattr(dataset, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
