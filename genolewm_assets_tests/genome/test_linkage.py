from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome.linkage import connect

LINKS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=20)


@given(LINKS)
def test_equal_to_flooding_from_every_item(links: list[tuple[int, int]]) -> None:
    group = connect(links)
    assert set(group) == {item for link in links for item in link}
    for item in group:
        reached = {item}
        while more := {b for link in links for a, b in (link, link[::-1]) if a in reached} - reached:
            reached |= more
        assert {other for other in group if group[other] == group[item]} == reached
