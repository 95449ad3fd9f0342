"""Probes from features to the change of a pooled state: of no change, of the mean by type, linear, and residual."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genolewm_assets.encoders import CausalLMStateEncoder
from genolewm_assets.evaluation.examples import Examples, observe, squared_errors
from genolewm_assets.training import TrainingBatch

#: From the features and the types of n edits to changes of state, shape (n, hidden).
Probe: TypeAlias = Callable[[Tensor, Tensor], Tensor]

#: Penalties of ridge regression, in units of the variance of a feature; the one of least error on what is set aside.
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
#: The tuples of every fifth window are set aside to choose the penalty, and the pass of the residual probe.
_SET_ASIDE = 5
#: Width, passes over the tuples, tuples of a step and step size of the residual probe.
_WIDTH, _PASSES, _STEP, _RATE = 64, 30, 64, 1e-3


class Predictor:
    """A linear layer trained step by step, from features to changes in units of the deviation of the first ones."""

    def __init__(self, encoder: CausalLMStateEncoder) -> None:
        self._encoder = encoder
        self.layer: Any = None
        self.optimizer: torch.optim.Optimizer
        self.scale = torch.ones(())

    def changes(self, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        """Return predicted and true changes of state: float32, shape (n, hidden), scaled."""
        features, true = observe(batch, self._encoder)
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
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, so that the bits of a sum do not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _aside(windows: NDArray[np.int64]) -> Tensor:
    places = np.unique(windows, return_inverse=True)[1]
    return torch.from_numpy(places % _SET_ASIDE == _SET_ASIDE - 1)


def fit_ridge(inputs: Tensor, wanted: Tensor, windows: NDArray[np.int64]) -> Callable[[Tensor], Tensor]:
    """Fit a linear map with an intercept by ridge regression in float64, from (n, k) to (n, m)."""
    inputs, wanted = inputs.double(), wanted.double()
    scale, middle = inputs.std(0, correction=0), inputs.mean(0)
    # An input that does not vary tells nothing.
    weight = torch.where(scale > 1e-9 * scale.max().clamp_min(1e-300), 1 / scale, 0.0)

    def solve(rows: Tensor, penalty: float) -> Callable[[Tensor], Tensor]:
        x, centre = (inputs[rows] - middle) * weight, wanted[rows].mean(0)
        gram = x.T @ x + penalty * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
        slope = torch.linalg.solve(gram, x.T @ (wanted[rows] - centre))
        return lambda given: (given.double() - middle) * weight @ slope + centre

    aside = _aside(windows)
    tried = [solve(~aside, penalty)(inputs[aside]) for penalty in PENALTIES]
    errors = [float((found - wanted[aside]).square().sum()) for found in tried]
    return solve(torch.ones_like(aside), PENALTIES[errors.index(min(errors))])


def fit_probes(train: Examples, *, seed: int) -> dict[str, Probe]:
    """Fit every probe on training tuples, by name; on one thread, and float64 where there is a closed form."""
    mean = train.changes.double().mean(0)
    means = torch.stack(
        [train.changes[own].double().mean(0) if (own := train.kinds == kind).any() else mean for kind in range(5)]
    )
    linear = fit_ridge(train.features, train.changes, train.windows)
    residual = _fit_residual(train, seed)
    return {
        "no_change": lambda features, _: torch.zeros(len(features), len(mean), dtype=torch.float64),
        "mean_change": lambda _, kinds: means[kinds],
        "linear": lambda features, _: linear(features),
        "residual": lambda features, _: residual(features),
    }


def _fit_residual(train: Examples, seed: int) -> Callable[[Tensor], Tensor]:
    """Fit a linear probe, and what it leaves with a network of one hidden layer, which begins as zero.

    Both learn from four fifths of the windows. Of all passes the one counts after which the error on the others is
    least; if none lowers it, the network stays zero.
    """
    aside = _aside(train.windows)
    linear = fit_ridge(train.features[~aside], train.changes[~aside], train.windows[~aside.numpy()])
    middle, scale = train.features.mean(0), train.features.std(0).clamp_min(1e-6)
    left = train.changes - linear(train.features).float()
    unit = left.std().clamp_min(1e-12)
    inputs, wanted = (train.features - middle) / scale, left / unit
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(inputs.shape[1], _WIDTH), nn.GELU(), nn.Linear(_WIDTH, wanted.shape[1]))
    for parameter in network[2].parameters():
        nn.init.zeros_(parameter)
    draws = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.1)
    rows = torch.nonzero(~aside).squeeze(1)
    best, kept = float(wanted[aside].square().sum()), _weights(network)
    for _ in range(_PASSES):
        for chosen in torch.split(rows[torch.randperm(len(rows), generator=draws)], _STEP):
            optimizer.zero_grad()
            (network(inputs[chosen]) - wanted[chosen]).square().mean().backward()
            optimizer.step()
        error = float(squared_errors(network(inputs[aside]).detach(), wanted[aside])[0])
        if error < best:
            best, kept = error, _weights(network)
    network.load_state_dict(kept)
    network.requires_grad_(requires_grad=False)
    return lambda features: linear(features) + network((features - middle) / scale).double() * unit


def _weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
