"""Train a linear predictor of edited states: the smallest trainer over a package.

``python docs/train_example.py ROOT MODEL [EPOCHS]``: it trains on the package in use of a root; a package's folder may
stand for ROOT. MODEL is the encoder that the package's caches were made with,
a folder in Hugging Face format. The source state comes from the cache, the target is encoded here, and both are pooled
over the same tokens; the predictor learns their difference from the source state and the edit.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from genolewm_assets.encoders import CausalLMStateEncoder
from genolewm_assets.lewm.packages.pointer import open_current
from genolewm_assets.lewm.packages.reader import Package
from genolewm_assets.lewm.training.batches import TrainingBatch, encode_targets
from genolewm_assets.lewm.training.dataset import GenoLeWMDataset, as_tensors
from genolewm_assets.lewm.training.tuples import TrainingTuple


def describe_edit(one: TrainingTuple) -> list[float]:
    """Return what is known of an edit: bases gained and lost, the frame shift, the bases of its first allele."""
    first = one.rel_edits[0]
    shift = [float(one.frame_shift == shift) for shift in range(6)]
    bases = [float(allele[-1] == base) for allele in (first.ref, first.alt) for base in "ACGT"]
    return [len(one.rel_edits), one.length_change / 16, *shift, *bases]


def make_features(batch: TrainingBatch) -> Tensor:
    """Return source state, edit, and the state once more where the edit re-frames: float32, shape (n, features)."""
    source = as_tensors(batch)["source_states"]
    edits = torch.tensor([describe_edit(one) for one in batch.tuples])
    shifted = torch.tensor([[float(one.frame_shift != 0)] for one in batch.tuples])
    return torch.cat((source, edits, shifted * source), dim=1)


def train(package: Path | Package, model: Path, *, epochs: int, windows_per_batch: int = 8) -> list[float]:
    """Return the mean loss of every epoch, as a share of the loss of predicting no change."""
    dataset = GenoLeWMDataset(package, windows_per_batch=windows_per_batch)
    encoder = CausalLMStateEncoder(model)
    predictor = nn.LazyLinear(encoder.hidden_size)
    optimizer: torch.optim.Optimizer | None = None
    scale, losses = torch.ones(()), []
    for epoch in range(epochs):
        dataset.set_epoch(epoch)
        predicted = unchanged = 0.0
        for batch in DataLoader(dataset, batch_size=None):
            assert batch.source_states is not None
            features = make_features(batch)
            change = torch.from_numpy(encode_targets(batch, encoder) - batch.source_states)
            if optimizer is None:
                # The first batch says how wide the layer is; from zero weights it predicts no change.
                predictor(features)
                nn.init.zeros_(predictor.weight)
                nn.init.zeros_(predictor.bias)
                optimizer, scale = torch.optim.Adam(predictor.parameters(), lr=1e-2), change.std()
            loss = nn.functional.mse_loss(predictor(features), change / scale)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            predicted += loss.item() * len(batch)
            unchanged += (change / scale).square().mean().item() * len(batch)
        losses.append(predicted / unchanged)
    return losses


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: python docs/train_example.py ROOT MODEL [EPOCHS]")
    (place, model), n_epochs = map(Path, sys.argv[1:3]), int(sys.argv[3]) if len(sys.argv) > 3 else 10
    package = open_current(place) if (place / "packages").is_dir() else place
    for number, value in enumerate(train(package, model, epochs=n_epochs)):
        print(f"epoch {number}: loss {value:.3f} of that of predicting no change")
