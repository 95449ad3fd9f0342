"""Checks of what a simulated epoch of training serves.

They compare counts of emitted tuples and visits with what the catalogue declares, not with the plan of the epoch.
"""

from __future__ import annotations

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.packages import MIX_TOLERANCE, EpochFigures, PackageInfo, Shares
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.files import JsonValue


def check_mix(info: PackageInfo) -> CheckResult:
    """Compare the shares that a simulated epoch served with the declared ones."""
    epoch, mix = _epoch(info), info.mix
    expected = mix.declared if isinstance(mix.declared, Shares) else mix.wanted
    off = expected.farthest(epoch.served)
    figures: dict[str, JsonValue] = {
        "declared": _shares(expected),
        "served": _shares(epoch.served),
        "planned": _shares(epoch.planned),
        "tuples_made": epoch.made,
        "error": epoch.error,
        "largest_difference": round(off, 6),
    }
    passed = epoch.made > 0 and off <= MIX_TOLERANCE
    if not passed and epoch.made:
        figures["remedy"] = f"Change the mix, or declare: packages: {{mix_declared: {_shares(epoch.planned)}}}"
    rows: list[dict[str, object]] = [
        {
            "share_of": kind,
            "name": name,
            "expected": round(wanted.get(name, 0.0), 6),
            "got": round(served.get(name, 0.0), 6),
            "difference": round(served.get(name, 0.0) - wanted.get(name, 0.0), 6),
            "allowed": MIX_TOLERANCE,
        }
        for kind, wanted, served in (
            ("windows", expected.windows, epoch.served.windows),
            ("edits", expected.edits, epoch.served.edits),
        )
        for name in sorted({*wanted, *served})
    ]
    return CheckResult("mix_served", passed=passed, figures=figures, rows=rows)


def check_visits(info: PackageInfo) -> CheckResult:
    """Check that no window is visited too often in an epoch, and that every window is visited in some epoch."""
    visits, most = _epoch(info).visits, info.mix.max_visits
    too_often = sorted(name for name, one in visits.items() if one.most > most)
    absent = sorted(name for name in visits if not _in_mix(name, info))
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


def _in_mix(stratum: str, info: PackageInfo) -> bool:
    """Tell whether the mix wants windows of a stratum; the strata of the reference begin with its name."""
    return info.mix.wanted.windows.get(stratum.split(",", maxsplit=1)[0], 0) > 0


def _epoch(info: PackageInfo) -> EpochFigures:
    if info.epoch is None:
        raise CorruptResourceError("package.json", "has no figures of an epoch", remedy="Rebuild the package")
    return info.epoch


def _shares(shares: Shares) -> dict[str, JsonValue]:
    return {
        "windows": {name: round(share, 6) for name, share in sorted(shares.windows.items())},
        "edits": {name: round(share, 6) for name, share in sorted(shares.edits.items())},
    }
