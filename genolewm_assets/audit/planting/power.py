"""Power of an audit: the share of planted leaks of each kind that it finds."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from genolewm_assets.audit import AuditReport, HeldAlleles, LeakKind, Power, SearchResult, audit_package, search_stream
from genolewm_assets.audit.planting.plant import HOLDOUTS, PACKAGE, plant_leaks
from genolewm_assets.audit.planting.planted import EMITTED_PLANTS, PLANTS, Planted
from genolewm_assets.audit.reading.intervals import HeldSpans
from genolewm_assets.audit.reading.package_files import open_files
from genolewm_assets.audit.reading.reference import Reference
from genolewm_assets.progress import NO_PROGRESS, Progress


def measure_power(
    package: Path,
    fasta: Path,
    *,
    number: int,
    holdouts: Path | None = None,
    clinvar: Path | None = None,
    clinvar_t0: Path | None = None,
    least_tuples: int,
    before: AuditReport | None = None,
    folder: Path | None = None,
    progress: Progress = NO_PROGRESS,
) -> dict[LeakKind, tuple[Power, ...]]:
    """Plant ``number`` leaks of each kind in copies of a package, audit these, and count what is found.

    Parameters
    ----------
    before
        Audit of the package itself; what it found is not counted as a planted leak.
    folder
        Folder in which the copies lie meanwhile; None: the system's for temporary files. On the package's file system
        tables without a planted leak are linked and take no room.

    Returns
    -------
    dict
        Power of each search, by kind of plant; a kind that could not be planted has 0 planted.
    """
    shown = tuple(name for name in PLANTS if name not in EMITTED_PLANTS)
    power: defaultdict[LeakKind, list[Power]] = defaultdict(list)
    for kinds in (shown, EMITTED_PLANTS):
        with tempfile.TemporaryDirectory(prefix="genolewm-audit-", dir=folder) as name:
            out = Path(name) / "planted"
            planted, failed = plant_leaks(package, out, fasta, kinds, number=number, holdouts=holdouts, linked=True)
            results = (
                # What is not emitted shows without the stream.
                audit_package(
                    out / PACKAGE,
                    fasta,
                    holdouts=out / HOLDOUTS,
                    clinvar=clinvar,
                    clinvar_t0=clinvar_t0,
                    least_tuples=0,
                    progress=progress,
                )
                if kinds is shown
                else _draw(out, fasta, planted, least_tuples, progress)
            )
        for kind, one in count_found(planted, results, before):
            power[kind].append(one)
        for name in failed:
            power[PLANTS[name].kind].append(Power(name, 0, 0))
    return {kind: tuple(each) for kind, each in power.items()}


def _draw(
    out: Path, fasta: Path, planted: tuple[Planted, ...], least_tuples: int, progress: Progress
) -> tuple[SearchResult]:
    """Draw the stream of a package with planted leaks until all are found, or as many tuples as the audit draws."""
    files = open_files(out / PACKAGE, out / HOLDOUTS)
    with Reference(fasta) as reference:
        result, *_ = search_stream(
            files,
            reference,
            HeldSpans.of_package(files),
            HeldAlleles(files, reference),
            least_tuples=least_tuples,
            progress=progress,
            until=frozenset(one.key for one in planted),
        )
    return (result,)


def count_found(
    planted: Iterable[Planted], results: AuditReport | Iterable[SearchResult], before: AuditReport | None = None
) -> Iterator[tuple[LeakKind, Power]]:
    """Yield, by kind of leak and of plant, how many of the planted leaks are found that were not there ``before``."""
    known = {(result.kind, key) for result in before or () for key in result.found.keys}
    keys = {result.kind: result.found.keys for result in results}
    tried: defaultdict[tuple[LeakKind, str], list[bool]] = defaultdict(list)
    for one in planted:
        if (one.kind, one.key) in known:
            continue
        tried[one.kind, one.plant].append(one.key in keys.get(one.kind, ()))
    for (kind, plant), found in tried.items():
        yield kind, Power(plant, len(found), sum(found), PLANTS[plant].least_share)
