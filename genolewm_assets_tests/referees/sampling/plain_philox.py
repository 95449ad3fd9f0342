"""Philox4x32-10 as its paper states it (Salmon et al. 2011, section 3.3)."""

from __future__ import annotations


def plain_philox(c0: int, c1: int, c2: int, c3: int, k0: int, k1: int) -> tuple[int, int, int, int]:  # noqa: PLR0917
    """Return the block of a counter and a key, words of 32 bits."""
    counter, key = [c0, c1, c2, c3], [k0, k1]
    for turn in range(10):
        if turn > 0:
            key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
        (high0, low0), (high1, low1) = divmod(0xD2511F53 * counter[0], 2**32), divmod(0xCD9E8D57 * counter[2], 2**32)
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
    return counter[0], counter[1], counter[2], counter[3]
