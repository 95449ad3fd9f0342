"""A live encoder in place of missing caches: its interface, and the proof that it is the encoder of the caches.

Not here: the encoders (``encoders``), reading caches and encoding windows of a batch (``stream``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import TOKEN_BP, Split
from genolewm_assets.lewm.packages import CacheRef, Package
from genolewm_assets.lewm.states import BLOCK_TOKENS, block_count, cache_config
from genolewm_assets.store.arrays import ArrayStoreReader, compute_key
from genolewm_assets.store.files import JsonValue


class Identity(Protocol):
    """Identity of an encoder, such as ``encoders.EncoderIdentity``."""

    def as_recipe(self) -> Mapping[str, JsonValue]:
        """Return everything that the states depend on, as JSON values: model, weights, layer, block size, dtype."""
        ...


class LiveEncoder(Protocol):
    """Interface of an encoder of unedited windows, such as ``encoders.CausalLMStateEncoder``."""

    @property
    def identity(self) -> Identity:
        """Everything that the states depend on."""
        ...

    def encode_windows(self, sequences: Sequence[str]) -> NDArray[Any]:
        """Return block states: floating, shape (n_windows, blocks of the longest window, hidden); NaN past a window."""
        ...


def check_same_encoder(encoder: LiveEncoder, package: Package, readers: Mapping[str, ArrayStoreReader]) -> None:
    """Raise unless a live encoder computes what the caches of a package hold, and reads its windows whole.

    The identity of an open cache is in its ``fingerprint.json``. Of a missing cache the package knows the key, which is
    computed again from the encoder. A package that refers to no cache accepts every encoder with blocks of 64 6-mers.

    Parameters
    ----------
    encoder
        Encoder for windows without cached states.
    package
        The open package.
    readers
        Readers of the caches that exist, by key.

    Raises
    ------
    ConfigurationError
        If the encoder has another block size, differs from that of a cache in model, layer, dtype or another field, or
        states a ``longest_window_bp`` that a window of the package exceeds.
    """
    recipe = dict(encoder.identity.as_recipe())
    if recipe.get("block_tokens") != BLOCK_TOKENS:
        raise _other_encoder("the datasets pool blocks of another size", BLOCK_TOKENS, recipe.get("block_tokens"))
    longest, needed = getattr(encoder, "longest_window_bp", None), _longest_window_bp(package)
    if longest is not None and needed > longest:
        raise ConfigurationError(
            "encoder",
            "windows of the package are longer than the model's context",
            expected=f"at most {longest:,} bp",
            got=f"{needed:,} bp",
            remedy="Build a package with a shorter window profile, or give a model with a longer context",
        )
    for ref in package.info.caches:
        reader = readers.get(ref.key)
        if reader is None:
            _check_key(recipe, package, ref)
            continue
        config = reader.fingerprint["config"]
        cached = config.get("encoder") if isinstance(config, dict) else None
        cached = cached if isinstance(cached, dict) else {}
        differing = sorted(name for name in {*cached, *recipe} if cached.get(name) != recipe.get(name))
        if differing:
            expected, got = ({name: side.get(name) for name in differing} for side in (cached, recipe))
            raise _other_encoder(f"the cache of {ref.source} was made with another encoder", expected, got)


def _check_key(recipe: Mapping[str, JsonValue], package: Package, ref: CacheRef) -> None:
    hidden = recipe.get("hidden_size")
    row_shape = block_count(_longest_window_bp(package) // TOKEN_BP), hidden if isinstance(hidden, int) else 0
    key = compute_key(cache_config(recipe, windows_sha256=ref.windows_sha256, row_shape=row_shape))
    if key != ref.key:
        raise _other_encoder(f"the missing cache of {ref.source} was made with another encoder", ref.key, key)


def _longest_window_bp(package: Package) -> int:
    """Return the bases of the longest window of a package, by which rows of its caches are sized."""
    sizes = (pc.max(package.windows(split, ["window_bp"])["window_bp"]).as_py() for split in Split)
    return max(size or 0 for size in sizes)


def _other_encoder(problem: str, expected: object, got: object) -> ConfigurationError:
    return ConfigurationError(
        "encoder",
        problem,
        expected=str(expected),
        got=str(got),
        remedy="Give the encoder of the catalogue, with its layer, dtype and block size, or leave encoder out",
    )
