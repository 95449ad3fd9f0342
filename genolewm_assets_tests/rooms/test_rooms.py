"""Rooms and their tests, and the mutants that are drawn for each room."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from genolewm_assets_tests import rooms as house
from genolewm_assets_tests.kinds import kind_of
from genolewm_assets_tests.mutants.drawing import draw
from genolewm_assets_tests.places import REPOSITORY


def modules_below(*paths: Path) -> set[Path]:
    """Return the test modules that pytest finds below some paths."""
    files = [file for path in paths for file in [REPOSITORY / path, *(REPOSITORY / path).rglob("*.py")]]
    return {file for file in files if file.match("test_*.py")}


def test_rooms_that_import_a_room_are_above_it() -> None:
    paths, genome = house.tests_of(["genome"]), "genolewm_assets.genome"
    importers = {name for name, path in house.modules().items() if any(one[0] == genome for one in house.imports(path))}
    above = {house.room_of(name) for name in importers}
    assert above > {"variants", "edits", "mito/genomes", "defs/assets"}
    assert paths[0] == Path(house.TESTS, "genome")
    assert {path for room in above for path in house.own_tests(room)} <= set(paths)
    assert Path(house.TESTS, "store/locks") not in paths


def test_lower_rooms_come_first_and_the_whole_product_last() -> None:
    order = ["store/files", "store/artefacts", "variants", "edits", "defs/runtime", "test_cli.py", "crash", "live"]
    paths = [path.relative_to(house.TESTS).as_posix() for path in house.tests_of(["store/files"])]
    assert [path for path in paths if path in order] == order


def test_every_test_is_named_once() -> None:
    assert modules_below(*house.tests_of(house.rooms())) == modules_below(Path(house.TESTS))
    for wanted in [*([room] for room in house.rooms()), ["store/files", "store"], ["store", "store/files"]]:
        paths = house.tests_of(wanted)
        assert len(set(paths)) == len(paths) > 0
        assert not [path for path in paths if set(path.parents) & set(paths)], wanted


def test_an_unknown_room_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"^'genomes' is no room of the product: expected one of audit, .*, windows/reference$"
    ):
        house.tests_of(["genome", "genomes"])


def test_a_seed_draws_mutants_of_every_room() -> None:
    rooms = {room.partition("/")[0] for room in house.rooms()} - {"lewm"}
    mutants = draw(17, len(rooms))
    assert draw(17, len(rooms) + 5)[: len(mutants)] == mutants != draw(18, len(mutants))
    assert {one.room.partition("/")[0] for one in mutants} == rooms


def test_a_mutant_is_the_source_with_one_fault() -> None:
    for mutant in draw(5, 60):
        source, start, end = mutant.source(), mutant.start, mutant.start + len(mutant.before.encode())
        faulty = mutant.applied(source)
        assert source[start:end] == mutant.before.encode(), mutant
        assert faulty == source[:start] + mutant.after.encode() + source[end:], mutant
        assert ast.dump(ast.parse(faulty)) != ast.dump(ast.parse(source)), mutant
        assert mutant.applied(b"# A line more.\n" + source) == b"# A line more.\n" + faulty


def test_a_mark_decides_the_kind_of_a_test() -> None:
    marked = SimpleNamespace(
        iter_markers=lambda: [pytest.mark.nightly.mark, pytest.mark.model.mark], path=Path(__file__)
    )
    assert kind_of(cast("pytest.Item", marked)) == "model"
