from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.sources.files.md5 import Md5State, ResumableMd5


@given(st.lists(st.binary(max_size=200), max_size=6), st.integers(0, 3) | st.just(20_000))
def test_pieces_with_the_state_saved_between_them_give_what_hashlib_gives(pieces: list[bytes], more: int) -> None:
    pieces.append(bytes(range(256)) * more)
    state = Md5State()
    for piece in pieces:
        digest = ResumableMd5(Md5State(**json.loads(json.dumps(asdict(state)))))
        digest.update(piece)
        state = digest.state
    assert ResumableMd5(state).hexdigest() == hashlib.md5(b"".join(pieces)).hexdigest()
