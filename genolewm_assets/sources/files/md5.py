"""MD5 whose state can be saved, so that a later process goes on with it; hashlib does not give its state away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_BLOCK_BYTES = 64
_BEGIN = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)


@dataclass(frozen=True, slots=True)
class Md5State:
    """State of an MD5: the words of its whole blocks, the bytes past them in hex, and the number of all bytes."""

    words: tuple[int, int, int, int] = _BEGIN
    rest: str = ""
    size: int = 0


class ResumableMd5:
    """MD5 of bytes fed in pieces, from the beginning or from a saved state (RFC 1321)."""

    def __init__(self, state: Md5State | None = None) -> None:
        state = state or Md5State()
        self._words = np.array(state.words, np.uint32)
        self._rest, self._size = bytes.fromhex(state.rest), state.size

    @property
    def state(self) -> Md5State:
        """The state after the bytes fed so far."""
        a, b, c, d = self._words.tolist()
        return Md5State((a, b, c, d), self._rest.hex(), self._size)

    def update(self, data: bytes) -> None:
        """Feed the next bytes."""
        self._size += len(data)
        # Joined, the words are aligned in memory.
        data = self._rest + data
        whole = len(data) // _BLOCK_BYTES * _BLOCK_BYTES
        _add(data[:whole], self._words)
        self._rest = data[whole:]

    def hexdigest(self) -> str:
        """Return the MD5 of the bytes fed so far, in lower-case hex."""
        zeros = bytes(-(len(self._rest) + 9) % _BLOCK_BYTES)
        words = self._words.copy()
        _add(self._rest + b"\x80" + zeros + (8 * self._size % (1 << 64)).to_bytes(8, "little"), words)
        return words.astype("<u4").tobytes().hex()


def _add(blocks: bytes, words: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> None:
    from genolewm_assets.sources.files.md5_kernels import add_blocks

    add_blocks(np.frombuffer(blocks, "<u4"), words)
