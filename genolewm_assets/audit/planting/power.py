"""Power of an audit: the share of planted leaks of each kind that it finds."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from genolewm_assets.audit import AuditReport, LeakKind, Power, audit_package
from genolewm_assets.audit.planting.plant import HOLDOUTS, PACKAGE, plant_leaks
from genolewm_assets.audit.planting.planted import EMITTED_PLANTS, PLANTS, Planted
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
    progress: Progress = NO_PROGRESS,
) -> dict[LeakKind, tuple[Power, ...]]:
    """Plant ``number`` leaks of each kind in copies of a package, audit these, and count what is found.

    Parameters are those of :func:`audit_package`; ``before`` is the audit of the package itself, whose findings are not
    counted as planted leaks. The copies lie in the system's temporary folder meanwhile.

    Returns
    -------
    dict
        Power of each search, by kind of plant; a kind that could not be planted has 0 planted.
    """
    shown = tuple(name for name in PLANTS if name not in EMITTED_PLANTS)
    power: defaultdict[LeakKind, list[Power]] = defaultdict(list)
    # What is not emitted shows without the stream.
    for kinds, tuples in ((shown, 0), (EMITTED_PLANTS, least_tuples)):
        with tempfile.TemporaryDirectory(prefix="genolewm-audit-") as folder:
            out = Path(folder) / "planted"
            planted, failed = plant_leaks(package, out, fasta, kinds, number=number, holdouts=holdouts)
            report = audit_package(
                out / PACKAGE,
                fasta,
                holdouts=out / HOLDOUTS,
                clinvar=clinvar,
                clinvar_t0=clinvar_t0,
                least_tuples=tuples,
                progress=progress,
            )
        for one in count_found(planted, report, before):
            power[one[0]].append(one[1])
        for name in failed:
            power[PLANTS[name].kind].append(Power(name, 0, 0))
    return {kind: tuple(each) for kind, each in power.items()}


def count_found(
    planted: Iterable[Planted], report: AuditReport, before: AuditReport | None = None
) -> Iterator[tuple[LeakKind, Power]]:
    """Yield, by kind of leak and of plant, how many of the planted leaks a report has.

    What was found ``before`` anything was planted is left out: it tells nothing of the search.
    """
    known = {(result.kind, key) for result in before or () for key in result.found.keys}
    keys = {result.kind: result.found.keys for result in report}
    tried: defaultdict[tuple[LeakKind, str], list[bool]] = defaultdict(list)
    for one in planted:
        if (one.kind, one.key) in known:
            continue
        tried[one.kind, one.plant].append(one.key in keys.get(one.kind, ()))
    for (kind, plant), found in tried.items():
        yield kind, Power(plant, len(found), sum(found))
