"""A fuzzer without coverage, where atheris is not installed: seeds changed at random for a set time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

_MAX_CHANGES = 6
_TELLING_BYTES = b"\0\t\n\r,;=.:%#<>-+09eA\x7f\x80\xff"


def fuzz(
    check: Callable[[bytes], None],
    seeds: Sequence[bytes],
    words: Sequence[bytes],
    *,
    seconds: float,
    seed: int,
    max_bytes: int,
    keep: Path,
) -> int:
    """Run ``check`` on changed seeds until one fails, whose input is kept in ``keep``; return how many passed."""
    draw = random.Random(seed)
    stop = time.monotonic() + seconds
    tried = 0
    while tried < len(seeds) or time.monotonic() < stop:
        data = seeds[tried] if tried < len(seeds) else change(draw.choice(seeds), seeds, words, draw)[:max_bytes]
        try:
            check(data)
        except BaseException:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"crash-{sha256(data).hexdigest()[:16]}").write_bytes(data)
            raise
        tried += 1
    return tried


def change(data: bytes, seeds: Sequence[bytes], words: Sequence[bytes], draw: random.Random) -> bytes:
    """Return data with a few random changes."""
    for _ in range(draw.randint(1, _MAX_CHANGES)):
        at = draw.randint(0, len(data))
        end = min(len(data), at + draw.choice((1, 1, 2, 4, 16, 64, 400)))
        other = draw.choice(seeds)
        start = draw.randint(0, len(other))
        fresh = draw.choice(
            (
                b"",
                bytes([draw.choice(_TELLING_BYTES)]),
                bytes([draw.randrange(256)]),
                draw.choice(words),
                data[at:end] * draw.choice((2, 3, 50)),
                other[start : start + draw.choice((4, 40, 400))],
            )
        )
        data = data[:at] + fresh + data[draw.choice((at, end)) :]
    return data
