"""Power of an audit: the share of planted leaks of each kind that it finds."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

from genolewm_assets.audit.audit import audit_package
from genolewm_assets.audit.plant import HOLDOUTS, PACKAGE, plant_leaks
from genolewm_assets.audit.report import AuditReport, LeakKind, Power
from genolewm_assets.progress import NO_PROGRESS, Progress


def measure_power(
    package: Path,
    fasta: Path,
    *,
    number: int,
    clinvar: Path | None = None,
    clinvar_t0: Path | None = None,
    least_tuples: int,
    progress: Progress = NO_PROGRESS,
) -> tuple[dict[LeakKind, tuple[Power, ...]], AuditReport]:
    """Plant ``number`` leaks of each kind in a copy of a package, audit it, and count what is found.

    Parameters are those of :func:`audit_package`. The copy lies in the system's temporary folder meanwhile.

    Returns
    -------
    dict
        Power of each search, by kind of plant; none for what could not be planted.
    AuditReport
        The audit of the copy.
    """
    with tempfile.TemporaryDirectory(prefix="genolewm-audit-") as folder:
        out = Path(folder) / "planted"
        planted, _ = plant_leaks(package, out, fasta, number=number)
        report = audit_package(
            out / PACKAGE,
            fasta,
            holdouts=out / HOLDOUTS,
            clinvar=clinvar,
            clinvar_t0=clinvar_t0,
            least_tuples=least_tuples,
            progress=progress,
        )
    results = {result.kind: result for result in report}
    tried: defaultdict[tuple[LeakKind, str], list[bool]] = defaultdict(list)
    for one in planted:
        result = results.get(one.kind)
        tried[one.kind, one.plant].append(result is not None and one.key in result.found.keys)
    power: defaultdict[LeakKind, list[Power]] = defaultdict(list)
    for (kind, plant), found in tried.items():
        power[kind].append(Power(plant, len(found), sum(found)))
    return {kind: tuple(each) for kind, each in power.items()}, report
