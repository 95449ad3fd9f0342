"""The command ``genolewm status``: a root in one screen, or partition by partition."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from genolewm_assets.artefact_commands import CatalogOption, JsonOption, RootOption
from genolewm_assets.console import out
from genolewm_assets.errors import ResourceError
from genolewm_assets.launch import enter_environment, environment_of
from genolewm_assets.run_databases import described

if TYPE_CHECKING:
    from genolewm_assets.defs.status import Section, Status

PartitionsOption = Annotated[
    bool,
    typer.Option(
        "--partitions",
        help="Compare each partition with what a build of now would read, with one small request per remote file.",
    ),
]

#: Columns of the page where the output is no terminal, and at most.
_COLUMNS = 100
#: Times that a history is read that another process changes meanwhile.
_ATTEMPTS = 3


def status(
    root: RootOption = Path("data"),
    catalog: CatalogOption = "sample",
    *,
    partitions: PartitionsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print releases, what is failed, late or waiting and why, what moved since yesterday, sizes, hours and costs.

    Reads the root and Dagster's history, without a server; nothing is written, downloaded or read in full. Exit code: 0
    if all is well, 4 if something is failed, late, stale or unreadable. What is missing, waits or runs is no reason.

    With `--partitions`: one line per partition, current, stale (with each difference), not compared (with the reason)
    or not built; exit code 4 if one is stale or not compared.

    Example: `genolewm status --catalog sample --root data`
    """
    (_print_partitions if partitions else _print_page)(root, catalog, as_json=as_json)


def _print_page(root: Path, catalog: str, *, as_json: bool) -> None:
    from genolewm_assets.store.artefacts import Root

    folder = Root(root).path
    # Dagster's folder is made at the first start, before anything is built.
    if not folder.is_dir() or {path.name for path in folder.iterdir()} - {"dagster"}:
        Root(root).check_is_root()
    os.environ.update(environment_of(root, catalog) | _named_home())
    found = _read(folder, catalog)
    if as_json:
        out.print_json(json.dumps(found.as_json()))
    else:
        # Of itself a console without a terminal has 80 columns.
        Console(width=min(out.width, _COLUMNS) if out.is_terminal else _COLUMNS).print(_page(found))
    if not found.is_well:
        raise typer.Exit(4)


def _named_home() -> dict[str, str]:
    """Return ``DAGSTER_HOME`` of a shared installation, whose ``dagster.yaml`` names a database; empty elsewhere."""
    from genolewm_assets.defs.read_only_instance import stated_storage

    home = os.environ.get("DAGSTER_HOME")
    return {"DAGSTER_HOME": home} if home and stated_storage(Path(home)) else {}


def _read(folder: Path, catalog: str) -> Status:
    from sqlalchemy.exc import SQLAlchemyError

    from genolewm_assets.defs.assets import PUBLISHING
    from genolewm_assets.defs.read_only_instance import open_read_only
    from genolewm_assets.defs.runtime import Workspace
    from genolewm_assets.defs.status import read_status
    from genolewm_assets.sources.catalog import load_catalog
    from genolewm_assets.store.artefacts import ROOT_FILE, Root

    loaded, home = load_catalog(catalog), Path(os.environ["DAGSTER_HOME"])
    if (folder / ROOT_FILE).is_file():
        Root(folder).claim(loaded.name, loaded.genome_digest)
    workspace = Workspace(Root(folder), loaded, surveyed=True)
    for attempt in range(_ATTEMPTS):
        try:
            if (instance := open_read_only(home)) is None:
                return read_status(workspace, None, PUBLISHING)
            with instance:
                return read_status(workspace, instance, PUBLISHING)
        except SQLAlchemyError as err:
            if attempt + 1 < _ATTEMPTS:
                continue
            problem = " ".join(str(getattr(err, "orig", err)).split())
            raise described(home, err) or ResourceError(
                str(home), f"the history of runs cannot be read ({problem})", remedy="Check that its server answers"
            ) from err
    raise AssertionError


def _page(found: Status) -> Group:
    from genolewm_assets.defs.status import headline, sections

    parts = [Text(headline(found), style="bold" if found.is_well else "bold red")]
    if found.note:
        parts.append(Text(found.note))
    return Group(*parts, *(part for section in sections(found) for part in _printed(section)))


def _printed(section: Section) -> list[Text | Table]:
    """Return title, rows and note of a section; the last column takes what room there is, over several lines."""
    table, last = Table.grid(padding=(0, 2), expand=True), len(section.rows[0]) - 1
    for column in range(last):
        table.add_column(no_wrap=True, overflow="ellipsis", style="red" if section.is_alarming and not column else "")
    table.add_column(ratio=1, overflow="fold")
    for first, *cells in section.rows:
        table.add_row(Text(f"  {first}"), *map(Text, cells))
    more = [Text(f"  {section.more}")] if section.more else []
    return [Text(section.title, style="bold"), table, *more]


def _print_partitions(root: Path, catalog: str, *, as_json: bool) -> None:
    from genolewm_assets.store.artefacts import Root

    Root(root).check_is_root()
    enter_environment(root, catalog)
    from genolewm_assets.defs.operations import survey_root
    from genolewm_assets.defs.runtime import Workspace

    found = list(survey_root(Workspace.open(root, catalog)))
    if as_json:
        out.print_json(json.dumps([each.as_json() for each in found]))
    else:
        for each in found:
            out.print(each.line(), markup=False, highlight=False, soft_wrap=True)
        counts = Counter(each.state for each in found)
        summary = ", ".join(f"{number} {state}" for state, number in counts.items())
        out.print(f"{len(found)} partitions: {summary}", markup=False, highlight=False, soft_wrap=True)
    if any(each.state in {"stale", "not compared"} for each in found):
        raise typer.Exit(4)
