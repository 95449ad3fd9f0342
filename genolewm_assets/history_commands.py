"""Commands ``genolewm history``: Dagster's history of a root, which is derived and can be begun anew."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from genolewm_assets.artefact_commands import JsonOption, RootOption
from genolewm_assets.console import err, out
from genolewm_assets.defs.run_databases import DATABASE_FOLDERS
from genolewm_assets.errors import BusyError, ConfigurationError, MissingResourceError, counted
from genolewm_assets.store.files import remove_tree
from genolewm_assets.ui_server import without_server

DeleteOption = Annotated[bool, typer.Option("--delete", help="Delete the old history in place of moving it aside.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

history_app = typer.Typer(help="The history of runs, which the UI shows.", no_args_is_help=True)

#: What a history is, in ``<root>/dagster``: databases, and what runs printed.
_PARTS = (*DATABASE_FOLDERS, "storage")
#: A word of the command line of Dagster's processes, such as ``dagster-daemon`` or ``dagster._daemon``.
_DAGSTER = re.compile(rb"(?:^|[\0/])dagster[\w.-]*\0")
_LOST = (
    "lost: runs with their logs, results of checks, what sensors and schedules have seen, and the registered releases "
    "and run folders, which are registered again"
)


@history_app.command("reset")
def history_reset(
    root: RootOption = Path("data"),
    *,
    delete: DeleteOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Begin a new history of runs, where the old one is damaged or too large. Everything that was built stays.

    Lost are runs with their logs, results of checks, and what sensors and schedules have seen. Kept are artefacts,
    packages, the one in use, and settings. `genolewm demo` or the job `build_everything` records what is published
    again, without building it. Refused while a UI, a demo or a run uses the history.

    Example: `genolewm history reset --root data`
    """
    from genolewm_assets.store.artefacts import WORK, Root

    opened = Root(root)
    home = opened.path / "dagster"
    _check_is_here(home)
    parts = [path for name in _PARTS if os.path.lexists(path := home / name)]
    if not parts:
        raise MissingResourceError(str(opened.path), "has no history of runs", remedy="Check --root")
    runs = sum(1 for _ in (home / "history" / "runs").glob("*-*.db"))
    if not yes:
        err.say(f"{counted(runs, 'run')} in {home}. {_LOST}")
        typer.confirm("Delete this history?" if delete else "Move this history aside?", abort=True, err=True)
    with without_server(home), opened.while_free("demo") if (opened.path / WORK).is_dir() else nullcontext():
        _check_unused(home)
        aside = None if delete else home / f"old-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        if aside is not None:
            aside.mkdir()
        for part in parts:
            remove_tree(part) if aside is None else part.rename(aside / part.name)
    if as_json:
        out.print_json(data={"runs": runs, "moved_to": None if aside is None else str(aside)})
        return
    done = "deleted" if aside is None else f"moved to {aside}"
    line = f"{counted(runs, 'run')} {done}; {_LOST}. Record what is published: genolewm demo, or build_everything"
    out.say(line)


def _check_is_here(home: Path) -> None:
    """Raise :class:`ConfigurationError` if the history lies on a database server or in another folder."""
    from genolewm_assets.defs.read_only_instance import stated_storage

    for folder in {home, Path(os.environ.get("DAGSTER_HOME") or home)}:
        if named := stated_storage(folder):
            raise ConfigurationError(
                str(folder / "dagster.yaml"),
                f"the history does not lie in the root, but in the storage that this file names ({', '.join(named)})",
                remedy="Restore its database from a backup, or make an empty one (deploy/README.md)",
            )


def _check_unused(home: Path) -> None:
    """Raise :class:`BusyError` if a process of Dagster on this machine has this history in its environment."""
    setting, users = b"DAGSTER_HOME=" + os.fsencode(home), dict[str, bytes]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            command = (process / "cmdline").read_bytes()
            if _DAGSTER.search(command) and setting in (process / "environ").read_bytes().split(b"\0"):
                users[process.name] = command
    for number, command in users.items():
        words = " ".join(os.fsdecode(command).split("\0")[:6])
        raise BusyError(str(home), f"process {number} uses the history ({words})", remedy="End it and run this again")
