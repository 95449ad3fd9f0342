"""Pooled states of unedited windows, from the caches or a live encoder. Not here: encoders (``encoders``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.genome import TOKEN_BP, Split
from genolewm_assets.memory_mapped import MappedWindows
from genolewm_assets.packages import CacheRef, Package
from genolewm_assets.states import BLOCK_TOKENS, TuplePooler, block_count, cache_config
from genolewm_assets.store.arrays import ArrayStoreReader, compute_key
from genolewm_assets.store.files import JsonValue
from genolewm_assets.training.precomputed_epochs import differing_parts
from genolewm_assets.training.sampler import EditBatch

Integers = NDArray[np.int64]

#: Name of the array in a state cache.
_STATES = "states"


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


class WindowStates:
    """Block states of the windows of a split: from readers by key, else from the encoder, else an error."""

    def __init__(
        self, windows: MappedWindows, readers: Mapping[str, ArrayStoreReader], encoder: LiveEncoder | None = None
    ) -> None:
        self._windows, self._readers, self._encoder = windows, readers, encoder
        self._pooler = TuplePooler()

    def pool(
        self, rows: Integers, n_tokens: Integers, edits: EditBatch, block_tokens: int
    ) -> tuple[NDArray[np.float32], int]:
        """Pool states over the blocks of n tuples: float32, shape (n, hidden), and the number of windows encoded."""
        states, at, encoded = self._find(rows)
        blocks = np.stack((edits.block_start, edits.block_stop), axis=1)
        ends = np.searchsorted(edits.window, np.arange(len(rows) + 1))
        pooled = np.empty((len(edits), states[0].shape[-1] if states else 0), dtype=np.float32)
        for number, (own, row, size) in enumerate(zip(states, at, n_tokens.tolist(), strict=True)):
            n_blocks, (first, end) = block_count(size, block_tokens), ends[number : number + 2]
            of_window = own[row]
            fits = len(of_window) >= n_blocks and bool(np.isnan(of_window[n_blocks:]).all())
            if not fits or not self._pooler.pool(
                of_window[:n_blocks], blocks[first:end], size, block_tokens, pooled[first:end]
            ):
                raise self._unfit(int(rows[number]), of_window, n_blocks)
        return pooled, encoded

    def _find(self, rows: Integers) -> tuple[list[NDArray[Any]], list[int], int]:
        """Return, for each window, states that hold it and its row there, and the number of windows encoded."""
        keys, code, cache_row = self._windows.cached(rows)
        found: dict[int, tuple[NDArray[Any], int]] = {}
        missing: list[int] = []
        for number in np.unique(code).tolist():
            ours, reader = np.flatnonzero(code == number), self._readers.get(keys[number] or "")
            if reader is None:
                missing.extend(ours.tolist())
                continue
            states = reader.checked(cache_row[ours], _STATES)
            found.update((window, (states, int(cache_row[window]))) for window in ours.tolist())
        if missing:
            states = self._encode(rows[missing])
            found.update((window, (states, number)) for number, window in enumerate(missing))
        ordered = [found[window] for window in range(len(rows))]
        return [states for states, _ in ordered], [row for _, row in ordered], len(missing)

    def _encode(self, rows: Integers) -> NDArray[Any]:
        """Encode windows that no cache holds: floating, shape (n_windows, n_blocks, hidden)."""
        if self._encoder is not None:
            return self._encoder.encode_windows([self._windows.record(row).sequence for row in rows.tolist()])
        record = self._windows.record(int(rows[0]))
        raise CorruptResourceError(
            f"window {record.window_id}",
            "its states are in no cache of the package",
            expected=f"one of {sorted(self._readers)}",
            got=repr(record.cache_key),
            remedy="Build the package with caches for all of its windows, give an encoder, or open it without states",
        )

    def _unfit(self, row: int, states: NDArray[Any], n_blocks: int) -> CorruptResourceError:
        """Return the error of a window of which other blocks than the first ``n_blocks`` are finite."""
        record = self._windows.record(row)
        return CorruptResourceError(
            f"window {record.window_id} (row {record.cache_row} of cache {record.cache_key})",
            "cached states are not this window's",
            expected=f"{n_blocks} blocks of finite numbers",
            got=f"{int(np.isfinite(states).all(axis=-1).sum())} of {len(states)}",
            remedy="Pool with the block size of the cache, or rebuild the cache",
        )


def check_same_encoder(encoder: LiveEncoder, package: Package, readers: Mapping[str, ArrayStoreReader]) -> None:
    """Raise unless a live encoder computes what the caches of a package hold, and reads its windows whole.

    A missing cache is known by its key, which is computed again. Without caches, blocks of 64 6-mers are required.
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
        if parts := differing_parts(cached, recipe):
            raise _other_encoder(f"the cache of {ref.source} was made with another encoder", *parts)


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
