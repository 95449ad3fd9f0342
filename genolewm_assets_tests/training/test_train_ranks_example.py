"""A training on two ranks that is killed goes on where its checkpoint is, with the same losses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from genolewm_assets import encoders
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.servers.programs import free_port
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_encoded

pytestmark = pytest.mark.nightly

EXAMPLE = REPOSITORY / "docs" / "train_ranks_example.py"
SAVE_EVERY = 2


@contextmanager
def training(package: Path, model: Path, checkpoint: Path) -> Iterator[subprocess.Popen[str]]:
    """Start two ranks as torchrun does, and yield the first; both are killed when the block is left."""
    words = [str(EXAMPLE), str(package), str(model), str(checkpoint), "--epochs", "2", "--workers", "1"]
    words += ["--save-every", str(SAVE_EVERY), "--windows-per-batch", "4"]
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, (REPOSITORY, EXAMPLE.parent))), "OMP_NUM_THREADS": "1"}
    command, pipe = [sys.executable, *words], subprocess.PIPE
    ranks = [
        subprocess.Popen(command, stdout=pipe, text=True, env=env | {"RANK": str(rank)}, start_new_session=True)
        for rank in range(2)
    ]
    try:
        yield ranks[0]
    finally:
        for rank in ranks:
            # With the workers of its loader, which else wait for ever to hand over their last batch.
            with suppress(ProcessLookupError):
                os.killpg(rank.pid, signal.SIGKILL)
            rank.communicate()


def losses(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("loss ")]


def test_a_killed_training_goes_on_with_the_same_losses(tmp_path: Path, tiny_folder: Path) -> None:
    package = publish_encoded(tmp_path / "root", encoders.CausalLMStateEncoder(tiny_folder))
    with training(package, tiny_folder, tmp_path / "whole.pt") as ranks:
        whole = losses(ranks.communicate(timeout=300)[0])
        assert ranks.wait() == 0
    assert len(set(whole)) > 2 * SAVE_EVERY
    checkpoint, seen = tmp_path / "killed.pt", []
    with training(package, tiny_folder, checkpoint) as ranks:
        assert ranks.stdout
        for line in ranks.stdout:
            seen.append(line.rstrip())
            if line == f"saved after step {2 * SAVE_EVERY}\n":
                break
    assert losses("\n".join(seen)) == whole[: 2 * SAVE_EVERY]
    with training(package, tiny_folder, checkpoint) as ranks:
        assert losses(ranks.communicate(timeout=300)[0]) == whole[2 * SAVE_EVERY :]
        assert ranks.wait() == 0
