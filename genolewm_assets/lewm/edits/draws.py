"""Keyed random numbers: a value depends on its key and counter alone, not on order, worker or time.

A number is BLAKE2b of (seed, purpose, epoch, window, slot, counter), so that results do not change with the number of
workers, the order of windows or the point at which a run resumed. Not here: sampling of edits (``sampling``), order of
windows (``schedule``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError

_WORDS_PER_BLOCK = 8
# SplitMix64 (Steele, Lea, Flood 2014): the increment and the finaliser's two multipliers.
_INCREMENT, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def encode_parts(*parts: int | str) -> bytes:
    """Return the bytes of which a key is hashed: every part with its length and type."""
    parts_as_text = [f"{type(part).__name__}:{part}".encode() for part in parts]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts_as_text)


@dataclass(frozen=True, slots=True)
class DrawKey:
    """Key of one stream of random numbers; equal keys give equal streams on every machine.

    Attributes
    ----------
    digest
        32 bytes: BLAKE2b of the parts of the key.

    Examples
    --------
    >>> DrawKey.of("edits", 7).draws().below(100) == DrawKey.of("edits", 7).draws().below(100)
    True
    """

    digest: bytes

    @classmethod
    def of(cls, *parts: int | str) -> DrawKey:
        """Return the key of a sequence of integers and strings.

        Parts are hashed with type and length, so that ``("ab",)``, ``("a", "b")``, ``(1,)`` and ``("1",)`` all differ.
        """
        return cls(b"").child(*parts)

    def child(self, *parts: int | str) -> DrawKey:
        """Return the key derived from this key and further parts."""
        return DrawKey(hashlib.blake2b(encode_parts(*parts), key=self.digest, digest_size=32).digest())

    def draws(self) -> TrainDraws:
        """Return the stream of this key, at its first number."""
        return TrainDraws(self)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Return the numbers 0 to n - 1 in random order: int64, shape (n,).

        The order is that of n outputs of SplitMix64, seeded with the first 8 bytes of the key.
        """
        first = np.uint64(int.from_bytes(self.digest[:8], "little"))
        with np.errstate(over="ignore"):
            word: NDArray[np.uint64] = first + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(_INCREMENT)
            word = (word ^ (word >> np.uint64(30))) * np.uint64(_FIRST)
            word = (word ^ (word >> np.uint64(27))) * np.uint64(_SECOND)
        return np.argsort(word ^ (word >> np.uint64(31)), kind="stable").astype(np.int64)


class TrainDraws:
    """A stream of random numbers, read in order."""

    __slots__ = ("_block", "_key", "_words")

    def __init__(self, key: DrawKey) -> None:
        self._key, self._block = key.digest, 0
        self._words: Iterator[int] = iter(())

    def word(self) -> int:
        """Return the next 64 random bits."""
        for word in self._words:
            return word
        raw = hashlib.blake2b(self._block.to_bytes(8, "little"), key=self._key).digest()
        self._block += 1
        self._words = iter(np.frombuffer(raw, dtype="<u8", count=_WORDS_PER_BLOCK).tolist())
        return next(self._words)

    def below(self, n: int) -> int:
        """Return a uniform number from 0 to n - 1; the bias is less than n / 2**64."""
        if n < 1:
            raise ConfigurationError("random draw", "nothing to choose from", expected="at least 1", got=f"{n}")
        return (self.word() * n) >> 64

    def uniform(self) -> float:
        """Return a uniform number in [0, 1), a multiple of 2**-53."""
        return float((self.word() >> 11) * 2.0**-53)

    def permuted(self, n: int) -> Iterator[int]:
        """Yield 0 to n - 1 in random order; time and memory are proportional to the count of numbers taken."""
        # A Fisher-Yates shuffle that stores only the entries that were swapped.
        moved: dict[int, int] = {}
        for left in range(n, 0, -1):
            at = self.below(left)
            yield moved.get(at, at)
            moved[at] = moved.get(left - 1, left - 1)
