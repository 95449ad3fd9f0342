"""Commands ``genolewm status``, ``releases`` and ``release dismiss``: what a root holds, and what became of it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from genolewm_assets.artefact_commands import CatalogOption, JsonOption, RootOption
from genolewm_assets.console import ConsoleProgress, SafeConsole, err, out
from genolewm_assets.defs.run_databases import described
from genolewm_assets.errors import GenoLeWMError, ResourceError, counted
from genolewm_assets.launch import enter_environment, environment_of

if TYPE_CHECKING:
    from genolewm_assets.defs.status import Section, Status

release_app = typer.Typer(help="One ClinVar release.", no_args_is_help=True)

_Found = TypeVar("_Found")

PartitionsOption = Annotated[
    bool,
    typer.Option(
        "--partitions",
        help="Print one line per partition: current, stale (with each difference), not compared (why) or not built.",
    ),
]

#: Columns of the page where the output is no terminal, and at most.
_COLUMNS = 100
#: Reasons for exit code 4 that are of runs, releases and files and not of partitions.
_FURTHER = frozenset({"failed", "late", "unreadable"})
#: Times that a history is read that another process changes meanwhile.
_ATTEMPTS = 3


def status(
    root: RootOption = Path("data"),
    catalog: CatalogOption = "sample",
    *,
    partitions: PartitionsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print releases, what is failed, late, stale or waiting and why, what moved since yesterday, sizes, hours, costs.

    Reads the root and Dagster's history, without a server. Each partition is compared with what a build of now would
    read: one small request per remote file; a local file is read only if its time changed since it was last read, and
    its digest recorded. Nothing else is written. Exit code: 0 if all is well, 4 if something is failed, late, stale,
    not compared or unreadable. What is missing, waits or runs is no reason.

    With `--partitions`: the same comparison and exit code, one line per partition.

    Example: `genolewm status --catalog sample --root data`
    """
    from genolewm_assets.defs.assets import PUBLISHING
    from genolewm_assets.defs.status import read_status

    found = _read(root, catalog, lambda workspace, instance: read_status(workspace, instance, PUBLISHING))
    if as_json:
        out.print_json(json.dumps([each.as_json() for each in found.partitions] if partitions else found.as_json()))
    elif partitions:
        _print_partitions(found)
    else:
        # Of itself a console without a terminal has 80 columns.
        SafeConsole(width=min(out.width, _COLUMNS) if out.is_terminal else _COLUMNS).print(_page(found))
    if not found.is_well:
        raise typer.Exit(4)


def releases(
    root: RootOption = Path("data"), catalog: CatalogOption = "sample", *, as_json: JsonOption = False
) -> None:
    """Print every ClinVar release of a root, newest first: served, built, refused or offered, why, and changes.

    Example: `genolewm releases --catalog sample --root data`
    """
    from genolewm_assets.defs.status import read_release_table

    rows = _read(root, catalog, lambda workspace, instance: read_release_table(workspace, instance, limit=None))
    if as_json:
        out.print_json(json.dumps([row.as_json() for row in rows]))
        return
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for row in rows:
        facts = [row.changes(), row.why, f"run {row.run_id}" if row.run_id else ""]
        table.add_row(Text(row.release), Text(row.state), Text("; ".join(filter(None, facts))))
    out.print(table if rows else "no release is known: genolewm ui finds them")


@release_app.command("dismiss")
def dismiss(
    release: Annotated[str, typer.Argument(help="Key of a refused release, such as 2026-02-28.")],
    root: RootOption = Path("data"),
    catalog: CatalogOption = "sample",
    *,
    as_json: JsonOption = False,
) -> None:
    """End the failures of a refused release: its checks and partitions are no longer red in the UI.

    Nothing is built, published or deleted, and `genolewm releases` still tells that it was refused. Failures of a
    release that is older than the one in use end by themselves. The job `dismiss_release` does the same from the UI.

    Example: `genolewm release dismiss 2026-02-28 --root data`
    """
    enter_environment(root, catalog)
    from genolewm_assets.definitions import defs
    from genolewm_assets.defs.operations import run_dismissal

    ended = run_dismissal(defs, release)
    if as_json:
        out.print_json(json.dumps(ended))
    for line in () if as_json else ended:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def add_status_commands(app: typer.Typer) -> None:
    """Add the commands of this module to an application."""
    app.command("status")(status)
    app.command("releases")(releases)
    app.add_typer(release_app, name="release")


def _read(root: Path, catalog: str, read: Callable[..., _Found]) -> _Found:
    """Return what a function reads of a workspace and its Dagster instance (None: no history); neither is changed."""
    from genolewm_assets.store.artefacts import Root

    folder = Root(root).path
    # Dagster's folder is made at the first start, before anything is built.
    if not folder.is_dir() or {path.name for path in folder.iterdir()} - {"dagster"}:
        Root(root).check_is_root()
    os.environ.update(environment_of(root, catalog) | _named_home())
    with ConsoleProgress(err) as progress:
        return _read_steadily(folder, catalog, progress, read)


def _named_home() -> dict[str, str]:
    """Return ``DAGSTER_HOME`` of a shared installation, whose ``dagster.yaml`` names a database; empty elsewhere."""
    from genolewm_assets.defs.read_only_instance import stated_storage

    home = os.environ.get("DAGSTER_HOME")
    return {"DAGSTER_HOME": home} if home and stated_storage(Path(home)) else {}


def _read_steadily(folder: Path, catalog: str, progress: ConsoleProgress, read: Callable[..., _Found]) -> _Found:
    """Read again where another process wrote to the history meanwhile."""
    from sqlalchemy.exc import SQLAlchemyError

    from genolewm_assets.defs.read_only_instance import open_read_only, stated_storage
    from genolewm_assets.defs.runtime import Workspace, configured_encoder, replace_encoder
    from genolewm_assets.sources.catalog import load_catalog
    from genolewm_assets.store.artefacts import ROOT_FILE, Root

    loaded, home = replace_encoder(load_catalog(catalog), **configured_encoder()), Path(os.environ["DAGSTER_HOME"])
    if (folder / ROOT_FILE).is_file():
        Root(folder).claim(loaded.name, loaded.genome_digest)
    workspace = Workspace(Root(folder), loaded, surveyed=True, progress=progress)
    for attempt in range(_ATTEMPTS):
        try:
            if (instance := open_read_only(home)) is None:
                return read(workspace, None)
            with instance:
                return read(workspace, instance)
        except Exception as error:
            is_query = isinstance(error, SQLAlchemyError)
            if is_query and attempt + 1 < _ATTEMPTS:
                continue
            if not isinstance(error, GenoLeWMError) and not stated_storage(home) and (told := described(home, error)):
                raise told from error
            if not is_query:
                raise
            problem = " ".join(str(getattr(error, "orig", error)).split())
            raise ResourceError(
                str(home), f"the history of runs cannot be read ({problem})", remedy="Check that its server answers"
            ) from error
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


def _print_partitions(found: Status) -> None:
    counts = Counter(each.state for each in found.partitions)
    summary = ", ".join(f"{number} {state}" for state, number in counts.items())
    lines = [*(each.line() for each in found.partitions), found.note]
    lines.append(f"{counted(len(found.partitions), 'partition')}: {summary}" if summary else "")
    if further := {kind: number for kind, number in found.counts.items() if kind in _FURTHER}:
        lines.append(", ".join(f"{number} {kind}" for kind, number in further.items()) + ": genolewm status says why")
    for line in filter(None, lines):
        out.print(line, markup=False, highlight=False, soft_wrap=True)
