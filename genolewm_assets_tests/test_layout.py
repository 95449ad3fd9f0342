"""The tree: sizes of files and folders, imports through public faces, and declared run-time dependencies."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from genolewm_assets_tests.conftest import FIRST
from genolewm_assets_tests.places import REPOSITORY, TESTS
from genolewm_assets_tests.rooms import dotted, face_of, imports, modules, package_of, python_files
from genolewm_assets_tests.rows import each_row

SOURCES = ("genolewm_assets", "genolewm_assets_tests", "benchmarks", "docs")
MAX_LINES, MAX_MODULES = 400, 16


@each_row("folder", SOURCES)
def test_files_have_at_most_400_lines(folder: str) -> None:
    lengths = {dotted(path): len(path.read_text().splitlines()) for path in python_files(folder)}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


@each_row("folder", SOURCES)
def test_folders_hold_at_most_16_modules(folder: str) -> None:
    counts: dict[Path, int] = defaultdict(int)
    for path in python_files(folder):
        counts[path.parent] += path.name != "__init__.py"
    assert {str(path): count for path, count in counts.items() if count > MAX_MODULES} == {}


def test_what_is_begun_first_exists() -> None:
    assert [name for name in FIRST if not (TESTS / name).exists()] == []


def room_of(module: str) -> str:
    """Return the package of a module or, if that has no face of its own, the one above."""
    package = package_of(module)
    return package.rpartition(".")[0] if face_of(package) is None and "." in package else package


def test_nothing_is_imported_past_a_public_face() -> None:
    past = []
    for importer, path in modules().items():
        for source, name, line in imports(path):
            target = f"{source}.{name}" if f"{source}.{name}" in modules() and source in modules() else source
            if face_of(source) is not None and name in face_of(source):
                target = source
            room = package_of(target)
            if target != room and room != room_of(importer) and face_of(room) is not None:
                past.append(f"{path.relative_to(REPOSITORY)}:{line}: {source} import {name}")
    assert past == []


def test_inside_a_room_siblings_import_siblings() -> None:
    own = [
        f"{path.relative_to(REPOSITORY)}:{line}: {source} import {name}"
        for importer, path in modules().items()
        for source, name, line in imports(path)
        if source == package_of(importer) and name in (face_of(source) or ()) and importer != source
    ]
    assert own == []


def test_nothing_but_the_command_publishes() -> None:
    importers = {
        name
        for name, path in modules().items()
        for source, *_ in imports(path)
        if source.startswith("genolewm_assets.publishing")
    }
    assert {name for name in importers if not name.startswith("genolewm_assets.publishing")} == {"genolewm_assets.cli"}


def documented_names() -> set[str]:
    """Return the words in code spans and blocks of the README and of what shows names of Python."""
    pages = (
        "README.md",
        "docs/train.md",
        "docs/tables.md",
        *sorted(str(path) for path in REPOSITORY.glob("docs/api/*.md")),
    )
    text = "\n".join((REPOSITORY / name).read_text() for name in pages)
    spans = re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL)
    return set(re.findall(r"\w+", "\n".join(spans)))


@each_row("room", sorted(name for name, path in modules().items() if path.with_suffix(".pyi").exists()))
def test_a_face_exports_what_others_import_and_what_is_documented(room: str) -> None:
    face = face_of(room)
    assert face is not None
    others = [other for other in modules() if package_of(other) != room]
    wanted = {name for other in others for source, name, _ in imports(modules()[other]) if source == room}
    for other in others:
        wanted |= {name for name, source in (face_of(other) or {}).items() if source == room}
    assert wanted <= face.keys()
    assert face.keys() - wanted - documented_names() == set()


#: Imported, though not declared: they are part of another one.
PARTS = {"pydantic-core": "pydantic", "dagster-pipes": "dagster"}
#: Packages of extras that the code imports where they are installed, and asks for where they are not.
OPTIONAL = {"dagster_ray": ("ray", "dagster-ray"), "dagster_k8s": ("deploy", "dagster-k8s")}


def imported_names(file: Path) -> Iterator[str]:
    """Yield the top-level names that a module imports, wherever it does."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_imports_and_declarations_agree() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for name, (extra, distribution) in OPTIONAL.items():
        assert any(text.startswith(distribution) for text in project["optional-dependencies"][extra]), name
    declared = {re.split(r"[<>=!~;\[ ]", text)[0].replace("_", "-") for text in project["dependencies"]}
    names = {name for file in (REPOSITORY / "genolewm_assets").rglob("*.py") for name in imported_names(file)}
    # Type checkers alone know _typeshed.
    assert names >= OPTIONAL.keys()
    outside = names - sys.stdlib_module_names - {"genolewm_assets", "_typeshed"} - OPTIONAL.keys()
    distributions = packages_distributions()
    found = {distributions[name][0].lower().replace("_", "-") for name in outside}
    assert {PARTS.get(name, name) for name in found} == declared
