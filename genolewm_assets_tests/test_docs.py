"""Documents that can be wrong are checked: the generated data model, and what the README tells people to run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def test_data_model_is_the_one_made_from_the_schemas() -> None:
    render = runpy.run_path(str(REPOSITORY / "docs" / "build.py"))["render"]
    assert (REPOSITORY / "docs" / "data_model.md").read_text() == render(), "run: make docs"


def test_data_model_has_every_table_that_is_declared() -> None:
    files = (path.read_text() for path in (REPOSITORY / "genolewm_assets").rglob("*.py"))
    declared = [
        name for text in files for name in re.findall(r"^[A-Z_]+ = TableSchema\(\s+\"(\w+)\"", text, re.MULTILINE)
    ]
    every_table = runpy.run_path(str(REPOSITORY / "docs" / "build.py"))["EVERY_TABLE"]
    assert sorted(declared) == sorted(table.name for table in every_table)


def test_readme_names_only_files_and_targets_that_exist() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", readme):
        assert (REPOSITORY / link).exists(), link
