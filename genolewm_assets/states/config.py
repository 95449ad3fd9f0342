"""Configuration of a cache of states: what its key and its ``fingerprint.json`` are made from.

Not here: the identity of an encoder (``encoders``), keys of any array store (``store.arrays``).
"""

from __future__ import annotations

from collections.abc import Mapping

from genolewm_assets.store.files import JsonValue


def cache_config(
    encoder: Mapping[str, JsonValue], *, windows_sha256: str, row_shape: tuple[int, int]
) -> dict[str, JsonValue]:
    """Return the configuration of a cache of states; its key names the cache.

    Parameters
    ----------
    encoder
        Identity of the encoder as a recipe.
    windows_sha256
        SHA-256 of the window table's Parquet file.
    row_shape
        Blocks of the longest window, and length of one state.
    """
    return {"encoder": dict(encoder), "windows_sha256": windows_sha256, "row_shape": list(row_shape)}
