"""The command ``genolewm compile``: compiles every kernel ahead, for images whose folders cannot be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from genolewm_assets.artefact_commands import JsonOption
from genolewm_assets.console import ConsoleProgress, err, out
from genolewm_assets.errors import ResourceError, counted

FolderArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DIR]",
        show_default=False,
        help="Folder to compile into, created if missing; NUMBA_CACHE_DIR names it. By default where kernels are kept.",
    ),
]


def compile_all(folder: FolderArgument = None, *, as_json: JsonOption = False) -> None:
    """Compile every kernel (the loops that numba compiles on first use), so that no later process compiles.

    Nothing is run: the argument types that the package's own code uses are listed in it. Compiled code is of this
    processor, this path of the package and this version of numba and Python; elsewhere it is compiled again. Processes
    that have `NUMBA_CACHE_DIR` set to DIR use it even if they cannot write there; it must be theirs or root's, and
    writable by nobody else.

    Example: `genolewm compile /opt/genolewm/kernels`
    """
    if folder is not None:
        _take(folder.absolute())
    from genolewm_assets.own_caches import compile_kernels

    with ConsoleProgress(err) as progress:
        kernels, calls, places = compile_kernels(progress)
    if folder is not None and any(not place.is_relative_to(folder.absolute()) for place in places):
        raise ResourceError(
            str(folder),
            "others can write it, so nothing that lies there is believed",
            remedy="Choose a folder that only you can write",
        )
    if as_json:
        out.print_json(data={"kernels": kernels, "calls": calls, "folders": sorted(map(str, places))})
        return
    where = (
        str(folder.absolute()) if folder is not None else f"{counted(len(places), 'folder')}, {min(places)} and others"
    )
    use = f". Set NUMBA_CACHE_DIR={where}" if folder is not None else ""
    out.print(
        f"{counted(kernels, 'kernel')} compiled for {counted(calls, 'call')} in {where}{use}",
        markup=False,
        soft_wrap=True,
    )


def _take(folder: Path) -> None:
    """Let numba keep what it compiles in a folder; it is created with the rights of this user alone to write."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        (probe := folder / f".probe.{os.getpid()}").touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise ResourceError(
            str(folder), f"cannot be written ({error.strerror})", remedy="Choose a folder that you can write"
        ) from error
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    os.umask(0o022)
    import numba

    settings: Any = numba.config
    settings.CACHE_DIR = str(folder)
