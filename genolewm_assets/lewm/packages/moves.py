"""Record of the last move of the pointer: the package that ``packages/current`` reported, and the one before.

::

    <root>/packages/current.move.json    the package that packages/current reported last, and the one before it

``genolewm package pin`` moves the pointer without this record; the next materialisation of ``packages/current``
compares with the package that it reported last, so that no move is left out and none is reported twice.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.lewm.packages.pointer import PACKAGES, PackageRef, parse_ref, read_mapping, write_document

MOVE_FILE = "current.move.json"

_REMEDY = "Materialise packages/current, which writes it again: its report then has no package before"


@dataclass(frozen=True, slots=True)
class Move:
    """A move of the pointer: the package in use, and the one before it; None if none is recorded."""

    before: PackageRef | None
    after: PackageRef

    @property
    def name(self) -> str:
        """Name of the move for files: release and manifest of both packages."""
        ends = [f"{ref.release}.{ref.manifest_sha256[:12]}" if ref else "nothing" for ref in (self.before, self.after)]
        return f"{ends[1]}_after_{ends[0]}"


def read_move(root: Path) -> Move | None:
    """Return the last move that was recorded, or None.

    Raises
    ------
    CorruptResourceError
        If the record cannot be read.
    """
    path = root / PACKAGES / MOVE_FILE
    try:
        document = read_mapping(path, "no move is recorded", _REMEDY)
    except MissingResourceError:
        return None
    if set(document) != {"before", "after"}:
        raise CorruptResourceError(
            str(path), "not a record", expected="before, after", got=", ".join(sorted(document)), remedy=_REMEDY
        )
    before, after = (_parse(document[name], path) for name in ("before", "after"))
    if after is None:
        raise CorruptResourceError(str(path), "names no package in use", remedy=_REMEDY)
    return Move(before, after)


def write_move(root: Path, move: Move) -> None:
    """Record a move as the last one."""
    ends = {"before": None if move.before is None else asdict(move.before), "after": asdict(move.after)}
    write_document(root / PACKAGES / MOVE_FILE, ends)


def next_move(recorded: Move | None, after: PackageRef) -> Move:
    """Return the move that leads to a package: the recorded one if it does, else the one from where that led."""
    if recorded is None:
        return Move(None, after)
    return recorded if recorded.after == after else Move(recorded.after, after)


def _parse(value: object, path: Path) -> PackageRef | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise CorruptResourceError(
            str(path), "not a record", expected="a mapping", got=type(value).__name__, remedy=_REMEDY
        )
    return parse_ref(value, path, _REMEDY)
