"""The command ``genolewm package export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from genolewm_assets.console import ConsoleProgress, err, out


def package_export(
    package: Annotated[Path, typer.Argument(help="A package's folder, or the published link to it.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make; it must not exist.")],
    layout: Annotated[Literal["geno-lewm"], typer.Option("--layout", help="What reads the folder: geno-lewm 0.2.1.")],
    cache_root: Annotated[Path | None, typer.Option("--cache-root", help="Root that holds the state caches.")] = None,
    *,
    without_states: Annotated[bool, typer.Option("--without-states", help="Write no states.")] = False,
    allow_unaudited: Annotated[
        bool, typer.Option("--allow-unaudited", help="Export a package whose audit has not passed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Write the training rows of a package as a data folder that another trainer opens, and count what is left out.

    Example: `genolewm package export data/packages/2026-02-26/0a1b2c3d4e5f geno_lewm_data --layout geno-lewm`
    """
    from genolewm_assets.geno_lewm_layout.export import export_package

    del layout  # the only one
    with ConsoleProgress(err) as progress:
        exported = export_package(
            package,
            directory,
            cache_root=cache_root,
            with_states=not without_states,
            allow_unaudited=allow_unaudited,
            progress=progress,
        )
    if as_json:
        numbers = {"rows": dict(exported.rows), "counts": dict(exported.counts)}
        out.print_json(data={"path": str(directory), **numbers})
        return
    for noun, of_noun in (("file", exported.rows), ("rows", exported.counts)):
        table = Table(noun, "number")
        for name, number in sorted(of_noun.items()):
            table.add_row(name, f"{number:,}")
        out.print(table)
    out.say(str(directory))
