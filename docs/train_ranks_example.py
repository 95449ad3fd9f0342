"""Train the predictor of ``train_example`` on several ranks, and go on after a kill where the last checkpoint is.

``torchrun --nproc-per-node 2 docs/train_ranks_example.py ROOT MODEL CHECKPOINT [--epochs N] [--save-every STEPS]``

The ranks share the batches of an epoch; CHECKPOINT is a file that holds layer, optimizer and the place of every rank.
The losses that a resumed training prints equal those of one that nothing stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel
from torchdata.stateful_dataloader import StatefulDataLoader
from train_example import Predictor

from genolewm_assets.encoders import CausalLMStateEncoder
from genolewm_assets.lewm import GenoLeWMDataset


class SharedPredictor(Predictor):
    """A predictor whose gradients are averaged over the ranks, in units of the first changes of rank 0."""

    def begin(self, width: int, scale: Tensor) -> None:
        """Make a layer that averages its gradients, and its optimizer."""
        super().begin(width, scale)
        distributed.broadcast(self.scale, 0)
        self.layer = DistributedDataParallel(self.layer)


def save(path: Path, predictor: SharedPredictor, loader: StatefulDataLoader, epoch: int, step: int) -> None:
    """Write a checkpoint of all ranks; a kill leaves the former one or this one."""
    places: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(places, loader.state_dict())
    state = {"epoch": epoch, "step": step, "places": places, "scale": predictor.scale}
    state |= {"layer": predictor.layer.state_dict(), "optimizer": predictor.optimizer.state_dict()}
    if distributed.get_rank() == 0:
        unfinished = path.with_suffix(".unfinished")
        torch.save(state, unfinished)
        unfinished.replace(path)
        print(f"saved after step {step}", flush=True)


def restore(path: Path, predictor: SharedPredictor, loader: StatefulDataLoader) -> tuple[int, int]:
    """Go to the place of a checkpoint; return its epoch and step."""
    state = torch.load(path, weights_only=True)
    predictor.begin(state["layer"]["module.weight"].shape[1], state["scale"])
    predictor.layer.load_state_dict(state["layer"])
    predictor.optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["places"][distributed.get_rank()])
    return state["epoch"], state["step"]


def train(dataset: GenoLeWMDataset, encoder: CausalLMStateEncoder, arguments: argparse.Namespace) -> Iterator[float]:
    """Train, and yield the loss of every step, averaged over the ranks, as a share of that of predicting no change."""
    predictor, begun, step = SharedPredictor(encoder), 0, 0
    loader = StatefulDataLoader(dataset, batch_size=None, num_workers=arguments.workers)
    resumed = arguments.checkpoint.exists()
    if resumed:
        begun, step = restore(arguments.checkpoint, predictor, loader)
    for epoch in range(begun, arguments.epochs):
        if not resumed:
            dataset.set_epoch(epoch)
        resumed = False
        for batch in loader:
            predicted, true = predictor.changes(batch)
            loss = (predicted - true).square().mean()
            predictor.step(loss)
            shares = torch.stack((loss.detach(), true.square().mean()))
            distributed.all_reduce(shares)
            yield float(shares[0] / shares[1])
            step += 1
            if step % arguments.save_every == 0:
                save(arguments.checkpoint, predictor, loader, epoch, step)


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("root", type=Path, help="root, or folder of a package")
    parser.add_argument("model", type=Path, help="encoder of the caches, a folder in Hugging Face format")
    parser.add_argument("checkpoint", type=Path, help="file of the checkpoint; training goes on where it is")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--windows-per-batch", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2, help="of the loader of each rank")
    parser.add_argument("--dtype", default="float32", help="of the caches")
    arguments = parser.parse_args()
    distributed.init_process_group("gloo")
    encoder = CausalLMStateEncoder(arguments.model, dtype=arguments.dtype)
    opened = GenoLeWMDataset.current if (arguments.root / "packages").is_dir() else GenoLeWMDataset
    dataset = opened(arguments.root, windows_per_batch=arguments.windows_per_batch)
    for loss in train(dataset, encoder, arguments):
        if distributed.get_rank() == 0:
            print(f"loss {loss:.9f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
