"""Connected components of a set of pairs (single linkage)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


def connect(links: Iterable[tuple[Item, Item]]) -> dict[Item, Item]:
    """Group items into the connected components of a set of pairs.

    Returns
    -------
    dict
        Maps every item that occurs in a pair to one item of its component, the same for all items of the component.

    Examples
    --------
    >>> groups = connect([(1, 2), (3, 2), (4, 5)])
    >>> groups[1] == groups[3] != groups[4]
    True
    """
    parent: dict[Item, Item] = {}

    def find(item: Item) -> Item:
        while parent.setdefault(item, item) != item:
            parent[item] = item = parent[parent[item]]
        return item

    for one, other in links:
        parent[find(one)] = find(other)
    return {item: find(item) for item in list(parent)}
