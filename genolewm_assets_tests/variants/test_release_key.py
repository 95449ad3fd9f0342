from __future__ import annotations

import random
from datetime import date
from itertools import pairwise

import pytest

from genolewm_assets.errors import InputError
from genolewm_assets.variants.release_key import ReleaseKey, in_order, is_before, is_release_key

KEYS = ["2026-02-25.3", "2026-02-26", *(f"2026-02-26.{number}" for number in range(2, 13)), "2026-03-05"]


def test_text_and_value_are_one() -> None:
    assert ReleaseKey.parse("2026-02-26") == ReleaseKey(date(2026, 2, 26))
    assert ReleaseKey.parse("2026-02-26.10") == ReleaseKey(date(2026, 2, 26), 10)
    assert [str(ReleaseKey.parse(text)) for text in KEYS] == KEYS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "20260226",
        "2026-W09-4",
        "2026-02-30",
        "2026-02-26.",
        "2026-02-26.0",
        "2026-02-26.1",
        "2026-02-26.02",
        "2026-02-26.2.2",
        "2026-02-26.1000000",
        "2026-02-26.x",
        "2026-02-26\n",
        " 2026-02-26",
        "२०२६-०२-२६",
        "../2026-02-26",
    ],
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(InputError, match="not a release key: expected an ISO date such as"):
        ReleaseKey.parse(text)
    assert not is_release_key(text)
    assert not is_before(text, "2027-01-01")
    assert not is_before("2020-01-01", text)


def test_order_is_by_day_and_number() -> None:
    shuffled = random.Random(0).sample([*KEYS, "bin", "2026-02-26.old"], len(KEYS) + 2)
    assert in_order(shuffled) == KEYS
    assert all(is_before(key, later) and not is_before(later, key) for key, later in pairwise(KEYS))
    assert not is_before(KEYS[0], KEYS[0])
