"""Commands ``genolewm package publish`` and ``genolewm package fetch``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from genolewm_assets.artefact_commands import CacheRootOption, JsonOption, RootOption
from genolewm_assets.console import ConsoleProgress, err, out
from genolewm_assets.errors import InputError, printable

StatesOption = Annotated[bool, typer.Option("--without-states", help="Leave out the state caches.")]


def package_publish(
    target: Annotated[
        str,
        typer.Argument(help="`hf://datasets/OWNER/NAME`, or a folder of any fsspec URL, such as `s3://bucket/folder`."),
    ],
    package: Annotated[
        Path | None, typer.Option("--package", help="A package's folder; default: the package in use of --root.")
    ] = None,
    root: RootOption = Path("data"),
    cache_root: CacheRootOption = None,
    *,
    without_states: StatesOption = False,
    yes: Annotated[bool, typer.Option("--yes", help="Send without asking first.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Publish a package that passed its audit, with the audit and its state caches, and compare what arrived.

    What is there already, also from a run that was killed, is not sent again. On the hub a release is a commit with a
    tag, in a data set that is created private; log in with `hf auth login`, or set HF_TOKEN. Elsewhere it is an index
    of files that are named by their content.

    Example: `genolewm package publish hf://datasets/me/lewm --root data`

    Example: `genolewm package publish s3://bucket/lewm --package data/packages/2026-02-26/0a1b2c3d4e5f --yes`
    """
    from genolewm_assets.packages import current_folder
    from genolewm_assets.publishing.gather import gather
    from genolewm_assets.publishing.to_hub import ToHub
    from genolewm_assets.publishing.to_store import ToStore
    from genolewm_assets.releases import HubPlace, open_place

    place, reference = open_place(target)
    if reference is not None:
        raise InputError(target, "names a release; its name follows from the package", remedy=f"Give {place.url}")
    folder = current_folder(root) if package is None else package
    with ConsoleProgress(err) as progress:
        release = gather(folder, cache_root=cache_root, states=not without_states, progress=progress)
        publication = ToHub(place, release) if isinstance(place, HubPlace) else ToStore(place, release)
        estimate = publication.estimate()
    err.say(printable(f"{release.index.name} to {place.url}: {estimate}"))
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("--yes", "nobody can be asked", remedy="Give --yes to publish without being asked")
        typer.confirm("Publish it?", abort=True, err=True)
    with ConsoleProgress(err) as progress:
        url = printable(publication.run(estimate, progress))
    if as_json:
        out.print_json(data={"release": release.index.name, "url": url})
        return
    out.say(f"published and compared: {url}")


def package_fetch(
    source: Annotated[
        str, typer.Argument(help="`hf://datasets/OWNER/NAME` or a folder of any fsspec URL; `@RELEASE` may follow.")
    ],
    release: Annotated[
        str | None,
        typer.Option(
            "--release",
            "--revision",
            help="Name, ClinVar release or digest; of the hub also a tag, branch or commit. Default: the newest.",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            help="Cache folder; default: `packages` in GENOLEWM_CACHE, which is by default `~/.cache/genolewm`.",
        ),
    ] = None,
    *,
    without_states: StatesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch a published package, compare every byte of it, and print its folder.

    A run that was killed goes on where it ended. Packages of one cache folder share equal files; a folder below it can
    be deleted at any time.

    Example: `genolewm package fetch hf://datasets/me/lewm --release 2026-02-26`
    """
    from genolewm_assets.releases import fetch_release

    with ConsoleProgress(err) as progress:
        fetched = fetch_release(source, reference=release, into=into, states=not without_states, progress=progress)
    if as_json:
        out.print_json(data={"package": str(fetched.package), "root": str(fetched.folder)})
        return
    out.say(str(fetched.package))
