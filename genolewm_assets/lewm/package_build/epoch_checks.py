"""Checks of what a simulated epoch of training serves, and the forecast of its visits from counts of windows alone.

The checks compare counts of emitted tuples and visits with what the catalogue declares, not with the plan of the epoch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.holdouts import SimilarReason
from genolewm_assets.lewm.packages import (
    MIX_TOLERANCE,
    REFERENCE_ORIGIN,
    EpochFigures,
    PackageInfo,
    PackageMix,
    Shares,
    epoch_visits,
    present_shares,
)
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.files import JsonValue

#: Name of the check that foretells :func:`check_visits`; it blocks nothing.
WINDOWS_SUFFICE = "windows_suffice_for_mix"

#: Begin of the name of a count of windows outside of the holdouts, before their origin.
_COUNTED = "training_windows."


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


def count_training_windows(
    counts: Mapping[str, int], similar: pa.Table, excluded: pa.Table, corpus: Mapping[str, int]
) -> dict[str, int]:
    """Count the windows outside of the holdouts.

    Parameters
    ----------
    counts
        Counts of the holdouts (``lewm.holdouts.counts``).
    similar, excluded
        Schemas ``HOLDOUT_SIMILAR`` and ``HOLDOUT_CORPUS``.
    corpus
        Number of windows by corpus source.

    Returns
    -------
    dict
        ``training_windows.<origin>``, by origin of the window.
    """
    of_reference = pc.equal(similar["origin"], REFERENCE_ORIGIN)
    found = similar.filter(pc.and_(of_reference, pc.not_equal(similar["reason"], str(SimilarReason.REPEATS))))
    lost = found.group_by(["contig", "start"]).aggregate([]).num_rows
    key = ["source", "record_id", "window_index"]
    taken = Counter(excluded.select(key).group_by(key).aggregate([])["source"].to_pylist())
    left = {name: n - taken[name] for name, n in corpus.items()}
    left[REFERENCE_ORIGIN] = counts["windows"] - counts["windows.held_out"] - lost
    return {f"{_COUNTED}{name}": n for name, n in sorted(left.items())}


def check_windows_suffice(counts: Mapping[str, int], mix: PackageMix) -> CheckResult:
    """Check that the mix can be served without more visits of a window than it allows.

    ``counts`` has those of :func:`count_training_windows`. A window is visited up to once more than the visits per
    window of its origin, because an epoch may begin and end within a round of them.
    """
    windows = {name.removeprefix(_COUNTED): n for name, n in counts.items() if name.startswith(_COUNTED) and n > 0}
    shares = present_shares(mix.wanted.windows, set(windows))
    total, most = epoch_visits(shares, windows), max(1, mix.max_visits - 1)
    per_window = {name: share * total / windows[name] for name, share in shares.items()}
    rows: list[dict[str, object]] = [
        {
            "windows_of": name,
            "windows": windows[name],
            "visits_per_window": round(visits, 2),
            "expected": f"at most {most} per window, so that none has over {mix.max_visits}",
            "remedy": f"Lower its share of the windows from {shares[name]:.4f} to "
            f"{math.floor(1e4 * most * windows[name] / total) / 1e4:.4f}, give it "
            f"{math.ceil(shares[name] * total / most):,} windows, or set packages.max_visits: {math.ceil(visits) + 1}",
        }
        for name, visits in sorted(per_window.items(), key=lambda item: -item[1])
        if visits > most + 1e-9
    ]
    if not shares:
        wanted = ", ".join(sorted(mix.wanted.windows))
        rows = [{"windows_of": "training", "windows": 0, "expected": f"windows of at least one of {wanted}"}]
    shown: dict[str, JsonValue] = {name: round(visits, 4) for name, visits in sorted(per_window.items())}
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
