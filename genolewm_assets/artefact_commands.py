"""The commands on finished artefacts: ``genolewm cache ...`` and ``genolewm package ...``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genolewm_assets.console import ConsoleProgress, err, out

if TYPE_CHECKING:
    from genolewm_assets.store import Finding

cache_app = typer.Typer(help="Array stores: the caches of states.", no_args_is_help=True)
package_app = typer.Typer(help="Split packages: what trainers open.", no_args_is_help=True)

CachePath = Annotated[Path, typer.Argument(help="A store, or a folder of stores.")]
PackagePath = Annotated[Path, typer.Argument(help="A package's folder, or the link to it.")]
RootOption = Annotated[Path, typer.Option("--root", help="Root directory of the artefacts.", envvar="GENOLEWM_ROOT")]
CacheRootOption = Annotated[Path | None, typer.Option("--cache-root", help="Root that holds the caches of states.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@cache_app.command("inspect")
def cache_inspect(path: CachePath, *, as_json: JsonOption = False) -> None:
    """Print what a store holds and costs; an unfinished one too.

    Example: `genolewm cache inspect data/embeddings`
    """
    from genolewm_assets.store import find_caches, inspect_cache

    reports = [inspect_cache(store) for store in find_caches(path)]
    if as_json:
        out.print_json(json.dumps([report.as_dict() for report in reports]))
        return
    for report in reports:
        out.print(report.as_text(), markup=False, highlight=False, soft_wrap=True)


@cache_app.command("verify")
def cache_verify(path: CachePath, *, as_json: JsonOption = False) -> None:
    """Compare every byte of a store, or of every store in a folder, with its checksums.

    Example: `genolewm cache verify data/embeddings`
    """
    from genolewm_assets.store import find_caches, verify_array_store

    with ConsoleProgress(err) as progress:
        problems = {str(store): verify_array_store(store, progress=progress) for store in find_caches(path)}
    if as_json:
        out.print_json(json.dumps(problems))
    for store, found in {} if as_json else problems.items():
        for line in found or ["every byte is as it was written"]:
            out.print(f"{store}: {line}", markup=False, highlight=False, soft_wrap=True)
    if any(problems.values()):
        raise typer.Exit(4)


@package_app.command("verify")
def package_verify(path: PackagePath, cache_root: CacheRootOption = None, *, as_json: JsonOption = False) -> None:
    """Compare every byte of a package, and of the caches it points to, with its digests.

    Example: `genolewm package verify data/packages/2026-02-26/0a1b2c3d4e5f`
    """
    from genolewm_assets.lewm.packages import verify_package

    with ConsoleProgress(err) as progress:
        findings = verify_package(path, cache_root=cache_root, progress=progress)
    print_findings(findings, as_json=as_json)


@package_app.command("diff")
def package_diff(before: PackagePath, after: PackagePath, *, as_json: JsonOption = False) -> None:
    """Print what changed from one package to another: windows, alleles, labels, settings.

    Example: `genolewm package diff data/packages/2020-11-07/0a1b2c3d4e5f data/packages/2026-02-26/f5e4d3c2b1a0`
    """
    from genolewm_assets.lewm.package_diff import diff_packages

    found = diff_packages(before, after)
    if as_json:
        out.print_json(json.dumps(found.as_dict()))
    else:
        out.print(found.to_text(), markup=False, highlight=False, soft_wrap=True)


@package_app.command("pin")
def package_pin(
    release: Annotated[str | None, typer.Argument(help="Release whose package trainers shall read.")] = None,
    root: RootOption = Path("data"),
    *,
    newest: Annotated[bool, typer.Option("--newest", help="Remove the pin: follow the newest release.")] = False,
) -> None:
    """Hold trainers to the package of one release, or let them follow the newest again.

    Example: `genolewm package pin 2020-11-07 --root data`
    """
    from genolewm_assets.lewm.package_pointer import pin_release

    if (release is None) is not newest:
        raise typer.BadParameter("name a release, or give --newest")
    with ConsoleProgress(err) as progress:
        ref = pin_release(root, release, progress=progress)
    out.print(f"in use: release {ref.release}, {root / ref.path}", markup=False, soft_wrap=True)


def print_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Print what a verification found; exit with 4 if anything published is at fault."""
    faults = [finding for finding in findings if finding.is_fault]
    if as_json:
        out.print_json(json.dumps([asdict(finding) for finding in findings]))
    else:
        for finding in findings:
            out.print(str(finding), markup=False, soft_wrap=True)
        out.print(f"{len(faults)} faults, {len(findings) - len(faults)} other findings")
    if faults:
        raise typer.Exit(4)
