"""The layers of a model up to one hidden state, on a device, and passes over batches that its memory holds.

Imports torch and transformers. Not here: tokens (``tokens``), windows (``causal_lm``), loading (``model_loading``).
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel

from genolewm_assets.encoders.edits import PackedRow, packed_states
from genolewm_assets.encoders.fused_layers import fuse_layers
from genolewm_assets.encoders.identity import Compute
from genolewm_assets.encoders.model_files import ModelFiles
from genolewm_assets.encoders.model_loading import cut_layers, find_layers, load_model
from genolewm_assets.errors import DeviceError
from genolewm_assets.states import block_count, block_means
from genolewm_assets.store.files import JsonValue

#: Kinds of layers whose weights are kept in bfloat16 for products in bfloat16.
_LINEAR = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)

_DTYPES = {Compute.FLOAT32: torch.float32, Compute.BFLOAT16: torch.bfloat16}

#: Kernels of attention on an accelerator, the preferred first: these give a token the bits that it has in a packed row
#: of edited windows. cuDNN's, which torch would choose for bfloat16, is 6 % faster and does not.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]

#: What the messages of errors of an accelerator and its libraries contain.
_ACCELERATOR_ERRORS = ("CUDA", "CUBLAS", "cuDNN", "CUDNN", "HIP error")

#: Places of the DNA tokens between one special token in front and one behind.
_TAGGED = slice(1, -1)

#: Rows and columns of the matrices that are multiplied, and seconds that it goes on: on the CPU, on an accelerator.
_SIZES, _SECONDS = (512, 8_192), (0.1, 0.3)

#: Held while the settings of the process are those of a forward pass.
_PROCESS_SETTINGS = threading.RLock()

#: Starts a forward pass over token ids and returns what waits for its result, one row per row of ids.
StartPass: TypeAlias = Callable[[NDArray[np.int64]], Callable[[], NDArray[Any]]]


class StateNetwork:
    """A model that computes one of its hidden states for batches of token ids; threads start passes one at a time."""

    def __init__(
        self,
        files: ModelFiles,
        *,
        layer: int,
        device: torch.device,
        cpu_threads: int,
        compute: Compute = Compute.FLOAT32,
        compiler: str | None = None,
    ) -> None:
        self.device, self.compute, self.cpu_threads = device, compute, cpu_threads
        self._layer = layer
        self._where = f"encoder {files.model_id}"
        model = load_model(files)
        with exact_products("cpu", cpu_threads):
            self._is_cut = cut_layers(model, layer)
        if compute is Compute.BFLOAT16:
            for module in model.modules():
                if isinstance(module, _LINEAR):
                    module.to(torch.bfloat16)
        try:
            with device_errors(self._where):
                self._model = model.to(device)
        except torch.OutOfMemoryError as err:
            raise device_error(self._where, "the model does not fit into the accelerator's memory", err) from err
        #: Layers that a forward pass computes.
        self.n_layers = layer if self._is_cut else int(model.config.num_hidden_layers)
        if compiler is not None and (found := find_layers(model, self.n_layers)) is not None:
            fuse_layers(found[-1], dtype=_DTYPES[compute], backend=compiler)

    @property
    def vocabulary_rows(self) -> int:
        """Number of rows of the embedding; token ids are below it."""
        return int(self._model.get_input_embeddings().weight.shape[0])

    def count_flops(self, n_tokens: int) -> float:
        """Return the additions and multiplications of one window of ``n_tokens`` tokens, tags included.

        Counted are the products with weights of linear layers and, for causal attention, half of the two products of
        tokens with tokens.
        """
        weights = sum(module.weight.numel() for module in self._model.modules() if isinstance(module, _LINEAR))
        attention = self.n_layers * 2 * n_tokens**2 * int(self._model.config.hidden_size)
        return float(2 * weights * n_tokens + attention)

    def describe_run(self, *, n_windows: int, seconds: float, n_tokens: int) -> dict[str, JsonValue]:
        """Return what encoded ``n_windows`` windows in ``seconds`` of wall-clock time, and how fast."""
        on_card = self.device.type == "cuda"
        about: dict[str, JsonValue] = {
            "device": torch.cuda.get_device_name(self.device) if on_card else f"{self.device} ({platform.machine()})",
            "compute": self.compute.value,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        if not n_windows:
            return about
        rate = n_windows / seconds
        done = rate * self.count_flops(n_tokens)
        possible = measure_matrix_rate(self.device, self.compute, cpu_threads=self.cpu_threads)
        return {
            **about,
            "windows_per_s": round(rate, 3),
            "tflops": float(f"{done / 1e12:.4g}"),
            "matrix_tflops": float(f"{possible / 1e12:.4g}"),
            "share_of_matrix_rate": float(f"{done / possible:.4g}"),
        }

    @contextmanager
    def computing(self) -> Iterator[Any]:
        """Yield the model for one forward pass in the network's precision, alone among the threads."""
        with device_errors(self._where), exact_products(self.device.type, self.cpu_threads, compute=self.compute):
            yield self._model

    def token_states(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """Return the states of windows of equal length: float32, shape (n_windows, n_tokens, hidden), on the device."""
        with self.computing() as model:
            return self._forward(model, torch.from_numpy(ids))

    @property
    def rope_types(self) -> set[str]:
        """Kinds of rotary position codes of the model's layers; empty if it has none."""
        stated = getattr(self._model.config, "rope_parameters", None) or {}
        return {
            str(one["rope_type"]) for one in (stated, *stated.values()) if isinstance(one, dict) and "rope_type" in one
        }

    def packed_states(self, row: PackedRow) -> torch.Tensor:
        """Return the states of a packed row of edited windows: float32, shape (n_tokens, hidden), on the device."""
        with self.computing() as model:
            return packed_states(model, partial(self._forward, model), row, self.device)

    def start_blocks(
        self, ids: NDArray[np.int64], block_tokens: int, *, places: slice = _TAGGED
    ) -> Callable[[], NDArray[np.float32]]:
        """Start computing the block states of windows of equal length; return a function that waits for them.

        ``ids``: shape (n_windows, n_tokens), special tokens included. States: shape (n_windows, n_blocks, hidden). Only
        a CUDA device computes meanwhile.
        """
        if self.device.type != "cpu":
            return self.start_pooled(ids, block_tokens, places=places)
        states = self.token_states(ids).numpy()
        blocks = np.stack([block_means(one[places], block_tokens) for one in states])
        return lambda: blocks

    def start_pooled(
        self, ids: NDArray[np.int64], block_tokens: int, *, places: slice = _TAGGED
    ) -> Callable[[], NDArray[np.float32]]:
        """Do as :meth:`start_blocks`, with the block means made on the device, so that only they come back."""
        pinned = self.device.type == "cuda"
        with self.computing() as model:
            given = torch.from_numpy(ids)
            states = self._forward(model, given.pin_memory() if pinned else given)[:, places]
            # A copy to the host that does not block is into pinned memory; the event comes after it.
            blocks = tensor_block_means(states, block_tokens).to("cpu", non_blocking=pinned)
            copied = torch.Event(self.device, blocking=True) if pinned else None
            if copied is not None:
                copied.record()

        def wait() -> NDArray[np.float32]:
            if copied is not None:
                with device_errors(self._where):
                    copied.synchronize()
            found: NDArray[np.float32] = blocks.numpy()
            return found

        return wait

    def _forward(self, model: Any, ids: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        # Not every model has positions.
        places = {} if positions is None else {"position_ids": positions}
        output = model(
            input_ids=ids.to(self.device, non_blocking=True),
            **places,
            use_cache=False,
            output_hidden_states=not self._is_cut,
            return_dict=True,
        )
        chosen: torch.Tensor = output.last_hidden_state if self._is_cut else output.hidden_states[self._layer]
        return chosen.to(torch.float32)


def measure_matrix_rate(device: torch.device, compute: Compute, *, cpu_threads: int = 1) -> float:
    """Measure operations a second in products of large square matrices of a precision; it takes about a second."""
    fast = device.type != "cpu"
    size, wanted_s = _SIZES[fast], _SECONDS[fast]
    with exact_products(device.type, cpu_threads):
        left, right = (torch.randn(size, size, device=device).to(_DTYPES[compute]) for _ in range(2))
        product = left @ right
        products, seconds = 1, 0.0
        while seconds < wanted_s:
            products *= 2
            _wait(device)
            started = time.perf_counter()
            for _ in range(products):
                torch.mm(left, right, out=product)
            _wait(device)
            seconds = time.perf_counter() - started
    return products * 2 * size**3 / seconds


def _wait(device: torch.device) -> None:
    """Wait until the device has done what was started."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


class Batches:
    """Runs forward passes over batches of windows, and halves the batch whenever the device runs out of memory."""

    def __init__(self, start: StartPass, windows: int, where: str) -> None:
        self._start, self.windows, self._where = start, windows, where

    def run(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Start the passes over all windows, at least one, wait for them, and return their results in order."""
        started, first = list[Callable[[], NDArray[Any]]](), 0
        while first < len(ids):
            windows = self.windows
            try:
                started.append(self._start(ids[first : first + windows]))
            except torch.OutOfMemoryError as err:
                self._lower(windows, err)
            else:
                first += windows
        return np.concatenate([wait() for wait in started])

    def _lower(self, failed: int, err: torch.OutOfMemoryError) -> None:
        """Halve the batch, for good, after one of ``failed`` windows did not fit."""
        if failed == 1:
            raise device_error(self._where, "the accelerator's memory is too small for one window", err) from err
        # Another thread may have lowered it meanwhile.
        self.windows = min(self.windows, failed // 2)


def tensor_block_means(states: torch.Tensor, block_tokens: int) -> torch.Tensor:
    """Average the states of blocks of tokens on their device, in float64: shape (n_windows, n_blocks, hidden)."""
    n_windows, n_tokens, hidden = states.shape
    whole = n_tokens // block_tokens
    means = states.new_empty((n_windows, block_count(n_tokens, block_tokens), hidden))
    blocks = states[:, : whole * block_tokens].reshape(n_windows, whole, block_tokens, hidden)
    means[:, :whole] = blocks.mean(dim=2, dtype=torch.float64)
    if means.shape[1] > whole:
        means[:, whole] = states[:, whole * block_tokens :].mean(dim=1, dtype=torch.float64)
    return means


@contextmanager
def exact_products(device_type: str, cpu_threads: int, *, compute: Compute = Compute.FLOAT32) -> Iterator[None]:
    """Compute in a stated precision, whatever autocast, TF32 or bfloat16 products the calling program has enabled.

    With ``compute`` bfloat16, the products of linear layers and attention are of bfloat16 matrices, with sums in
    float32. These settings are the process's, so that one thread at a time is inside.
    """
    with _PROCESS_SETTINGS, _settings(device_type, cpu_threads, low=compute is Compute.BFLOAT16):
        yield


@contextmanager
def _settings(device_type: str, cpu_threads: int, *, low: bool) -> Iterator[None]:
    backends: Any = torch.backends
    products = (backends.cuda.matmul, backends.mkldnn.matmul)
    former, threads = [product.fp32_precision for product in products], torch.get_num_threads()
    try:
        for product in products:
            product.fp32_precision = "ieee"
        torch.set_num_threads(cpu_threads)
        kernels = nullcontext() if device_type == "cpu" else sdpa_kernel(_KERNELS, set_priority=True)
        with torch.inference_mode(), torch.autocast(device_type, dtype=torch.bfloat16, enabled=low), kernels:
            yield
    finally:
        for product, precision in zip(products, former, strict=True):
            product.fp32_precision = precision
        torch.set_num_threads(threads)


@contextmanager
def device_errors(where: str) -> Iterator[None]:
    """Raise :class:`DeviceError` for errors of an accelerator; ``torch.OutOfMemoryError`` passes."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as err:
        if not any(name in str(err) for name in _ACCELERATOR_ERRORS):
            raise
        raise device_error(where, "the accelerator failed", err) from err


def device_error(where: str, problem: str, err: Exception) -> DeviceError:
    """Return the error of the package for an error of an accelerator."""
    (reason, *_) = str(err).splitlines() or [type(err).__name__]
    remedy = "Run it again; if it fails again, choose another machine or a smaller batch"
    return DeviceError(where, f"{problem} ({reason})", remedy=remedy)
