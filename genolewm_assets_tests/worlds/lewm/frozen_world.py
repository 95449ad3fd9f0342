"""A package with caches of the tiny encoder, and two epochs of it frozen; what is compared of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genolewm_assets import encoders, lewm
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_encoded
from genolewm_assets_tests.worlds.once import built_once

EPOCHS = 2
#: Options of the stream that was frozen.
OPTIONS: dict[str, Any] = {"seed": 3, "n_edits": 5, "windows_per_epoch": 41}


@dataclass
class FrozenWorld:
    """Nothing in ``folder`` may be changed."""

    folder: Path

    @property
    def package(self) -> Path:
        return Path((self.folder / "package.txt").read_text())

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @cached_property
    def encoder(self) -> encoders.CausalLMStateEncoder:
        return encoders.CausalLMStateEncoder(self.model)

    def live(self, **options: Any) -> lewm.GenoLeWMDataset:
        return lewm.GenoLeWMDataset(self.package, **OPTIONS | options)

    def frozen(self, **options: Any) -> lewm.GenoLeWMDataset:
        return lewm.GenoLeWMDataset(self.package, **OPTIONS | {"frozen": self.store} | options)

    def freeze(self, folder: Path, **options: Any) -> Any:
        return lewm.write_frozen(folder, self.package, self.encoder, epochs=EPOCHS, **OPTIONS | options)


def frozen_world(factory: pytest.TempPathFactory) -> FrozenWorld:
    def build(folder: Path) -> None:
        world = FrozenWorld(folder)
        encoders.write_tiny_llama(world.model)
        (folder / "package.txt").write_text(str(publish_encoded(folder, world.encoder)))
        report = world.freeze(world.store)
        assert all(check.passed for check in report.checks), report.checks

    return FrozenWorld(built_once(factory, "frozen_world", build))


def differing(left: Any, right: Any) -> list[str]:
    """Return the names of the arrays that differ between two batches, target states left out."""
    pairs = [("visits", left.visits, right.visits), ("source_states", left.source_states, right.source_states)]
    for part in ("edits", "stated", "windows"):
        mine, theirs = getattr(left, part), getattr(right, part)
        pairs += [(f"{part}.{one.name}", getattr(mine, one.name), getattr(theirs, one.name)) for one in fields(mine)]
    return [name for name, mine, theirs in pairs if not _same(mine, theirs)]


def _same(mine: Any, theirs: Any) -> bool:
    if not isinstance(mine, np.ndarray):
        return bool(mine == theirs)
    return mine.dtype == theirs.dtype and mine.shape == theirs.shape and mine.tobytes() == theirs.tobytes()


def assert_same(left: Sequence[Any], right: Sequence[Any]) -> None:
    assert [(one.epoch, one.position) for one in left] == [(one.epoch, one.position) for one in right]
    for mine, theirs in zip(left, right, strict=True):
        assert differing(mine, theirs) == []
        assert mine.counts == theirs.counts
        assert mine.tuples == theirs.tuples
