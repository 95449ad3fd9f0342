"""Compiled keyed random numbers against hashlib."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from genolewm_assets.lewm.edits import DrawKey, encode_parts
from genolewm_assets.lewm.sampler import blake_kernels as kernels

PARTS = st.lists(st.one_of(st.integers(-(2**70), 2**70), st.text(max_size=90)), max_size=6)


class CompiledKey:
    """The compiled form of a key."""

    def __init__(self, *parts: int | str) -> None:
        self.digest, self.message = np.zeros(8, np.uint64), np.zeros(16, np.uint64)
        self.parent, self.streams = np.zeros(8, np.uint64), np.zeros((3, kernels.STREAM_WORDS), np.uint64)
        content = np.frombuffer(encode_parts(*parts), np.uint8)
        kernels.hash_root(content, len(content), self.digest, self.message)
        self.root = self.digest[:4].tobytes()
        kernels.absorb_key(self.parent, self.digest, kernels.KEY_BYTES, self.message)

    def start(self, at: int, part: np.ndarray) -> None:
        """Begin a stream of a child."""
        kernels.start_child(self.streams, at, self.parent, part, len(part), self.digest, self.message)


@given(parts=PARTS)
@settings(max_examples=200, deadline=None)
def test_keys_are_those_of_hashlib(parts):
    assert CompiledKey(*parts).root == DrawKey.of(*parts).digest


@given(parts=PARTS, child=st.integers(0, 2**63 - 1), ns=st.lists(st.integers(1, 2**63 - 1), max_size=30))
@settings(max_examples=100, deadline=None)
def test_numbers_are_those_of_the_plain_draws(parts, child, ns):
    key, plain = CompiledKey(*parts), DrawKey.of(*parts).child(child).draws()
    room = np.zeros(27, np.uint8)
    key.start(1, room[: kernels.write_int_part(room, 0, child)])
    for n in ns:
        assert kernels.below(key.streams, 1, n, key.message) == plain.below(n)
        assert int(kernels.word(key.streams, 1, key.message)) == plain.word()
        assert kernels.uniform(key.streams, 1, key.message) == plain.uniform()


@given(n=st.integers(0, 60), stop=st.integers(0, 60))
@settings(max_examples=50, deadline=None)
def test_permutations_are_taken_as_lazily(n, stop):
    key, plain = CompiledKey("order"), DrawKey.of("order").child("gnomad").draws()
    key.start(2, np.frombuffer(encode_parts("gnomad"), np.uint8))
    numbers, order, left, taken = plain.permuted(n), np.arange(n), n, []
    while left > 0 and len(taken) < stop:
        taken.append(kernels.take_permuted(key.streams, 2, order, left, key.message))
        left -= 1
    assert taken == [number for _, number in zip(taken, numbers, strict=False)]
    assert len(taken) == min(n, stop)
    # Both streams are at the same number.
    assert int(kernels.word(key.streams, 2, key.message)) == plain.word()


@given(value=st.integers(0, 2**63 - 1), text=st.binary(max_size=40))
def test_parts_are_encoded_alike(value, text):
    room, tag = np.zeros(60, np.uint8), np.frombuffer(b"str:", np.uint8)
    assert bytes(room[: kernels.write_int_part(room, 0, value)]) == encode_parts(value)
    letters = text.hex()[:40]
    end = kernels.write_text_part(room, 3, tag, np.frombuffer(letters.encode(), np.uint8), len(letters))
    assert bytes(room[3:end]) == encode_parts(letters)
