"""The table of an evaluation: one row per holdout and model."""

from __future__ import annotations

import pyarrow as pa

from genolewm_assets.genome import Holdout
from genolewm_assets.store.tables import TableSchema, column, nullable

#: Models in the order of the table: the four probes, and the encoder itself.
PROBES = ("no_change", "mean_change", "linear", "residual")
ZERO_SHOT = "zero_shot"
#: What alleles are ranked by.
READOUT, CAUSAL, MASKED, SIZE = "readout", "causal_likelihood", "masked_likelihood", "size_of_change"
SCORES = (READOUT, CAUSAL, MASKED, SIZE)

EVALUATION = TableSchema(
    "package_evaluation",
    "holdout and model that was scored on its test tuples",
    pa.schema(
        [
            column("holdout", pa.string(), "the holdout"),
            column("model", pa.string(), "a probe trained on the package, or zero_shot: the encoder alone"),
            column(
                "tuples",
                pa.string(),
                "what the tuples are: alleles, each of the bench once; windows, with sampled edits, where there is no "
                "bench",
            ),
            column("n_tuples", pa.int64(), "test tuples scored"),
            nullable(
                "latent_error",
                pa.float64(),
                "squared error of the predicted change of state, as a share of that of no_change; null for zero_shot",
            ),
            column("n_harmful", pa.int64(), "alleles of the bench labelled P or LP"),
            column("n_benign", pa.int64(), "alleles of the bench labelled B or LB"),
            column("n_genes", pa.int64(), "genes of these alleles, which are resampled; one of no gene counts as one"),
            column("score", pa.string(), "what alleles are ranked by, harmful first"),
            nullable("auroc", pa.float64(), "area under the ROC curve of harmful against benign; null without a pair"),
            nullable("auroc_low", pa.float64(), "lower bound of its 95 % interval; null with fewer than two genes"),
            nullable("auroc_high", pa.float64(), "upper bound of its 95 % interval; null with fewer than two genes"),
            nullable(
                "auroc_of_size",
                pa.float64(),
                "AUROC of the size of the predicted change, without labels; null for zero_shot or without a pair",
            ),
            nullable("gain", pa.float64(), "auroc less that of zero_shot on the same alleles; null for zero_shot"),
            nullable("gain_low", pa.float64(), "lower bound of its 95 % interval, by the same resamples"),
            nullable("gain_high", pa.float64(), "upper bound of its 95 % interval, by the same resamples"),
        ]
    ),
    ("holdout", "model"),
    closed={
        "holdout": tuple(Holdout),
        "model": (*PROBES, ZERO_SHOT),
        "tuples": ("alleles", "windows"),
        "score": SCORES,
    },
)

#: The tables that this module declares.
TABLES: tuple[TableSchema, ...] = (EVALUATION,)
