from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import SequenceError
from genolewm_assets.genome import decode_kmer, encode_kmers, encode_sequence
from genolewm_assets_tests.referees.rcrs import RCRS_IDS_SHA256
from genolewm_assets_tests.strategies import circular_genomes


def by_dictionary(sequence: str, k: int, stride: int) -> list[int]:
    """Look each k-mer up in the sorted list of all: the plain referee."""
    rank = {"".join(kmer): i for i, kmer in enumerate(product("ACGT", repeat=k))}
    return [rank.get(sequence[i : i + k], -1) for i in range(0, len(sequence) - k + 1, stride)]


@given(circular_genomes(min_size=0), st.integers(1, 5), st.integers(1, 7))
def test_linear_kmers_equal_a_dictionary(sequence: str, k: int, stride: int) -> None:
    index = encode_kmers(encode_sequence(sequence), k=k, stride=stride)
    assert index.dtype == np.int32
    assert index.tolist() == by_dictionary(sequence, k, stride)


@given(circular_genomes(), st.integers(1, 5), st.integers(1, 7))
def test_circular_kmers_wrap(sequence: str, k: int, stride: int) -> None:
    index = encode_kmers(encode_sequence(sequence), k=k, stride=stride, circular=True)
    assert index.tolist() == by_dictionary(sequence + sequence[: k - 1], k, stride)
    assert len(index) == -(-len(sequence) // stride)


@given(circular_genomes(), st.integers(0, 200))
def test_rotating_a_circular_genome_rotates_its_kmers(sequence: str, turn: int) -> None:
    turn %= len(sequence)
    whole = encode_kmers(encode_sequence(sequence), k=6, circular=True)
    turned = encode_kmers(encode_sequence(sequence[turn:] + sequence[:turn]), k=6, circular=True)
    assert np.array_equal(np.roll(whole, -turn), turned)


@given(st.integers(1, 12), st.data())
def test_decoding_inverts_encoding(k: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, 4**k - 1))
    kmer = decode_kmer(index, k)
    assert len(kmer) == k
    assert encode_kmers(encode_sequence(kmer), k=k).tolist() == [index]


@given(circular_genomes(), st.integers(1, 7), st.integers(1, 7), st.booleans())
def test_int16_holds_the_same_up_to_k_7(sequence: str, k: int, stride: int, circular: bool) -> None:
    codes = encode_sequence(sequence)
    narrow = encode_kmers(codes, k=k, stride=stride, circular=circular, dtype=np.int16)
    assert narrow.dtype == np.int16
    assert narrow.flags.c_contiguous
    assert np.array_equal(narrow, encode_kmers(codes, k=k, stride=stride, circular=circular))
    with pytest.raises(SequenceError, match="k out of range for int16: expected 1 to 7, got 8"):
        encode_kmers(codes, k=8, dtype=np.int16)


def test_order_is_lexicographic() -> None:
    kmers = [decode_kmer(i, 3) for i in range(64)]
    assert kmers == sorted(kmers)


def test_rcrs_golden(contig_bytes: Callable[[str], bytes]) -> None:
    index = encode_kmers(encode_sequence(contig_bytes("chrM")), k=6, circular=True)
    ids = np.where(index < 0, 3, index + 6).astype("<i2")
    assert len(ids) == 16_569
    assert int((index < 0).sum()) == 6
    assert hashlib.sha256(ids.tobytes()).hexdigest() == RCRS_IDS_SHA256


def test_a_sequence_shorter_than_k_has_no_kmer() -> None:
    assert encode_kmers(encode_sequence("ACGTA"), k=6).size == 0
    assert encode_kmers(encode_sequence("NNN"), k=6, stride=6).size == 0
    with pytest.raises(SequenceError, match="circular sequence too short: expected at least 6 bp, got 5 bp"):
        encode_kmers(encode_sequence("ACGTA"), k=6, circular=True)


@pytest.mark.parametrize(("k", "stride"), [(0, 1), (13, 1), (6, 0)])
def test_parameters_out_of_range(k: int, stride: int) -> None:
    with pytest.raises(SequenceError, match="expected"):
        encode_kmers(encode_sequence("ACGT" * 10), k=k, stride=stride)


@pytest.mark.parametrize(("index", "k"), [(-1, 6), (4096, 6), (0, 0)])
def test_index_out_of_range(index: int, k: int) -> None:
    with pytest.raises(SequenceError, match="expected"):
        decode_kmer(index, k)
