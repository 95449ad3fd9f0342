"""Who encoded: all that decides an encoder's states, as a value that cache keys are made from.

Nothing here imports the model library; reading an identity hashes the model's files and loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from genolewm_assets.encoders.model_files import ModelFiles, locate_model
from genolewm_assets.encoders.tokens import PROMPT_TEMPLATE
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import TOKEN_BP
from genolewm_assets.lewm.states import BLOCK_TOKENS, block_count


class StateDtype(StrEnum):
    """How states are stored. Never bfloat16: its 8 bits of mantissa drown the difference that one SNV makes."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """All that decides which states a window gets.

    Parameters
    ----------
    model_id, revision
        Hub id and commit, or the name of a local folder and what its owner states.
    weights_sha256
        Over the ``sha256sum`` lines of the weight files.
    settings_sha256
        The same over configuration, vocabulary and, where it may run, the model's own code.
    layer
        Index into the hidden states: 0 the embeddings, ``n_layers`` the last, after the final norm. Never negative, so
        that two spellings of one layer share a cache.
    block_tokens
        DNA tokens whose states one block averages.
    dtype
        Of the stored states; computed in float32.
    hidden_size
        Length of one state.
    pooling, normalisation
        What is done to the hidden states: block means, and nothing else.
    prompt_template
        How a sequence is handed to the model.
    """

    model_id: str
    revision: str | None
    weights_sha256: str
    settings_sha256: str
    layer: int
    block_tokens: int
    dtype: StateDtype
    hidden_size: int
    pooling: str = "block_mean"
    normalisation: str = "none"
    prompt_template: str = PROMPT_TEMPLATE

    def as_recipe(self) -> dict[str, str | int | None]:
        """Return the fields as JSON values, for recipes and cache keys; the same on every machine."""
        return {**asdict(self), "dtype": self.dtype.value}

    def row_shape(self, window_bp: int) -> tuple[int, int]:
        """Return the shape of one window's states: (n_blocks, hidden_size)."""
        return block_count(window_bp // TOKEN_BP, self.block_tokens), self.hidden_size

    def row_bytes(self, window_bp: int) -> int:
        """Return the size of one window's states, in bytes."""
        n_blocks, hidden = self.row_shape(window_bp)
        return n_blocks * hidden * (2 if self.dtype is StateDtype.FLOAT16 else 4)


class StateEncoder(Protocol):
    """What turns windows into block states; a test hands in a fake one."""

    @property
    def identity(self) -> EncoderIdentity:
        """All that decides the states."""
        ...

    @property
    def hidden_size(self) -> int:
        """Length of one state."""
        ...

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        """Return block states, shape (n_windows, n_blocks, hidden_size)."""
        ...

    def encode_edited(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        """Return the block states of edited windows, shape (n_windows, n_blocks, hidden_size)."""
        ...


def read_identity(
    model: str | Path,
    *,
    revision: str | None = None,
    layer: int = -1,
    block_tokens: int = BLOCK_TOKENS,
    dtype: str = StateDtype.FLOAT32,
    trusted_code: str | None = None,
) -> EncoderIdentity:
    """Return the identity of an encoder without loading it; parameters as of ``CausalLMStateEncoder``.

    Raises
    ------
    ConfigurationError
        If a parameter is impossible for the model; see also :func:`locate_model`.
    MissingResourceError, CorruptResourceError
        If the model's files are.
    """
    files = locate_model(model, revision=revision, trusted_code=trusted_code)
    return identify(files, layer=layer, block_tokens=block_tokens, dtype=dtype)


def identify(files: ModelFiles, *, layer: int, block_tokens: int, dtype: str) -> EncoderIdentity:
    """Return the identity of an encoder over a model folder; see :func:`read_identity`."""
    where = f"encoder {files.model_id}"
    if dtype not in set(StateDtype):
        raise ConfigurationError(f"{where}: dtype", "not a dtype of states", expected="float32 or float16", got=dtype)
    if block_tokens < 1:
        raise ConfigurationError(f"{where}: block_tokens", "impossible", expected="at least 1", got=f"{block_tokens}")
    n_layers = files.config_int("num_hidden_layers", "n_layer")
    if not -n_layers - 1 <= layer <= n_layers:
        raise ConfigurationError(
            f"{where}: layer",
            "the model has no such hidden state",
            expected=f"0 (embeddings) to {n_layers}, or -1 (last) to {-n_layers - 1}",
            got=f"{layer}",
        )
    return EncoderIdentity(
        model_id=files.model_id,
        revision=files.revision,
        weights_sha256=files.weights_sha256(),
        settings_sha256=files.settings_sha256(),
        layer=layer % (n_layers + 1),
        block_tokens=block_tokens,
        dtype=StateDtype(dtype),
        hidden_size=files.config_int("hidden_size", "n_embd"),
    )
