"""One injection of a run as a profile: its row, its side-cars, and the counts of its peaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import InputError, PanelError
from genolewm_assets.forensic import HidFile, Panel, PreprocessedProfile, ProfileCalls, Sizing, call_alleles
from genolewm_assets.forensic.calling import CalledPeak, PeakFlag
from genolewm_assets.forensic.dataset import AlleleAnnotation, panel_as_json
from genolewm_assets.forensic.runs.annotations import Annotations, mask_alleles
from genolewm_assets.forensic.runs.injections import Ladder, first_scan, left_out, size_injection
from genolewm_assets.forensic.runs.rules import Reason, Role, RunRules
from genolewm_assets.forensic.signal import subtract_baseline
from genolewm_assets.store.arrays import RowStamp
from genolewm_assets.store.files import JsonValue

_FLAGS = {"stutter": PeakFlag.STUTTER, "pull_up": PeakFlag.PULL_UP, "low": PeakFlag.LOW, "minor": PeakFlag.MINOR}
_FLAGS |= {"unsized": PeakFlag.UNSIZED, "off_ladder": PeakFlag.OFF_LADDER, "off_scale": PeakFlag.OFF_SCALE}
#: Decimals of sizes in base pairs that are stored.
_DECIMALS = 4


@dataclass(frozen=True, slots=True, eq=False)
class MadeProfile:
    """A profile and what the account of its file says of it.

    Attributes
    ----------
    image
        The profile, for the array store.
    facts
        Values of the columns of ``FORENSIC_FILES``.
    unplaced
        Annotated alleles that are in no bin.
    """

    image: PreprocessedProfile
    facts: Mapping[str, str | int | float | bool]
    unplaced: int


def make_profile(
    path: str,
    injection: tuple[HidFile, RowStamp],
    ladder: Ladder,
    *,
    role: Role,
    annotations: Annotations,
    rules: RunRules,
) -> MadeProfile:
    """Size an injection, call its peaks by a ladder, and cut its row.

    Parameters
    ----------
    path
        Name of the profile: run folder and file.
    injection
        The injection and the stamp of its file.

    Raises
    ------
    LeftOutError
        If it is not sized, has other dyes than the ladder or a locus, or is longer than a row.
    """
    run, stamp = injection
    if len(run.dyes) != len(ladder.run.dyes):
        expected, got = f"{len(ladder.run.dyes)}, as the ladder", str(len(run.dyes))
        other = InputError(run.where, "has another number of dyes", expected=expected, got=got)
        raise left_out(Reason.OTHER_DYES, other)
    sizing = size_injection(run, rules)
    start = first_scan(run, sizing, rules)
    end = start + rules.n_scanpoints
    try:
        calls = call_alleles(run, sizing, ladder.fit.panel, rules=rules.calling)
    except PanelError as err:
        raise left_out(Reason.OTHER_DYES, err) from err
    scaler = sizing.size_at(np.arange(start, end)).astype(np.float32)
    genotype = annotations.find((PurePosixPath(path).stem, PurePosixPath(path).name, run.run.sample))
    mask, unplaced = (None, 0) if genotype is None else mask_alleles(genotype, ladder.fit.panel, scaler, len(run.dyes))
    saturated = int(np.count_nonzero((run.off_scale >= start) & (run.off_scale < end)))
    used: dict[str, str | int | float | bool] = {
        "ladder": ladder.file,
        "annotated": genotype is not None,
        "first_scan": start,
    }
    facts = {**used, **sizing_facts(run, sizing), "saturated_scans": saturated, **count_peaks(calls)}
    image = PreprocessedProfile(
        path=path,
        data=cut_traces(run, start, end),
        scaler=scaler,
        annotation=mask,
        panel=panel_as_json(rounded(ladder.fit.panel)),
        alleles=_alleles(calls, genotype, start),
        meta={"role": role.value, "ladder": ladder.file, "first_scan": start, "n_scans": run.n_scans},
        stamps={path: stamp},
    )
    return MadeProfile(image, facts, unplaced)


def cut_traces(run: HidFile, start: int, end: int) -> npt.NDArray[np.int16]:
    """Return the analysed traces of some scans, or the raw ones less their baseline; zeros after the end of the run.

    Returns
    -------
    numpy.ndarray
        int16, shape (n_dyes, end - start), in relative fluorescence units.
    """
    traces = np.zeros((len(run.dyes), end - start), np.int16)
    for row, dye in enumerate(run.dyes):
        trace = np.rint(subtract_baseline(dye.raw)) if dye.analysed is None else dye.analysed
        own = trace[start:end].astype(np.int16)
        traces[row, : len(own)] = own
    return traces


def sizing_facts(run: HidFile, sizing: Sizing) -> dict[str, int | float]:
    """Return the columns of ``FORENSIC_FILES`` that sizing determines."""
    return {
        "n_scans": run.n_scans,
        "fragments": len(sizing.standard.sizes_bp),
        "fragments_found": len(sizing.sizes_bp),
        # By least squares, whose last digits differ between processors.
        "max_residual_bp": round(float(np.abs(sizing.residuals_bp).max()), _DECIMALS),
        "r_squared": round(sizing.r_squared, 8),
        "standard_rfu": round(float(np.median(sizing.heights)), 1),
    }


def count_peaks(calls: ProfileCalls) -> dict[str, int]:
    """Return the columns of ``FORENSIC_FILES`` that count peaks and loci."""
    found: Counter[str] = Counter()
    for peak in calls.peaks:
        found["listed"] += 1
        found["called"] += peak.is_allele
        found.update(name for name, flag in _FLAGS.items() if peak.flags & flag)
    loci = sum(bool(alleles) for alleles in calls.genotype.values())
    return {**{f"peaks_{name}": found[name] for name in ("listed", "called", *_FLAGS)}, "loci_called": loci}


def rounded(panel: Panel) -> Panel:
    """Return a panel with sizes to a ten-thousandth of a base pair."""
    loci = [
        replace(
            locus,
            start_bp=round(locus.start_bp, _DECIMALS),
            end_bp=round(locus.end_bp, _DECIMALS),
            bins=tuple(replace(each, size_bp=round(each.size_bp, _DECIMALS)) for each in locus.bins),
        )
        for locus in panel.loci
    ]
    return replace(panel, loci=tuple(loci))


def _alleles(calls: ProfileCalls, annotated: AlleleAnnotation | None, start: int) -> dict[str, JsonValue]:
    return {
        "called": {locus: list(alleles) for locus, alleles in calls.genotype.items()},
        "annotated": None if annotated is None else {name: list(own) for name, own in annotated.loci.items()},
        "peaks": [_peak(peak, start) for peak in calls.peaks],
    }


def _peak(peak: CalledPeak, start: int) -> dict[str, JsonValue]:
    """Return a peak; its scans count from the start of the row."""
    return {
        "locus": peak.locus,
        "channel": peak.channel,
        "allele": peak.allele,
        "size_bp": round(peak.size_bp, _DECIMALS),
        "height_rfu": peak.height_rfu,
        "scan": round(peak.scan - start, 2),
        "left": peak.left - start,
        "right": peak.right - start,
        "flags": [flag.name.lower() for flag in peak.flags if flag.name is not None],
    }
