"""Identity of an encoder: everything its states depend on, as a value for cache keys.

This module does not import the model library; reading an identity hashes the model's files without loading the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from genolewm_assets.encoders.context import check_window_fits
from genolewm_assets.encoders.model_files import ModelFiles, locate_model
from genolewm_assets.encoders.tokens import PROMPT_TEMPLATE
from genolewm_assets.encoders.vocabularies import read_tokens
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import TOKEN_BP
from genolewm_assets.states import BLOCK_TOKENS, block_count
from genolewm_assets.store.files import JsonValue


class StateDtype(StrEnum):
    """Stored dtype of states. Never bfloat16: with 8 bits of mantissa the difference made by one SNV is lost."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


class Compute(StrEnum):
    """Precision of the forward pass.

    ``bfloat16``: weights of linear layers and matrix products; embeddings, the sums between layers, norms, softmax and
    pooling stay float32.
    """

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """Everything that the states of a window depend on, apart from the window."""

    #: ``model_id``, ``revision``: hub id and commit, or the name of a local folder and the revision given with it.
    model_id: str
    revision: str | None
    #: ``weights_sha256``, ``settings_sha256``: SHA-256, in hex, of the ``sha256sum`` lines of the weight files, and of
    #: configuration, vocabulary and, if it may run, the model's own code.
    weights_sha256: str
    settings_sha256: str
    #: Index of the hidden state: 0 the embeddings, ``n_layers`` the last, after the final norm. Never negative:
    #: :func:`read_identity` converts negative indices, so that both forms of an index share a cache.
    layer: int
    #: 6-mers per block, for every model: a block is the mean of the states of the tokens of 6 times as many bases.
    block_tokens: int
    #: Dtype of the stored states.
    dtype: StateDtype
    #: Length of one state.
    hidden_size: int
    #: ``pooling``, ``normalisation``: processing of the hidden states: block means, no normalisation.
    pooling: str = "block_mean"
    normalisation: str = "none"
    #: Model input for a sequence, with the special tokens by name.
    prompt_template: str = PROMPT_TEMPLATE
    #: Bases per token of the model, 6 or 1.
    bp_per_token: int = TOKEN_BP
    #: Precision of the forward pass.
    compute: Compute = Compute.FLOAT32

    def as_recipe(self) -> dict[str, str | int | None]:
        """Return the fields as JSON values for recipes and cache keys; they do not depend on the machine.

        ``bp_per_token`` is left out for tagged 6-mers, whose template implies it, and ``compute`` if it is ``float32``:
        caches made before there was a choice keep their keys.
        """
        recipe = {**asdict(self), "dtype": self.dtype.value, "compute": self.compute.value}
        if self.prompt_template == PROMPT_TEMPLATE:
            del recipe["bp_per_token"]
        if self.compute is Compute.FLOAT32:
            del recipe["compute"]
        return recipe

    def row_shape(self, window_bp: int) -> tuple[int, int]:
        """Return the shape (n_blocks, hidden_size) of the states of a window of ``window_bp`` bases."""
        return block_count(window_bp // TOKEN_BP, self.block_tokens), self.hidden_size

    def row_bytes(self, window_bp: int) -> int:
        """Return the size in bytes of the states of a window of ``window_bp`` bases."""
        n_blocks, hidden = self.row_shape(window_bp)
        return n_blocks * hidden * (2 if self.dtype is StateDtype.FLOAT16 else 4)


class StateEncoder(Protocol):
    """Interface of an encoder that computes block states of windows; two threads may call it at once."""

    @property
    def identity(self) -> EncoderIdentity:
        """Everything that the states depend on."""

    @property
    def hidden_size(self) -> int:
        """Length of one state."""

    def encode_windows(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        """Return block states, float32 or float16, shape (n_windows, n_blocks, hidden_size).

        ``n_blocks`` is by default that of the longest window; blocks past the end of a shorter window are NaN.
        """

    def encode_edited(self, sequences: Sequence[str], *, n_blocks: int | None = None) -> NDArray[Any]:
        """Return block states of edited windows, in the form of :meth:`encode_windows`."""

    def in_float32(self) -> StateEncoder:
        """Return this encoder with states that are computed and stored in float32."""

    def describe_run(self, *, n_windows: int, seconds: float, window_bp: int) -> Mapping[str, JsonValue]:
        """Return device, libraries and speed of a run that encoded windows of ``window_bp`` bases; JSON values."""


def read_identity(
    model: str | Path,
    *,
    revision: str | None = None,
    layer: int = -1,
    block_tokens: int = BLOCK_TOKENS,
    dtype: str = StateDtype.FLOAT32,
    compute: str = Compute.FLOAT32,
    trusted_code: str | None = None,
    window_bp: int | None = None,
    download: bool = True,
    sha256_of: Callable[[Path], str] | None = None,
) -> EncoderIdentity:
    """Return the identity of an encoder without loading the model; parameters as for ``CausalLMStateEncoder``.

    ``download`` is that of :func:`locate_model`. ``sha256_of`` returns the SHA-256, in hex, of a file of the model; by
    default the file is read.

    Raises
    ------
    ConfigurationError
        If a parameter is invalid for the model, its vocabulary is of no known kind, or ``window_bp`` bases are longer
        than its context; see also :func:`locate_model`.
    MissingResourceError, CorruptResourceError, FetchError
        If a file of the model is missing or damaged, or the model cannot be downloaded.
    """
    files = locate_model(model, revision=revision, trusted_code=trusted_code, download=download)
    if sha256_of is not None:
        files = replace(files, sha256_of=sha256_of)
    if window_bp is not None:
        check_window_fits(files, read_tokens(files.folder), window_bp)
    return identify(files, layer=layer, block_tokens=block_tokens, dtype=dtype, compute=compute)


def identify(
    files: ModelFiles, *, layer: int, block_tokens: int, dtype: str, compute: str = Compute.FLOAT32
) -> EncoderIdentity:
    """Return the identity of an encoder from its model files; parameters and errors are those of ``read_identity``."""
    where = f"encoder {files.model_id}"
    if dtype not in set(StateDtype):
        raise ConfigurationError(f"{where}: dtype", "not supported", expected="float32 or float16", got=dtype)
    if compute not in set(Compute):
        raise ConfigurationError(f"{where}: compute", "not supported", expected="float32 or bfloat16", got=compute)
    if block_tokens < 1:
        raise ConfigurationError(f"{where}: block_tokens", "out of range", expected="at least 1", got=f"{block_tokens}")
    n_layers = files.config_int("num_hidden_layers", "n_layer")
    if not -n_layers - 1 <= layer <= n_layers:
        raise ConfigurationError(
            f"{where}: layer",
            "the model has no such hidden state",
            expected=f"0 (embeddings) to {n_layers}, or -1 (last) to {-n_layers - 1}",
            got=f"{layer}",
        )
    tokens = read_tokens(files.folder)
    return EncoderIdentity(
        model_id=files.model_id,
        revision=files.revision,
        weights_sha256=files.weights_sha256(),
        settings_sha256=files.settings_sha256(),
        layer=layer % (n_layers + 1),
        block_tokens=block_tokens,
        dtype=StateDtype(dtype),
        hidden_size=files.config_int("hidden_size", "n_embd", "d_model"),
        prompt_template=tokens.prompt_template,
        bp_per_token=tokens.bp_per_token,
        compute=Compute(compute),
    )
