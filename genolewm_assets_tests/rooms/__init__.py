"""Rooms of the product, and the tests of a room and of the rooms above it.

A *room* is a package of ``genolewm_assets``, named by its path below it: ``store``, ``defs/engines``. The modules
directly in it are the room ``top``. Above a room are the rooms that import it, directly or through others.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from genolewm_assets_tests.places import REPOSITORY

TOP = "top"
PRODUCT, TESTS = "genolewm_assets", "genolewm_assets_tests"


def python_files(*folders: str) -> list[Path]:
    """Return the Python files below some folders of the repository."""
    return sorted(path for folder in folders for path in (REPOSITORY / folder).rglob("*.py"))


def dotted(path: Path) -> str:
    """Return the name by which a file is imported."""
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Return the modules and packages of the product by dotted name."""
    return {dotted(path): path for path in python_files(PRODUCT)}


def package_of(name: str) -> str:
    """Return the package that a module lies in; a package is its own."""
    return name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]


@cache
def face_of(package: str) -> dict[str, str] | None:
    """Return what a package exports: name, and where it is from; None if its modules are imported by name."""
    stub = modules()[package].with_suffix(".pyi")
    if not stub.exists():
        return None
    nodes = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: f"{package}.{node.module or alias.name}" for node in nodes for alias in node.names}


@cache
def imports(path: Path) -> list[tuple[str, str, int]]:
    """Return what a file imports from the product: module or package, name, line."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return [
        (node.module, alias.name, node.lineno) for node in nodes if node.module in modules() for alias in node.names
    ]


def room_of(name: str) -> str:
    """Return the room of a module."""
    return package_of(name).removeprefix(PRODUCT).lstrip(".").replace(".", "/") or TOP


@cache
def rooms() -> list[str]:
    """Return all rooms."""
    return sorted({room_of(name) for name in modules()})


@cache
def _above() -> dict[str, set[str]]:
    """Return the rooms above each; a module of ``top`` stands for itself, as they are above and below all others."""

    def place(name: str) -> str:
        return name if room_of(name) == TOP else room_of(name)

    above: dict[str, set[str]] = {place(name): set() for name in modules()}
    for importer, path in modules().items():
        sources = {
            f"{source}.{name}" if f"{source}.{name}" in modules() else source for source, name, _ in imports(path)
        }
        for source in sources | set((face_of(importer) or {}).values()):
            above[place(source)].add(place(importer))
    for middle, further in above.items():
        for others in above.values():
            others.update(further if middle in others else ())
    return above


def _holds_tests(path: Path) -> bool:
    return path.match("test_*.py") or next(path.rglob("test_*.py"), None) is not None


def own_tests(room: str, repository: Path = REPOSITORY) -> list[Path]:
    """Return the test modules and folders of a room, without sub-rooms; where it has none, of the room around it."""
    tests = repository / TESTS
    folder = tests / ("" if room == TOP else room)
    while not _holds_tests(folder):
        folder = folder.parent
    inside = sorted(filter(_holds_tests, folder.iterdir()))
    if folder == tests:
        own = [path for path in inside if path.is_file()]
    else:
        own = [path for path in inside if path.relative_to(tests).as_posix() not in rooms()]
    return [path.relative_to(repository) for path in ([folder] if own == inside else own)]


def tests_of(wanted: Sequence[str], repository: Path = REPOSITORY) -> list[Path]:
    """Return the tests of rooms and their sub-rooms, of the rooms above, lowest first, and of the whole product."""
    if unknown := sorted(set(wanted) - set(rooms())):
        raise ValueError(f"{unknown[0]!r} is no room of the product: expected one of {', '.join(rooms())}")
    outer = [room for room in wanted if not any(room.startswith(f"{other}/") for other in wanted)]
    inside = [room for room in rooms() if any(f"{room}/".startswith(f"{one}/") for one in outer)]
    places = {place for place in _above() if place in inside or (TOP in inside and place not in rooms())}
    above = set().union(*(_above()[place] for place in places)) - places
    others = sorted(above & set(rooms()), key=lambda room: (-len(_above()[room]), room))
    paths = [Path(TESTS, room) for room in outer if room != TOP and _holds_tests(repository / TESTS / room)]
    for room in [*inside, *others, *([TOP] if above - set(rooms()) else [])]:
        paths += own_tests(room, repository)
    folders = sorted(path for path in (repository / TESTS).iterdir() if path.is_dir() and path.name not in rooms())
    paths += [path.relative_to(repository) for path in folders if _holds_tests(path)]
    return [path for at, path in enumerate(paths) if not {path, *path.parents} & set(paths[:at])]
