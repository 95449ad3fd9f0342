"""Commands of ``genolewm``: each parses its options, calls one function and prints the result.

An error prints one line. Exit codes: 0 done, 2 bad input, 3 bad configuration, 4 corrupt, missing or busy resource,
130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from genolewm_assets.artefact_commands import (
    DryRunOption,
    JsonOption,
    RootOption,
    cache_app,
    package_app,
    print_findings,
    print_removed,
)
from genolewm_assets.console import ConsoleProgress, err, out
from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.launch import enter_environment, prepare_environment, ui_command
from genolewm_assets.variants import MIN_AF

if TYPE_CHECKING:
    from genolewm_assets.defs.operations import Demo, PartitionResult, Steps
    from genolewm_assets.store.artefacts import Published

app = typer.Typer(
    name="genolewm",
    help="Build checked, reproducible training data for genomic world models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
catalog_app = typer.Typer(help="Catalogues: genome, contigs and sources of a root.", no_args_is_help=True)
app.add_typer(catalog_app, name="catalog")
app.add_typer(cache_app, name="cache")
app.add_typer(package_app, name="package")

CatalogOption = Annotated[
    str, typer.Option("--catalog", help="Built-in catalogue or path of a YAML file.", envvar="GENOLEWM_CATALOG")
]
PortOption = Annotated[int, typer.Option("--port", help="Port to listen on.", min=1, max=65_535)]
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
        "Without it alleles are only trimmed.",
    ),
]


@app.command()
def demo(root: RootOption = Path("data"), catalog: CatalogOption = "sample", *, as_json: JsonOption = False) -> None:
    """Materialise the whole asset graph of a catalogue and print a summary.

    Example: `genolewm demo --catalog sample --root data`
    """
    enter_environment(root, catalog)
    from genolewm_assets.definitions import defs
    from genolewm_assets.defs.operations import Demo

    with Demo(defs) as walk, ConsoleProgress(err) as progress:
        results = _walk(walk, walk.steps(), progress)
        results.append(walk.follow())
        progress.say(results[-1].line())
    if as_json:
        out.print_json(json.dumps([result.as_json() for result in results]))
    else:
        out.print(_demo_table(results))
        summary = f"Outputs: {root}. Open the UI: genolewm ui --root {root} --catalog {catalog}"
        out.print(summary, markup=False, highlight=False, soft_wrap=True)
    _exit_on_failure(results)


def _demo_table(results: Sequence[PartitionResult]) -> Table:
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
    return table


@app.command("cache-windows")
def cache_windows(root: RootOption = Path("data"), catalog: CatalogOption = "sample") -> None:
    """Cache the encoder states of every reference and corpus window of a catalogue; build their inputs first.

    Example: `genolewm cache-windows --catalog sample --root data`
    """
    enter_environment(root, catalog)
    from genolewm_assets.definitions import defs
    from genolewm_assets.defs.operations import STATE_ASSETS, Demo

    with Demo(defs) as walk, ConsoleProgress(err) as progress:
        steps = [step for step in walk.steps() if step[0].key in STATE_ASSETS]
        results = _walk(walk, steps, progress)
    out.print(_demo_table(results))
    _exit_on_failure(results)


def _walk(walk: Demo, steps: Steps, progress: ConsoleProgress) -> list[PartitionResult]:
    results = []
    for result in walk.run(steps):
        results.append(result)
        progress.advance(len(results), len(steps), "partitions")
        progress.say(result.line())
    return results


def _exit_on_failure(results: Sequence[PartitionResult]) -> None:
    failed = [result for result in results if result.outcome == "failed"]
    if failed:
        err.print(f"{len(failed)} of {len(results)} partitions failed", style="red")
        raise typer.Exit(failed[0].exit_code)


@app.command()
def ui(root: RootOption = Path("data"), catalog: CatalogOption = "sample", port: PortOption = 3000) -> None:
    """Serve the Dagster UI of a root on 127.0.0.1.

    Example: `genolewm ui --root data --port 3000`
    """
    environment = {**os.environ, **prepare_environment(root, catalog)}
    # Dagster replaces this process, so that Ctrl-C reaches it.
    os.execve(sys.executable, ui_command(port), environment)  # noqa: S606


@catalog_app.command("check")
def catalog_check(
    catalog: Annotated[str, typer.Argument(help="Built-in catalogue or path of a YAML file.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Validate a catalogue and print its genome, contigs and sources.

    Example: `genolewm catalog check grch38`
    """
    from genolewm_assets.sources.catalog import load_catalog

    loaded = load_catalog(catalog)
    facts = {
        "catalogue": loaded.name,
        "genome": loaded.genome.name,
        "genome digest": loaded.genome_digest,
        "contigs": ", ".join(loaded.contigs.names),
        "windows": str(loaded.window_profile),
        "gnomAD sources": ", ".join(f"{name} {entry.release}" for name, entry in loaded.gnomad.sources.items()),
        "ClinVar listing": loaded.clinvar.listing,
        "corpus sources": ", ".join(loaded.corpus.sources) or "none",
        "encoder": loaded.encoder.model,
        "held-out contigs": ", ".join((*loaded.holdouts.contigs_validation, *loaded.holdouts.contigs_test)) or "none",
        "mitochondrial genomes": ", ".join(entry.url for entry in loaded.mito.genomes) or "none",
    }
    if as_json:
        out.print_json(json.dumps(facts))
        return
    table = Table("what", Column("value", overflow="fold"), show_header=False)
    for name, value in facts.items():
        table.add_row(name, escape(value))
    out.print(table)


@app.command()
def verify(root: RootOption = Path("data"), *, as_json: JsonOption = False) -> None:
    """Compare every published file of a root with its manifest, and the window index with its caches.

    Example: `genolewm verify --root data`
    """
    from genolewm_assets.lewm.states import find_index_faults
    from genolewm_assets.store.artefacts import Root, verify_root

    with ConsoleProgress(err) as progress:
        findings = verify_root(Root(root), progress=progress)
    print_findings([*find_index_faults(Root(root)), *findings], as_json=as_json)


@app.command()
def gc(
    root: RootOption = Path("data"),
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove superseded generations that no package pins, and work directories of killed builds.

    Example: `genolewm gc --root data --dry-run`
    """
    from genolewm_assets.store.artefacts import Root, collect_garbage

    print_removed(collect_garbage(Root(root), dry_run=dry_run), dry_run=dry_run, as_json=as_json)


@app.command("prepare-gnomad")
def prepare_gnomad(
    input_vcf: VcfOption,
    output: OutputOption,
    release: Annotated[str, typer.Option("--release", help="gnomAD release; names the output folder.")] = "4.1",
    min_af: Annotated[float, typer.Option("--min-af", help="Lowest allele frequency kept.", min=0, max=1)] = MIN_AF,
    reference: ReferenceOption = None,
) -> None:
    """Convert a gnomAD VCF to OUTPUT/gnomad/RELEASE/variants.parquet.

    Example: `genolewm prepare-gnomad --input-vcf gnomad.vcf.bgz --output shards --reference GRCh38.fa.gz`
    """
    from genolewm_assets.sources import prepare

    _warn_without_reference(reference)
    with ConsoleProgress(err) as progress:
        published = prepare.prepare_gnomad(
            input_vcf, output, release=release, min_af=min_af, reference=reference, progress=progress
        )
    _print_shard(published, output / "gnomad" / release)


@app.command("prepare-clinvar")
def prepare_clinvar(
    input_vcf: VcfOption,
    output: OutputOption,
    release: Annotated[str, typer.Option("--release", help="Release date, YYYY-MM-DD, as in the file.")],
    reference: ReferenceOption = None,
) -> None:
    """Convert a ClinVar VCF to OUTPUT/clinvar/RELEASE/variants.parquet.

    Example: `genolewm prepare-clinvar --input-vcf clinvar_20260226.vcf.gz --release 2026-02-26 --output shards`
    """
    from genolewm_assets.sources import prepare

    _warn_without_reference(reference)
    with ConsoleProgress(err) as progress:
        published = prepare.prepare_clinvar(input_vcf, output, release=release, reference=reference, progress=progress)
    _print_shard(published, output / "clinvar" / release)


def _warn_without_reference(reference: Path | None) -> None:
    if reference is None:
        notice = "No --reference: alleles are trimmed, but neither left-aligned nor compared with the genome."
        err.print(notice, soft_wrap=True)


def _print_shard(published: Published, folder: Path) -> None:
    table = Table("what", "count")
    for name, count in sorted(published.manifest.counts.items()):
        table.add_row(name, f"{count:,}")
    out.print(table)
    out.print(str(folder / "variants.parquet"), markup=False, soft_wrap=True)


def main(*command: str) -> None:
    """Run ``genolewm`` or ``geno-lewm``; print a :class:`GenoLeWMError` as one line and exit with its code."""
    try:
        app([*command, *sys.argv[1:]])
    except GenoLeWMError as error:
        err.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        err.print("stopped; run the same command again to continue")
        sys.exit(130)


def main_prepare_gnomad() -> None:
    """Run ``geno-lewm-prepare-gnomad``."""
    main("prepare-gnomad")


def main_prepare_clinvar() -> None:
    """Run ``geno-lewm-prepare-clinvar``."""
    main("prepare-clinvar")
