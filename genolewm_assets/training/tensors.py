"""Batches as PyTorch tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, distributed, from_numpy

from genolewm_assets.training.batches import TrainingBatch, edit_arrays
from genolewm_assets.training.transport import share


class TensorBatch(dict[str, Tensor]):
    """Tensors of a batch by name; a dictionary that travels from a worker in shared memory."""


def as_tensors(batch: TrainingBatch) -> TensorBatch:
    """Return a batch of n tuples as tensors by name, on the CPU.

    Returns
    -------
    dict
        ``target_tokens``, ``n_tokens``, ``block_start``, ``block_stop``, ``locus_token`` and, if the batch has states,
        ``source_states`` and ``target_states``: shapes and dtypes of
        :class:`~genolewm_assets.training.batches.TrainingBatch`. Tensors share the memory of the batch's arrays,
        as far as the batch holds them and they can be written; the states of a frozen epoch are copied.

        What is known of the edits: names, shapes, dtypes and codes of
        :func:`~genolewm_assets.training.batches.edit_arrays`.
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
    return TensorBatch({name: from_numpy(_writable(array)) for name, array in arrays.items() if array is not None})


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that can be written: torch would write to a map as well, which ends the process."""
    return array if array.flags.writeable else array.copy()


def share_batches() -> None:
    """Let batches, and batches as tensors, travel in shared memory; see ``transport``."""
    share(TrainingBatch, _as_it_is, _as_it_is)
    share(TensorBatch, _as_arrays, _of_arrays)


def _as_it_is(batch: TrainingBatch) -> TrainingBatch:
    return batch


@dataclass(frozen=True, slots=True)
class _ArrayOf:
    """The array of a tensor."""

    array: NDArray[Any]


def _as_arrays(batch: TensorBatch) -> dict[str, Any]:
    return {name: _array_of(each) for name, each in batch.items()}


def _array_of(value: Any) -> Any:
    """Return the array of a tensor; what a ``collate_fn`` added and has none, such as bfloat16, as it is."""
    try:
        return _ArrayOf(value.numpy()) if type(value) is Tensor else value
    except (RuntimeError, TypeError):
        return value


def _of_arrays(values: dict[str, Any]) -> TensorBatch:
    return TensorBatch(
        {name: from_numpy(each.array) if isinstance(each, _ArrayOf) else each for name, each in values.items()}
    )


def process_of_group() -> tuple[int, int]:
    """Return rank and number of the processes of ``torch.distributed``; 0 and 1 if it has not been initialised."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
