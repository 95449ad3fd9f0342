"""Commands ``genolewm status``, ``show``, ``releases`` and ``release dismiss``: what a root holds, and why."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from genolewm_assets.artefact_commands import CatalogOption, JsonOption, RootOption
from genolewm_assets.console import ConsoleProgress, SafeConsole, err, out
from genolewm_assets.defs.run_databases import described
from genolewm_assets.errors import GenoLeWMError, MissingResourceError, ResourceError, counted
from genolewm_assets.launch import enter_environment, environment_of

if TYPE_CHECKING:
    from genolewm_assets.defs.status import Section, Status
    from genolewm_assets.store import Contents
    from genolewm_assets.store.artefacts import Published

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
#: Characters of a value of ``show`` and between two columns, and partitions that it names besides the one shown.
_CELL, _GAP, _OTHERS = 20, 2, 8
#: The pointer to a package, and the asset that it points to.
_CURRENT, _PACKAGE = "packages/current", "packages/split"
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
        out.print_json(data=[each.as_json() for each in found.partitions] if partitions else found.as_json())
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
        out.print_json(data=[row.as_json() for row in rows])
        return
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for row in rows:
        facts = [row.changes(), row.why, f"run {row.run_id}" if row.run_id else ""]
        table.add_row(Text(row.release), Text(row.state), Text("; ".join(filter(None, facts))))
    out.print(table if rows else "no release is known: genolewm ui finds them")


def show(
    asset: Annotated[str, typer.Argument(help="Key of an asset, such as gnomad/shard.")],
    partition: Annotated[str | None, typer.Argument(help="Partition; by default the one that was built last.")] = None,
    root: RootOption = Path("data"),
    rows: Annotated[int, typer.Option("--rows", help="Rows shown of each table.", min=0, max=100)] = 5,
    picture: Annotated[Path | None, typer.Option("--picture", help="SVG file for the picture of the UI.")] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing picture.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what a published asset holds: tables with their columns and first rows, arrays, other files, counts.

    Columns mean what the data model says. Nothing is compared with the manifest: `genolewm verify` does that.

    Example: `genolewm show clinvar/shard 2025-01-05 --root data --picture classes.svg`
    """
    from genolewm_assets.store import read_contents
    from genolewm_assets.store.files import link_of_generation
    from genolewm_assets.store.tables import check_output

    if picture is not None:
        check_output(picture, overwrite=force)
    published, others = _find_published(root, asset, partition)
    contents, counts = read_contents(published, rows=rows), dict(published.manifest.counts)
    if not all(column.meaning for table in contents.tables for column in table.columns):
        contents = contents.explained(_declared_meanings(published.artefact.asset))
    if picture is not None:
        _draw(published, picture)
    if as_json:
        tables = [{**asdict(each), "columns": [one._asdict() for one in each.columns]} for each in contents.tables]
        found = {
            **asdict(published.artefact),
            "path": str(link_of_generation(published.directory)),
            "counts": counts,
            "tables": tables,
            "arrays": [asdict(each) for each in contents.arrays],
            "others": [entry.path for entry in contents.others],
        }
        text = json.dumps(found, default=lambda value: value.hex() if isinstance(value, bytes) else str(value))
        out.print_json(json.dumps(json.loads(text, parse_constant=str)))  # NaN is no JSON
        return
    page = SafeConsole(width=min(out.width, _COLUMNS) if out.is_terminal else _COLUMNS)
    page.print(Text(f"{published.artefact}: {link_of_generation(published.directory)}", style="bold"), soft_wrap=True)
    if others:
        shown, more = ", ".join(others[:_OTHERS]), max(0, len(others) - _OTHERS)
        page.print(Text(f"published too: {shown}{f' and {more:,} more' if more else ''}"))
    page.print(*_contents_page(contents, counts, page.width), sep="\n")
    if picture is not None:
        page.print(Text(f"picture: {picture}"), soft_wrap=True)


def _find_published(root: Path, asset: str, partition: str | None) -> tuple[Published, list[str]]:
    """Return what is published of an asset, the newest build, and the other partitions or places."""
    from genolewm_assets.packages import current_folder, read_current
    from genolewm_assets.store.artefacts import Root
    from genolewm_assets.store.files import link_of_generation
    from genolewm_assets.store.tables import find_published

    if asset == _CURRENT:
        if partition is not None:
            remedy = f"Leave {partition!r} out, or show {_PACKAGE}"
            raise MissingResourceError(asset, "has no partitions", remedy=remedy)
        used, folder = read_current(root), current_folder(root).resolve()
        found = sorted(find_published(Root(root), _PACKAGE, used.release), key=lambda each: each.directory == folder)
    else:
        found = find_published(Root(root), asset, partition)
    *others, newest = found
    same = [each for each in others if each.artefact == newest.artefact]
    places = [str(link_of_generation(each.directory).relative_to(root.absolute())) for each in same]
    return newest, [*sorted({str(each.artefact.partition) for each in others if each not in same}), *places]


def _draw(published: Published, file: Path) -> None:
    """Write the picture of an artefact, the one that its materialisation shows first."""
    from genolewm_assets.defs.assets import GATED
    from genolewm_assets.defs.display import first_picture, in_reading_order
    from genolewm_assets.store.files import write_atomic

    drawn = first_picture(in_reading_order(GATED[published.artefact.asset].describe(published)))
    if drawn is None:
        raise MissingResourceError(published.artefact.asset, "has no picture", remedy="Leave --picture out")
    write_atomic(file, drawn)


def _declared_meanings(asset: str) -> dict[str, str]:
    """Return the meaning of each column that an asset declares; array stores do not keep it."""
    from genolewm_assets.defs.assets import GATED

    declared = (GATED[asset].table, *GATED[asset].tables.values()) if asset in GATED else ()
    return {name: table.describe(name) for table in declared if table is not None for name in table.columns}


def _contents_page(contents: Contents, counts: Mapping[str, int], width: int) -> Iterator[Table | Text]:
    """Yield the tables of what an artefact holds: columns and first rows of each table, arrays, files, counts."""
    for each in contents.tables:
        more = f" and {counted(len(each.files) - 1, 'more file')} like it" if len(each.files) > 1 else ""
        title = f"{each.files[0]}{more}: {counted(each.rows, 'row')}"
        kinds = ((one.name, f"{one.type}{' or null' if one.nullable else ''}", one.meaning) for one in each.columns)
        yield from _titled(title, ("column", "type", "what it means"), kinds)
        if each.head:
            name = max(len("first rows"), *(len(column.name) for column in each.columns))
            room = (width - name - _GAP) // len(each.head) - _GAP
            lines = ((one.name, *(_cell(row[one.name], room) for row in each.head)) for one in each.columns)
            yield from _titled("", ("first rows", *map(str, range(1, len(each.head) + 1))), lines)
    arrays = (
        (each.files[0], str(each.shape), each.dtype, ", ".join(map(_cell, each.first)), f"{len(each.files) - 1:,}")
        for each in contents.arrays
    )
    yield from _titled("arrays", ("file", "shape", "type", "first values", "others like it"), arrays)
    yield from _titled("other files", ("file", "bytes"), ((one.path, f"{one.size_bytes:,}") for one in contents.others))
    yield from _titled("counts of the manifest", ("", ""), ((name, f"{n:,}") for name, n in sorted(counts.items())))


def _titled(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[Table | Text]:
    """Yield a title and a table; nothing if it has no line."""
    table = Table(*(Column(name, overflow="fold") for name in columns), box=None, padding=(0, _GAP, 0, 0))
    for line in lines:
        table.add_row(*map(Text, line))
    if table.row_count:
        yield Text(f"\n{title}" if title else "", style="bold")
        yield table


def _cell(value: object, room: int = _CELL) -> str:
    """Return a value in one line, cut to ``room`` characters; bytes as hex digits."""
    plain = value.hex() if isinstance(value, bytes) else f"{value:.5g}" if isinstance(value, float) else value
    text = "" if plain is None else " ".join(str(plain)[: 2 * room].split())
    return text if len(text) <= room else f"{text[: max(1, room - 1)]}…"


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
        out.print_json(data=ended)
    else:
        out.say(*ended)


def add_status_commands(app: typer.Typer) -> None:
    """Add the commands of this module to an application."""
    app.command("status")(status)
    app.command("show")(show)
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
    out.say(*filter(None, lines))
