"""The record of the pointer's last move: what was in use before, across moves that nobody recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.packages.moves import Move, next_move, read_move, write_move
from genolewm_assets.lewm.packages.pointer import PackageRef

FIRST = PackageRef("2024-01-07", "packages/2024-01-07/aaaaaaaaaaaa", "a" * 64)
SECOND = PackageRef("2025-01-05", "packages/2025-01-05/bbbbbbbbbbbb", "b" * 64)
REBUILT = PackageRef("2025-01-05", "packages/2025-01-05/cccccccccccc", "c" * 64)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_move(tmp_path) is None
    for move in (Move(None, FIRST), Move(FIRST, SECOND)):
        write_move(tmp_path, move)
        assert read_move(tmp_path) == move


@pytest.mark.parametrize(
    ("recorded", "after", "found"),
    [
        (None, FIRST, Move(None, FIRST)),
        (Move(None, FIRST), FIRST, Move(None, FIRST)),
        (Move(None, FIRST), SECOND, Move(FIRST, SECOND)),
        (Move(FIRST, SECOND), SECOND, Move(FIRST, SECOND)),
        (Move(FIRST, SECOND), REBUILT, Move(SECOND, REBUILT)),
        (Move(FIRST, SECOND), FIRST, Move(SECOND, FIRST)),
    ],
    ids=["first", "first again", "next", "next again", "rebuilt", "back"],
)
def test_a_move_begins_where_the_last_one_ended(recorded: Move | None, after: PackageRef, found: Move) -> None:
    assert next_move(recorded, after) == found


def test_a_name_states_both_packages() -> None:
    assert Move(FIRST, SECOND).name == f"2025-01-05.{'b' * 12}_after_2024-01-07.{'a' * 12}"
    assert Move(None, FIRST).name == f"2024-01-07.{'a' * 12}_after_nothing"
    assert Move(SECOND, REBUILT).name != Move(FIRST, REBUILT).name


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"after": None}, "names no package in use"),
        ({"before": "2024-01-07"}, "expected a mapping"),
        ({"before": {}}, "not a reference to a package"),
        ({"more": 1}, "expected before, after"),
    ],
)
def test_another_document_is_refused(tmp_path: Path, change: dict[str, object], problem: str) -> None:
    write_move(tmp_path, Move(FIRST, SECOND))
    path = tmp_path / "packages/current.move.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CorruptResourceError, match=problem):
        read_move(tmp_path)


def test_a_path_that_leads_out_of_the_root_is_refused(tmp_path: Path) -> None:
    write_move(tmp_path, Move(FIRST, SECOND))
    path = tmp_path / "packages/current.move.json"
    path.write_text(path.read_text().replace("packages/2024-01-07", "../2024-01-07"))
    with pytest.raises(CorruptResourceError):
        read_move(tmp_path)
