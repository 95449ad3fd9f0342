"""Batches as PyTorch tensors."""

from __future__ import annotations

from torch import distributed, from_numpy

from genolewm_assets.training.batches import TrainingBatch, edit_arrays
from genolewm_assets.training.transport import TensorBatch


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
    known = {name: array for name, array in arrays.items() if array is not None}
    # Torch would write to a map that cannot be written as well, which ends the process.
    return TensorBatch({n: from_numpy(each if each.flags.writeable else each.copy()) for n, each in known.items()})


def process_of_group() -> tuple[int, int]:
    """Return rank and number of the processes of ``torch.distributed``; 0 and 1 if it has not been initialised."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
