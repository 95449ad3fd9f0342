"""Commands ``genolewm build`` and ``demo``: say what a catalogue downloads, ask, and materialise its whole graph."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal
from rich.table import Table

from genolewm_assets.artefact_commands import CatalogOption, JsonOption, RootOption
from genolewm_assets.console import ConsoleProgress, err, out
from genolewm_assets.errors import ConfigurationError, GenoLeWMError, counted
from genolewm_assets.launch import enter_environment
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.store.artefacts import ROOT_FILE, is_current

if TYPE_CHECKING:
    from genolewm_assets.defs.operations import Demo, PartitionResult, Steps
    from genolewm_assets.sources.catalog import Catalog
    from genolewm_assets.sources.examination import Download

#: Variable that turns states off.
_WITHOUT_STATES = "GENOLEWM_WITHOUT_STATES"
BadOption = Annotated[
    bool, typer.Option("--bad", help="State reference bases of another assembly; the release must be refused.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Download without asking.")]
WithoutStatesOption = Annotated[
    bool,
    typer.Option(
        "--without-states",
        help="Compute no states: no encoder is downloaded, no GPU is needed; trainers read tokens "
        "(`with_states=False`).",
    ),
]


def build(
    catalog: Annotated[str, typer.Argument(help="Built-in catalogue or path of a YAML file.")] = "sample",
    root: RootOption = Path("data"),
    *,
    yes: YesOption = False,
    without_states: WithoutStatesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build everything of a catalogue: say what is downloaded and how much disk it takes, ask, build, and check.

    Interrupted, by Ctrl-C or by a lost connection, it goes on where it was when it is called again.

    Examples: `genolewm build sample` · `genolewm build grch38-chr21 --root chr21 --without-states`
    """
    build_catalog(catalog, root, ask=not yes, without_states=without_states, as_json=as_json)


def build_catalog(
    catalog: str, root: Path, *, ask: bool = False, without_states: bool = False, as_json: bool = False
) -> None:
    """Materialise the whole graph of a catalogue and print a summary; exit with the code of the first failure."""
    from genolewm_assets.sources.catalog import find_impossible_shares, load_catalog

    if without_states:
        os.environ[_WITHOUT_STATES] = "1"
    loaded, without_states = load_catalog(catalog), os.environ.get(_WITHOUT_STATES) == "1"
    if without_states:
        loaded = loaded.model_copy(update={"encoder": None})
    for error in find_impossible_shares(loaded):
        raise error
    enter_environment(root, catalog)
    _announce(loaded, root, ask=ask)
    from genolewm_assets.definitions import defs
    from genolewm_assets.defs.operations import Demo
    from genolewm_assets.defs.runtime import echoing

    with Demo(defs, say=err.say) as walk_of, ConsoleProgress(err) as progress, echoing(progress.say):
        results = walk(walk_of, walk_of.steps(), progress, further=1)
        results.append(walk_of.follow())
        progress.say(results[-1].line())
        if any(result.outcome != "current" for result in results):
            walk_of.report()
    print_results(results, as_json=as_json)
    if not as_json:
        command = shlex.join(["genolewm", "ui", "--root", str(root), "--catalog", catalog])
        command = f"{_WITHOUT_STATES}=1 {command}" if without_states else command
        out.say(f"Outputs: {root}. Open the UI: {command}")
    exit_on_failure(results)


def _announce(catalog: Catalog, root: Path, *, ask: bool) -> None:
    """Print what is downloaded, the disk that it takes and what comes out, if anything is; ask whether to go on."""
    from genolewm_assets.sources.examination import Keeping, disk_needs, list_downloads

    with_states = catalog.encoder is not None
    try:
        with err.status("Asking the servers for sizes"):
            read = [*list_downloads(catalog, root, _is_current(root)), *_weights(catalog)]
    except GenoLeWMError as error:
        if ask:
            raise
        err.say(f"What is downloaded is not known: {error}")
        return
    found = [each for each in read if each.keeping is not Keeping.HERE]
    if not found:
        return
    _print_downloads(found)
    needs = disk_needs(catalog, read, with_states=with_states)
    total, unknown = sum(each.size_bytes or 0 for each in found), sum(each.size_bytes is None for each in found)
    more = f", and {unknown} whose size is not stated," if unknown else ""
    err.say(
        f"{decimal(total)}{more} are downloaded. They take up to {decimal(needs.total)} of disk: "
        f"{decimal(needs.root)} in {root}, {decimal(needs.while_read)} while files are read, "
        f"{decimal(needs.cache)} in the hub's cache."
    )
    made = "with the states of every window" if with_states else "without states: trainers read tokens"
    names = catalog.contigs.names
    where = ", ".join(names) if len(names) < 4 else f"{len(names)} contigs"
    err.say(f"What comes out: a package of windows, alleles and holdouts of {where} that passed its audit, {made}.")
    if not ask:
        return
    if not sys.stdin.isatty():
        remedy = "Add --yes to download them"
        raise ConfigurationError("genolewm build", "asks before it downloads, and there is no terminal", remedy=remedy)
    with redirect_stdout(sys.stderr):  # the prompt writes to both
        typer.confirm("Go on?", abort=True, err=True)


def _is_current(root: Path) -> Callable[[str, str | None], bool]:
    """Return what tells whether a root has an artefact, by asset and partition, as a build of now would make it."""
    if not (root / ROOT_FILE).exists():
        return lambda _asset, _partition: False
    from genolewm_assets.defs.assets import GATED
    from genolewm_assets.defs.runtime import WorkspaceResource

    workspace = WorkspaceResource.configured().open().survey()

    def is_there(asset: str, partition: str | None) -> bool:
        try:
            return is_current(workspace.root, GATED[asset].build_plan(workspace, partition, NO_PROGRESS))
        except GenoLeWMError:
            return False

    return is_there


def _weights(catalog: Catalog) -> Sequence[Download]:
    """Return the encoder's files, if the hub's cache lacks them."""
    from genolewm_assets.encoders import ask_hub, read_identity
    from genolewm_assets.errors import MissingResourceError
    from genolewm_assets.sources.examination import Download, Keeping

    section = catalog.encoder
    if section is None or section.source is None or section.is_folder or section.revision is None:
        return []
    model = section.source
    try:
        window_bp = catalog.window_profile.window_bp
        read_identity(model, **section.settings, window_bp=window_bp, download=False, sha256_of=lambda _: "0" * 64)
    except MissingResourceError:
        size = sum(ask_hub(model, section.revision).values())
        return [Download("encoder.model", f"hf://{model}@{section.revision}", size, Keeping.CACHE)]
    return []


def _print_downloads(found: Sequence[Download]) -> None:
    table = Table("what", "from", "size", "kept")
    for each in found:
        size = "unknown" if each.size_bytes is None else decimal(each.size_bytes)
        table.add_row(each.place, each.host, size, str(each.keeping))
    err.print(table)


def print_results(results: Sequence[PartitionResult], *, as_json: bool) -> None:
    """Print a table of the results by asset, or all of them as JSON."""
    if as_json:
        out.print_json(data=[result.as_json() for result in results])
        return
    table = Table("asset", "partitions", "rows", "checks passed", "outcome")
    by_asset: dict[str, list[PartitionResult]] = defaultdict(list)
    for result in results:
        by_asset[result.artefact.asset].append(result)
    for asset, group in by_asset.items():
        outcomes = Counter(result.outcome for result in group)
        passed, checks = sum(result.checks_passed for result in group), sum(result.checks for result in group)
        rows = [result.rows for result in group if result.rows is not None]
        by_outcome = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        table.add_row(asset, str(len(group)), f"{sum(rows):,}" if rows else "-", f"{passed} of {checks}", by_outcome)
    out.print(table)


def walk(walk_of: Demo, steps: Steps, progress: ConsoleProgress, *, further: int = 0) -> list[PartitionResult]:
    """Build steps one after the other, with a line for each; ``further`` steps come after them."""
    results = []
    for result in walk_of.run(steps):
        results.append(result)
        progress.advance(len(results), len(steps) + further, "partitions")
        progress.say(result.line())
    return results


def exit_on_failure(results: Sequence[PartitionResult]) -> None:
    """Print what failed, and exit with the code of the first failure."""
    failed = [result for result in results if result.outcome == "failed"]
    err.say(*(result.text() for result in failed), style="red")
    if failed:
        waiting = sum(result.outcome == "waiting" for result in results)
        rest = f"; {counted(waiting, 'partition')} that read them were not built" if waiting else ""
        err.print(f"{len(failed)} of {len(results)} partitions failed{rest}", style="red")
        raise typer.Exit(failed[0].exit_code)


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
        out.print_json(data={**asdict(release), "file": str(release.file)})
        return
    wrong = f", {release.wrong_ref:,} wrong reference bases: it must be refused" if bad else ""
    out.say(
        f"{release.file}: {release.derived_from} with {release.reclassified:,} alleles classified anew, "
        f"{release.added:,} added and {release.removed:,} removed{wrong}"
    )
