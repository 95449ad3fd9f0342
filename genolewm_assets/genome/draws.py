"""Random bits that are functions of what they are for."""

from __future__ import annotations

import hashlib


def draw_bits(purpose: str, seed: int, unit: str) -> int:
    """Return 64 random bits that depend on nothing but the arguments.

    Examples
    --------
    >>> draw_bits("slice", 0, "a") == draw_bits("slice", 0, "a") != draw_bits("slice", 1, "a")
    True
    """
    return int.from_bytes(hashlib.blake2b(f"{purpose}\0{seed}\0{unit}".encode(), digest_size=8).digest(), "big")
