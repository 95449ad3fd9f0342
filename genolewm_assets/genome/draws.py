"""Keyed random numbers: the value depends on the key alone, not on order, worker or time."""

from __future__ import annotations

import hashlib


def draw_bits(purpose: str, seed: int, unit: str) -> int:
    """Return 64 random bits that depend on the arguments alone.

    Parameters
    ----------
    purpose, seed, unit
        What the value is used for, seed of the data set or run, and what it is drawn for, such as the id of a record;
        values of different purposes are independent.

    Returns
    -------
    int
        In ``[0, 2**64)``: BLAKE2b of the three arguments, first 8 bytes, big-endian.

    Examples
    --------
    >>> draw_bits("slice", 0, "a") == draw_bits("slice", 0, "a") != draw_bits("slice", 1, "a")
    True
    """
    return int.from_bytes(hashlib.blake2b(f"{purpose}\0{seed}\0{unit}".encode(), digest_size=8).digest(), "big")
