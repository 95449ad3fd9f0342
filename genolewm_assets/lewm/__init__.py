"""The data of the genomic world model (LeWM) as a trainer opens it: tuples, data sets, frozen epochs."""

from genolewm_assets.training import (
    GenoLeWMDataset,
    GenoLeWMTestDataset,
    GenoLeWMValDataset,
    TrainingTuple,
    as_tensors,
    write_frozen,
)

__all__ = [
    "GenoLeWMDataset",
    "GenoLeWMTestDataset",
    "GenoLeWMValDataset",
    "TrainingTuple",
    "as_tensors",
    "write_frozen",
]
