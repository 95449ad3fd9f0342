from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.lewm.mapped.kernels import hash_ids, pack_rows, write_first_rows
from genolewm_assets_tests.referees.sampling.plain_windows import pack_bases


def pack(texts: list[str]) -> tuple[int, np.ndarray, list[int]]:
    at = np.concatenate(([0], np.cumsum([len(text) for text in texts], dtype=np.int64)))
    sizes = [-(-len(text) // 4) for text in texts]
    ends = np.cumsum(sizes, dtype=np.int64)
    packed = np.full(int(ends[-1]) if sizes else 0, 255, np.uint8)
    text = np.frombuffer("".join(texts).encode(), np.uint8)
    return pack_rows(at, text, ends - np.array(sizes, np.int64), packed), packed, ends.tolist()


@given(st.lists(st.text("ACGT", max_size=13), max_size=5))
def test_rows_are_packed_as_the_plain_code_packs_them(texts):
    wrong, packed, _ = pack(texts)
    assert wrong == -1
    assert packed.tobytes() == b"".join(pack_bases(text).tobytes() for text in texts)


@pytest.mark.parametrize("letter", "NacgtU\0\xff".encode("latin-1"))
@pytest.mark.parametrize("place", [0, 3, 4, 6])
def test_another_symbol_is_found(letter, place):
    at = np.array([0, 4, 11])
    text = np.frombuffer(b"ACGTACGTACG", np.uint8).copy()
    text[4 + place] = letter
    assert pack_rows(at, text, np.array([0, 1]), np.zeros(3, np.uint8)) == 1


@given(st.lists(st.sampled_from(["a" * 32, "b" * 32, "a" * 31 + "b", "c"]), max_size=12), st.booleans())
def test_first_rows(names, collide):
    ids = np.array(names, dtype="S32").view(np.uint64).reshape(len(names), 4)
    hashes = np.zeros(len(names), np.uint64)
    if not collide:
        hash_ids(ids, hashes)
        assert len(set(hashes.tolist())) == len(set(names))
    first_row = np.empty(len(names), np.int64)
    write_first_rows(ids, hashes, np.argsort(hashes, kind="stable"), first_row)
    assert first_row.tolist() == [names.index(name) for name in names]
