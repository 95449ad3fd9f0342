"""Windows: as people encode them with ``transformers``, by the encoder, with writing, with compiled parts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.gpu.turns import Record, Setting, Work, in_turns
from genolewm_assets.encoders import STATES, CausalLMStateEncoder, state_config
from genolewm_assets.encoders.state_cache import encode_rows
from genolewm_assets.encoders.tokens import DnaTokens
from genolewm_assets.store.arrays import ArraySpec, ArrayStoreWriter
from genolewm_assets_tests.worlds.lewm.cache_world import listed_windows

WINDOW_BP = 12_288
#: Backend whose kernels the part ``compiler`` measures.
COMPILER = "inductor"
_BLOCK_TOKENS = 64
#: Windows per forward pass of the plain loop on an accelerator, as in the first release of the encoder.
_LOOP_WINDOWS = 8
_PRECISIONS = ("float32", "bfloat16")


def random_windows(number: int) -> list[str]:
    """Return windows of independent bases."""
    bases = np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(0).integers(0, 4, (number, WINDOW_BP))]
    return [row.tobytes().decode() for row in bases]


def open_encoder(setting: Setting, compute: str, compiler: str | None = None) -> CausalLMStateEncoder:
    """Return the encoder of the setting's model, whose states are stored in float16."""
    return CausalLMStateEncoder(
        setting.model, device=setting.device, dtype="float16", compute=compute, compiler=compiler
    )


def measure_windows(setting: Setting) -> Iterator[Record]:
    """Measure a plain loop, the encoder, and the encoder with writing, in both precisions."""
    jobs = {f"plain loop, {compute}": partial(_loop, setting, compute) for compute in _PRECISIONS}
    jobs |= {f"encoder, {compute}": partial(_encode, setting, compute) for compute in _PRECISIONS}
    jobs |= {f"encoder, {compute}, with writing": partial(_write, setting, compute) for compute in _PRECISIONS}
    yield from in_turns(setting, jobs)


def measure_compiler(setting: Setting) -> Iterator[Record]:
    """Measure what ``GENOLEWM_COMPILER`` changes; the CPU compiles nothing."""
    if setting.device == "cpu":
        yield f"encoder, bfloat16, {COMPILER}", {"failure": "nothing is compiled on the CPU"}
        return
    jobs = {
        f"encoder, {compute}, {COMPILER}": partial(_encode, setting, compute, COMPILER)
        for compute in reversed(_PRECISIONS)
    }
    jobs[f"encoder, bfloat16, {COMPILER}, with writing"] = partial(_write, setting, "bfloat16", COMPILER)
    yield from in_turns(setting, jobs)


def _loop(setting: Setting, compute: str) -> Work:
    """Encode as people do: a batch, all hidden states to the host, means of blocks by NumPy."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(setting.model, dtype=getattr(torch, compute)).to(setting.device).eval()
    tokens, windows = DnaTokens.from_tokenizer_files(setting.model), random_windows(setting.shape.windows)
    size = 1 if setting.device == "cpu" else _LOOP_WINDOWS

    def run() -> int:
        for first in range(0, len(windows), size):
            ids = np.stack([tokens.encode(window) for window in windows[first : first + size]])
            with torch.inference_mode():
                output = model(input_ids=torch.from_numpy(ids).to(setting.device), use_cache=False)
            states: NDArray[np.float32] = output.last_hidden_state.to("cpu", torch.float32).numpy()
            blocks = states[:, 1:-1].reshape(len(ids), -1, _BLOCK_TOKENS, setting.shape.hidden)
            blocks.mean(axis=2, dtype=np.float64).astype(np.float16)
        return len(windows)

    return Work(run, lambda: {"batch_windows": size})


def _encode(setting: Setting, compute: str, compiler: str | None = None) -> Work:
    encoder, windows = open_encoder(setting, compute, compiler), random_windows(setting.shape.windows)
    return Work(lambda: len(encoder.encode_windows(windows)), partial(_batch, encoder))


def _write(setting: Setting, compute: str, compiler: str | None = None) -> Work:
    """Encode and commit the rows to an array store, without its checks."""
    encoder, windows = open_encoder(setting, compute, compiler), random_windows(setting.shape.windows)
    config = state_config(encoder.identity, windows_sha256="0" * 64, window_bp=WINDOW_BP)
    spec = ArraySpec(STATES, encoder.identity.row_shape(WINDOW_BP), "float16")

    def run() -> int:
        with (
            tempfile.TemporaryDirectory(dir=setting.folder) as name,
            ArrayStoreWriter(Path(name), [spec], key_config=config, commit_rows=64, batch_rows=64) as writer,
        ):
            encode_rows(writer, encoder, listed_windows(windows))
        return len(windows)

    return Work(run, partial(_batch, encoder))


def _batch(encoder: CausalLMStateEncoder) -> dict[str, Any]:
    """Return the windows of a forward pass, which the memory of the device may have lowered."""
    return {"batch_windows": encoder.describe_run(n_windows=0, seconds=0.0, window_bp=WINDOW_BP)["batch_windows"]}
