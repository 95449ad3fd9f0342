"""What a probe learns from: features of a tuple's unedited window and edit, and the change of the pooled state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genolewm_assets.encoders import CausalLMStateEncoder, EditLikelihood
from genolewm_assets.genome import CLASSES, DECIDED, HARMFUL
from genolewm_assets.lewm import as_tensors
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.training import TrainingBatch, encode_targets

_HARMFUL, _DECIDED = ([CLASSES.index(name) for name in names] for names in (HARMFUL, DECIDED))


def make_features(batch: TrainingBatch) -> Tensor:
    """Return source state, edit, and the state once more where the edit re-frames: float32, shape (n, features)."""
    tensors = as_tensors(batch)
    source, shift = tensors["source_states"], tensors["frame_shift"].long()
    # The last stored base of the first edit's alleles: the base that an SNV changes.
    bases = []
    for name in ("edit_ref", "edit_alt"):
        codes, last = tensors[name][:, 0], tensors[f"{name}_length"][:, :1].clamp(1, tensors[name].shape[2]) - 1
        bases.append(nn.functional.one_hot(codes.gather(1, last).long().squeeze(1), 4))
    counts = torch.stack((tensors["n_edits"], tensors["length_change"] / 16), dim=1)
    edit = torch.cat((counts, nn.functional.one_hot(shift, 6), *bases), dim=1)
    return torch.cat((source, edit, (shift != 0)[:, None] * source), dim=1).float()


def observe(batch: TrainingBatch, encoder: CausalLMStateEncoder) -> tuple[Tensor, Tensor]:
    """Return features, and the change from the source's to the target's pooled state: float32, shape (n, hidden).

    Targets are encoded here, unless the batch is of a frozen epoch.
    """
    tensors = as_tensors(batch)
    targets = tensors.get("target_states")
    if targets is None:
        targets = torch.from_numpy(encode_targets(batch, encoder))
    return make_features(batch), targets - tensors["source_states"]


def squared_errors(predicted: Tensor, true: Tensor) -> Tensor:
    """Return the squared error of a prediction, and that of predicting no change: shape (2,)."""
    return torch.stack(((predicted - true).square().sum(), true.square().sum()))


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Tuples as a probe reads them; row i of every array belongs to tuple i of n."""

    #: ``features``: float32, shape (n, features). ``changes``: float32, shape (n, hidden).
    features: Tensor
    changes: Tensor
    #: Number of the window, in the order of identifiers: int64, shape (n,).
    windows: NDArray[np.int64]
    #: Code of the first edit's type: int64, shape (n,).
    kinds: Tensor
    #: ``harmful``: labelled P or LP; ``decided``: or B or LB: bool, shape (n,).
    harmful: NDArray[np.bool_]
    decided: NDArray[np.bool_]
    #: First GeneID of a ClinVar allele, below 0 and its own where none is known: int64, shape (n,).
    genes: NDArray[np.int64]
    #: Nats by which the encoder finds the edited window less likely: float64, shape (n,); None if it was not asked.
    losses: NDArray[np.float64] | None

    def __len__(self) -> int:
        """Return the number of tuples."""
        return len(self.features)


def collect(
    batches: Iterable[TrainingBatch],
    encoder: CausalLMStateEncoder,
    n: int,
    *,
    likelihood: EditLikelihood | None = None,
    progress: Progress = NO_PROGRESS,
    what: str,
) -> Examples:
    """Encode the first ``n`` tuples of some batches, or all if there are fewer."""
    parts: list[tuple[Any, ...]] = []
    done = 0
    for batch in batches:
        parts.append((*observe(batch, encoder), *_facts(batch), _losses(batch, likelihood)))
        done += len(batch)
        progress.advance(min(done, n), n, f"tuples of {what} encoded")
        if done >= n:
            break
    features, changes, kinds = (torch.cat(each)[:n] for each in list(zip(*parts, strict=True))[:3])
    window, label, gene, losses = (np.concatenate(each)[:n] for each in list(zip(*parts, strict=True))[3:])
    unknown = gene < 0
    gene[unknown] = -1 - np.arange(int(unknown.sum()))
    return Examples(
        features,
        changes,
        np.unique(window, return_inverse=True)[1],
        kinds,
        np.isin(label, _HARMFUL),
        np.isin(label, _DECIDED),
        gene,
        None if likelihood is None else losses,
    )


def _facts(batch: TrainingBatch) -> tuple[Tensor, NDArray[np.bytes_], NDArray[np.int8], NDArray[np.int64]]:
    """Return the type of the first edit, window, class and first GeneID of each tuple; -1 where there is none."""
    stated, kinds = batch.stated, torch.from_numpy(batch.edits.edit_type[:, 0].astype(np.int64))
    has = np.diff(stated.gene_at) > 0
    genes = np.full(len(batch), -1, dtype=np.int64)
    genes[has] = stated.gene_ids[stated.gene_at[:-1][has]]
    return kinds, batch.windows.window_ids[batch.edits.window], stated.label, genes


def _losses(batch: TrainingBatch, likelihood: EditLikelihood | None) -> NDArray[np.float64]:
    if likelihood is None:
        return np.full(len(batch), np.nan)
    edits = batch.edits
    start = edits.edit_rel_pos[:, 0]
    covered = np.maximum(edits.edit_ref_length[:, 0], edits.edit_alt_length[:, 0])
    spans = np.stack((start, start + covered), axis=1)
    return likelihood.losses_of_edits(batch.source_windows, batch.target_windows, edits.window, spans)
