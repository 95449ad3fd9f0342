"""The tree: sizes of files and folders, and imports that go through public faces.

A *room* is a package of ``genolewm_assets``; its public face is its ``__init__``, whose names stand in
``__init__.pyi``. The layers of the rooms and the absence of circles are contracts in ``pyproject.toml``.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from genolewm_assets_tests.places import REPOSITORY

PACKAGE = REPOSITORY / "genolewm_assets"
SOURCES = ("genolewm_assets", "genolewm_assets_tests", "benchmarks", "docs")
MAX_LINES, MAX_MODULES = 400, 16


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
    return {dotted(path): path for path in python_files("genolewm_assets")}


def room_of(name: str) -> str:
    """Return the package that a module lies in; a package is its own room."""
    return name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]


@cache
def face_of(room: str) -> set[str] | None:
    """Return the names that a room exports; None where it has no face and its modules are imported by name."""
    stub = modules()[room].with_suffix(".pyi")
    if not stub.exists():
        return None
    return {
        alias.name
        for node in ast.parse(stub.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@cache
def imports(path: Path) -> list[tuple[str, str, int]]:
    """Return what a file imports from the product: module or package, name, line."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return [
        (node.module, alias.name, node.lineno) for node in nodes if node.module in modules() for alias in node.names
    ]


@pytest.mark.parametrize("folder", SOURCES)
def test_files_have_at_most_400_lines(folder: str) -> None:
    lengths = {dotted(path): len(path.read_text().splitlines()) for path in python_files(folder)}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


@pytest.mark.parametrize("folder", SOURCES)
def test_folders_hold_at_most_16_modules(folder: str) -> None:
    counts: dict[Path, int] = defaultdict(int)
    for path in python_files(folder):
        counts[path.parent] += path.name != "__init__.py"
    assert {str(path): count for path, count in counts.items() if count > MAX_MODULES} == {}


def test_nothing_is_imported_past_a_public_face() -> None:
    past = []
    for importer, path in modules().items():
        for source, name, line in imports(path):
            target = f"{source}.{name}" if f"{source}.{name}" in modules() and source in modules() else source
            if face_of(source) is not None and name in face_of(source):
                target = source
            room = room_of(target)
            if target != room and room != room_of(importer) and face_of(room) is not None:
                past.append(f"{path.relative_to(REPOSITORY)}:{line}: {source} import {name}")
    assert past == []


def test_inside_a_room_siblings_import_siblings() -> None:
    own = [
        f"{path.relative_to(REPOSITORY)}:{line}: {source} import {name}"
        for importer, path in modules().items()
        for source, name, line in imports(path)
        if source == room_of(importer) and name in (face_of(source) or ()) and importer != source
    ]
    assert own == []


def documented_names() -> set[str]:
    """Return the words in code spans and blocks of the README and the API page."""
    text = "\n".join((REPOSITORY / name).read_text() for name in ("README.md", "docs/api.md"))
    spans = re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL)
    return set(re.findall(r"\w+", "\n".join(spans)))


@pytest.mark.parametrize("room", sorted(name for name, path in modules().items() if path.with_suffix(".pyi").exists()))
def test_a_face_exports_what_others_import_and_what_is_documented(room: str) -> None:
    face = face_of(room)
    assert face is not None
    others = [path for name, path in modules().items() if room_of(name) != room]
    stubs = [path.with_suffix(".pyi") for path in others if path.with_suffix(".pyi").exists()]
    wanted = {name for path in others for source, name, _ in imports(path) if source == room}
    for stub in stubs:
        parent = dotted(stub.with_suffix(".py"))
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, ast.ImportFrom) and f"{parent}.{node.module}" == room:
                wanted |= {alias.name for alias in node.names}
    assert wanted <= face
    assert face - wanted - documented_names() == set()
