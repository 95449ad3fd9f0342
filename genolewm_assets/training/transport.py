"""How a batch travels from a worker of a loader to its parent: in blocks of memory that both map and use again.

A pipe would copy the arrays 64 KiB at a time; new shared memory for every batch takes longer than making the batch.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, empty, from_numpy, uint8

from genolewm_assets.errors import ResourceError

#: Workers that send at the same time, and batches of each that wait or are in use.
LANES, SLOTS = 1_024, 8
#: Bytes of a slot: it takes memory only as far as it was written to, and addresses.
_SLOT_BYTES = 1 << 30
#: Arrays begin at multiples of this many bytes, a cache line.
_ALIGNED = 64

#: Blocks that this process receives from, by name.
_OPEN: weakref.WeakValueDictionary[str, SharedBlocks] = weakref.WeakValueDictionary()


class _Place(NamedTuple):
    """Type, shape and first byte of an array in its block."""

    kind: str
    shape: tuple[int, ...]
    at: int

    def of(self, block: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the array, whose memory is the block's."""
        return np.ndarray(self.shape, self.kind, block, self.at)


class TensorBatch(dict[str, Tensor]):
    """Tensors of a batch by name; a dictionary that travels from a worker in shared memory."""


class _Record(NamedTuple):
    """What makes a value, such as a dataclass, and of what, with places instead of arrays."""

    make: Callable[..., Any]
    parts: tuple[Any, ...]
    named: dict[str, Any]


class Packing:
    """A batch as a record without arrays, and these with their places in one block."""

    def __init__(self, batch: Any) -> None:
        self.arrays: list[tuple[NDArray[Any], _Place]] = []
        self.n_bytes = 0
        self.record = self._placed(batch)

    def write(self, block: NDArray[np.uint8]) -> None:
        """Write the arrays to a block of at least ``n_bytes``."""
        for array, place in self.arrays:
            place.of(block)[...] = array

    def _placed(self, value: Any) -> Any:
        if type(value) is Tensor:
            # One that a ``collate_fn`` added may have no array, such as one of bfloat16.
            with suppress(RuntimeError, TypeError):
                return _Record(from_numpy, (self._placed(value.numpy()),), {})
        # Of these types ``dtype.str`` says all, and their items refer to no object.
        if isinstance(value, np.ndarray) and not value.dtype.hasobject and value.dtype.names is None:
            place = _Place(value.dtype.str, value.shape, -(-self.n_bytes // _ALIGNED) * _ALIGNED)
            self.arrays.append((value, place))
            self.n_bytes = place.at + value.nbytes
            return place
        if type(value) is dict:
            return {name: self._placed(own) for name, own in value.items()}
        if type(value) is TensorBatch:
            return _Record(TensorBatch, (self._placed(dict(value)),), {})
        if is_dataclass(value) and not isinstance(value, type):
            own = {field.name: self._placed(getattr(value, field.name)) for field in fields(value)}
            return _Record(type(value), (), own)
        return value


def unpack(record: Any, block: NDArray[np.uint8]) -> Any:
    """Return the batch of a record, whose arrays are parts of a block."""
    if isinstance(record, _Place):
        return record.of(block)
    if type(record) is dict:
        return {name: unpack(own, block) for name, own in record.items()}
    if isinstance(record, _Record):
        return record.make(*(unpack(own, block) for own in record.parts), **unpack(record.named, block))
    return record


class SharedBlocks:
    """Memory in which the workers of a data set send batches to the process that made it: a file without a name.

    Every worker locks a lane of slots; the kernel unlocks it when the worker ends, however it ends. A slot is free
    again when the receiver has dropped every array of its batch.
    """

    def __init__(self, name: str = "", descriptor: int = -1) -> None:
        is_new = not name
        if is_new:
            name, descriptor = secrets.token_hex(16), os.memfd_create("genolewm-batches")
        self.name, self._descriptor = name, descriptor
        weakref.finalize(self, os.close, descriptor)
        if is_new:
            os.ftruncate(descriptor, (1 + LANES * SLOTS) * _SLOT_BYTES)
        self._maker = os.getpid() if is_new else None
        # 0: free; twice a ticket: sent; one more: received and in use.
        self._states = np.frombuffer(self._map(0, 8 * LANES * SLOTS), np.uint64).reshape(LANES, SLOTS)
        # A map has a descriptor of its own, and a process that closes any descriptor of a file loses its locks.
        self._lanes: dict[int, mmap.mmap] = {}
        self._sender, self._lane, self._ticket = 0, 0, 0
        _OPEN[name] = self

    def __reduce__(self) -> tuple[object, ...]:
        if get_spawning_popen() is None:  # a copy that no worker sends to this process from
            return open_blocks, ()
        return _attach, (self.name, DupFd(self._descriptor))

    def send(self, packing: Packing) -> tuple[int, int, int, int] | None:
        """Write a batch to a free slot; return what :meth:`receive` needs, None if it cannot be sent in this way."""
        if packing.n_bytes > _SLOT_BYTES or self._maker == os.getpid() or not self._claim():
            return None
        free = np.flatnonzero(self._states[self._lane] == 0)
        if not len(free):
            return None
        slot = int(free[0])
        try:
            block = self._slot(self._lane, slot, packing.n_bytes)
        except OSError:  # of address space or descriptors
            return None
        packing.write(block)
        self._ticket += 1
        self._states[self._lane, slot] = 2 * self._ticket
        return self._lane, slot, self._ticket, packing.n_bytes

    def receive(self, lane: int, slot: int, ticket: int, n_bytes: int) -> NDArray[np.uint8]:
        """Return the block of a batch that was sent; the slot is free once no array refers to the block."""
        if int(self._states[lane, slot]) != 2 * ticket:
            raise ResourceError(
                "a batch of a worker", "was replaced before it was received", remedy="Begin the epoch again"
            )
        try:
            block = self._slot(lane, slot, n_bytes)
        except OSError as err:
            raise ResourceError(
                "a batch of a worker",
                f"cannot be mapped: {err.strerror}",
                got=f"{len(self._lanes)} workers whose batches are mapped",
                remedy=f"Use fewer workers, or raise `ulimit -n` and `-v` ({_SLOT_BYTES * SLOTS >> 30} GiB a worker)",
            ) from err
        self._states[lane, slot] = 2 * ticket + 1
        # Views of the block keep it alive, whatever is made of them.
        weakref.finalize(block, _free, self._states, lane, slot, os.getpid()).atexit = False
        return block

    def _claim(self) -> bool:
        """Lock a lane for this process, unless it has one; a forked process needs its own."""
        if self._sender == os.getpid():
            return True
        for lane in range(LANES):
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, lane)
            except OSError:
                continue
            states = self._states[lane]
            # Nobody receives what an ended worker sent; what is received is in use.
            states[states % np.uint64(2) == 0] = 0
            self._sender, self._lane, self._ticket = os.getpid(), lane, secrets.randbits(48)
            return True
        return False

    def _slot(self, lane: int, slot: int, n_bytes: int) -> NDArray[np.uint8]:
        if lane not in self._lanes:
            self._lanes[lane] = self._map((1 + lane * SLOTS) * _SLOT_BYTES, SLOTS * _SLOT_BYTES)
        return np.frombuffer(self._lanes[lane], np.uint8, n_bytes, slot * _SLOT_BYTES)

    def _map(self, at: int, size: int) -> mmap.mmap:
        return mmap.mmap(self._descriptor, size, offset=at)


def _attach(name: str, descriptor: Any) -> SharedBlocks:
    return SharedBlocks(name, descriptor.detach())


def _free(states: NDArray[np.uint64], lane: int, slot: int, receiver: int) -> None:
    # A process that the receiver forked drops copies of arrays that are in use here.
    if os.getpid() == receiver:
        states[lane, slot] = 0


def open_blocks() -> SharedBlocks | None:
    """Return new blocks; None where the system has no files without a name, or allows none of this size or no more."""
    if not hasattr(os, "memfd_create"):  # on other systems than Linux
        return None
    try:
        return SharedBlocks()
    except OSError:
        return None


class _Sending:
    """Blocks through which this process, a worker, sends; None: every batch gets new shared memory."""

    blocks: SharedBlocks | None = None


def send_through(blocks: SharedBlocks | None) -> None:
    """Send the batches of this process, a worker of a loader, through some blocks."""
    _Sending.blocks = blocks


def share(kind: type[Any]) -> None:
    """Let objects of a type, not of its subclasses, travel in shared memory: batches, and batches as tensors."""
    ForkingPickler.register(kind, _reduce)


def _reduce(batch: Any) -> tuple[Any, ...]:
    packing, blocks = Packing(batch), _Sending.blocks
    if blocks is not None and (sent := blocks.send(packing)) is not None:
        return _receive, (packing.record, blocks.name, sent)
    block: Tensor = empty(packing.n_bytes, dtype=uint8).share_memory_()  # type: ignore[no-untyped-call]
    packing.write(block.numpy())
    return _restore, (packing.record, block)


def _receive(record: Any, name: str, sent: tuple[int, int, int, int]) -> Any:
    return unpack(record, _OPEN[name].receive(*sent))


def _restore(record: Any, block: Tensor) -> Any:
    return unpack(record, block.numpy())
