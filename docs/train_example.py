"""Train a linear predictor of edited states, validate it, score ClinVar alleles: the smallest trainer over a package.

``python docs/train_example.py ROOT MODEL [--epochs N] [--validate-every STEPS] [--score-every STEPS]``

It trains on the package in use of a root; a package's folder may stand for ROOT. MODEL is the encoder that the caches
of the package were made with, a folder in Hugging Face format. The source state comes from the cache, the target is
encoded here, and both are pooled over the same tokens; the predictor learns their difference from state and edit. With
``--frozen`` training reads both from frozen epochs, and encodes nothing. Of a package without states
``--encode-missing`` encodes both; a trainer of tokens opens it with ``with_states=False``, and reads
``batch.source_windows`` and ``batch.target_tokens``.

Printed: the loss, as a share of that of predicting no change, and how well the size of the change tells pathogenic
(P, LP) from benign (B, LB) alleles, for predicted and true changes. Test alleles are scored once, at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader

from genolewm_assets.encoders import CausalLMStateEncoder
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import CLASSES, DECIDED, HARMFUL
from genolewm_assets.lewm import GenoLeWMDataset, GenoLeWMTestDataset, GenoLeWMValDataset, as_tensors
from genolewm_assets.packages import Package, open_package, open_tables
from genolewm_assets.packages.pointer import open_current
from genolewm_assets.training.batches import TrainingBatch, encode_targets

HOLDOUTS = ("holdout-chr", "holdout-clinvar")
LINE = "{:>6}  {:<16}  {:<16}  {}"


class Score(NamedTuple):
    """Alleles scored, and the AUROC of the size of the predicted and of the true change; NaN if one class is empty."""

    harmful: int
    benign: int
    predicted: float
    true: float


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


class Predictor:
    """A linear layer from features to the change of state, in units of the standard deviation of the first changes."""

    def __init__(self, encoder: CausalLMStateEncoder) -> None:
        self._encoder = encoder
        self.layer: Any = None
        self.optimizer: torch.optim.Optimizer
        self.scale = torch.ones(())

    def changes(self, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        """Return predicted and true changes of state: float32, shape (n, hidden), scaled."""
        features, tensors = make_features(batch), as_tensors(batch)
        targets = tensors.get("target_states")  # of a frozen epoch
        if targets is None:
            targets = torch.from_numpy(encode_targets(batch, self._encoder))
        true = targets - tensors["source_states"]
        if self.layer is None:
            self.begin(features.shape[1], true.std())
        return self.layer(features), true / self.scale

    def begin(self, width: int, scale: Tensor) -> None:
        """Make the layer, for features of a width, and its optimizer; from zero weights it predicts no change."""
        self.layer, self.scale = nn.Linear(width, self._encoder.hidden_size), scale
        nn.init.zeros_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)
        self.optimizer = torch.optim.Adam(self.layer.parameters(), lr=1e-2)

    def step(self, loss: Tensor) -> None:
        """Take one step of the optimizer."""
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def squared_errors(predicted: Tensor, true: Tensor) -> Tensor:
    """Return the squared error of a prediction, and that of predicting no change: float32, shape (2,)."""
    return torch.stack(((predicted - true).square().sum(), true.square().sum()))


@torch.no_grad()
def validate(predictor: Predictor, batches: Iterable[TrainingBatch]) -> float:
    """Return the squared error over batches, as a share of that of predicting no change."""
    error, unchanged = sum(squared_errors(*predictor.changes(batch)) for batch in batches)
    return float(error / unchanged)


@torch.no_grad()
def score(predictor: Predictor, batches: Iterable[TrainingBatch]) -> Score:
    """Return how well the size of the change tells pathogenic from benign alleles; other tuples are left out."""
    labels, sizes = [], []
    for batch in batches:
        labels.append(as_tensors(batch)["label"].numpy())
        sizes.append(torch.stack([change.norm(dim=1) for change in predictor.changes(batch)]).numpy())
    label, size = np.concatenate(labels), np.concatenate(sizes, axis=1)
    harmful, decided = (np.isin(label, [CLASSES.index(name) for name in names]) for names in (HARMFUL, DECIDED))
    predicted, true = (auroc(values[decided], harmful[decided]) for values in size)
    return Score(int(harmful.sum()), int((decided & ~harmful).sum()), predicted, true)


def auroc(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: the share of pairs in order, ties counting half; NaN without a pair."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    # Equal scores have the mean of their ranks.
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    n, n_positive = len(scores), int(positive.sum())
    pairs = n_positive * (n - n_positive)
    return float((ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / pairs) if pairs else float("nan")


def report(step: int, what: str, holdout: str, measure: Callable[[str], str]) -> None:
    """Print one line of the table; what a package does not have is said."""
    try:
        said = measure(holdout)
    except ConfigurationError as err:
        said = f"not measured: {err}"
    print(LINE.format(step, what, holdout, said), flush=True)


def train(package: Package, encoder: CausalLMStateEncoder, arguments: argparse.Namespace) -> list[float]:
    """Train, print the table, and return the loss of every epoch as a share of that of predicting no change."""
    live = encoder if arguments.encode_missing else None
    options = {"windows_per_batch": arguments.windows_per_batch, "encoder": live}
    predictor, losses, step = Predictor(encoder), [], 0

    def validation(holdout: str) -> str:
        data = GenoLeWMValDataset(package, holdout, min_left_context_bp=arguments.left_context_bp, **options)
        return f"{validate(predictor, data):.3f}"

    def scores(kind: type[GenoLeWMValDataset | GenoLeWMTestDataset], holdout: str) -> str:
        found = score(predictor, kind(package, holdout, coverage="alleles", **options))
        return f"P/LP {found.harmful}, B/LB {found.benign}: {found.predicted:.3f}, true change {found.true:.3f}"

    print(LINE.format("step", "what", "holdout", "value"))
    dataset = GenoLeWMDataset(package, frozen=arguments.frozen, **options)
    for epoch in range(arguments.epochs):
        dataset.set_epoch(epoch)
        total = torch.zeros(2)
        for batch in DataLoader(dataset, batch_size=None):
            predicted, true = predictor.changes(batch)
            errors = squared_errors(predicted, true)
            predictor.step(errors[0] / true.numel())
            total += errors.detach()
            step += 1
            for holdout in HOLDOUTS:
                if arguments.validate_every and step % arguments.validate_every == 0:
                    report(step, "validation loss", holdout, validation)
                if arguments.score_every and step % arguments.score_every == 0:
                    report(step, "validation AUROC", holdout, partial(scores, GenoLeWMValDataset))
        losses.append(float(total[0] / total[1]))
        print(LINE.format(step, "training loss", "", f"{losses[-1]:.3f}"), flush=True)
    for holdout in HOLDOUTS:
        report(step, "test AUROC", holdout, partial(scores, GenoLeWMTestDataset))
    return losses


def main(words: list[str] | None = None) -> list[float]:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("root", type=Path, help="root, or folder of a package")
    parser.add_argument("model", type=Path, help="encoder of the caches, a folder in Hugging Face format")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--windows-per-batch", type=int, default=8)
    parser.add_argument("--validate-every", type=int, default=100, metavar="STEPS", help="0: never (default: 100)")
    parser.add_argument("--score-every", type=int, default=0, metavar="STEPS", help="0: only at the end (default)")
    parser.add_argument("--left-context-bp", type=int, default=1_536, help="of validation")
    parser.add_argument("--dtype", default="float32", help="of the caches")
    parser.add_argument("--compute", default="float32", help="precision of the encoder, that of the caches")
    parser.add_argument("--device", default="cpu", help="torch device of the encoder, or auto")
    parser.add_argument("--encode-missing", action="store_true", help="encode windows whose cache is missing")
    parser.add_argument("--frozen", type=Path, help="frozen epochs to train on: their root, or a store")
    arguments = parser.parse_args(words)
    by_folder = open_tables if arguments.encode_missing else open_package
    package = (open_current if (arguments.root / "packages").is_dir() else by_folder)(arguments.root)
    how = {"dtype": arguments.dtype, "compute": arguments.compute, "device": arguments.device}
    encoder = CausalLMStateEncoder(arguments.model, **how)
    return train(package, encoder, arguments)


if __name__ == "__main__":
    main()
