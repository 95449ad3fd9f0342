"""The layers of a model up to one hidden state, on a device; imports torch and transformers.

Not here: tokens (``tokens``), windows and blocks (``causal_lm``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from genolewm_assets.encoders.model_files import ModelFiles
from genolewm_assets.encoders.model_loading import load_model
from genolewm_assets.encoders.packed_attention import packed_states
from genolewm_assets.encoders.packed_rows import PackedRow


class StateNetwork:
    """A model that computes one of its hidden states for batches of token ids.

    Parameters
    ----------
    files
        Files of the model.
    layer
        Index of the hidden state: 0 the embeddings, ``n_layers`` the last, after the final norm.
    device
        Device that runs the model.
    cpu_threads
        Threads of a forward pass on the CPU.

    Raises
    ------
    ConfigurationError, CorruptResourceError
        As :func:`~genolewm_assets.encoders.model_loading.load_model`.
    """

    def __init__(self, files: ModelFiles, *, layer: int, device: torch.device, cpu_threads: int) -> None:
        self._model = load_model(files).to(device)
        self._layer, self._device, self._cpu_threads = layer, device, cpu_threads

    @property
    def vocabulary_rows(self) -> int:
        """Number of rows of the embedding; token ids are below it."""
        return int(self._model.get_input_embeddings().weight.shape[0])

    @property
    def context(self) -> int | None:
        """Largest number of tokens of a window, tags included; None if the configuration states none."""
        return getattr(self._model.config, "max_position_embeddings", None)

    @property
    def hidden_size(self) -> int:
        """Length of one state."""
        return int(self._model.get_input_embeddings().weight.shape[1])

    @property
    def compute_dtype(self) -> torch.dtype:
        """Dtype in which the model computes."""
        dtype: torch.dtype = self._model.get_input_embeddings().weight.dtype
        return dtype

    @property
    def rope_types(self) -> set[str]:
        """Kinds of rotary position codes of the model's layers; empty if it has none."""
        stated = getattr(self._model.config, "rope_parameters", None) or {}
        return {
            str(one["rope_type"]) for one in (stated, *stated.values()) if isinstance(one, dict) and "rope_type" in one
        }

    def token_states(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """Return the states of windows of equal length: float32, shape (n_windows, n_tokens, hidden), on the device."""
        with plain_float32(self._device.type, self._cpu_threads):
            return self._forward(torch.from_numpy(ids).to(self._device)).to(torch.float32)

    def packed_states(self, row: PackedRow) -> torch.Tensor:
        """Return the states of the tokens of a packed row: shape (n_tokens, hidden), on the device; see ``edited``."""
        with plain_float32(self._device.type, self._cpu_threads):
            return packed_states(self._model, self._forward, row, self._device)

    def _forward(self, ids: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        last = self._layer == self._model.config.num_hidden_layers
        output = self._model(
            input_ids=ids,
            position_ids=positions,
            use_cache=False,
            output_hidden_states=not last,
            return_dict=True,
        )
        chosen: torch.Tensor = output.last_hidden_state if last else output.hidden_states[self._layer]
        return chosen


@contextmanager
def plain_float32(device_type: str, cpu_threads: int) -> Iterator[None]:
    """Compute in full float32, even if the calling program has enabled autocast, TF32 or bfloat16 products."""
    backends: Any = torch.backends
    products = (backends.cuda.matmul, backends.mkldnn.matmul)
    former, threads = [product.fp32_precision for product in products], torch.get_num_threads()
    try:
        for product in products:
            product.fp32_precision = "ieee"
        torch.set_num_threads(cpu_threads)
        with torch.inference_mode(), torch.autocast(device_type, enabled=False):
            yield
    finally:
        for product, precision in zip(products, former, strict=True):
            product.fp32_precision = precision
        torch.set_num_threads(threads)
