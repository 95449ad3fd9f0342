"""Assign genomes to the main branches of the mitochondrial tree, which is enough to keep relatives in one split.

The table has the states that define them, relative to rCRS (PhyloTree Build 17; van Oven & Kayser 2009). It has no
leaves; for full haplogroups, state Haplogrep's labels in the collection.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from genolewm_assets.mito.genomes.differences import Difference

_RCRS_MD5 = "c68f52674c9fb33aef52dcf399755519"
#: Least share of a branch's states that a genome must have. It is below 1, because back mutations are common.
_MIN_SHARE = 0.75
_STATE = re.compile(r"(\d+)(?:-(\d+))?([ACGTd])")
_MAJOR = re.compile(r"L[0-9]|[A-Z]")


class _Branch(NamedTuple):
    """A branch of the tree: defining states (first and last position, 1-based, and base or ``d``) and its branches."""

    name: str
    states: tuple[tuple[int, int, str], ...]
    branches: tuple[_Branch, ...]


def _branch(name: str, states: str, *branches: _Branch) -> _Branch:
    return _Branch(name, tuple(map(_state, states.split())), branches)


def _state(text: str) -> tuple[int, int, str]:
    """Parse a state such as ``16189C``: first and last position, 1-based, and the base, or ``d`` for a deletion."""
    if (match := _STATE.fullmatch(text)) is None:
        raise ValueError(f"state of a branch: expected such as 8281-8289d or 16189C, got {text!r}")
    return int(match[1]), int(match[2] or match[1]), match[3]


# H and V also list states of the branches above them, so that one back mutation there does not prevent the call.
_R = _branch(
    "R",
    "12705C",
    _branch("B", "8281-8289d 16189C"),
    _branch("R9", "3970T 13928C 16304C", _branch("F", "249d 6392C 10310A")),
    _branch(
        "JT",
        "4216C 11251G 15452A 16126C",
        _branch("J", "295T 12612G 13708A 16069T"),
        _branch("T", "709A 1888A 4917G 8697A 10463C 13368A 14905A 15607G 15928A 16294T"),
    ),
    _branch("U", "11467G 12308G 12372A", _branch("K", "3480G 9055A 10550G 11299C 14798C 16224C 16311C")),
    _branch("R0", "73A 11719G", _branch("HV", "14766C")),
    _branch("H", "2706A 7028C 11719G 14766C"),
    _branch("V", "4580A 11719G 14766C 15904T 16298C"),
)
_N = _branch(
    "N",
    "8701A 9540T 10398A 10873T 15301G",
    _branch("A", "235G 663G 1736G 4248C 4824G 8794T 16290T 16319A"),
    _branch("I", "4529T 10034C 15924G 16391A"),
    _branch("W", "1243C 3505G 5460A 8251A 8994A 11947G 15884C 16292T"),
    _branch("X", "6221C 6371T 13966G 14470C 16189C 16278T"),
    _branch("Y", "8392A 14178C 14693G 16126C 16231C"),
    _R,
)
_M = _branch(
    "M",
    "489C 10400T 14783C 15043A",
    _branch("D", "4883T 5178A 16362C"),
    _branch("E", "3027C 3705A 7598A 13626T 16390A"),
    _branch("G", "4833G 5108C 16362C"),
    _branch("M7", "6455T 9824C"),
    _branch(
        "M8",
        "4715G 7196A 8584A 15487T 16298C",
        _branch("C", "3552A 9545G 11914A 13263G 14318C 16327T"),
        _branch("Z", "6752G 9090C 15784C 16185T 16260T"),
    ),
    _branch("Q", "4117C 5843G 8790A 12940A 16241G"),
)
_ROOT = _branch(
    "L",
    "",
    _branch("L0", "1048T 3516A 5442C 6185C 9042T 9347G 10589A 12007A 12720G"),
    _branch("L1", "3666A 7055G 7389C 13789C 14178C 14560A"),
    _branch("L2", "2416C 8206A 9221G 10115C 13590A 16390A"),
    _branch("L5", "3423C 7972G 12432T 12950G"),
    _branch("L3", "769G 1018G 3594C 7256C 13650C", _M, _N),
)


def is_rcrs(reference: str) -> bool:
    """Return whether a reference, upper case, is rCRS (NC_012920.1), the only reference with known branch states."""
    return hashlib.md5(reference.encode("ascii"), usedforsecurity=False).hexdigest() == _RCRS_MD5


def call_branch(differences: Iterable[Difference], rcrs: str) -> str:
    """Return the deepest branch that a genome belongs to, such as ``L2``, ``M7`` or ``H``; ``L`` for the root.

    From each branch, the search continues with the sub-branch of which the genome has the largest share of states, at
    least 75 %, without ambiguous bases.
    """
    replaced = {
        position: difference.bases or "d"
        for difference in differences
        for position in range(difference.start + 1, difference.end + 1)
    }

    def has(first: int, last: int, state: str) -> bool | None:
        found = {replaced.get(position, rcrs[position - 1]) for position in range(first, last + 1)}
        return None if found.isdisjoint("ACGTd") else found == {state}

    def share(branch: _Branch) -> float:
        known = [seen for state in branch.states if (seen := has(*state)) is not None]
        return sum(known) / len(known) if known else 0.0

    here = _ROOT
    while reached := [branch for branch in here.branches if share(branch) >= _MIN_SHARE]:
        here = max(reached, key=lambda branch: (share(branch), len(branch.states)))
    return here.name


def majors(haplogroups: Sequence[str | None]) -> list[str | None]:
    """Return the letter at the start of each haplogroup's name (L with its digit); None for a missing haplogroup.

    Examples
    --------
    >>> majors(["H2a2a1", "L3e1", "M7b", None])
    ['H', 'L3', 'M', None]
    """
    return [match[0] if name and (match := _MAJOR.match(name)) else None for name in haplogroups]
