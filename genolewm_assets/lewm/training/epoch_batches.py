"""Iterator over the batches of an epoch whose place can be saved and restored.

``state_dict`` and ``load_state_dict`` are the methods that torchdata's ``StatefulDataLoader`` calls in each worker. Not
here: what a batch holds (``stream``), which batches there are (``dataset``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.lewm.training.batches import TrainingBatch
from genolewm_assets.lewm.training.options import at_least

#: Version of the form of a saved state; another one is refused.
STATE_VERSION: Final = 1


class EpochBatches(Iterator[TrainingBatch]):
    """The batches of an epoch that fall to one process, in order.

    Parameters
    ----------
    read
        Yields the batches of an epoch, given the epoch, the position that it begins at, and how many of the batches of
        this process are left out.
    epoch, position
        Epoch, and number of batches that all processes together leave out at its start.
    stream
        Text that names package and settings; a state of another stream is refused.
    processes
        Number of processes that share the epoch: workers of all ranks. A state of another number is refused.
    """

    def __init__(
        self,
        read: Callable[[int, int, int], Iterator[TrainingBatch]],
        *,
        epoch: int,
        position: int,
        stream: str,
        processes: int,
    ) -> None:
        self._read, self._epoch, self._position, self._taken = read, epoch, position, 0
        self._stream, self._processes = stream, processes
        self._batches: Iterator[TrainingBatch] | None = None

    def __next__(self) -> TrainingBatch:
        """Return the next batch."""
        if self._batches is None:
            self._batches = self._read(self._epoch, self._position, self._taken)
        batch = next(self._batches)
        self._taken += 1
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last batch returned, as JSON values."""
        place = saved_state(self._stream, self._epoch, self._position)
        return place | {"taken": self._taken, "processes": self._processes}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go to the place that :meth:`state_dict` returned.

        Raises
        ------
        ConfigurationError
            If the state is of another stream or version, or of another number of processes.
        """
        self._epoch, self._position = restored_place(self._stream, state_dict)
        if state_dict.get("processes") != self._processes:
            raise ConfigurationError(
                "saved state of an iterator",
                "was saved with another number of workers and ranks, which share the batches in another way",
                expected=f"{self._processes}",
                got=repr(state_dict.get("processes")),
                remedy="Resume after the last batch instead: dataset.resume(batch.epoch, batch.position + 1)",
            )
        self._taken, self._batches = at_least(0, "taken", state_dict.get("taken", 0)), None


def saved_state(stream: str, epoch: int, position: int) -> dict[str, Any]:
    """Return a place in a stream as JSON values."""
    return {"version": STATE_VERSION, "stream": stream, "epoch": epoch, "position": position}


def restored_place(stream: str, state: Mapping[str, Any]) -> tuple[int, int]:
    """Return epoch and position of a saved state.

    Raises
    ------
    ConfigurationError
        If the state is of another stream or version, or has no place.
    """
    for name, expected in (("version", STATE_VERSION), ("stream", stream)):
        if state.get(name) != expected:
            raise ConfigurationError(
                f"saved state of a dataset: {name}",
                "is not that of this dataset, whose batches would be others",
                expected=repr(expected),
                got=repr(state.get(name)),
                remedy="Open the package, with the options, that the state was saved with",
            )
    return at_least(0, "epoch", state.get("epoch", -1)), at_least(0, "position", state.get("position", -1))
