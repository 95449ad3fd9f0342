"""Checks of the plan of an epoch against what the catalogue declares, and the forecast of its visits.

What an epoch emits is measured by ``genolewm_assets.audit``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.package_build.sharing import TRAINING_WINDOWS
from genolewm_assets.packages import (
    MIX_TOLERANCE,
    EpochFigures,
    PackageInfo,
    PackageMix,
    Shares,
    epoch_visits,
    figures_of_visits,
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
