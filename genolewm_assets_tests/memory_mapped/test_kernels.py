from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.memory_mapped.kernels import hash_ids, write_first_rows


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
