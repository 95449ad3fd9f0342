"""A place in an epoch can be saved and restored, also by torchdata's loader, and ranks come from torch.distributed."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets import lewm
from genolewm_assets.errors import ConfigurationError
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package

stateful = Late("torchdata.stateful_dataloader")

# More workers than cores is what is tested, and torchdata imports a deprecated name; torch warns of both.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
]

OPTIONS: dict[str, Any] = {"seed": 5, "windows_per_batch": 4, "epoch": 2}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_package(tmp_path_factory.mktemp("place"))


def places(batches: Any) -> list[tuple[int, int, tuple[Any, ...]]]:
    return [(batch.epoch, batch.position, batch.tuples) for batch in batches]


def loader(package: Path, workers: int, **options: Any) -> Any:
    dataset = lewm.GenoLeWMDataset(package, **OPTIONS | options)
    return stateful.StatefulDataLoader(dataset, batch_size=None, num_workers=workers)


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_stateful_loader_goes_on_at_the_next_batch(package: Path, workers: int) -> None:
    whole = places(lewm.GenoLeWMDataset(package, **OPTIONS))
    for taken in (0, 1, 5, len(whole) - 3):
        first = loader(package, workers, position=2)
        begun = places(islice(first, taken))
        state = first.state_dict()
        # The state of another place, which the saved one replaces.
        second = loader(package, workers, epoch=0)
        second.load_state_dict(state)
        assert begun + places(second) == whole[2:]


def test_an_iterator_says_how_far_it_is_in_json(package: Path) -> None:
    dataset = lewm.GenoLeWMDataset(package, **OPTIONS)
    batches = iter(dataset)
    begun = places(islice(batches, 3))
    state = json.loads(json.dumps(batches.state_dict()))
    again = iter(lewm.GenoLeWMDataset(package, **OPTIONS | {"epoch": 0}))
    next(again)
    again.load_state_dict(state)
    assert begun + places(again) == places(dataset)
    assert list(again) == []


def test_a_dataset_says_how_far_its_newest_iterator_is(package: Path) -> None:
    whole = places(lewm.GenoLeWMDataset(package, **OPTIONS))
    for ranks, rank in ((1, 0), (2, 1)):
        share = {"rank": rank, "world_size": ranks, "last_batches": "drop"}
        mine = whole[rank : len(whole) // ranks * ranks : ranks]
        dataset = lewm.GenoLeWMDataset(package, **OPTIONS | share)
        old = iter(dataset)
        next(old)
        for taken, _ in enumerate(dataset, start=1):
            state = json.loads(json.dumps(dataset.state_dict()))
            other = lewm.GenoLeWMDataset(package, **OPTIONS | share | {"epoch": 0})
            other.load_state_dict(state)
            assert places(other) == mine[taken:]
        dataset.set_epoch(2)
        assert dataset.state_dict()["position"] == 0


def test_only_workers_know_their_places(package: Path) -> None:
    dataset = lewm.GenoLeWMDataset(package, **OPTIONS)
    batches = iter(Late("torch.utils.data").DataLoader(dataset, batch_size=None, num_workers=1))
    next(batches)
    with pytest.raises(ConfigurationError, match="workers of a loader read its batches"):
        dataset.state_dict()
    del batches
    dataset.set_epoch(3)
    assert dataset.state_dict()["epoch"] == 3


@each_row("world_size", [1, 2, 3, 5, 50])
def test_ranks_of_a_training_read_as_many_batches(package: Path, world_size: int) -> None:
    whole = places(lewm.GenoLeWMDataset(package, **OPTIONS))
    for last in ("repeat", "drop"):
        if last == "drop" and world_size > len(whole):
            with pytest.raises(ConfigurationError, match="leaves no batch of an epoch"):
                lewm.GenoLeWMDataset(package, **OPTIONS, rank=0, world_size=world_size, last_batches=last)
            continue
        dealt, share = [], len(whole) // world_size if last == "drop" else -(-len(whole) // world_size)
        for rank in range(world_size):
            dataset = lewm.GenoLeWMDataset(package, **OPTIONS, rank=rank, world_size=world_size, last_batches=last)
            dealt += (found := places(dataset))
            assert len(found) == len(dataset) == share
        dealt.sort(key=lambda place: place[1])
        assert [position for _, position, _ in dealt] == list(range(len(dealt)))
        contents = [[(one.window_id, one.rel_edits) for one in tuples] for _, _, tuples in whole]
        wanted = contents * (world_size // len(whole) + 2)
        assert [[(one.window_id, one.rel_edits) for one in tuples] for _, _, tuples in dealt] == wanted[: len(dealt)]


@each_row(
    ("position", "rank", "allowed"),
    [(0, 1, True), (6, 0, True), (6, 2, True), (7, 0, True), (7, 1, False), (8, 1, True), (8, 0, False), (8, 2, False)],
)
def test_ranks_resume_where_the_rest_is_divided_equally(package: Path, position: int, rank: int, allowed: bool) -> None:
    dataset = lewm.GenoLeWMDataset(package, **OPTIONS, rank=rank, world_size=3)
    if allowed:
        dataset.resume(2, position)
        # 18 batches are 6 for each rank; from 6 on 4.
        assert len(dataset) == 6 - -(-position // 3)
    else:
        with pytest.raises(ConfigurationError, match="3 ranks cannot divide the rest"):
            dataset.resume(2, position)


def test_only_a_training_makes_its_ranks_equal(package: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"last_batches.*one of"):
        lewm.GenoLeWMDataset(package, last_batches="pad")
    with pytest.raises(ConfigurationError, match="an evaluation shows every batch once"):
        lewm.GenoLeWMValDataset(package, "holdout-chr", last_batches="drop")


def test_a_dataset_says_where_its_next_iterator_begins(package: Path) -> None:
    dataset = lewm.GenoLeWMDataset(package, **OPTIONS)
    dataset.resume(7, 4)
    other = lewm.GenoLeWMDataset(package, **OPTIONS)
    other.load_state_dict(json.loads(json.dumps(dataset.state_dict())))
    assert (other.epoch, other.position) == (7, 4)
    assert places(islice(other, 1)) == places(islice(dataset, 1))


@each_row(
    "change",
    [
        *({"seed": 6}, {"n_edits": 4}, {"windows_per_batch": 8}, {"mix": "rotating"}, {"windows_per_epoch": 9}),
        {"kind": "global"},
    ],
)
def test_a_state_of_other_batches_is_refused(package: Path, change: dict[str, Any]) -> None:
    state = lewm.GenoLeWMDataset(package, **OPTIONS).state_dict()
    other = lewm.GenoLeWMDataset(package, **OPTIONS | change)
    with pytest.raises(ConfigurationError, match="saved state of a dataset: stream"):
        other.load_state_dict(state)
    with pytest.raises(ConfigurationError, match="saved state of a dataset: stream"):
        iter(other).load_state_dict(state | {"taken": 0, "processes": 1})


@each_row(
    ("fault", "named"),
    [
        *(({"version": 1}, "version"), ({"epoch": -1}, "epoch"), ({"position": -1}, "position")),
        *(({"taken": -1}, "taken"), ({"processes": 2}, "another number of workers")),
    ],
)
def test_a_state_without_a_place_is_refused(package: Path, fault: dict[str, int], named: str) -> None:
    batches = iter(lewm.GenoLeWMDataset(package, **OPTIONS))
    with pytest.raises(ConfigurationError, match=named):
        batches.load_state_dict(batches.state_dict() | fault)


RANK = """
import json, sys
import torch.distributed as group
from genolewm_assets import lewm
rank, store, package = int(sys.argv[1]), sys.argv[2], sys.argv[3]
group.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
dataset, seen = lewm.GenoLeWMDataset(package, windows_per_batch=int(sys.argv[4])), []
for epoch in range(2):
    dataset.set_epoch(epoch)
    for batch in dataset:
        # A collective call per batch: a rank with a batch more would wait here for ever, or meet the next epoch.
        others = [None, None]
        group.all_gather_object(others, (batch.epoch, batch.position))
        assert {place[0] for place in others} == {epoch}
        seen.append(batch.position)
print(json.dumps(seen))
group.destroy_process_group()
"""


@pytest.mark.nightly
def test_ranks_are_those_of_the_process_group(package: Path, tmp_path: Path) -> None:
    sizes = {size: lewm.GenoLeWMDataset(package, windows_per_batch=size).n_batches for size in range(4, 9)}
    size, n_batches = next((size, number) for size, number in sizes.items() if number % 2)
    words, where = [sys.executable, "-c", RANK], [str(tmp_path / "store"), str(package), str(size)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    ranks = [subprocess.Popen([*words, str(rank), *where], **pipes) for rank in range(2)]
    said = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    positions = [json.loads(out) for out, _ in said]
    assert positions == [[*range(rank, n_batches + 1, 2)] * 2 for rank in range(2)]
