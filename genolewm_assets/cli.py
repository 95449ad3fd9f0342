"""Commands of ``genolewm``: each parses its options, calls one function and prints the result.

An error prints one line. Exit codes: 0 done, 2 bad input, 3 bad configuration, 4 corrupt, missing or busy resource,
5 an audit found a leak, 6 an audit could not search everything, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
import typer.main
from rich.table import Table
from typer.core import TyperGroup

from genolewm_assets import __version__
from genolewm_assets.artefact_commands import (
    CatalogOption,
    DryRunOption,
    JsonOption,
    RootOption,
    cache_app,
    holdouts_app,
    package_app,
    print_findings,
    print_removed,
    root_app,
)
from genolewm_assets.audit_commands import audit_app, evaluate
from genolewm_assets.build_commands import (
    add_release,
    build,
    build_catalog,
    check_no_options_before,
    exit_on_failure,
    print_results,
    walk,
)
from genolewm_assets.catalog_commands import catalog_app
from genolewm_assets.compile_command import compile_all
from genolewm_assets.console import ConsoleProgress, err, out
from genolewm_assets.defs.run_databases import check_databases
from genolewm_assets.defs.web_guard import UI_HOSTS, parse_hosts
from genolewm_assets.history_commands import history_app
from genolewm_assets.launch import WORKING_FOLDER, enter_environment, prepare_environment, ui_command
from genolewm_assets.publishing import package_fetch, package_publish
from genolewm_assets.status_command import add_status_commands
from genolewm_assets.surroundings import check_arguments, enter_utf8, errors_in_one_line, open_closed_streams
from genolewm_assets.ui_server import check_can_serve
from genolewm_assets.variants import MIN_AF, MIN_AN_FRACTION

if TYPE_CHECKING:
    from genolewm_assets.store.artefacts import Published

app = typer.Typer(
    name="genolewm",
    help="Build checked, reproducible training data for genomic world models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
demo_app = typer.Typer(invoke_without_command=True)
demo_app.command("release")(add_release)
add_status_commands(app)
app.command("compile")(compile_all)
app.command("build")(build)
app.command("evaluate")(evaluate)
package_app.command("publish")(package_publish)
package_app.command("fetch")(package_fetch)
app.add_typer(demo_app, name="demo")
app.add_typer(catalog_app, name="catalog")
_GROUPS = {"cache": cache_app, "package": package_app, "holdouts": holdouts_app, "root": root_app, "audit": audit_app}
for _name, _group in {**_GROUPS, "history": history_app}.items():
    app.add_typer(_group, name=_name)

PortOption = Annotated[int, typer.Option("--port", help="Port to listen on.", min=1, max=65_535)]
ComputeOption = Annotated[
    Literal["float32", "bfloat16"] | None,
    typer.Option("--compute", help="Precision of the forward pass, in place of encoder.compute in the catalogue."),
]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Torch device of the encoder, such as cuda or cpu; auto if not given.")
]
BatchOption = Annotated[
    int | None, typer.Option("--batch-windows", help="Largest number of windows per pass on a GPU.", min=1)
]
HostsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME[:PORT]",
        help="Address at which a browser may open the UI besides 127.0.0.1 and localhost; may be repeated.",
    ),
]
LayoutOption = Annotated[
    Literal["own", "geno-lewm"],
    typer.Option("--layout", help="Columns of the shard: our own, or those that geno-lewm 0.2.1 reads."),
]
VcfOption = Annotated[
    Path, typer.Option("--input-vcf", readable=False, help="VCF file on GRCh38: bgzip, gzip or plain text.")
]
OutputOption = Annotated[Path, typer.Option("--output", help="Folder under which the shard is written.")]
ReferenceOption = Annotated[
    Path | None,
    typer.Option(
        "--reference",
        readable=False,
        help="FASTA to check REF and left-align against; a VCF is refused if more than 0.1 % of its alleles differ. "
        "Without it, --root and --catalog alleles are only trimmed.",
    ),
]
GenomeRootOption = Annotated[
    Path | None,
    typer.Option(
        "--root", help="Root whose genome is used in place of --reference; by default the root that contains OUTPUT."
    ),
]
GenomeCatalogOption = Annotated[
    str | None, typer.Option("--catalog", help="Catalogue whose FASTA, a local file, is used in place of --reference.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"genolewm {__version__}", highlight=False)
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
]


@app.callback()
def options(*, version: VersionOption = False) -> None:
    """Build checked, reproducible training data for genomic world models."""


@demo_app.callback()
def demo(
    context: typer.Context,
    root: RootOption = Path("data"),
    catalog: CatalogOption = "sample",
    *,
    as_json: JsonOption = False,
) -> None:
    """Build everything of the simulated miniature, as `genolewm build sample` does.

    Example: `genolewm demo --root data`
    """
    if context.invoked_subcommand is not None:
        check_no_options_before(context)
        return
    build_catalog(catalog, root, as_json=as_json)


@app.command("cache-windows")
def cache_windows(
    root: RootOption = Path("data"),
    catalog: CatalogOption = "sample",
    compute: ComputeOption = None,
    device: DeviceOption = None,
    batch_windows: BatchOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Cache the encoder states of every reference and corpus window of a catalogue; build their inputs first.

    Example: `genolewm cache-windows --catalog sample --root data --device auto`
    """
    chosen = {"COMPUTE": compute, "DEVICE": device, "BATCH_WINDOWS": batch_windows}
    os.environ.update({f"GENOLEWM_{name}": str(value) for name, value in chosen.items() if value is not None})
    enter_environment(root, catalog)
    from genolewm_assets.definitions import defs
    from genolewm_assets.defs.operations import STATE_ASSETS, Demo
    from genolewm_assets.defs.runtime import echoing

    with Demo(defs, say=err.say) as walk_of, ConsoleProgress(err) as progress, echoing(progress.say):
        _ = walk_of.workspace.encoder  # raises if there is none
        steps = [step for step in walk_of.steps() if step[0].key in STATE_ASSETS]
        results = walk(walk_of, steps, progress)
    print_results(results, as_json=as_json)
    exit_on_failure(results)


@app.command()
def ui(
    root: RootOption = Path("data"),
    catalog: CatalogOption = "sample",
    port: PortOption = 3000,
    allow_host: HostsOption = None,
) -> None:
    """Serve the Dagster UI of a root on 127.0.0.1, and print its address once it answers; a root has one at a time.

    Example: `genolewm ui --root data --port 3000`
    """
    hosts = {UI_HOSTS: ",".join(parse_hosts(allow_host))} if allow_host else {}
    environment = {**os.environ, **hosts, **prepare_environment(root, catalog)}
    home = Path(environment["DAGSTER_HOME"])
    check_can_serve(home, port)
    check_databases(home, thorough=True)
    os.chdir(WORKING_FOLDER)
    # Dagster replaces this process, so that Ctrl-C reaches it.
    os.execve(sys.executable, ui_command(port), environment)  # noqa: S606


@app.command()
def verify(root: RootOption = Path("data"), *, as_json: JsonOption = False) -> None:
    """Compare every published file of a root with its manifest, and open every record and index as its readers do.

    Example: `genolewm verify --root data`
    """
    from genolewm_assets.store.artefacts import Root
    from genolewm_assets.verification import verify_whole_root

    with ConsoleProgress(err) as progress:
        findings = verify_whole_root(Root(root), progress=progress)
    print_findings(findings, as_json=as_json)


@app.command()
def gc(root: RootOption = Path("data"), *, dry_run: DryRunOption = False, as_json: JsonOption = False) -> None:
    """Remove superseded generations that no package pins, and work directories of killed builds.

    Example: `genolewm gc --root data --dry-run`
    """
    from genolewm_assets.store.artefacts import Root, collect_garbage

    print_removed(collect_garbage(Root(root), dry_run=dry_run), dry_run=dry_run, as_json=as_json)


@app.command("prepare-gnomad")
def prepare_gnomad(
    input_vcf: VcfOption,
    output: OutputOption,
    *,
    release: Annotated[
        str | None,
        typer.Option(
            "--release",
            help="gnomAD release; names the output folder, and must be the file's. Required if the file states none.",
        ),
    ] = None,
    min_af: Annotated[float, typer.Option("--min-af", help="Lowest allele frequency kept.", min=0, max=1)] = MIN_AF,
    min_an_fraction: Annotated[
        float, typer.Option(help="Lowest AN kept, a share of the contig's largest (joint: of one assay).", min=0, max=1)
    ] = MIN_AN_FRACTION,
    reference: ReferenceOption = None,
    root: GenomeRootOption = None,
    catalog: GenomeCatalogOption = None,
    accept_unfiltered: Annotated[
        bool, typer.Option("--accept-unfiltered", help="Keep records with FILTER '.', of a file published unfiltered.")
    ] = False,
    layout: LayoutOption = "own",
    as_json: JsonOption = False,
) -> None:
    """Convert a gnomAD VCF to OUTPUT/gnomad/RELEASE/variants.parquet.

    Example: `genolewm prepare-gnomad --input-vcf gnomad.vcf.bgz --output shards --reference GRCh38.fa.gz`
    """
    from genolewm_assets.sources import prepare

    with ConsoleProgress(err) as progress:
        published = prepare.prepare_gnomad(
            input_vcf,
            output,
            release=release,
            min_af=min_af,
            min_an_fraction=min_an_fraction,
            accept_unfiltered=accept_unfiltered,
            reference=reference,
            root=root,
            catalog=catalog,
            layout=layout,
            progress=progress,
        )
    _print_shard(published, output / "gnomad", as_json=as_json)


@app.command("prepare-clinvar")
def prepare_clinvar(
    input_vcf: VcfOption,
    output: OutputOption,
    *,
    release: Annotated[str, typer.Option("--release", help="Release date, YYYY-MM-DD, as in the file.")],
    reference: ReferenceOption = None,
    root: GenomeRootOption = None,
    catalog: GenomeCatalogOption = None,
    layout: LayoutOption = "own",
    as_json: JsonOption = False,
) -> None:
    """Convert a ClinVar VCF to OUTPUT/clinvar/RELEASE/variants.parquet.

    Example: `genolewm prepare-clinvar --input-vcf clinvar_20260226.vcf.gz --release 2026-02-26 --output shards`
    """
    from genolewm_assets.sources import prepare

    with ConsoleProgress(err) as progress:
        published = prepare.prepare_clinvar(
            input_vcf,
            output,
            release=release,
            reference=reference,
            root=root,
            catalog=catalog,
            layout=layout,
            progress=progress,
        )
    _print_shard(published, output / "clinvar", as_json=as_json)


def _print_shard(published: Published, folder: Path, *, as_json: bool) -> None:
    if "reference" not in published.manifest.recipe:
        notice = "No --reference: alleles are trimmed, but neither left-aligned nor compared with the genome."
        err.print(notice, soft_wrap=True)
    counts = dict(sorted(published.manifest.counts.items()))
    file = str(folder / str(published.artefact.partition) / "variants.parquet")
    if as_json:
        out.print_json(data={"path": file, "counts": counts})
        return
    table = Table("what", "count")
    for name, count in counts.items():
        table.add_row(name, f"{count:,}")
    out.print(table)
    out.print(file, markup=False, soft_wrap=True)


def main(command: str | None = None) -> None:
    """Run a command, or ``command`` under the name that was typed; print an error as one line, exit with its code."""
    open_closed_streams()
    enter_utf8()
    program = typer.main.get_command(app)
    with errors_in_one_line():
        check_arguments(sys.argv[1:])
        if command is None or not isinstance(program, TyperGroup):
            program()
        else:
            program.commands[command](prog_name=Path(sys.argv[0]).name)


def main_prepare_gnomad() -> None:
    """Run ``geno-lewm-prepare-gnomad``."""
    main("prepare-gnomad")


def main_prepare_clinvar() -> None:
    """Run ``geno-lewm-prepare-clinvar``."""
    main("prepare-clinvar")
