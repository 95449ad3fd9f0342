"""Compiled keyed random numbers: those of ``edits.draws``, bit for bit. Import inside functions only.

A *stream* is a row of an int64 array of shape (n_streams, STREAM_WORDS): key, counter, block read, words used of it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.edits import draws, kernel

Streams: TypeAlias = npt.NDArray[np.int64]

#: Words of one stream.
STREAM_WORDS = 11
#: Places of the key's two words, the counter's four, those of the block, and of the number of words used.
_KEY, _COUNTER, _READ, _USED = 0, 2, 6, 10
_WORD = 0xFFFFFFFF

philox = kernel(draws.philox)


@kernel
def start_visit(key: Streams, id_words: Streams, of_epoch: Streams, again: int) -> None:
    """Set ``key``, int64 of shape (4,), to that of ``DrawKey.of``; ``of_epoch`` is ``epoch_key``, shape (2,)."""
    k0, k1, c2, c3 = philox(id_words[0], id_words[1], id_words[2], id_words[3], of_epoch[0], of_epoch[1])
    key[0], key[1], key[2], key[3] = k0, k1, c2 ^ (again & _WORD), c3 ^ (again >> 32)


@kernel
def start_stream(streams: Streams, at: int, key: Streams, stream: int) -> None:
    """Set row ``at`` to ``DrawKey.draws(stream)``."""
    streams[at, _KEY], streams[at, _KEY + 1] = key[0], key[1]
    streams[at, _COUNTER], streams[at, _COUNTER + 1] = 0, stream
    streams[at, _COUNTER + 2], streams[at, _COUNTER + 3] = key[2], key[3]
    streams[at, _USED] = 4


@kernel
def word(streams: Streams, at: int) -> int:
    """Return the next 32 random bits of a stream."""
    used = streams[at, _USED]
    if used == 4:
        streams[at, 6], streams[at, 7], streams[at, 8], streams[at, 9] = philox(
            streams[at, 2], streams[at, 3], streams[at, 4], streams[at, 5], streams[at, 0], streams[at, 1]
        )
        streams[at, _COUNTER] += 1
        used = 0
    streams[at, _USED] = used + 1
    return streams[at, _READ + used]


@kernel
def below(streams: Streams, at: int, n: int) -> int:
    """Return a uniform number from 0 to n - 1, for n from 1 to 2**31."""
    product = word(streams, at) * n
    while product & _WORD < n and product & _WORD < (_WORD + 1 - n) % n:
        product = word(streams, at) * n
    return product >> 32


@kernel
def uniform(streams: Streams, at: int) -> float:
    """Return a uniform number in [0, 1), a multiple of 2**-32."""
    return word(streams, at) * 2.0**-32


@kernel
def take_permuted(streams: Streams, at: int, order: Streams, left: int) -> int:
    """Return the next number of ``TrainDraws.permuted``.

    ``order`` is int64 and begins as 0, 1, 2 ..., of which the first ``left`` entries (at least 1) are not yet taken.
    """
    place = below(streams, at, left)
    taken = order[place]
    order[place] = order[left - 1]
    return taken
