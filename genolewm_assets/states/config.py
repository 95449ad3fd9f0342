"""Configuration of a cache of states: what its key and its ``fingerprint.json`` are made from."""

from __future__ import annotations

from collections.abc import Mapping

from genolewm_assets.store.files import JsonValue


def cache_config(
    encoder: Mapping[str, JsonValue], *, windows_sha256: str, row_shape: tuple[int, int]
) -> dict[str, JsonValue]:
    """Return the configuration of a cache of states, from whose key the cache has its name.

    ``encoder`` is its identity as a recipe, ``windows_sha256`` that of the window table's Parquet file, and
    ``row_shape`` the blocks of the longest window and the length of one state.
    """
    return {"encoder": dict(encoder), "windows_sha256": windows_sha256, "row_shape": list(row_shape)}
