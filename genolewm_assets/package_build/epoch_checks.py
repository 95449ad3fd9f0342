"""Figures of the first epoch of a written package, their checks, and the forecast of its visits.

Not here: what it emits (``audit``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.edits import SamplingRules
from genolewm_assets.errors import CorruptResourceError, GenoLeWMError
from genolewm_assets.genome import EVALUATION, HARMFUL, Holdout, Split
from genolewm_assets.memory_mapped import MappedWindows, open_mapped
from genolewm_assets.package_build.rows import HARMFUL_UNDER_STARS
from genolewm_assets.package_build.sharing import TRAINING_WINDOWS
from genolewm_assets.packages import (
    MIX_TOLERANCE,
    N_EDITS,
    EpochFigures,
    Package,
    PackageInfo,
    PackageMix,
    Shares,
    VariantSource,
    WindowAlleles,
    epoch_visits,
    figures_of_visits,
    plan_epoch,
    present_shares,
)
from genolewm_assets.store.artefacts import Check, CheckResult
from genolewm_assets.store.files import JsonValue

#: Foretells :func:`check_visits`; it blocks nothing.
WINDOWS_SUFFICE = Check(
    "windows_suffice_for_mix",
    "With the windows outside the holdouts and the catalogue's mix, an epoch visits no window more often than "
    "packages.max_visits allows: `visits_bounded` of packages/split, told before states are computed. Blocks nothing.",
    "Do one of what the rows say before states are computed: packages/split would fail its check visits_bounded. The "
    "shares are those of packages.mix in the catalogue.",
)


def plan_of_epoch(package: Package) -> EpochFigures:
    """Return the figures of epoch 0; without a training window that the mix asks for, ``error`` says why."""
    rules, windows_with = SamplingRules(), dict[str, int]()
    try:
        mapped = open_mapped(package, Split.TRAIN)
        real = {str(source): mapped.real_alleles(source, None) for source in VariantSource}
        alleles = WindowAlleles.count(MappedWindows(mapped), real, rules.first_bp, rules.inset_bp)
        windows_with = {name: int(np.count_nonzero(getattr(alleles, name))) for name in real}
        plan = plan_epoch(alleles, package.info.mix, n_edits=N_EDITS)
    except GenoLeWMError as err:
        return EpochFigures(0, Shares({}, {}), {}, windows_with, error=str(err))
    return EpochFigures(
        tuples=max(1, round(sum(plan.visits.values()))) * N_EDITS,
        planned=Shares(**_shares(plan.shares)),
        visits=figures_of_visits(plan.visits, alleles.windows_by_stratum()),
        windows_with=windows_with,
    )


def check_mix(info: PackageInfo) -> CheckResult:
    """Compare the shares that the plan of an epoch gives with the declared ones."""
    epoch, mix = _epoch(info), info.mix
    expected = mix.declared if isinstance(mix.declared, Shares) else mix.wanted
    off = expected.farthest(epoch.planned)
    figures: dict[str, JsonValue] = {
        "declared": _shares(expected),
        "planned": _shares(epoch.planned),
        "tuples": epoch.tuples,
        "error": epoch.error,
        "largest_difference": round(off, 6),
    }
    passed = epoch.tuples > 0 and off <= MIX_TOLERANCE
    if not passed and epoch.tuples:
        figures["remedy"] = f"Change the mix, or declare: packages: {{mix_declared: {_shares(epoch.planned)}}}"
    rows: list[dict[str, object]] = [
        {
            "share_of": kind,
            "name": name,
            "expected": round(wanted.get(name, 0.0), 6),
            "got": round(planned.get(name, 0.0), 6),
            "difference": round(planned.get(name, 0.0) - wanted.get(name, 0.0), 6),
            "allowed": MIX_TOLERANCE,
        }
        for kind, wanted, planned in (
            ("windows", expected.windows, epoch.planned.windows),
            ("edits", expected.edits, epoch.planned.edits),
        )
        for name in sorted({*wanted, *planned})
    ]
    return CheckResult("mix_served", passed=passed, figures=figures, rows=rows)


def check_visits(info: PackageInfo) -> CheckResult:
    """Check that no window is visited too often in an epoch, and that every window is visited in some epoch."""
    visits, most, wanted = _epoch(info).visits, info.mix.max_visits, info.mix.wanted.windows
    too_often = sorted(name for name, one in visits.items() if one.most > most)
    # The strata of the reference begin with its name.
    absent = sorted(name for name in visits if wanted.get(name.split(",", maxsplit=1)[0], 0) <= 0)
    never = sorted(name for name, one in visits.items() if not one.later and name not in absent)
    figures: dict[str, JsonValue] = {
        "max_visits": most,
        "too_often": list(too_often),
        "never": list(never),
        "not_in_the_mix": list(absent),
        "most_visits": {name: one.most for name, one in visits.items()},
    }
    rows: list[dict[str, object]] = [
        {"windows_of": name, "expected": f"at most {most} visits of a window", "got": visits[name].most}
        for name in too_often
    ]
    rows += [{"windows_of": name, "expected": "visited in some epoch", "got": "never visited"} for name in never]
    rows += [] if visits else [{"windows_of": "training", "expected": "windows to visit", "got": "none"}]
    return CheckResult("visits_bounded", passed=not rows, figures=figures, rows=rows)


def check_windows_suffice(counts: Mapping[str, int], mix: PackageMix) -> CheckResult:
    """Check that the mix can be served without more visits of a window than it allows.

    ``counts`` has those of ``sharing.count_training_windows``. A window is visited up to once more than the visits per
    window of its origin, because an epoch may begin and end within a round of them. Windows of the reference are taken
    as visited evenly.
    """
    windows = {
        name.removeprefix(TRAINING_WINDOWS): n
        for name, n in counts.items()
        if name.startswith(TRAINING_WINDOWS) and n > 0
    }
    shares = present_shares(mix.wanted.windows, set(windows))
    total, safe = epoch_visits(shares, windows), max(1, mix.max_visits - 1)
    visits = {name: share * total for name, share in shares.items()}
    per_window = {name: n / windows[name] for name, n in visits.items()}
    most = {name: one.most for name, one in figures_of_visits(visits, windows).items()} if visits else {}
    rows: list[dict[str, object]] = [
        {
            "windows_of": name,
            "windows": windows[name],
            "visits_per_window": round(per_window[name], 2),
            "expected": f"at most {mix.max_visits} visits of a window",
            "got": n,
            "remedy": f"Lower its share of the windows from {shares[name]:.4f} to "
            f"{math.floor(1e4 * safe * windows[name] / total) / 1e4:.4f}, give it "
            f"{math.ceil(visits[name] / safe):,} windows, or set "
            f"packages.max_visits: {math.ceil(per_window[name]) + 1}",
        }
        for name, n in sorted(most.items(), key=lambda item: -item[1])
        if n > mix.max_visits
    ]
    if not shares:
        wanted = ", ".join(sorted(mix.wanted.windows))
        rows = [{"windows_of": "training", "windows": 0, "expected": f"windows of at least one of {wanted}"}]
    shown: dict[str, JsonValue] = {name: round(n, 4) for name, n in sorted(per_window.items())}
    figures: dict[str, JsonValue] = {
        "max_visits": mix.max_visits,
        "visits_of_an_epoch": total,
        "visits_per_window": shown,
    }
    return CheckResult(WINDOWS_SUFFICE, passed=not rows, figures=figures, rows=rows)


def _epoch(info: PackageInfo) -> EpochFigures:
    if info.epoch is None:
        raise CorruptResourceError("package.json", "has no figures of an epoch", remedy="Rebuild the package")
    return info.epoch


def _shares(shares: Shares) -> dict[str, dict[str, float]]:
    both = {"windows": shares.windows, "edits": shares.edits}
    return {name: {key: round(float(share), 6) for key, share in sorted(of.items())} for name, of in both.items()}


#: What to write in the catalogue so that a holdout leaves alleles to training.
_RELEASED_BY = {
    Holdout.CHR: "Hold out fewer contigs (holdouts.contigs_validation, contigs_test) or blocks (block_*_fraction)",
    Holdout.CLINVAR: (
        "Name the genes to hold out in holdouts.clinvar_genes (an empty list holds out none), or lower "
        "holdouts.clinvar_gene_fraction"
    ),
    Holdout.HAPLOTYPES: "Lower holdouts.haplotype_fraction",
    Holdout.TEMPORAL: "Choose another pair of releases for the temporal holdout",
}


def check_training_alleles(package: Package) -> CheckResult:
    """Check that training windows hold alleles of each source that has some; ``cause`` and ``remedy`` say why not."""
    info = package.info
    inside = {source: info.epoch.windows_with.get(source, 0) if info.epoch else 0 for source in VariantSource}
    missing = [source for source in VariantSource if info.counts.get(f"alleles.{source}.in", 0) and not inside[source]]
    figures: dict[str, JsonValue] = {f"windows_with_{source}_alleles": n for source, n in inside.items()}
    figures["declared"] = info.without_alleles
    causes = [_cause(package, source) for source in missing]
    if missing:
        figures["cause"] = "; ".join(cause for cause, _ in causes)
        remedies = dict.fromkeys(remedy for _, remedy in causes)
        figures["remedy"] = f"{'; '.join(remedies)}; or declare it in the catalogue (packages.without_alleles: true)"
    rows = [
        {
            "source": source,
            "alleles_in_the_source": info.counts.get(f"alleles.{source}.in", 0),
            "expected": "at least 1 in a training window",
            "got": cause,
        }
        for source, (cause, _) in zip(missing, causes, strict=True)
    ]
    passed = not missing or info.without_alleles
    return CheckResult("training_alleles_present", passed=passed, figures=figures, rows=rows)


def _cause(package: Package, source: VariantSource) -> tuple[str, str]:
    """Return why no training window holds an allele of a source, and what to write in the catalogue."""
    what = "gnomAD allele" if source is VariantSource.GNOMAD else "P or LP ClinVar allele"
    if offered := _alleles(package, Split.TRAIN, source).num_rows:
        widen = "Choose window tracks and contigs that leave windows around the alleles"
        return f"no {what} of the {offered:,} in train lies in a training window", widen
    if few := package.info.counts.get(f"alleles.{source}.{HARMFUL_UNDER_STARS}", 0):
        least = package.info.mix.min_training_stars
        cause = f"no {what} is left for training: {few:,} have fewer than {least} review stars"
        return cause, "Lower packages.min_training_stars"
    held = Counter(name for split in EVALUATION for name in _alleles(package, split, source)["holdout"].to_pylist())
    if not held:
        return f"the source has no {what} on a contig with windows", "Name a source that has some"
    holdout, n = held.most_common(1)[0]
    intervals = package.holdouts("intervals", ["holdout", "name"])
    names = pc.unique(intervals["name"].filter(pc.equal(intervals["holdout"], holdout))).to_pylist()
    some = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
    units = f" (its only unit is {some})" if len(names) == 1 else f" ({len(names):,} units: {some})" if names else ""
    return f"no {what} is left for training: {n:,} are held out by {holdout}{units}", _RELEASED_BY[Holdout(holdout)]


def _alleles(package: Package, split: Split, source: VariantSource) -> pa.Table:
    where = pc.equal(pc.field("source"), str(source))
    if source is VariantSource.CLINVAR:
        where &= pc.field("label").isin(sorted(HARMFUL))
    return package.variants(split, ["holdout"], where=where)
