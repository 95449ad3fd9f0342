"""Checks of a written run. Rows at fault name files, loci of the kit and numbers, but no allele of a sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from genolewm_assets.errors import AbifError
from genolewm_assets.forensic import HidFile, MemmapCacheReader, Panel, read_hid
from genolewm_assets.forensic.dataset import INSTRUMENT_SUFFIXES, parse_table
from genolewm_assets.forensic.panels import is_amelogenin
from genolewm_assets.forensic.runs.rules import Fate, Role, RunRules
from genolewm_assets.forensic.runs.tables import FILES_FILE, LADDER_ALLELES_FILE, RUN_TABLES
from genolewm_assets.forensic.sizing import standard_of
from genolewm_assets.store.artefacts import Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, check_schema

#: Checks of :func:`check_run`, in its order.
RUN_CHECKS = (
    SCHEMA_AS_DECLARED,
    Check(
        "every_file_accounted_for",
        "Every file of the run folder has one row: a profile of the store, a ladder or an allele report that was "
        "used, or left out with a reason.",
        "A file appeared or disappeared while the run was built. Materialise again; report rows that come back.",
    ),
    Check(
        "annotations_reach_injections",
        "Every line of the run's allele reports names an injection, by file or sample, and a locus of the panel.",
        "The allele report of the rows names samples or loci otherwise than the instrument files and the panel, or is "
        "of another run or kit. Rename them in the report, or take the lines out.",
    ),
    Check(
        "size_standard_fits",
        "In every profile the size standard has a top at the scan that the scaler gives to each fragment that was "
        "found, and no fragment is further from the smooth curve than the catalogue allows.",
        "Look at the trace of the size standard in the files of the rows; take files of failed injections out of the "
        "folder, or state the fragments with forensic.size_standard_bp.",
    ),
    Check(
        "ladder_complete",
        "Every ladder that was used has each allele of the kit's panel file, at its distance from its neighbours.",
        "Put a ladder of the kit into the folder, and check forensic.panels and forensic.ladder_names. An allele that "
        "is missing in every ladder may be none of the kit's version.",
    ),
    Check(
        "negative_clean",
        "No peak of a negative control is called.",
        "The run may be contaminated: look at the file of the rows before its samples are used. Without a negative "
        "control, check forensic.negative_names or declare forensic.negative_control: optional.",
    ),
    Check(
        "control_has_its_genotype",
        "Every positive control has the alleles that the panel file states of it.",
        "Look at the file of the rows; check forensic.positive_names and that the panel files are those of the kit.",
    ),
    Check(
        "saturation_flagged",
        "In every profile, peaks are flagged as off scale exactly where the file marks the detector as saturated.",
    ),
)

#: Largest difference of the distance of two neighbouring ladder alleles from that in the panel, in base pairs.
_MAX_STEP_BP = 1.0
#: Scans round the place of a fragment in which its top must be, and in which nothing may be higher.
_TOP_SCANS, _ROUND_SCANS = 2, 7
_MIN_FOUND = 0.8
_FULL_SCALE = 32_767


def check_run(
    directory: Path, folder: str, files: Mapping[str, Path], panel: Panel, rules: RunRules
) -> tuple[CheckResult, ...]:
    """Run :data:`RUN_CHECKS` on a folder that :func:`write_profiles` filled.

    Parameters
    ----------
    files
        Path of every file in the run folder, by relative name, listed after the build.
    """
    schemas = [check_schema(pq.read_table(directory / name), schema) for name, schema in RUN_TABLES.items()]
    failed = next((each for each in schemas if not each.passed), schemas[0])
    written = _Written(directory, folder, files, rules)
    return (
        failed,
        _check_account(written),
        _check_annotations(written, panel),
        _check_sizes(written),
        _check_ladders(directory, panel, written),
        _check_negatives(written),
        _check_positives(written, panel),
        _check_saturation(written),
    )


class _Written:
    """What was written of a run, its files, and its rules."""

    def __init__(self, directory: Path, folder: str, files: Mapping[str, Path], rules: RunRules) -> None:
        self.directory, self.folder, self.files, self.rules = directory, folder, files, rules
        self.rows: list[dict[str, Any]] = pq.read_table(directory / FILES_FILE).to_pylist()
        #: The array store, with checksums compared.
        self.store = MemmapCacheReader(directory, check=True)
        self._entries = self.store.load_index()
        self.paths = [entry.path for entry in self._entries]
        #: Rows of the account that have a row in the store.
        self.stored = [row for row in self.rows if row["row"] in range(len(self.store)) and row["file"] in files]

    def names(self) -> tuple[set[str], list[str]]:
        """Return the names of injections and of their samples, and the files whose sample cannot be read."""
        found, unreadable = set(), []
        for name, path in self.files.items():
            file = PurePosixPath(name)
            if file.suffix.lower() in INSTRUMENT_SUFFIXES:
                found |= {file.stem, file.name}
                try:
                    found.add(read_hid(path).run.sample)
                except AbifError:
                    unreadable.append(file.stem)
        return found - {""}, unreadable

    def alleles(self, row: Mapping[str, Any]) -> Any:
        """Return the called alleles of a stored profile by locus (``called``), and its ``peaks``."""
        return self.store.alleles(self._entries[row["row"]].allele_key)

    def run(self, row: Mapping[str, Any]) -> HidFile:
        """Return the injection of a row, read again."""
        return read_hid(self.files[row["file"]])


def _check_account(written: _Written) -> CheckResult:
    """Compare the rows with the files of the folder, and what they say of the store with the store."""
    faults, rows = RowsAtFault(), {row["file"]: row for row in written.rows}
    for name in sorted(set(written.files) ^ set(rows)):
        faults.add(file=name, problem="is not accounted for" if name in written.files else "is not in the folder")
    paths = written.paths
    numbers = [row["row"] for row in written.rows if row["row"] is not None]
    if sorted(numbers) != list(range(len(paths))):
        faults.add(problem="other rows than those of the store", expected=len(paths), got=len(numbers))
    for row in written.rows:
        is_stored, is_left_out = row["fate"] == Fate.STORED, row["fate"] == Fate.LEFT_OUT
        place = row["row"]
        named = place is not None and place < len(paths) and paths[place] == f"{written.folder}/{row['file']}"
        if is_stored != (place is not None) or is_stored != named or is_left_out != (row["reason"] is not None):
            faults.add(file=row["file"], problem="its fate, reason and row disagree", got=row["fate"])
    fates = {fate.value: sum(row["fate"] == fate for row in written.rows) for fate in Fate}
    check = CheckResult("every_file_accounted_for", not len(faults), {"files": len(written.files), **fates}, [*faults])
    return stating_compared(check, len(written.rows), "the folder has no file")


def _check_annotations(written: _Written, panel: Panel) -> CheckResult:
    """Look for the injection and the locus that each line of the allele reports names; no cell of them is stated.

    A report may cover several runs and kits. It is at fault if it has nothing of this one, or a name that nearly is one
    which it lacks. A name that is a part of the name of an unreadable file is taken for its sample's.
    """
    reports = [row["file"] for row in written.rows if row["role"] == Role.ANNOTATION and row["file"] in written.files]
    names, unreadable = written.names()
    loci = {locus.name for locus in panel.loci}
    faults, compared, elsewhere = RowsAtFault(), 0, 0
    for report in reports:
        rows = parse_table(written.files[report].read_bytes(), report).rows
        compared += len(rows)
        readable = [(n, cells) for n, cells in rows if not any(cells[0] and cells[0] in each for each in unreadable)]
        for what, known, at in (("injection", names, 0), ("locus of the panel", loci, 1)):
            strangers = [(number, cells[at]) for number, cells in readable if cells[at] not in known]
            elsewhere += len(strangers)
            missing = known - {cells[at] for _, cells in rows}
            near = any(_are_alike(name, each) for _, name in strangers for each in missing)
            if strangers and (near or len(strangers) == len(rows)):
                problem, expected = f"lines name no {what}", f"such as {', '.join(map(repr, sorted(known)[:3]))}"
                got = f"{len(strangers)} of {len(rows)} lines"
                faults.add(file=report, problem=problem, expected=expected, got=got, first_line=strangers[0][0])
    figures: dict[str, JsonValue] = {
        "reports": len(reports),
        "injection_names": len(names),
        "lines_of_others": elsewhere,
        "wrong": len(faults),
    }
    check = CheckResult("annotations_reach_injections", not len(faults), figures, [*faults])
    return stating_compared(check, compared, "the run has no allele report", declared=True)


def _are_alike(one: str, other: str) -> bool:
    """Whether one of two names is a part of the other, without regard to case and separators."""
    first, second = ("".join(filter(str.isalnum, name.casefold())) for name in (one, other))
    return bool(first and second) and (first in second or second in first)


def _check_sizes(written: _Written) -> CheckResult:
    """Look for a top of the size standard at the scan that the scaler gives to each fragment."""
    faults, highest = RowsAtFault(), 0.0
    for row in written.stored:
        run = written.run(row)
        data, _, scaler = written.store.get_row(row["row"], copy=False)
        sizes = np.array((written.rules.standard or standard_of(run)).sizes_bp)
        tops = int(_has_top(data[run.run.size_standard_channel - 1], scaler, sizes).sum())
        highest = max(highest, row["max_residual_bp"])
        needed = max(row["fragments_found"], int(np.ceil(_MIN_FOUND * len(sizes))))
        ascends = bool((np.diff(scaler) > 0).all())
        if tops < needed or row["max_residual_bp"] > written.rules.max_residual_bp or not ascends:
            facts = {"max_residual_bp": row["max_residual_bp"], "ascends": ascends}
            faults.add(file=row["file"], problem="fragments without a top", expected=needed, got=tops, **facts)
    figures = {"max_residual_bp": highest, "limit_bp": written.rules.max_residual_bp, "wrong": len(faults)}
    check = CheckResult("size_standard_fits", not len(faults), figures, [*faults])
    return stating_compared(check, len(written.stored), "no profile was sized and stored")


def _has_top(
    trace: npt.NDArray[np.int16], scaler: npt.NDArray[np.float32], sizes: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    places = np.rint(np.interp(sizes, scaler, np.arange(len(scaler)), left=-1, right=-1)).astype(np.int64)
    found = np.zeros(len(sizes), bool)
    for number, place in enumerate(places.tolist()):
        if place >= _ROUND_SCANS:
            near = trace[place - _TOP_SCANS : place + _TOP_SCANS + 1]
            wide = trace[place - _ROUND_SCANS : place + _ROUND_SCANS + 1]
            found[number] = near.max(initial=0) > 0 and near.max(initial=0) == wide.max(initial=0)
    return found


def _check_ladders(directory: Path, panel: Panel, written: _Written) -> CheckResult:
    """Compare each ladder that was used with the alleles of the panel file and their distances."""
    tried = {row["file"]: row["fate"] for row in written.rows if row["role"] == Role.LADDER}
    used = [file for file, fate in tried.items() if fate == Fate.USED]
    measured: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in pq.read_table(directory / LADDER_ALLELES_FILE).to_pylist():
        if row["size_bp"] is not None:
            measured[row["file"], row["locus"]][row["allele"]] = row["size_bp"]
    faults, alleles = RowsAtFault(), 0
    for file in used or tried:
        for locus in panel.loci:
            own = measured[file, locus.name]
            alleles += len(own)
            for each in locus.ladder:
                if each.allele not in own:
                    faults.add(file=file, locus=locus.name, allele=each.allele, problem="was not found")
            for low, high in pairwise(each for each in locus.ladder if each.allele in own):
                step = own[high.allele] - own[low.allele]
                if abs(step - (high.size_bp - low.size_bp)) > _MAX_STEP_BP or step <= 0:
                    facts = {"expected_bp": high.size_bp - low.size_bp, "got_bp": step}
                    faults.add(file=file, locus=locus.name, allele=high.allele, problem="is out of step", **facts)
    if not used:
        faults.add(problem="the run has no complete ladder", expected="at least one", got=f"{len(tried)} tried")
    figures = {"ladders": len(used), "alleles": alleles, "loci": len(panel.loci)}
    return CheckResult("ladder_complete", not len(faults), {**figures, "compared": len(used)}, [*faults])


def _check_negatives(written: _Written) -> CheckResult:
    """Count the called peaks of negative controls."""
    faults, negatives = RowsAtFault(), [row for row in written.stored if row["role"] == Role.NEGATIVE]
    for row in negatives:
        loci = sum(bool(alleles) for alleles in written.alleles(row)["called"].values())
        above = sum(peak["height_rfu"] >= written.rules.analytical_rfu for peak in written.alleles(row)["peaks"])
        if loci or row["peaks_called"]:
            faults.add(file=row["file"], loci_called=loci, peaks_above_the_threshold=above)
    figures = {"negative_controls": len(negatives), "analytical_rfu": written.rules.analytical_rfu}
    check = CheckResult("negative_clean", not len(faults), figures, [*faults])
    nothing = "no negative control was stored"
    return stating_compared(check, len(negatives), nothing, declared=not written.rules.negative_required)


def _check_positives(written: _Written, panel: Panel) -> CheckResult:
    """Compare positive controls with the alleles that the panel file states of them."""
    renamed = {locus.name: {"1": "X", "2": "Y"} if is_amelogenin(locus.name) else {} for locus in panel.loci}
    stated = {
        locus.name: {renamed[locus.name].get(allele, allele) for allele in locus.control}
        for locus in panel.loci
        if locus.control
    }
    faults, positives = RowsAtFault(), [row for row in written.stored if stated and row["role"] == Role.POSITIVE]
    for row in positives:
        called = written.alleles(row)["called"]
        differing = sum(set(called.get(locus, ())) != alleles for locus, alleles in stated.items())
        if differing:
            got = f"{differing} of {len(stated)}"
            faults.add(file=row["file"], loci_that_differ=differing, expected="none", got=got)
    figures = {"positive_controls": len(positives), "loci": len(stated)}
    check = CheckResult("control_has_its_genotype", not len(faults), figures, [*faults])
    nothing = "no positive control was stored" if stated else "the panel file states no control"
    return stating_compared(check, len(positives), nothing, declared=True)


def _check_saturation(written: _Written) -> CheckResult:
    """Compare the flags of peaks with the marks and full-scale values of the files."""
    faults, saturated = RowsAtFault(), 0
    for row in written.stored:
        scans = _saturated(written.run(row)) - row["first_scan"]
        inside = scans[(scans >= 0) & (scans < written.rules.n_scanpoints)]
        saturated += bool(len(inside))
        wrong = 0
        for peak in written.alleles(row)["peaks"]:
            covers = bool(((scans >= peak["left"]) & (scans <= peak["right"])).any())
            wrong += covers != ("off_scale" in peak["flags"])
        if wrong or len(inside) != row["saturated_scans"]:
            facts = {"expected_scans": len(inside), "got_scans": row["saturated_scans"]}
            faults.add(file=row["file"], peaks_wrong=wrong, **facts)
    figures = {"saturated_profiles": saturated, "wrong": len(faults)}
    check = CheckResult("saturation_flagged", not len(faults), figures, [*faults])
    return stating_compared(check, len(written.stored), "no profile was stored")


def _saturated(run: HidFile) -> npt.NDArray[np.int64]:
    """Return the saturated scans of an injection, from its tags and raw traces, in ascending order."""
    marks = [run.tags.integers(name, 1).astype(np.int64) for name in ("Satd", "OfSc")]
    full = [np.flatnonzero(dye.raw >= _FULL_SCALE).astype(np.int64) for dye in run.dyes]
    scans = np.unique(np.concatenate([*marks, *full]))
    return scans[(scans >= 0) & (scans < run.n_scans)]
