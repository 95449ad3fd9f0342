"""Compiled keyed random numbers against hashlib.

Entries are cached on disk by the text of all kernels.

The rows of a window's alleles are found wherever they lie.
"""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from genolewm_assets.lewm.edits import DrawKey, encode_parts
from genolewm_assets.lewm.sampler import blake_kernels as kernels
from genolewm_assets.lewm.sampler.entry_kernels import entries
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row

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


def test_entries_close_over_the_digest_alone():
    """Numba hashes what an entry closes over; a kernel there would make the key another one in every process."""
    cells = [cell.cell_contents for entry in entries() for cell in entry.py_func.__closure__]
    assert len(cells) == len(entries())
    assert len(set(cells)) == 1
    assert all(isinstance(cell, int) for cell in cells)


held_kernels = Late("genolewm_assets.lewm.sampler.held_kernels")


def alleles_at(before, pos, behind):
    """Return alleles of three contigs, of which the second has the given positions."""
    bounds = np.cumsum([0, len(before), len(pos), len(behind)])
    rows = np.stack((bounds[:-1], bounds[1:]), axis=1).astype(np.int64)
    every = np.array([*before, *pos, *behind], dtype=np.int64)
    return held_kernels.Alleles(every, np.zeros(2 * len(every) + 1, np.uint32), np.zeros(0, np.uint8), rows)


@given(
    pos=st.lists(st.integers(1, 40) | st.integers(1, 250_000_000), max_size=300).map(sorted),
    low=st.integers(-50, 250_000_100) | st.integers(-5, 45),
    size=st.integers(0, 20_000),
)
@settings(max_examples=300, deadline=None)
def test_rows_between_two_positions(pos, low, size):
    alleles = alleles_at([7, 9], pos, [1, 10, 20])
    found = held_kernels.rows_between(alleles, 1, low, low + size)
    assert found == tuple(2 + np.searchsorted(pos, [low, low + size]))


@each_row("spread", ["even", "clustered", "equal", "doubling"])
def test_rows_of_many_alleles(spread):
    rng = np.random.default_rng(5)
    pos = {
        "even": np.sort(rng.integers(1, 248_000_000, 50_000)),
        "clustered": np.sort(rng.choice(rng.integers(1, 248_000_000, 20), 50_000) + rng.integers(0, 900, 50_000)),
        "equal": np.full(50_000, 1_000),
        "doubling": np.sort(np.exp(rng.random(50_000) * 19)).astype(np.int64) + 1,
    }[spread]
    alleles = alleles_at([5], pos, [3, 4])
    for low in [*rng.choice(pos, 300), *rng.integers(-10, 250_000_000, 300), 0, 1, int(pos[-1]), int(pos[-1]) + 1]:
        expected = tuple(1 + np.searchsorted(pos, [low, low + 12_800]))
        assert held_kernels.rows_between(alleles, 1, int(low), int(low) + 12_800) == expected


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_positions_of_a_damaged_file_lead_to_rows_of_the_contig(data):
    """Numbers in any order, as large as there are."""
    pos = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=200))
    low = data.draw(st.integers(1, 250_000_000))
    first, end = held_kernels.rows_between(alleles_at([1], pos, [2]), 1, low, low + 100)
    assert 1 <= first <= 1 + len(pos)
    assert 1 <= end <= 1 + len(pos)
