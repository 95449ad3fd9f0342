"""Documents that can be wrong are checked: generated pages, links, commands, and snippets, which are run."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

from genolewm_assets.cli import app
from genolewm_assets.errors import InputError
from genolewm_assets.sources.corpus.layouts import find_layout
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.mito_world import GNOMAD, MitoWorld
from genolewm_assets_tests.worlds.graph.tiny_world import LINEAR, RELEASES

DOCUMENTS = sorted(
    str(path.relative_to(REPOSITORY))
    for folder, pattern in ((".", "*.md"), ("docs", "**/*.md"), ("deploy", "**/*.md"), ("benchmarks", "*.md"))
    for path in (REPOSITORY / folder).glob(pattern)
)
DECISIONS = sorted((REPOSITORY / "docs" / "decisions").glob("[0-9]*.md"))
#: What a person types after a prompt, or reads in the middle of a sentence.
_TYPED = re.compile(r"^(?:as_genolewm |until |[A-Z_]+=\S+ )?genolewm ((?:\\\n|[^#\n|>&])*)", re.MULTILINE)
_NAMED = re.compile(r"`genolewm ([a-z][^`]*)`")


def read(name: str) -> str:
    return (REPOSITORY / name).read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_data_model_has_every_table_that_is_declared() -> None:
    files = (path.read_text() for path in (REPOSITORY / "genolewm_assets").rglob("*.py"))
    found = (re.findall(r"^[A-Z_]+ = TableSchema\(\s+\"(\w+)\"", text, re.MULTILINE) for text in files)
    declared = [name for names in found for name in names]
    every_table = runpy.run_path(str(REPOSITORY / "docs" / "generated.py"))["EVERY_TABLE"]
    assert sorted(declared) == sorted(table.name for table in every_table)


@each_row("name", DOCUMENTS)
def test_links_lead_to_files(name: str) -> None:
    folder = (REPOSITORY / name).parent
    for link in re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", read(name)):
        assert (folder / link).exists(), link


@pytest.mark.parametrize("layout", ["gene", "text"])
def test_documented_corpus_columns_are_those_that_are_read(layout: str) -> None:
    rows = re.findall(rf"^\| {layout} \| ([^|]*) \| ([^|]*) \|", read("docs/corpus_files.md"), re.MULTILINE)
    columns = {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    schema = pa.schema({name: pa.int64() if "integer" in kind else pa.string() for name, kind in columns.items()})
    found = find_layout(schema, where="documented")
    assert (found.columns(schema), list(found.faults(schema, where="documented"))) == (list(columns), [])
    for required in (name for name, kind in columns.items() if "required" in kind):
        with pytest.raises(InputError, match="not a layout"):
            find_layout(schema.remove(schema.names.index(required)), where="less")


@each_row("name", DOCUMENTS)
def test_commands_and_their_options_exist(name: str) -> None:
    text = read(name)
    typed = [line for block in blocks(text, "bash") for line in _TYPED.findall(block)]
    for line in [*typed, *_NAMED.findall(text)]:
        check_command(line)


@each_row("name", DOCUMENTS)
def test_blocks_are_valid_shell_and_python(name: str) -> None:
    text = read(name)
    for block in blocks(text, "bash"):
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}{block}"
    for block in blocks(text, "python"):
        compile(block, name, "exec")


def check_command(line: str) -> None:
    """Walk down the groups of commands, and look every option up."""
    words = shlex.split(line)
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        if command.invoke_without_command and (not words or words[0] not in command.commands):
            break
        assert words, line
        if words[0] not in command.commands and hasattr(command, "default"):
            words.insert(0, command.default)
        command = command.commands.get(words.pop(0))
    assert isinstance(command, TyperCommand | TyperGroup), line
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options, line


def test_the_index_of_decisions_names_each_by_its_title() -> None:
    listed = re.findall(r"^- \[(\d{4})\]\((.*)\) (.*)$", read("docs/decisions/README.md"), re.MULTILINE)
    written = [(path.name[:4], path.name, path.read_text().partition("\n")[0].removeprefix("# ")) for path in DECISIONS]
    assert listed == written
    numbers = [number for number, *_ in listed]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_context_decision_and_consequence(path: Path) -> None:
    assert re.findall(r"^#+ .*", path.read_text(), re.MULTILINE)[1:] == ["## Context", "## Decision", "## Consequence"]


class DocumentedWorld(MitoWorld):
    """A world with every artefact that a snippet reads, and windows that evaluation finds long enough."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for release in RELEASES:
            records = [record for contig in LINEAR[:2] for record in self.clinvar_records(contig)]
            self.write_clinvar(release, header_date=release, records=records)
        urls = {name: f"gnomad.{name}.vcf.bgz" for name in LINEAR[:2]}
        sources = {name: {"url": url, "release": "4.1", "md5": "published"} for name, url in urls.items()}
        self.edit_catalog(
            gnomad={"sources": {**sources, "chrM": {"url": GNOMAD, "release": "3.1", "md5": "published"}}},
            windows={"profile": "documented", "window_bp": 4_800, "stride_bp": 800},
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> DocumentedWorld:
    world = DocumentedWorld(tmp_path_factory.mktemp("documented") / "world")
    BuiltWorld.build(world)
    return world


@pytest.fixture
def workplace(world: DocumentedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder in which ``data`` is the root, as after ``make demo``."""
    (tmp_path / "data").symlink_to(world.root)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SNIPPETS = [
    pytest.param(snippet, id=f"{name}-{number}")
    for name in DOCUMENTS
    if "tutorials/" not in name  # their snippets run in their order: genolewm_assets_tests/tutorials
    for number, snippet in enumerate(blocks(read(name), "python"))
]


@pytest.mark.nightly
@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippets_run(snippet: str, workplace: Path) -> None:
    exec(compile(snippet, "snippet", "exec"), {"__name__": "snippet"})
