"""Frozen epochs give the batches that are drawn, byte for byte, without caches and without an encoder."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets import encoders, lewm
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.packages.reader import open_tables
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root, enclosing_root
from genolewm_assets.training.batches import encode_targets, merge_batches
from genolewm_assets.training.precomputed_epochs.reader import frozen_location
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.frozen_world import (
    EPOCHS,
    OPTIONS,
    FrozenWorld,
    assert_same,
    differing,
    frozen_world,
)
from genolewm_assets_tests.worlds.store.plans import flip

torch = Late("torch")
torch_data = Late("torch.utils.data")
tensors_of = Late("genolewm_assets.training.tensors")

# More workers than cores is what is tested; torch warns of it.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")

N_VISITS = OPTIONS["windows_per_epoch"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> FrozenWorld:
    return frozen_world(tmp_path_factory)


@pytest.fixture(scope="module")
def drawn(world: FrozenWorld) -> list[list[tuple[Any, np.ndarray]]]:
    """Return every visit of each epoch as a live batch of its own, and the states of its edited windows."""
    dataset, epochs = world.live(windows_per_batch=1), []
    for epoch in range(EPOCHS):
        dataset.set_epoch(epoch)
        epochs.append([(batch, encode_targets(batch, world.encoder)) for batch in dataset])
    return epochs


def copied(store: Path, work: Path) -> BuildReport:
    """Write an artefact that is a copy of a store."""
    shutil.copytree(store, work, dirs_exist_ok=True)
    return BuildReport({}, {}, ())


@pytest.mark.parametrize("epoch", range(EPOCHS))
@pytest.mark.parametrize("windows_per_batch", [4, 32, 100])
def test_frozen_batches_are_the_batches_drawn(world: FrozenWorld, windows_per_batch: int, epoch: int) -> None:
    options = {"windows_per_batch": windows_per_batch, "epoch": epoch}
    live, frozen = list(world.live(**options)), list(world.frozen(**options))
    assert_same(frozen, live)
    assert {batch.target_states for batch in live} == {None}
    for batch, stored in zip(live, frozen, strict=True):
        assert stored.target_states.dtype == np.float32
        assert stored.target_states.tobytes() == encode_targets(batch, world.encoder).tobytes()


@each_row("workers", [0, 1, 3])
def test_any_number_of_workers_gives_the_same_batches(world: FrozenWorld, workers: int) -> None:
    alone = list(world.live(windows_per_batch=4))
    loader = torch_data.DataLoader(world.frozen(windows_per_batch=4), batch_size=None, num_workers=workers)
    assert_same(list(loader), alone)


@given(size=st.integers(1, N_VISITS + 1), ranks=st.integers(1, 3), data=st.data())
@settings(max_examples=40)
def test_any_resume_point_and_rank_gives_the_visits_drawn(
    world: FrozenWorld, drawn: list[list[tuple[Any, np.ndarray]]], size: int, ranks: int, data: st.DataObject
) -> None:
    epoch, n_batches = data.draw(st.integers(0, EPOCHS - 1)), -(-N_VISITS // size)
    position, rank = data.draw(st.integers(0, n_batches // ranks)) * ranks, data.draw(st.integers(0, ranks - 1))
    options = {"windows_per_batch": size, "epoch": epoch, "position": position, "rank": rank, "world_size": ranks}
    batches = list(world.frozen(contents="sizes", **options))
    n_dealt = -(-n_batches // ranks) * ranks
    wanted = [number for number in range(position, n_dealt) if number % ranks == rank]
    assert [batch.position for batch in batches] == wanted
    for batch in batches:
        start = batch.position % n_batches * size
        own = drawn[epoch][start : start + size]
        merged = merge_batches([one for one, _ in own])
        assert set(differing(batch, merged)) <= {"visits"}
        assert batch.counts == merged.counts
        np.testing.assert_array_equal(batch.target_states, np.concatenate([states for _, states in own]))


def test_a_run_that_began_live_goes_on_frozen(world: FrozenWorld) -> None:
    live = world.live(windows_per_batch=4, epoch=1)
    state = live.state_dict() | {"position": 3}
    frozen = world.frozen(windows_per_batch=4)
    frozen.load_state_dict(state)
    assert_same(list(frozen), list(live)[3:])


def test_a_copy_reads_the_same_and_holds_no_rows(world: FrozenWorld) -> None:
    dataset = world.frozen(windows_per_batch=4)
    wanted = list(dataset)
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 100_000
    assert_same(list(pickle.loads(pickled)), wanted)


def test_tensors_of_frozen_batches_can_be_written(world: FrozenWorld) -> None:
    (batch, *_) = world.frozen(windows_per_batch=4)
    before = batch.target_states.copy()
    tensors = tensors_of.as_tensors(batch)
    assert tensors["target_states"].shape == tensors["source_states"].shape == batch.target_states.shape
    for name in ("target_states", "source_states", "target_tokens"):
        tensors[name][:] = 0
    np.testing.assert_array_equal(batch.target_states, before)
    assert "target_states" not in tensors_of.as_tensors(next(iter(world.live())))


def test_merged_batches_have_the_targets_of_all_or_are_refused(world: FrozenWorld) -> None:
    first, second, *_ = world.frozen(windows_per_batch=4)
    merged = merge_batches([first, second])
    np.testing.assert_array_equal(merged.target_states, np.concatenate([first.target_states, second.target_states]))
    with pytest.raises(InputError, match="batches that all have target states, or none"):
        merge_batches([first, next(iter(world.live(position=1)))])


def test_neither_caches_nor_a_root_are_needed(world: FrozenWorld, tmp_path: Path) -> None:
    package = Path(shutil.copytree(world.package, tmp_path / "package"))
    with pytest.raises(MissingResourceError, match="no root contains the package"):
        lewm.GenoLeWMDataset(package, allow_unaudited=True, **OPTIONS)
    alone = lewm.GenoLeWMDataset(package, frozen=world.store, allow_unaudited=True, **OPTIONS)
    assert_same(list(alone), list(world.live()))


def test_the_epochs_of_a_package_are_found_in_its_root(world: FrozenWorld, tmp_path: Path) -> None:
    shutil.copytree(enclosing_root(world.package), tmp_path / "root", symlinks=True)
    root = Root(tmp_path / "root")
    with pytest.raises(MissingResourceError, match=r"no frozen epochs of this package of 2025-01-05"):
        world.frozen(frozen=root.path)
    # Beside those of another package, which come first in the folder.
    other = tmp_path / "other"
    shutil.copytree(world.store, other)
    (other / "fingerprint.json").write_bytes(b"{}")
    for number, store in enumerate((other, world.store)):
        location = frozen_location("2025-01-05", f"packages/2025-01-05/{number:012}")
        artefact = ArtefactId("tuples/frozen", "2025-01-05")
        build(root, BuildPlan(artefact, location, "1", {}, (), lambda work, store=store: copied(store, work)))
    assert_same(list(world.frozen(frozen=root.path)), list(world.live()))
    assert_same(list(world.frozen(frozen=root.path / location)), list(world.live()))


@each_row(
    ("option", "frozen"),
    [
        *(({"seed": 4}, "3"), ({"n_edits": 4}, "5"), ({"mix": "exact"}, "None"), ({"kind": "global"}, "'local'")),
        *(({"radius_tokens": 30}, "256"), ({"side": "right"}, "'both'"), ({"multi_edit_share": 0.2}, "0.1")),
        *(({"min_left_context_bp": 5}, "0"), ({"length_policy": "left_flank"}, "'right_flank'")),
        *(({"windows_per_epoch": 40}, "41"), ({"source_mix": {"reference": 1.0}}, "None")),
    ],
)
def test_another_option_than_the_frozen_one_is_refused(world: FrozenWorld, option: dict[str, Any], frozen: str) -> None:
    (name,) = option
    with pytest.raises(ConfigurationError) as refused:
        world.frozen(**option)
    assert f"store: {name}: the epochs were frozen with another value: expected {frozen}, got" in str(refused.value)
    assert "leave frozen out, or freeze with yours" in str(refused.value)


def test_an_epoch_that_was_not_frozen_is_refused(world: FrozenWorld) -> None:
    with pytest.raises(ConfigurationError, match=r"epoch 2: is not frozen in .*store: expected 0 to 1, got 2"):
        world.frozen(epoch=2)
    dataset = world.frozen()
    with pytest.raises(ConfigurationError, match=r"raise packages\.frozen_epochs in the catalogue"):
        dataset.set_epoch(7)
    assert dataset.epoch == 0


def test_states_of_another_encoder_are_refused(world: FrozenWorld) -> None:
    assert_same(list(world.frozen(encoder=world.encoder)), list(world.live()))
    other = encoders.CausalLMStateEncoder(world.model, layer=0)
    with pytest.raises(ConfigurationError, match=r"encoder: the states are of another encoder: expected .*'layer': 2"):
        world.frozen(encoder=other)


def test_states_of_another_package_are_refused(world: FrozenWorld) -> None:
    opened = open_tables(world.package)
    other = replace(opened, info=replace(opened.info, caches=()))
    with pytest.raises(ConfigurationError, match=r"frozen from another package: expected package.json [0-9a-f]{12} of"):
        lewm.GenoLeWMDataset(other, frozen=world.store, **OPTIONS)


def test_frozen_states_cannot_be_left_out(world: FrozenWorld) -> None:
    with pytest.raises(ConfigurationError, match="frozen: of no use with with_states=False"):
        world.frozen(with_states=False)


@pytest.mark.parametrize("name", ["target_states", "source_states", "target_tokens", "facts", "alts", "window_id"])
def test_a_flipped_byte_is_found_by_the_batch_that_reads_it(world: FrozenWorld, tmp_path: Path, name: str) -> None:
    store = Path(shutil.copytree(world.store, tmp_path / "store"))
    flip(store / f"{name}.bin", -1)  # of the last row of the last epoch
    first = world.frozen(frozen=store, windows_per_batch=4)
    assert_same(list(first), list(world.live(windows_per_batch=4)))
    with pytest.raises(CorruptResourceError, match=rf"{name}\.bin: rows 64 to 81 differ from what was written"):
        list(world.frozen(frozen=store, windows_per_batch=4, epoch=1))


def test_what_is_no_store_of_frozen_epochs_is_refused(world: FrozenWorld) -> None:
    cache = next((enclosing_root(world.package) / "embeddings").glob("*"))
    with pytest.raises(CorruptResourceError, match="holds no frozen epochs: expected arrays alts, bases"):
        world.frozen(frozen=cache)
