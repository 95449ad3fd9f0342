"""Build the shard of one VCF without the asset graph, for the ``prepare-*`` commands.

The shard is built, checked and published as in the graph; the genome is that of :mod:`prepare_genome`.
It is built in a temporary root on the file system of the output, so that a command that fails changes nothing there.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, TypeAlias

from genolewm_assets.errors import InputError
from genolewm_assets.geno_lewm_layout import GENO_LEWM_CLINVAR, GENO_LEWM_GNOMAD, MAX_ALLELE_BP, rewrite_shard
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.clinvar import build_clinvar_shard, read_release_date
from genolewm_assets.sources.files import SourceFile
from genolewm_assets.sources.gnomad import GnomadParams, build_gnomad_shard, check_filters_applied, read_gnomad_release
from genolewm_assets.sources.prepare_genome import PreparedGenome, open_genome
from genolewm_assets.store.artefacts import (
    ArtefactId,
    BuildPlan,
    BuildRejectedError,
    BuildReport,
    CheckResult,
    Published,
    Root,
    build,
)
from genolewm_assets.store.files import JsonValue, check_publishable, make_directories, publish_generation
from genolewm_assets.store.locks import locked_folder
from genolewm_assets.store.tables import TableSchema
from genolewm_assets.variants import (
    MAX_REF_MISMATCH_FRACTION,
    MIN_AF,
    MIN_AN_FRACTION,
    VARIANTS_FILE,
    ReleaseKey,
    ShardReport,
    TableCheck,
    audit_shard,
    check_clinvar_table,
    check_filters_spare,
    state_origin,
)

#: Columns of a shard: our own, or those that geno-lewm 0.2.1 reads.
ShardLayout: TypeAlias = Literal["own", "geno-lewm"]
#: Code version in the manifests of prepared shards.
CODE_VERSION = "3"

_ACCEPT = "If the file is published unfiltered, give --accept-unfiltered"
#: Prefix of the temporary roots of commands.
_TEMPORARY_PREFIX = ".genolewm-prepare-"
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# One slash only, because Path() drops the second slash of a URL.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def prepare_gnomad(
    vcf: Path,
    output: Path,
    *,
    release: str | None = None,
    min_af: float = MIN_AF,
    min_an_fraction: float = MIN_AN_FRACTION,
    accept_unfiltered: bool = False,
    reference: Path | None = None,
    root: Path | None = None,
    catalog: str | None = None,
    layout: ShardLayout = "own",
    progress: Progress = NO_PROGRESS,
) -> Published:
    """Write ``<output>/gnomad/<release>/variants.parquet`` and ``rejects.parquet`` from a gnomAD VCF.

    ``release`` is a folder name, which the header may not contradict; None: it is read from the header. ``min_af`` and
    ``min_an_fraction`` are those of ``GnomadParams``. With another ``layout`` the checked shard is converted.
    """
    _check_local(vcf, reference)
    release = read_gnomad_release(vcf) if release is None else release
    genome = open_genome(reference, root=root, catalog=catalog, output=output, progress=progress)
    params = GnomadParams(min_af=min_af, min_an_fraction=min_an_fraction, accept_unfiltered=accept_unfiltered)

    recipe = {**_recipe(vcf, genome.fasta, layout), **asdict(params)}

    def write(work: Path) -> BuildReport:
        report = build_gnomad_shard(
            vcf,
            contig=None,
            contigs=genome.contigs,
            reference=genome.bases,
            params=params,
            out_dir=work,
            release=release,
            origin=state_origin(CODE_VERSION, recipe),
            progress=progress,
        )
        check_filters_applied(report, where=str(vcf), remedy=_ACCEPT)
        checked = _report_with_checks(report, work, check_table=params.check_table, genome=genome)
        checked = replace(checked, checks=(*checked.checks, check_filters_spare(report.counts)))
        return _in_layout(checked, work, layout, GENO_LEWM_GNOMAD)

    return _publish(vcf, output, domain="gnomad", release=release, recipe=recipe, write=write)


def prepare_clinvar(
    vcf: Path,
    output: Path,
    *,
    release: str,
    reference: Path | None = None,
    root: Path | None = None,
    catalog: str | None = None,
    layout: ShardLayout = "own",
    progress: Progress = NO_PROGRESS,
) -> Published:
    """Write ``<output>/clinvar/<release>/variants.parquet`` and ``rejects.parquet`` from a ClinVar VCF."""
    _check_local(vcf, reference)
    _check_date(vcf, release)
    genome = open_genome(reference, root=root, catalog=catalog, output=output, progress=progress)
    recipe = _recipe(vcf, genome.fasta, layout)

    def write(work: Path) -> BuildReport:
        report = build_clinvar_shard(
            vcf,
            release=release,
            contigs=genome.contigs,
            reference=genome.bases,
            out_dir=work,
            single_file=True,
            origin=state_origin(CODE_VERSION, recipe),
            progress=progress,
        )
        checked = _report_with_checks(report, work, check_table=check_clinvar_table, genome=genome)
        return _in_layout(checked, work, layout, GENO_LEWM_CLINVAR)

    return _publish(vcf, output, domain="clinvar", release=release, recipe=recipe, write=write)


def _report_with_checks(
    report: ShardReport, work: Path, *, check_table: TableCheck, genome: PreparedGenome
) -> BuildReport:
    """Run the checks of the shard in ``work`` and add them to its report."""
    checks = audit_shard(
        work,
        report,
        check_table,
        contigs=genome.contigs,
        reference=genome.bases,
        max_ref_mismatch_fraction=MAX_REF_MISMATCH_FRACTION,
    )
    return BuildReport(report.counts, report.rows, checks)


def _in_layout(report: BuildReport, work: Path, layout: ShardLayout, schema: TableSchema) -> BuildReport:
    """Rewrite the shard in ``work`` for another layout, and count the alleles that this leaves out."""
    if layout == "own":
        return report
    kept, left_out = rewrite_shard(work / VARIANTS_FILE, schema)
    counts = {**report.counts, f"over_{MAX_ALLELE_BP}_bp": left_out}
    return replace(report, counts=counts, rows={**report.rows, VARIANTS_FILE: kept})


def _check_local(*paths: Path | None) -> None:
    """Raise :class:`InputError` if a path is a URL."""
    for path in filter(None, paths):
        if _URL.match(str(path)) and not path.exists():
            raise InputError(
                str(path), "is a URL", expected="the path of a local file", got="a URL", remedy="Download it first"
            )


def _check_date(vcf: Path, release: str) -> None:
    """Raise :class:`InputError` unless ``release`` is a release key with the date of the VCF."""
    try:
        wanted = ReleaseKey.parse(release).day
    except InputError as err:
        expected = "YYYY-MM-DD, or YYYY-MM-DD.2 for a second file of that date"
        raise InputError("--release", "is not a ClinVar release", expected=expected, got=repr(release)) from err
    stated = read_release_date(vcf)
    if stated != wanted:
        raise InputError(
            str(vcf), "is another release", expected=f"##fileDate={wanted}", got=str(stated), remedy="Correct --release"
        )


def _recipe(vcf: Path, reference: Path | None, layout: ShardLayout) -> dict[str, JsonValue]:
    """Return the identities of the input files, and a layout that is not our own."""
    files = {"vcf": vcf, "reference": reference}
    inputs = {name: SourceFile(str(path), None, path.parent).identity() for name, path in files.items() if path}
    return {**inputs, **({} if layout == "own" else {"layout": layout})}


def _publish(
    vcf: Path,
    output: Path,
    *,
    domain: str,
    release: str,
    recipe: dict[str, JsonValue],
    write: Callable[[Path], BuildReport],
) -> Published:
    """Build in a temporary root and publish the result at ``<output>/<domain>/<release>``."""
    if not _FOLDER.fullmatch(release):
        raise InputError("--release", "cannot name a folder", expected="letters, digits, '.', '-'", got=repr(release))
    location = f"{domain}/{release}"
    plan = BuildPlan(
        artefact=ArtefactId(f"{domain}/variants", release),
        location=location,
        code_version=CODE_VERSION,
        recipe=recipe,
        inputs=(),
        write=write,
    )
    link = Root(output).link_of(location)
    check_publishable(link)
    with _temporary_root(output, location) as root:
        try:
            published = build(root, plan)
        except BuildRejectedError as err:
            raise _rejection_error(vcf, err) from err
        with _created_and_locked(link.parent):
            directory = publish_generation(published.directory, link, published.manifest.sha256[:12])
    return replace(published, directory=directory)


@contextmanager
def _temporary_root(output: Path, location: str) -> Iterator[Root]:
    """Provide a locked temporary root on the file system of ``output``, which need not exist; removed at the end."""
    folders = [folder for folder in (Root(output).path, *Root(output).path.parents) if folder.exists()]
    site = folders[0]
    if not site.is_dir():
        raise InputError("--output", "is not a folder", expected="a folder or a new path", got=repr(str(site)))
    with Root(site).storage_errors(location), ExitStack() as stack:
        # A killed command may have started before ``output`` existed, with its temporary root in a parent folder.
        for folder in folders:
            _remove_abandoned(folder)
        with _created_and_locked(site):
            temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_TEMPORARY_PREFIX, dir=site)))
            stack.enter_context(locked_folder(temporary))
        yield Root(temporary)


def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary roots of killed commands; the root of a running command is locked and stays."""
    if not any(folder.glob(f"{_TEMPORARY_PREFIX}*")):
        return
    with suppress(OSError), _created_and_locked(folder):
        for temporary in folder.glob(f"{_TEMPORARY_PREFIX}*"):
            if temporary.is_symlink():
                continue
            with suppress(OSError), locked_folder(temporary, wait=False):
                shutil.rmtree(temporary)


@contextmanager
def _created_and_locked(folder: Path) -> Iterator[None]:
    """Create a folder if it is missing and hold its lock; the lock leaves no file in the folder."""
    make_directories(folder)
    with locked_folder(folder):
        yield


def _rejection_error(vcf: Path, err: BuildRejectedError) -> BuildRejectedError:
    """Return an error that names the failed checks with their figures, because the rejected build is not kept."""
    failed = "; ".join(f"{check.name} ({_figures(check)})" for check in err.checks if not check.passed)
    rejection = BuildRejectedError(
        str(vcf), f"the shard fails {failed}", remedy="Nothing was written; check the file and its assembly"
    )
    rejection.checks = err.checks
    return rejection


def _figures(check: CheckResult) -> str:
    """Return the figures of a check that are not zero or empty."""
    shown = ((name, "; ".join(map(str, v)) if isinstance(v, list) else v) for name, v in check.figures.items())
    return ", ".join(f"{name} {value}" for name, value in shown if value)
