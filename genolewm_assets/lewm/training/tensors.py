"""Batches as PyTorch tensors, and how a batch travels from a worker to its parent: in one block of shared memory.

Pickled as they are, the arrays of a batch would be copied through a pipe, 64 KiB at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, empty, from_numpy, uint8

from genolewm_assets.lewm.training.batches import TrainingBatch
from genolewm_assets.lewm.training.edit_arrays import edit_arrays


def as_tensors(batch: TrainingBatch) -> dict[str, Tensor]:
    """Return a batch of n tuples as tensors by name, on the CPU.

    Returns
    -------
    dict
        ``target_tokens``, ``n_tokens``, ``block_start``, ``block_stop``, ``locus_token`` and, if the batch has states,
        ``source_states`` and ``target_states``: shapes and dtypes of
        :class:`~genolewm_assets.lewm.training.batches.TrainingBatch`. Tensors share the memory of the batch's arrays,
        as far as the batch holds them and they can be written; the states of a frozen epoch are copied.

        What is known of the edits: see :func:`~genolewm_assets.lewm.training.edit_arrays.edit_arrays`, where names,
        shapes, dtypes and codes are listed. Of shape (n, 3): ``edit_mask``, ``edit_type``, ``edit_rel_pos``,
        ``edit_pos``, ``edit_ref_length``, ``edit_alt_length``, ``edit_truncated``; (n, 3, 16): ``edit_ref``,
        ``edit_alt``; (n,): ``n_edits``, ``label``, ``edit_source``, ``planned_source``, ``frame_shift``,
        ``length_change``, ``contig``.
    """
    arrays = {
        "target_tokens": batch.target_tokens,
        "n_tokens": batch.n_tokens,
        "block_start": batch.block_start,
        "block_stop": batch.block_stop,
        "locus_token": batch.locus_token,
        "source_states": batch.source_states,
        "target_states": batch.target_states,
        **edit_arrays(batch),
    }
    return {name: from_numpy(_writable(array)) for name, array in arrays.items() if array is not None}


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that can be written: torch would write to a map as well, which ends the process."""
    return array if array.flags.writeable else array.copy()


#: Arrays begin at multiples of this many bytes, a cache line.
_ALIGNED = 64


class _Place(NamedTuple):
    """Dtype, shape and first byte of an array in the block."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    at: int

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def of(self, block: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the array, whose memory is the block's."""
        return block[self.at : self.at + self.n_bytes].view(self.dtype).reshape(self.shape)


class _Record(NamedTuple):
    """A dataclass and the values of its fields, with places instead of arrays."""

    kind: type[Any]
    values: Mapping[str, Any]


def share_batches() -> None:
    """Let batches travel in shared memory between all processes that ``multiprocessing`` connects."""
    ForkingPickler.register(TrainingBatch, _reduce)


def _reduce(batch: TrainingBatch) -> tuple[Any, ...]:
    arrays: list[tuple[NDArray[Any], _Place]] = []
    record = _placed(batch, arrays)
    end = arrays[-1][1].at + arrays[-1][1].n_bytes
    block: Tensor = empty(end, dtype=uint8).share_memory_()  # type: ignore[no-untyped-call]
    memory = block.numpy()
    for array, place in arrays:
        place.of(memory)[...] = array
    return _restore, (block, record)


def _restore(block: Tensor, record: _Record) -> TrainingBatch:
    batch = _filled(record, block.numpy())
    assert isinstance(batch, TrainingBatch)
    return batch


def _placed(value: Any, arrays: list[tuple[NDArray[Any], _Place]]) -> Any:
    """Return a value with places instead of its arrays, which are appended with their places."""
    if isinstance(value, np.ndarray):
        last = arrays[-1][1] if arrays else _Place(np.dtype(np.uint8), (0,), 0)
        at = -(-(last.at + last.n_bytes) // _ALIGNED) * _ALIGNED
        arrays.append((value, _Place(value.dtype, value.shape, at)))
        return arrays[-1][1]
    if is_dataclass(value) and not isinstance(value, type):
        return _Record(
            type(value), {field.name: _placed(getattr(value, field.name), arrays) for field in fields(value)}
        )
    return value


def _filled(value: Any, block: NDArray[np.uint8]) -> Any:
    if isinstance(value, _Place):
        return value.of(block)
    if isinstance(value, _Record):
        return value.kind(**{name: _filled(own, block) for name, own in value.values.items()})
    return value
