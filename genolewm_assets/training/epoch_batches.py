"""Iterator over an epoch whose place can be saved, as torchdata does in each worker, and how ranks share an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.training.batches import TrainingBatch
from genolewm_assets.training.options import at_least

#: Version of the form of a saved state, and of the order of visits; another one is refused.
STATE_VERSION: Final = 2


#: What makes the ranks of a training read the same number of batches.
_LAST: Final = ("repeat", "drop")


class Ranks(NamedTuple):
    """The processes that share an epoch, and this one.

    In training every rank reads the same number of batches: otherwise the ranks wait for each other for ever, or their
    epochs mix. ``last`` makes the numbers equal by ``repeat`` or ``drop``; it is empty in an evaluation, which shows
    every batch once.
    """

    rank: int
    world_size: int
    last: str

    @classmethod
    def of(cls, options: Mapping[str, object], group: tuple[int, int], *, even: bool) -> Self:
        """Return the ranks of a dataset's options, by default those of a group; ``even``: they are made equal."""
        rank = at_least(0, "rank", int(str(options.get("rank", group[0]))))
        world_size = at_least(rank + 1, "world_size", int(str(options.get("world_size", group[1]))))
        last = options.get("last_batches", _LAST[0] if even else "")
        if last not in (_LAST if even else ("",)):
            expected = f"one of {list(_LAST)}" if even else "none: an evaluation shows every batch once"
            raise ConfigurationError("last_batches", "does not apply", expected=expected, got=repr(last))
        return cls(rank, world_size, str(last))

    def check_place(self, position: int) -> int:
        """Return a position; raise ConfigurationError if ranks of a training could not read as many batches from it."""
        if self.last and position % self.world_size not in {0, (self.rank + 1) % self.world_size}:
            raise ConfigurationError(
                "position",
                f"{self.world_size} ranks cannot divide the rest of an epoch from there equally",
                expected=f"a multiple of {self.world_size}, or the position after a batch of this rank",
                got=f"{position}",
                remedy="After a change of the number of ranks, resume at the multiple before",
            )
        return position

    def check(self, n_batches: int) -> None:
        """Raise :class:`ConfigurationError` if dropping the last batches leaves none."""
        if self.last == "drop" and n_batches < self.world_size:
            raise ConfigurationError(
                "last_batches='drop'",
                "leaves no batch of an epoch",
                expected=f"at least {self.world_size} batches, one per rank",
                got=f"{n_batches}",
                remedy="Take fewer windows per batch, or last_batches='repeat'",
            )

    def positions(self, n_batches: int, position: int) -> range:
        """Return the positions, from one on, of this rank's batches; from ``n_batches`` on the first ones repeat."""
        whole = n_batches // self.world_size * self.world_size
        more = self.world_size if whole < n_batches else 0
        stop = {"repeat": whole + more, "drop": whole}.get(self.last, n_batches)
        return range(position + (self.rank - position) % self.world_size, stop, self.world_size)


class EpochBatches(Iterator[TrainingBatch]):
    """The batches of an epoch that fall to one process, in order.

    ``read`` yields them, given epoch, position, and how many of this process are left out. A saved state is refused if
    ``stream``, the name of package and settings, or ``processes``, the number of workers of all ranks, is another.
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
        self._read = read
        #: Epoch, position that it begins at, and number of batches returned since.
        self.epoch, self.position, self.taken = epoch, position, 0
        self._stream, self._processes = stream, processes
        self._batches: Iterator[TrainingBatch] | None = None

    def __next__(self) -> TrainingBatch:
        """Return the next batch."""
        if self._batches is None:
            self._batches = self._read(self.epoch, self.position, self.taken)
        batch = next(self._batches)
        self.taken += 1
        return batch

    def place(self, world_size: int) -> tuple[int, int]:
        """Return epoch and position after the last batch, when each rank has read as many as this process."""
        return self.epoch, self.position + self.taken * world_size

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last batch returned, as JSON values."""
        place = saved_state(self._stream, self.epoch, self.position)
        return place | {"taken": self.taken, "processes": self._processes}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go to the place that :meth:`state_dict` returned; raise ConfigurationError if it is of another stream."""
        self.epoch, self.position = restored_place(self._stream, state_dict)
        if state_dict.get("processes") != self._processes:
            raise ConfigurationError(
                "saved state of an iterator",
                "was saved with another number of workers and ranks, which share the batches in another way",
                expected=f"{self._processes}",
                got=repr(state_dict.get("processes")),
                remedy="Resume after the last batch instead: dataset.resume(batch.epoch, batch.position + 1)",
            )
        self.taken, self._batches = at_least(0, "taken", state_dict.get("taken", 0)), None


def saved_state(stream: str, epoch: int, position: int) -> dict[str, Any]:
    """Return a place in a stream as JSON values."""
    return {"version": STATE_VERSION, "stream": stream, "epoch": epoch, "position": position}


def unknown_place() -> ConfigurationError:
    """Return the error of a dataset whose batches workers read, so that only they know how far they are."""
    return ConfigurationError(
        "state of a dataset",
        "workers of a loader read its batches, and only they know how far they are",
        remedy="Save the state of torchdata's StatefulDataLoader, or resume after the last batch: "
        "dataset.resume(batch.epoch, batch.position + 1)",
    )


def restored_place(stream: str, state: Mapping[str, Any]) -> tuple[int, int]:
    """Return epoch and position of a saved state; raise ConfigurationError if it is of another stream."""
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
