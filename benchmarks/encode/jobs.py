"""One way to encode, in a process: ``python -m benchmarks.encode.jobs JOB SHAPE DEVICE MODEL``, a job of ``JOBS``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.encode.shapes import SHAPES, Shape
from benchmarks.stopwatch import serve_tasks

WINDOW_BP, EDITS = 12_288, 8
_BLOCK_TOKENS, _TOKEN_BP = 64, 6
#: Windows per forward pass of the plain loop on an accelerator, as in the first release of the encoder.
_LOOP_WINDOWS = 8
_COPIES, _PRODUCTS = 4, {"cpu": 8, "cuda": 40}

Tasks = Mapping[str, Callable[[], int]]


def random_windows(number: int) -> list[str]:
    """Return windows of independent bases."""
    bases = np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(0).integers(0, 4, (number, WINDOW_BP))]
    return [row.tobytes().decode() for row in bases]


def _rates(shape: Shape, device: str, _: Path) -> Tasks:
    """Products of square matrices (operations) and copies within the device's memory (bytes read and written)."""
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.fp32_precision = "ieee"

    def multiply(dtype: torch.dtype) -> int:
        left, right = (torch.randn(shape.matrix, shape.matrix, device=device).to(dtype) for _ in range(2))
        for _ in range(_PRODUCTS[device]):
            left @ right
        _wait(device)
        return _PRODUCTS[device] * 2 * shape.matrix**3

    def copy() -> int:
        one, other = (torch.zeros(shape.copied_bytes, dtype=torch.uint8, device=device) for _ in range(2))
        for _ in range(_COPIES):
            other.copy_(one)
        _wait(device)
        return _COPIES * 2 * shape.copied_bytes

    return {
        "float32": lambda: multiply(torch.float32),
        "bfloat16": lambda: multiply(torch.bfloat16),
        "copy": copy,
    }


def _loop(dtype: torch.dtype) -> Callable[[Shape, str, Path], Tasks]:
    """Encode as people do with ``transformers``: a batch, all hidden states to the host, means of blocks by NumPy."""

    def job(shape: Shape, device: str, folder: Path) -> Tasks:
        from transformers import AutoModel

        from genolewm_assets.encoders.tokens import DnaTokens

        torch.set_num_threads(1)
        model = AutoModel.from_pretrained(folder, dtype=dtype).to(device).eval()
        tokens, windows = DnaTokens.from_tokenizer_files(folder), random_windows(shape.windows)
        size = 1 if device == "cpu" else _LOOP_WINDOWS

        def work() -> int:
            for first in range(0, len(windows), size):
                ids = np.stack([tokens.encode(window) for window in windows[first : first + size]])
                with torch.inference_mode():
                    output = model(input_ids=torch.from_numpy(ids).to(device), use_cache=False)
                states: NDArray[np.float32] = output.last_hidden_state.to("cpu", torch.float32).numpy()
                blocks = states[:, 1:-1].reshape(len(ids), -1, _BLOCK_TOKENS, shape.hidden)
                blocks.mean(axis=2, dtype=np.float64).astype(np.float16)
            return len(windows)

        return _with_memory(work, device)

    return job


def _encoder(folder: Path, device: str, compute: str) -> Any:
    from genolewm_assets.encoders import CausalLMStateEncoder

    return CausalLMStateEncoder(folder, device=device, dtype="float16", compute=compute)


def _encode(compute: str) -> Callable[[Shape, str, Path], Tasks]:
    def job(shape: Shape, device: str, folder: Path) -> Tasks:
        encoder, windows = _encoder(folder, device, compute), random_windows(shape.windows)
        return _with_memory(lambda: len(encoder.encode_windows(windows)), device)

    return job


def _write(compute: str) -> Callable[[Shape, str, Path], Tasks]:
    """Encode and write a store of states, without its checks."""

    def job(shape: Shape, device: str, folder: Path) -> Tasks:
        from genolewm_assets.encoders import STATES, state_config
        from genolewm_assets.encoders.state_cache import encode_rows
        from genolewm_assets.store.arrays import ArraySpec, ArrayStoreWriter

        encoder, windows = _encoder(folder, device, compute), random_windows(shape.windows)
        config = state_config(encoder.identity, windows_sha256="0" * 64, window_bp=WINDOW_BP)
        spec = ArraySpec(STATES, encoder.identity.row_shape(WINDOW_BP), "float16")
        keys = [str(row) for row in range(len(windows))]

        def work() -> int:
            with (
                tempfile.TemporaryDirectory() as name,
                ArrayStoreWriter(Path(name), [spec], key_config=config, commit_rows=64, batch_rows=64) as writer,
            ):
                encode_rows(writer, encoder, keys, windows)
            return len(windows)

        return _with_memory(work, device)

    return job


def _edits(*, whole: bool) -> Callable[[Shape, str, Path], Tasks]:
    """Encode eight SNVs of each window, pooled around them."""

    def job(shape: Shape, device: str, folder: Path) -> Tasks:
        encoder = _encoder(folder, device, "float32" if device == "cpu" else "bfloat16")
        windows = random_windows(shape.edited)
        edited, source_of, spans = _make_edits(windows)

        def work() -> int:
            if whole:
                return len(encoder.encode_windows(edited))
            return len(encoder.encode_edits(windows, edited, source_of, spans))

        return _with_memory(work, device)

    return job


def _make_edits(windows: Sequence[str]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return windows with one SNV each, the index of the unedited window, and the blocks that are pooled."""
    from genolewm_assets.lewm.states import locus_blocks

    rng, edited, spans = np.random.default_rng(1), [], []
    for window in windows:
        for at in rng.integers(64, WINDOW_BP - 64, EDITS).tolist():
            edited.append(window[:at] + "ACGT"["ACGT".index(window[at]) - 1] + window[at + 1 :])
            spans.append(locus_blocks(at // _TOKEN_BP, WINDOW_BP // _TOKEN_BP))
    return edited, np.repeat(np.arange(len(windows)), EDITS), np.array(spans, dtype=np.int64)


def _with_memory(work: Callable[[], int], device: str) -> Tasks:
    """Return the task, and one that tells the accelerator's largest use of memory so far, in bytes."""
    return {"run": work, "memory": lambda: torch.cuda.max_memory_allocated() if device == "cuda" else 0}


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


JOBS: Mapping[str, Callable[[Shape, str, Path], Tasks]] = {
    "rates": _rates,
    "loop-float32": _loop(torch.float32),
    "loop-bfloat16": _loop(torch.bfloat16),
    "encode-float32": _encode("float32"),
    "encode-bfloat16": _encode("bfloat16"),
    "write-float32": _write("float32"),
    "write-bfloat16": _write("bfloat16"),
    "edits-whole": _edits(whole=True),
    "edits-prefix": _edits(whole=False),
}


def main() -> None:
    job, shape, device, folder = sys.argv[1:]
    serve_tasks(JOBS[job](SHAPES[shape], device, Path(folder)), version=metadata.version("genolewm-assets"))


if __name__ == "__main__":
    main()
