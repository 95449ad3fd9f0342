"""Batches of workers arrive whole, whoever keeps them, drops them or is killed."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
import resource
import signal
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from genolewm_assets import lewm
from genolewm_assets.errors import ResourceError
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.worlds.lewm.dataset_world import publish_package
from genolewm_assets_tests.worlds.lewm.frozen_world import assert_same

torch = Late("torch")
torch_data = Late("torch.utils.data")
transport = Late("genolewm_assets.training.transport")
tensors = Late("genolewm_assets.training.tensors")

# More workers than cores is what is tested; torch warns of it.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_package(tmp_path_factory.mktemp("transport"))


@pytest.fixture
def dataset(package):
    return lewm.GenoLeWMDataset(package, windows_per_batch=2)


def loader(dataset, workers=2, **options):
    return torch_data.DataLoader(dataset, batch_size=None, num_workers=workers, **options)


def is_in_a_slot(dataset, array) -> bool:
    lanes = dataset._blocks._lanes.values()
    return any(np.may_share_memory(array, np.frombuffer(mapped, np.uint8)) for mapped in lanes)


def in_use(dataset) -> int:
    gc.collect()
    return int((dataset._blocks._states != 0).sum())


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_batches_that_are_kept_keep_their_numbers(dataset, method):
    """More batches than there are slots, kept until the end; then every slot is free again."""
    alone = list(dataset)
    assert len(alone) > 2 * transport.SLOTS
    kept = list(loader(dataset, multiprocessing_context=method))
    assert_same(kept, alone)
    assert in_use(dataset) == 2 * transport.SLOTS
    del kept
    assert in_use(dataset) == 0


def test_batches_that_are_dropped_leave_their_slots_to_others(dataset):
    for epoch in range(3):
        dataset.set_epoch(epoch)
        for mine, alone in zip(loader(dataset, 3), dataset, strict=True):
            assert_same([mine], [alone])
            assert is_in_a_slot(dataset, mine.edits.target_tokens)
    del mine
    assert in_use(dataset) == 0


def test_part_of_a_batch_keeps_the_rest(dataset):
    first, alone = None, next(iter(dataset)).edits.target_tokens
    for number, batch in enumerate(loader(dataset)):
        if number == 0:
            first = torch.from_numpy(batch.edits.target_tokens)[1:, 3:]
    del batch
    assert in_use(dataset) == 1
    assert np.array_equal(first.numpy(), alone[1:, 3:])


@pytest.mark.nightly
def test_epochs_that_are_left_in_the_middle_take_no_slot_for_ever(dataset):
    for _ in range(2 * transport.SLOTS):
        next(iter(loader(dataset)))
    assert_same(list(loader(dataset)), list(dataset))
    assert in_use(dataset) <= 2 * transport.SLOTS


def test_two_loaders_of_one_dataset_do_not_share_slots(dataset):
    alone = list(dataset)
    both = list(zip(loader(dataset), loader(dataset), strict=True))
    assert_same([one for one, _ in both], alone)
    assert_same([other for _, other in both], alone)


def test_a_worker_that_is_killed_leaves_its_lane_to_the_next(dataset):
    batches = iter(loader(dataset, 1))
    kept = next(batches)
    # The list of a loader's processes has no public name.
    os.kill(batches._workers[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="DataLoader worker"):
        list(batches)
    del batches
    alone = list(dataset)
    assert_same(list(loader(dataset, 1)), alone)
    assert_same([kept], alone[:1])
    assert set(np.flatnonzero(dataset._blocks._states.any(axis=1))) <= {0}


def packed(value):
    return transport.Packing({"a": np.arange(value, dtype=np.int64)})


def forked(work):
    """Return the number of a process that does some work and ends: with status 0 unless it raises."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:  # of an error; os._exit does not return
            os._exit(1)
    return child


def sent_by_another_process(blocks, value):
    """Return the ticket of what a process sent that has ended since."""
    receive, send = os.pipe()
    child = forked(lambda: os.write(send, pickle.dumps(blocks.send(packed(value)))))
    assert os.waitpid(child, 0)[1] == 0
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        return pickle.loads(pipe.read())


def test_what_an_ended_worker_sent_is_received_or_refused():
    blocks = transport.SharedBlocks()
    first = sent_by_another_process(blocks, 5)
    assert blocks.receive(*first).view(np.int64).tolist() == [0, 1, 2, 3, 4]
    lost = sent_by_another_process(blocks, 6)
    after = sent_by_another_process(blocks, 7)
    assert lost[:2] == after[:2]
    with pytest.raises(ResourceError, match="replaced before it was received"):
        blocks.receive(*lost)
    assert len(blocks.receive(*after)) == 56


def test_a_forked_process_that_drops_a_batch_does_not_free_it():
    blocks = transport.SharedBlocks()
    block = blocks.receive(*sent_by_another_process(blocks, 5))
    held = [block]
    assert os.waitpid(forked(held.clear), 0)[1] == 0
    held.clear()
    assert np.count_nonzero(blocks._states) == 1
    del block
    assert np.count_nonzero(blocks._states) == 0


def test_batches_of_any_size_use_the_slots_in_turn():
    blocks = transport.SharedBlocks()
    for value in (1, 400_000, 3, 800_000):
        block = blocks.receive(*sent_by_another_process(blocks, value))
        assert block.view(np.int64)[-1] == value - 1
        assert len(block) == 8 * value


def test_a_batch_that_no_slot_holds_is_not_sent():
    blocks = transport.SharedBlocks()
    large = Mock(n_bytes=(1 << 30) + 1)
    assert os.waitpid(forked(lambda: _assert_not(blocks.send(large))), 0)[1] == 0


def _assert_not(sent):
    assert sent is None


def test_a_worker_keeps_its_lane():
    blocks = transport.SharedBlocks()
    lanes = []
    with ExitStack() as ended:
        for values in ((10, 400_000, 3), (5,)):
            for sent in ended.enter_context(sending(blocks, values)):
                assert blocks.receive(*sent).nbytes == sent[3]
            lanes.append(sent[0])
    assert lanes == [0, 1]


@contextmanager
def sending(blocks, values):
    """Yield an iterator over what a process sends, one value after the other; it lives until the context ends."""
    (receive, send), (wait, go_on) = os.pipe(), os.pipe()

    def work():
        os.close(go_on)
        for value in values:
            os.write(send, pickle.dumps(blocks.send(packed(value))))
            os.read(wait, 1)
        os.read(wait, 1)

    child = forked(work)

    def sent():
        for number in range(len(values)):
            if number:
                os.write(go_on, b"x")
            yield pickle.loads(os.read(receive, 4_096))

    try:
        yield sent()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in (receive, send, wait, go_on):
            os.close(end)


def test_what_a_parent_cannot_map_is_refused_with_what_to_do(monkeypatch):
    blocks = transport.SharedBlocks()
    sent = sent_by_another_process(blocks, 5)
    with monkeypatch.context() as patched:
        patched.setattr(blocks, "_map", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(ResourceError, match=r"cannot be mapped: Too many open files.*Use fewer workers"):
            blocks.receive(*sent)
    assert len(blocks.receive(*sent)) == 40


def test_a_lane_takes_one_descriptor_of_the_parent_and_memory_as_far_as_it_was_written_to():
    blocks = transport.SharedBlocks()
    kept = [blocks.receive(*sent_by_another_process(blocks, 100)) for _ in range(transport.SLOTS)]
    assert len(kept) == transport.SLOTS
    own = os.fstat(blocks._descriptor)
    # Of the file, of its states, and of the lane.
    assert sum(_is_open(int(path.name), own.st_ino) for path in Path("/proc/self/fd").iterdir()) == 3
    assert own.st_blocks * 512 <= 10 * 4_096


def _is_open(descriptor, inode):
    with suppress(OSError):  # of the listing itself
        return os.fstat(descriptor).st_ino == inode
    return False


def test_what_cannot_be_mapped_is_not_sent(monkeypatch):
    blocks = transport.SharedBlocks()
    monkeypatch.setattr(blocks, "_map", Mock(side_effect=OSError(errno.ENOMEM, "no memory")))
    assert sent_by_another_process(blocks, 5) is None


@pytest.mark.parametrize(("limit", "value"), [("RLIMIT_FSIZE", 1 << 40), ("RLIMIT_NOFILE", 3)])
def test_limits_of_a_process_leave_it_without_blocks(limit, value):
    def work():
        resource.setrlimit(getattr(resource, limit), (value, value))
        assert transport.open_blocks() is None

    assert os.waitpid(forked(work), 0)[1] == 0


def test_arrays_of_records_and_objects_are_pickled():
    arrays = {"records": np.zeros(2, dtype=[("x", "i4")]), "objects": np.array([1, "x"], dtype=object)}
    packing = transport.Packing(arrays)
    assert (packing.arrays, packing.record) == ([], arrays)


@pytest.mark.parametrize(
    "of_a_worker", [copy.deepcopy, lambda dataset: lewm.GenoLeWMDataset(dataset.package, windows_per_batch=2)]
)
def test_a_dataset_that_a_worker_makes_is_read(dataset, of_a_worker):
    class OfAWorker(torch_data.IterableDataset):
        def __iter__(self):
            return iter(of_a_worker(dataset))

    assert_same(list(loader(OfAWorker(), 1)), list(dataset))


def test_a_copy_of_a_dataset_has_blocks_of_its_own(dataset):
    copied = pickle.dumps(dataset)
    assert len(copied) < 100_000
    other = pickle.loads(copied)
    assert other._blocks.name != dataset._blocks.name
    assert_same(list(loader(other)), list(dataset))


def test_tensors_travel_as_batches_do(dataset):
    alone = [tensors.as_tensors(batch) for batch in dataset]
    for mine, theirs in zip(loader(dataset, collate_fn=tensors.as_tensors), alone, strict=True):
        assert isinstance(mine, tensors.TensorBatch)
        assert is_in_a_slot(dataset, mine["target_tokens"].numpy())
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
        assert {name: each.dtype for name, each in copy.copy(mine).items()} == {n: e.dtype for n, e in theirs.items()}
    del mine
    assert in_use(dataset) == 0


@dataclass(frozen=True, kw_only=True)
class Own:
    """What a user's ``collate_fn`` may add."""

    rows: np.ndarray


def test_what_a_collate_fn_adds_to_tensors_arrives(dataset):
    def collate(batch):
        added = {"half": torch.arange(3).bfloat16(), "grown": torch.ones(2, requires_grad=True), "names": ["a"]}
        added["array"], added["own"] = np.arange(4), Own(rows=np.arange(3))
        return tensors.TensorBatch({**tensors.as_tensors(batch), **added})

    for mine in loader(dataset, 1, collate_fn=collate, timeout=60):
        assert list(mine)[-5:] == ["half", "grown", "names", "array", "own"]
        assert torch.equal(mine["half"], torch.arange(3).bfloat16())
        assert mine["grown"].requires_grad
        assert (mine["names"], mine["array"].tolist()) == (["a"], [0, 1, 2, 3])
        assert mine["own"].rows.tolist() == [0, 1, 2]
        assert is_in_a_slot(dataset, mine["target_tokens"].numpy())
