"""Batches whose size follows the memory of a device that a fake stands for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from genolewm_assets.errors import DeviceError
from genolewm_assets_tests.late import Late

torch = Late("torch")
batches = Late("genolewm_assets.encoders.batches")


class SmallDevice:
    """A device with memory for some windows; the result of a window is its ids times two."""

    def __init__(self, room: int) -> None:
        self.room, self.passes = room, list[int]()

    def start(self, ids: NDArray[np.int64]) -> Callable[[], NDArray[np.int64]]:
        self.passes.append(len(ids))
        if len(ids) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return lambda: ids * 2


@pytest.mark.parametrize(
    ("room", "passes", "left"),
    [(64, [16, 4], 16), (5, [16, 8, 4, 4, 4, 4, 4], 4), (1, [16, 8, 4, 2, *[1] * 20], 1)],
)
def test_the_batch_is_lowered_for_good(room: int, passes: list[int], left: int) -> None:
    device = SmallDevice(room)
    some, ids = batches.Batches(device.start, 16, "encoder x"), np.arange(60).reshape(20, 3)
    np.testing.assert_array_equal(some.run(ids), ids * 2)
    assert (device.passes, some.windows) == (passes, left)
    some.run(ids[:2])
    assert device.passes[len(passes) :] == [2] if left > 1 else [1, 1]


def test_a_device_without_room_for_one_window_is_the_machine_s_fault() -> None:
    some = batches.Batches(SmallDevice(0).start, 4, "encoder x")
    with pytest.raises(
        DeviceError, match=r"encoder x: the accelerator's memory is too small for one window \(CUDA out"
    ):
        some.run(np.zeros((3, 2), dtype=np.int64))


def test_threads_share_the_batch() -> None:
    some, ids = batches.Batches(SmallDevice(3).start, 64, "encoder x"), np.arange(400).reshape(200, 2)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(some.run, [ids] * 8):
            np.testing.assert_array_equal(found, ids * 2)
    assert some.windows == 2
