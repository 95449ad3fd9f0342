"""Every run-time dependency is declared, and every declared one is used."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from genolewm_assets_tests.places import REPOSITORY

#: Imported, though not declared: they are part of another one.
PARTS = {"pydantic-core": "pydantic", "dagster-pipes": "dagster"}

#: Packages of extras that the code imports where they are installed, and asks for where they are not.
OPTIONAL = {
    "dagster_ray": ("ray", "dagster-ray"),
    "dagster_k8s": ("deploy", "dagster-k8s"),
}


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
