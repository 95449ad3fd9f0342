"""One VCF to one shard outside a root's asset graph: what the ``prepare-*`` commands run.

The shard is built, checked and published as the graph does it; only the genome is what the caller hands over, if any.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from functools import lru_cache
from pathlib import Path

from genolewm_assets.errors import GenoLeWMError, InputError
from genolewm_assets.genome import GRCH38, Contig, ContigSet
from genolewm_assets.lewm.shard_checks import check_clinvar_table, check_gnomad_table
from genolewm_assets.sources.clinvar import build_clinvar_shard, read_release_date
from genolewm_assets.sources.fasta import FastaReader
from genolewm_assets.sources.gnomad import GnomadParams, build_gnomad_shard
from genolewm_assets.sources.shard_audit import TableCheck, audit_shard
from genolewm_assets.sources.shard_file import ShardReport
from genolewm_assets.sources.source_file import SourceFile
from genolewm_assets.store import (
    NO_PROGRESS,
    ArtefactId,
    BuildPlan,
    BuildReport,
    JsonValue,
    Progress,
    Published,
    Root,
    build,
)
from genolewm_assets.store.rejected import clear_rejected

CODE_VERSION = "1"

#: Share of alleles whose REF may differ from the genome.
MAX_REF_MISMATCH_FRACTION = 0.001

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def prepare_gnomad(
    vcf: Path,
    output: Path,
    *,
    release: str,
    min_af: float = 0.01,
    reference: Path | None = None,
    progress: Progress = NO_PROGRESS,
) -> Published:
    """Write ``<output>/gnomad/<release>/variants.parquet`` and ``rejects.parquet`` from a gnomAD VCF.

    Parameters
    ----------
    min_af
        Lowest allele frequency kept, 0 to 1.
    reference
        FASTA to compare REF with and to left-align against; None: alleles are trimmed only.

    Raises
    ------
    InputError
        If the VCF or the FASTA is not what it should be; nothing is written then.
    BuildRejectedError
        If a check failed; nothing is written then.
    """
    contigs, bases = _genome(reference)
    params = GnomadParams(min_af=min_af)

    def write(work: Path) -> BuildReport:
        report = build_gnomad_shard(
            vcf, contig=None, contigs=contigs, reference=bases, params=params, out_dir=work, progress=progress
        )
        return _audited(report, work, check_gnomad_table, contigs, bases)

    return _publish(output, "gnomad", release, {**_recipe(vcf, reference), **asdict(params)}, write)


def prepare_clinvar(
    vcf: Path, output: Path, *, release: str, reference: Path | None = None, progress: Progress = NO_PROGRESS
) -> Published:
    """Write ``<output>/clinvar/<release>/variants.parquet`` and ``rejects.parquet`` from a ClinVar VCF.

    Parameters
    ----------
    release
        ISO date; must be the one in the file's header.
    reference
        FASTA to compare REF with and to left-align against; None: alleles are trimmed only.

    Raises
    ------
    InputError
        If the VCF or the FASTA is not what it should be, or of another date; nothing is written then.
    BuildRejectedError
        If a check failed; nothing is written then.
    """
    contigs, bases = _genome(reference)
    _check_date(vcf, release)

    def write(work: Path) -> BuildReport:
        report = build_clinvar_shard(
            vcf, release=release, contigs=contigs, reference=bases, out_dir=work, single_file=True, progress=progress
        )
        return _audited(report, work, check_clinvar_table, contigs, bases)

    return _publish(output, "clinvar", release, _recipe(vcf, reference), write)


def _audited(
    report: ShardReport,
    work: Path,
    check_table: TableCheck,
    contigs: ContigSet,
    bases: Callable[[Contig], bytes] | None,
) -> BuildReport:
    checks = audit_shard(
        work,
        check_table,
        contigs=contigs,
        reference=bases,
        counts=report.counts,
        max_ref_mismatch_fraction=MAX_REF_MISMATCH_FRACTION,
    )
    return BuildReport(report.counts, report.rows, checks)


def _check_date(vcf: Path, release: str) -> None:
    try:
        wanted = date.fromisoformat(release)
    except ValueError as err:
        raise InputError("--release", "is not a date", expected="YYYY-MM-DD", got=repr(release)) from err
    stated = read_release_date(vcf)
    if stated != wanted:
        raise InputError(
            str(vcf), "is another release", expected=f"##fileDate={wanted}", got=str(stated), remedy="Correct --release"
        )


def _genome(reference: Path | None) -> tuple[ContigSet, Callable[[Contig], bytes] | None]:
    """Return the contigs that records may lie on, and where their bases come from."""
    if reference is None:
        return GRCH38, None
    reader = FastaReader(reference, GRCH38)
    known = {contig.name: contig for contig in GRCH38}
    contigs = ContigSet(
        [
            Contig(name, length, known[name].circular, aliases=known[name].aliases)
            for name, length in reader.contigs.items()
            if name in known
        ]
    )
    return contigs, lru_cache(maxsize=1)(lambda contig: reader.read_contig(contig.name))


def _recipe(vcf: Path, reference: Path | None) -> dict[str, JsonValue]:
    files = {"vcf": vcf, "reference": reference}
    return {name: SourceFile(str(path), None, path.parent).identity() for name, path in files.items() if path}


def _publish(
    output: Path, domain: str, release: str, recipe: dict[str, JsonValue], write: Callable[[Path], BuildReport]
) -> Published:
    if not _FOLDER.fullmatch(release):
        raise InputError("--release", "cannot name a folder", expected="letters, digits, '.', '-'", got=repr(release))
    plan = BuildPlan(
        artefact=ArtefactId(f"{domain}/variants", release),
        location=f"{domain}/{release}",
        code_version=CODE_VERSION,
        recipe=recipe,
        inputs=(),
        write=write,
    )
    with _leaving_nothing(output, plan.location):
        return build(Root(output), plan)


@contextmanager
def _leaving_nothing(output: Path, location: str) -> Iterator[None]:
    """On an error leave the output folder as it was: the message says all there is to say."""
    existed = output.exists()
    try:
        yield
    except GenoLeWMError:
        if existed:
            clear_rejected(Root(output), location)
        else:
            shutil.rmtree(output, ignore_errors=True)
        raise
