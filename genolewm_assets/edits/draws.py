"""Keyed random numbers: words of Philox4x32-10 (Salmon et al. 2011) by seed, epoch, window, visit and stream.

A value does not depend on the number of workers, the order of windows, the point of resumption, or other windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from genolewm_assets.errors import ConfigurationError

#: A word of 32 bits with every bit set; a seed is two words, at most this large.
_WORD = 0xFFFFFFFF
_LARGEST_SEED = 2**64 - 1


def philox(c0: int, c1: int, c2: int, c3: int, k0: int, k1: int) -> tuple[int, int, int, int]:  # noqa: PLR0917
    """Return the four words of Philox4x32-10, exact in int64 too, for a counter of four words and a key of two."""
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = ((p1 >> 32) & _WORD) ^ c1 ^ k0, p1 & _WORD, ((p0 >> 32) & _WORD) ^ c3 ^ k1, p0 & _WORD
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return c0, c1, c2, c3


def seed_words(seed: int) -> tuple[int, int]:
    """Return the low and the high word of a seed; raise ConfigurationError unless it is from 0 to 2**64 - 1."""
    if not 0 <= seed <= _LARGEST_SEED:
        raise ConfigurationError("seed", "out of range", expected="0 to 2**64 - 1", got=f"{seed}")
    return seed & _WORD, seed >> 32


def epoch_key(seed: int, epoch: int) -> tuple[int, int]:
    """Return the key of the visits of an epoch: two words.

    The fourth word of the counter is 0; the order of visits has other ones (``training.sampler.order_kernels``).
    """
    return philox(epoch & _WORD, epoch >> 32, 0, 0, *seed_words(seed))[:2]


@dataclass(frozen=True, slots=True)
class DrawKey:
    """Key of the random numbers of a visit of a window: four words.

    The id of the window is the counter of one block, which Philox permutes: different windows have different blocks, of
    which the first half is the key of the visit's numbers and the second half a part of their counter.
    """

    words: tuple[int, int, int, int]

    @classmethod
    def of(cls, seed: int, epoch: int, window_id: str, again: int) -> DrawKey:
        """Return the key of a visit; ``window_id`` is 32 hex digits, ``again`` as in ``BatchSampler.sample``."""
        d0, d1, d2, d3 = (int(window_id[at : at + 8], 16) for at in range(0, 32, 8))
        k0, k1, c2, c3 = philox(d0, d1, d2, d3, *epoch_key(seed, epoch))
        return cls((k0, k1, c2 ^ (again & _WORD), c3 ^ (again >> 32)))

    def draws(self, stream: int) -> TrainDraws:
        """Return a stream of the visit, at its first number."""
        return TrainDraws(self.words, stream)


class TrainDraws:
    """A stream of random numbers, read in order."""

    __slots__ = ("_block", "_key", "_stream", "_words")

    def __init__(self, key: tuple[int, int, int, int], stream: int) -> None:
        self._key, self._stream, self._block = key, stream, 0
        self._words: Iterator[int] = iter(())

    def word(self) -> int:
        """Return the next 32 random bits."""
        for word in self._words:
            return word
        k0, k1, c2, c3 = self._key
        self._words = iter(philox(self._block, self._stream, c2, c3, k0, k1))
        self._block += 1
        return next(self._words)

    def below(self, n: int) -> int:
        """Return a uniform number from 0 to n - 1, without bias (Lemire 2019), for n from 1 to 2**64."""
        if not 1 <= n <= _LARGEST_SEED + 1:
            raise ConfigurationError("random draw", "nothing to choose from", expected="1 to 2**64", got=f"{n}")
        n_words = 1 if n <= _WORD + 1 else 2
        end = 1 << (32 * n_words)
        while True:
            product = n * sum(self.word() << (32 * at) for at in range(n_words))
            if product % end >= (end - n) % n:
                return product // end

    def uniform(self) -> float:
        """Return a uniform number in [0, 1), a multiple of 2**-32."""
        return self.word() * 2.0**-32

    def permuted(self, n: int) -> Iterator[int]:
        """Yield 0 to n - 1 in random order; time and memory are proportional to the count of numbers taken."""
        # A Fisher-Yates shuffle that stores only the entries that were swapped.
        moved: dict[int, int] = {}
        for left in range(n, 0, -1):
            at = self.below(left)
            yield moved.get(at, at)
            moved[at] = moved.get(left - 1, left - 1)
