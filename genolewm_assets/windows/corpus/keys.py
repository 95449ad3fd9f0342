"""A set of 64-bit keys in one array: 11 to 32 bytes a key, where a Python set takes a hundred."""

from __future__ import annotations

import hashlib

import numpy as np


class KeySet:
    """Set of 64-bit hashes."""

    def __init__(self) -> None:
        self._keys, self._count = np.zeros(1 << 10, dtype=np.uint64), 0

    def add(self, content: bytes) -> bool:
        """Add the BLAKE2b hash of a content; return whether it was there."""
        from genolewm_assets.windows.corpus import kernels

        key = np.uint64(int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") or 1)
        there = kernels.add_key(self._keys, key)
        self._count += not there
        if self._count * 3 > self._keys.size * 2:
            keys = np.zeros(2 * self._keys.size, dtype=np.uint64)
            kernels.move_keys(self._keys, keys)
            self._keys = keys
        return bool(there)
