"""Commands ``genolewm demo ...``: what can be tried on the simulated miniature."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from genolewm_assets.artefact_commands import CatalogOption, JsonOption, RootOption
from genolewm_assets.console import out
from genolewm_assets.errors import ConfigurationError

BadOption = Annotated[
    bool, typer.Option("--bad", help="State reference bases of another assembly; the release must be refused.")
]


def check_no_options_before(context: typer.Context) -> None:
    """Raise ``typer.BadParameter`` if ``genolewm demo`` was given an option before the name of its subcommand."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = name.removeprefix("as_")
            raise typer.BadParameter(f"Write --{option} after {context.invoked_subcommand!r}.", context)


def add_release(
    root: RootOption = Path("data"),
    catalog: CatalogOption = "sample",
    *,
    bad: BadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Publish a simulated next ClinVar release into the listing of a root's sample: the week after the newest one.

    Where `genolewm ui` runs on the root, the release is found within 30 s and built, and `packages/current` moves.

    Example: `genolewm demo release --root data`
    """
    from genolewm_assets.sample import add_next_release
    from genolewm_assets.sources.catalog import load_catalog
    from genolewm_assets.store.artefacts import Root

    loaded, owner = load_catalog(catalog), Root(root)
    if loaded.generator != "sample":
        raise ConfigurationError(
            f"catalogue {loaded.name}",
            "its ClinVar listing is not simulated, so no release can be added to it",
            expected="the catalogue sample",
            got=repr(catalog),
            remedy="Run genolewm demo release --catalog sample on a root of the sample",
        )
    owner.check_is_root()
    owner.claim(loaded.name, loaded.genome_digest)
    release = add_next_release(owner.path.resolve(), bad=bad)
    if as_json:
        out.print_json(json.dumps({**asdict(release), "file": str(release.file)}))
        return
    wrong = f", {release.wrong_ref:,} wrong reference bases: it must be refused" if bad else ""
    out.print(
        f"{release.file}: {release.derived_from} with {release.reclassified:,} alleles classified anew, "
        f"{release.added:,} added and {release.removed:,} removed{wrong}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
