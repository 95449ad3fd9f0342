from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import SequenceError
from genolewm_assets.genome import (
    acgt_runs,
    decode_kmer,
    decode_sequence,
    encode_kmers,
    encode_sequence,
    parts_around,
    reverse_complement,
)
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import circular_genomes, sequences

IUPAC = "ACGTRYSWKMBDHVN"
mixed = sequences(alphabet="ACGTN")


@given(sequences(alphabet=IUPAC + IUPAC.lower() + "Uu"))
def test_encoding_base_by_base(sequence: str) -> None:
    expected = ["ACGT".find(base) for base in sequence.upper().replace("U", "T")]
    codes = encode_sequence(sequence)
    assert codes.dtype == np.uint8
    assert codes.tolist() == [4 if code < 0 else code for code in expected]
    assert np.array_equal(encode_sequence(sequence.encode()), codes)


@given(mixed)
def test_decoding_inverts_encoding(sequence: str) -> None:
    assert decode_sequence(encode_sequence(sequence)) == sequence


@each_row(
    ("sequence", "where"),
    [("ACG-T", "base 3"), ("AC.", "base 2"), ("aÉT", "base 1"), ("AC T", "base 2"), ("X", "base 0")],
)
def test_strange_symbol_is_named(sequence: str, where: str) -> None:
    got = re.escape(sequence[int(where[-1])])
    for form, function in product((sequence, sequence.encode("latin-1")), (encode_sequence, reverse_complement)):
        with pytest.raises(SequenceError, match=rf"{where} .0-based.: not a nucleotide symbol: .* got '{got}'"):
            function(form)


@pytest.mark.parametrize("codes", [np.array([5], dtype=np.uint8), np.array([1], dtype=np.int64)])
def test_strange_code_is_an_error(codes: np.ndarray) -> None:
    for function in (decode_sequence, reverse_complement):
        with pytest.raises(SequenceError, match="not valid codes"):
            function(codes)


@given(sequences(alphabet=IUPAC + "acgt"))
def test_reverse_complement_is_an_involution(sequence: str) -> None:
    assert reverse_complement(reverse_complement(sequence)) == sequence


@given(mixed)
def test_reverse_complement_is_one_in_all_types(sequence: str) -> None:
    turned = reverse_complement(sequence)
    assert turned == "".join({"A": "T", "C": "G", "G": "C", "T": "A", "N": "N"}[b] for b in reversed(sequence))
    assert reverse_complement(sequence.encode()) == turned.encode()
    assert decode_sequence(reverse_complement(encode_sequence(sequence))) == turned


@given(mixed | st.just("") | st.just("ACGT") | st.just("NNN"))
def test_runs_equal_a_regular_expression(sequence: str) -> None:
    expected = [match.span() for match in re.finditer("[ACGT]+", sequence)]
    assert list(acgt_runs(sequence.encode())) == expected
    assert list(acgt_runs(sequence.lower().encode())) == expected
    assert list(acgt_runs(encode_sequence(sequence))) == expected


@given(
    st.lists(st.tuples(st.integers(-9, 120) | st.sampled_from([-(2**63), 2**62]), st.integers(0, 9)), max_size=30),
    st.booleans(),
    st.integers(1, 50),
)
def test_parts_hold_every_row_once_and_their_stretch(rows: list[tuple[int, int]], ordered: bool, bin_bp: int) -> None:
    bases = bytes(range(100))
    start = np.array([row[0] for row in (sorted(rows) if ordered else rows)], np.int64)
    end = start + np.array([row[1] for row in (sorted(rows) if ordered else rows)], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("genolewm_assets.genome.sequence._BIN_BP", bin_bp)
        parts = list(parts_around(bases, start, end))
    assert [row for rows_of, _, _ in parts for row in range(rows_of.start, rows_of.stop)] == list(range(len(start)))
    for rows_of, first, part in parts:
        assert len(part) < bin_bp + 9
        inside = (np.clip(bounds[rows_of], 0, 100).tolist() for bounds in (start, end))
        for low, high in zip(*inside, strict=True):
            assert part[low - first : high - first] == bases[low:high]
    if ordered:
        assert len(parts) <= 100 // bin_bp + 1


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


@given(st.integers(1, 12), st.data())
def test_decoding_kmers_inverts_encoding(k: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, 4**k - 1))
    kmer = decode_kmer(index, k)
    assert len(kmer) == k
    assert encode_kmers(encode_sequence(kmer), k=k).tolist() == [index]


def test_a_sequence_shorter_than_k_has_no_kmer() -> None:
    assert encode_kmers(encode_sequence("ACGTA"), k=6).size == 0
    assert encode_kmers(encode_sequence("NNN"), k=6, stride=6).size == 0
    with pytest.raises(SequenceError, match="circular sequence too short: expected at least 6 bp, got 5 bp"):
        encode_kmers(encode_sequence("ACGTA"), k=6, circular=True)


@each_row(("k", "stride"), [(0, 1), (13, 1), (6, 0)])
def test_parameters_out_of_range(k: int, stride: int) -> None:
    with pytest.raises(SequenceError, match="expected"):
        encode_kmers(encode_sequence("ACGT" * 10), k=k, stride=stride)
    with pytest.raises(SequenceError, match="k out of range for int16: expected 1 to 7, got 8"):
        encode_kmers(encode_sequence("ACGT" * 10), k=8, dtype=np.int16)


@each_row(("index", "k"), [(-1, 6), (4096, 6), (0, 0)])
def test_index_out_of_range(index: int, k: int) -> None:
    with pytest.raises(SequenceError, match="expected"):
        decode_kmer(index, k)
