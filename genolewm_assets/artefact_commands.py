"""Commands for published artefacts: ``genolewm cache``, ``holdouts``, ``package`` and ``root ...``."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from genolewm_assets.console import ConsoleProgress, err, out
from genolewm_assets.errors import counted
from genolewm_assets.geno_lewm_layout import package_export

if TYPE_CHECKING:
    from genolewm_assets.store.artefacts import Finding, Removed

cache_app = typer.Typer(help="Array stores, which cache encoder states.", no_args_is_help=True)
holdouts_app = typer.Typer(help="Holdouts, which training never sees.", no_args_is_help=True)
root_app = typer.Typer(help="The root folder itself.", no_args_is_help=True)
package_app = typer.Typer(help="Split packages, the data sets that training reads.", no_args_is_help=True)
package_app.command("export")(package_export)

CachePath = Annotated[Path, typer.Argument(help="An array store, or a folder of array stores.")]


def _package_folder(path: Path) -> Path:
    """Return a package's folder: the one named, or that of the package in use of the root named."""
    if not (path / "packages").is_dir():
        return path
    from genolewm_assets.packages import current_folder

    return current_folder(path)


PackagePath = Annotated[
    Path, typer.Argument(help="A package's folder, or a root: its package in use.", callback=_package_folder)
]
RootOption = Annotated[Path, typer.Option("--root", help="Root directory of the artefacts.", envvar="GENOLEWM_ROOT")]
CatalogOption = Annotated[
    str, typer.Option("--catalog", help="Built-in catalogue or path of a YAML file.", envvar="GENOLEWM_CATALOG")
]
CacheRootOption = Annotated[Path | None, typer.Option("--cache-root", help="Root that holds the state caches.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="List what would be removed; remove nothing.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


@cache_app.command("inspect")
def cache_inspect(path: CachePath, *, as_json: JsonOption = False) -> None:
    """Print the contents, size on disk and memory needs of array stores, unfinished ones included.

    Example: `genolewm cache inspect data/embeddings`
    """
    from genolewm_assets.store.arrays import find_caches, inspect_cache

    reports = [inspect_cache(store) for store in find_caches(path)]
    if as_json:
        out.print_json(data=[report.as_dict() for report in reports])
        return
    out.say(*(report.as_text() for report in reports))


@cache_app.command("verify")
def cache_verify(path: CachePath, *, as_json: JsonOption = False) -> None:
    """Compare every byte of an array store, or of every store in a folder, with its checksums and its manifest.

    Example: `genolewm cache verify data/embeddings`
    """
    from genolewm_assets.store.arrays import find_caches, verify_array_store
    from genolewm_assets.store.artefacts import verify_folder

    with ConsoleProgress(err) as progress:
        problems = {
            str(store): [*verify_array_store(store, progress=progress), *verify_folder(store, progress=progress)]
            for store in find_caches(path)
        }
    if as_json:
        out.print_json(data=problems)
    for store, found in {} if as_json else problems.items():
        out.say(*(f"{store}: {line}" for line in found or ["intact: every checksum matches"]))
    if any(problems.values()):
        raise typer.Exit(4)


@cache_app.command("export")
def cache_export(
    path: Annotated[Path, typer.Argument(help="A finished array store, or the published link to it.")],
    form: Annotated[Literal["parquet", "arrow"], typer.Option("--format", help="File format.")] = "parquet",
    output: Annotated[Path | None, typer.Option("--output", help="File to write; default: ./STORE.FORMAT.")] = None,
    layout: Annotated[
        Literal["store", "rfc-0002"],
        typer.Option("--layout", help="The whole store, or the columns of RFC-0002 with one mean state per window."),
    ] = "store",
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Export an array store to one Parquet or Arrow file; checksums are verified while reading.

    Example: `genolewm cache export data/embeddings/0123456789abcdef --format parquet --output chr21.parquet`
    """
    from genolewm_assets.states import export_states
    from genolewm_assets.store.arrays import export_array_store
    from genolewm_assets.store.tables import TableFormat

    written = Path(f"{path.absolute().name}.{form}") if output is None else output
    export = export_array_store if layout == "store" else export_states
    with ConsoleProgress(err) as progress:
        rows = export(path, written, TableFormat(form), overwrite=force, progress=progress)
    if as_json:
        out.print_json(data={"path": str(written), "rows": rows})
        return
    out.say(f"{written}: {counted(rows, 'row')}")


@cache_app.command("index")
def cache_index(
    root: RootOption = Path("data"),
    *,
    check: Annotated[bool, typer.Option("--check", help="Only report whether every cache can be searched.")] = False,
    sqlite: Annotated[
        Path | None, typer.Option("--sqlite", help="Also export the index of the whole root to this SQLite file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing SQLite file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the missing and damaged look-ups from window hashes to cached rows, of every cache of a root.

    Example: `genolewm cache index --root data --sqlite windows.sqlite`
    """
    from genolewm_assets.states import check_cache_index, export_cache_index, refresh_cache_index
    from genolewm_assets.store.artefacts import Root

    with ConsoleProgress(err) as progress:
        opened = Root(root)
        report = check_cache_index(opened) if check else refresh_cache_index(opened, progress=progress)
        if sqlite is not None:
            export_cache_index(opened, sqlite, overwrite=force)
    if as_json:
        out.print_json(data=report.as_dict())
        return
    out.say(*(f"not covered: {location}: {reason}" for location, reason in report.omitted.items()))
    covered = f"{counted(len(report.caches), 'cache')}, {counted(report.rows, 'row')}"
    changes = f"{counted(len(report.made), 'look-up')} made, {counted(len(report.omitted), 'cache')} not covered"
    out.print(f"{report.path}: {covered}, {changes}", markup=False, soft_wrap=True)


@cache_app.command("find")
def cache_find(
    window: Annotated[str, typer.Argument(metavar="HASH", help="window_hash (64 hex digits) or window_id (32).")],
    root: RootOption = Path("data"),
    *,
    as_json: JsonOption = False,
) -> None:
    """Print the store and row of the cached states of a window; exit with 4 if no cache holds the window.

    Example: `genolewm cache find 0123456789abcdef0123456789abcdef --root data`
    """
    from genolewm_assets.states import open_cache_index, parse_window_hash
    from genolewm_assets.store.artefacts import Root

    wanted = parse_window_hash(window)
    index = open_cache_index(Root(root))
    found, labels = index.find(wanted), {cache.location: cache.label for cache in index.lookups}
    if as_json:
        out.print_json(data=[{**address._asdict(), "label": labels[address.store]} for address in found])
    else:
        out.say(*(f"{store} row {row} ({labels[store]})" for store, row in found))
    if index.omitted:
        err.say(f"not covered by the index: {', '.join(index.omitted)}")
    if not found:
        err.say(f"{window}: no cached window has this hash")
        raise typer.Exit(4)


@cache_app.command("sweep")
def cache_sweep(
    path: Annotated[Path, typer.Argument(help="A folder of array caches outside any root.")],
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove superseded generations and abandoned builds from a folder of caches; for a root use `genolewm gc`.

    Example: `genolewm cache sweep profiles --dry-run`
    """
    from genolewm_assets.store.artefacts import sweep_caches

    print_removed(sweep_caches(path, dry_run=dry_run), dry_run=dry_run, as_json=as_json)


@package_app.command("verify")
def package_verify(path: PackagePath, cache_root: CacheRootOption = None, *, as_json: JsonOption = False) -> None:
    """Compare every byte of a package and of its caches with the recorded digests, and its mapped form with its tables.

    Example: `genolewm package verify data/packages/2026-02-26/0a1b2c3d4e5f`
    """
    from genolewm_assets.memory_mapped import find_mapped_faults
    from genolewm_assets.packages import verify_package

    with ConsoleProgress(err) as progress:
        findings = verify_package(path, cache_root=cache_root, progress=progress)
        # What is damaged already is not compared: the rows of its findings would be consequences.
        findings = findings or find_mapped_faults(path, progress=progress)
    print_findings(findings, as_json=as_json)


@package_app.command("diff")
def package_diff(
    before: PackagePath,
    after: PackagePath,
    *,
    alleles: Annotated[bool, typer.Option("--alleles", help="List every ClinVar allele that differs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the differences between two packages: windows, labels of training, benches, settings.

    Example: `genolewm package diff data/packages/2020-11-07/0a1b2c3d4e5f data/packages/2026-02-26/f5e4d3c2b1a0`
    """
    from genolewm_assets.packages import diff_packages

    found = diff_packages(before, after)
    if as_json:
        out.print_json(data=found.as_dict())
    else:
        out.say(found.to_text(alleles=alleles))


@package_app.command("cite")
def package_cite(
    path: PackagePath,
    form: Annotated[Literal["text", "bibtex", "cff"], typer.Option("--format", help="Form of the citation.")] = "text",
    *,
    as_json: JsonOption = False,
) -> None:
    """Print how to cite a package, with its digest, and each of its sources with release and licence.

    Example: `genolewm package cite data/packages/2026-02-26/0a1b2c3d4e5f --format bibtex`
    """
    from genolewm_assets.package_build import CitationFormat, cite_package

    text = cite_package(path, CitationFormat(form))
    if as_json:
        out.print_json(data={"format": form, "citation": text})
    else:
        out.say(text)


@package_app.command("pin")
def package_pin(
    release: Annotated[str | None, typer.Argument(help="ClinVar release whose package training reads.")] = None,
    root: RootOption = Path("data"),
    *,
    newest: Annotated[bool, typer.Option("--newest", help="Remove the pin: use the newest release.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Pin the current package to one release, or remove the pin so that the newest release is current again.

    Example: `genolewm package pin 2020-11-07 --root data`
    """
    from genolewm_assets.packages import pin_release

    if (release is None) is not newest:
        raise typer.BadParameter("name a release, or give --newest")
    with ConsoleProgress(err) as progress:
        ref = pin_release(root, release, progress=progress)
    if as_json:
        out.print_json(data={"release": ref.release, "path": str(root / ref.path)})
        return
    out.print(f"in use: release {ref.release}, {root / ref.path}", markup=False, soft_wrap=True)


@holdouts_app.command("t0")
def holdouts_t0(
    release: Annotated[str | None, typer.Argument(help="Release to move T0 to; without it, T0 is printed.")] = None,
    root: RootOption = Path("data"),
    catalog: CatalogOption = "sample",
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Forget the kept T0: the next build chooses it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print T0 of the temporal holdout of every release, or move the T0 that a root keeps for `months: N`.

    Example: `genolewm holdouts t0 2025-01-05 --root /data/my_root --catalog my_catalog.yaml`
    """
    from genolewm_assets.defs.runtime import Workspace
    from genolewm_assets.errors import CorruptResourceError, MissingResourceError
    from genolewm_assets.holdouts import move_t0, read_kept
    from genolewm_assets.store.artefacts import ROOT_FILE

    if release is not None and clear:
        raise typer.BadParameter("name a release or give --clear, not both")
    if not (root / ROOT_FILE).is_file():
        raise MissingResourceError(str(root), "is not a root", remedy="Check --root, or build it: genolewm demo")
    workspace = Workspace.open(root, catalog)
    setting, before = workspace.catalog.holdouts.temporal, {}
    # A damaged record can be cleared, but does not tell what T0 was.
    with suppress(*([CorruptResourceError] if clear else [])):
        before = workspace.temporal_of_all()
    if release is not None or clear:
        move_t0(workspace.root, setting, release, workspace.known_releases())
    after = workspace.temporal_of_all()
    kept = read_kept(workspace.root.path)
    if as_json:
        stated = {"setting": str(setting), "kept": None if kept is None else asdict(kept)}
        out.print_json(data={**stated, "releases": {name: asdict(choice) for name, choice in after.items()}})
        return
    for name, choice in after.items():
        moved = ", moved: build its holdouts and package again" if choice != before.get(name, choice) else ""
        out.print(f"{name}: T0 {choice.earlier or 'none'} ({choice.rule}){moved}", markup=False, highlight=False)
    out.print(f"holdouts.temporal: {setting}", markup=False, highlight=False)


@root_app.command("check")
def root_check(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="A root, or an existing folder that is to become one.")],
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for the other run.")
    ] = 300.0,
    *,
    one_machine: Annotated[
        bool, typer.Option("--one-machine", help="Accept two runs on one machine, to try the command out.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check, with a second run on another machine, whether both can build in one root; exit with 4 if not.

    Run it on both machines at the same time. Each changes files, names and locks in `ROOT/work/.root-check`, the other
    one looks, and both print the verdicts. Nothing is left behind.

    Example, on each of two machines: `genolewm root check /shared/root`
    """
    from genolewm_assets.store.hosts import check_root

    err.say(f"{root}: run this command on another machine too, now")
    # A job scheduler ends a command by SIGTERM; its files are removed then too.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ConsoleProgress(err) as progress:
            check = check_root(root, wait_s=wait_s, one_machine=one_machine, progress=progress)
    finally:
        signal.signal(signal.SIGTERM, before)
    if as_json:
        out.print_json(data={"passed": check.passed, **asdict(check)})
    else:
        table = Table("point", "verdict", "seen here", "seen there")
        for point in check.points:
            table.add_row(point.point, point.verdict, point.here, point.there)
        out.print(table)
        lines = [f"here: {check.here}", f"there: {check.there}"]
        lines += [f"{point.point}: {point.verdict}. {point.remedy}." for point in check.points if point.remedy]
        out.say(*lines, "both machines can use this root" if check.passed else "do not share this root as it is")
    if not check.passed:
        raise typer.Exit(4)


def print_removed(removed: Sequence[Removed], *, dry_run: bool, as_json: bool) -> None:
    """Print the removed directories and their sizes; with ``dry_run``, those that would be removed."""
    if as_json:
        out.print_json(data=[asdict(entry) for entry in removed])
        return
    for entry in removed:
        out.print(f"{entry.path} ({entry.why}, {counted(entry.size_bytes, 'byte')})", markup=False, soft_wrap=True)
    verb = "would be freed" if dry_run else "freed"
    freed = counted(sum(entry.size_bytes for entry in removed), "byte")
    out.print(f"{freed} in {counted(len(removed), 'directory', 'directories')} {verb}")


def print_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print the findings of a verification; exit with 4 if a published artefact is damaged or missing."""
    faults = [finding for finding in findings if finding.is_fault]
    if as_json:
        out.print_json(data=[asdict(finding) for finding in findings])
    else:
        for finding in findings:
            out.print(str(finding), markup=False, soft_wrap=True)
        out.print(f"{counted(len(faults), 'fault')}, {counted(len(findings) - len(faults), 'other finding')}")
    if faults:
        raise typer.Exit(4)
