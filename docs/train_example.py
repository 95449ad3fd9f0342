"""Train a linear predictor of edited states, validate it, score ClinVar alleles: the smallest trainer over a package.

``python docs/train_example.py ROOT MODEL [--epochs N] [--validate-every STEPS] [--score-every STEPS]``

It trains on the package in use of a root; a package's folder may stand for ROOT. MODEL is the encoder that the caches
of the package were made with, a folder in Hugging Face format. The source state comes from the cache, the target is
encoded here, and both are pooled over the same tokens; the predictor learns their difference from state and edit. With
``--frozen`` training reads both from frozen epochs, and encodes nothing. Of a package without states
``--encode-missing`` encodes both; a trainer of tokens opens it with ``with_states=False``, and reads
``batch.source_windows`` and ``batch.target_tokens``. Features and predictor are those of ``genolewm evaluate``
(``genolewm_assets.evaluation``), which scores a whole package.

Printed: the loss, as a share of that of predicting no change, and how well the size of the change tells pathogenic
(P, LP) from benign (B, LB) alleles, for predicted and true changes. Test alleles are scored once, at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader

from genolewm_assets.encoders import CausalLMStateEncoder
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.evaluation import Predictor, auroc, squared_errors
from genolewm_assets.genome import CLASSES, DECIDED, HARMFUL
from genolewm_assets.lewm import GenoLeWMDataset, GenoLeWMTestDataset, GenoLeWMValDataset, as_tensors
from genolewm_assets.packages import Package, open_package, open_tables
from genolewm_assets.packages.pointer import open_current
from genolewm_assets.training import TrainingBatch

HOLDOUTS = ("holdout-chr", "holdout-clinvar")
LINE = "{:>6}  {:<16}  {:<16}  {}"


class Score(NamedTuple):
    """Alleles scored, and the AUROC of the size of the predicted and of the true change; NaN if one class is empty."""

    harmful: int
    benign: int
    predicted: float
    true: float


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
