"""From the files of a run folder to an array store, the account of every file, and the tables of its ladders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa

from genolewm_assets.errors import InputError
from genolewm_assets.forensic import (
    ALLELE,
    HAS_ANNOTATION,
    PANEL,
    HidFile,
    Panel,
    PreprocessedProfile,
    ProfileCalls,
    Sizing,
    call_alleles,
    profile_arrays,
    profile_row,
)
from genolewm_assets.forensic.calling import PeakFlag
from genolewm_assets.forensic.dataset import (
    AlleleAnnotation,
    Ladder,
    LeftOutError,
    Reason,
    cut_traces,
    fit_run_ladder,
    make_profile,
    parse_allele_report,
    read_run,
)
from genolewm_assets.forensic.runs.rules import Fate, Role, RunFile, RunRules
from genolewm_assets.forensic.runs.tables import PEAK_COUNTS, RUN_TABLES
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays import ArrayStoreWriter, RowStamp, compute_fingerprint, read_stamped
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import write_table

#: Decimals of sizes in base pairs that are stored.
_DECIMALS = 4
#: Dyes of a store without rows, where no ladder tells how many there are.
_DYES = 6


@dataclass(frozen=True, slots=True)
class RunReport:
    """Figures of what :func:`write_profiles` wrote."""

    #: Files by role, fate and reason, and annotated alleles that are in no bin.
    counts: Mapping[str, int]
    #: Rows of each table by file name.
    rows: Mapping[str, int]


@dataclass(slots=True)
class _Account:
    """Rows of ``FORENSIC_FILES`` by file."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def begin(self, file: RunFile, role: Role) -> None:
        """Take up a file, which counts as left out until something becomes of it."""
        self.rows[file.name] = {"file": file.name, "sha256": file.sha256, "role": role, "fate": Fate.LEFT_OUT}

    def leave_out(self, file: str, reason: Reason, problem: str | None = None) -> None:
        self.rows[file] |= {"reason": reason, "problem": problem}

    def use(self, file: str, fate: Fate, **facts: str | float) -> None:
        self.rows[file] |= {"fate": fate, **facts}

    def counts(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for row in self.rows.values():
            found.update(["files", f"role.{row['role']}", f"fate.{row['fate']}"])
            if row["fate"] is Fate.LEFT_OUT:
                found[f"left_out.{row['reason']}"] += 1
        return dict(found)


def write_profiles(
    folder: str,
    files: Sequence[RunFile],
    panel: Panel,
    directory: Path,
    *,
    rules: RunRules,
    config: Mapping[str, JsonValue],
    sources: Mapping[str, str],
    progress: Progress = NO_PROGRESS,
) -> RunReport:
    """Write the profiles of a run folder into a new array store, with an account of every file beside it.

    A file that cannot be used is left out with a reason. Rows are the samples and controls in order of their names;
    ladders have none.

    Parameters
    ----------
    directory
        Folder of the store, new or empty.
    config
        Parameters that the rows depend on, for the key of the store.
    sources
        SHA-256 of further files that the rows are made from, such as the panel's, by name.

    Raises
    ------
    InputError
        If a file was changed since ``files`` was made, or an allele report is malformed.
    """
    ordered, account = sorted(files, key=lambda file: file.name), _Account()
    for file in ordered:
        account.begin(file, rules.role_by_name(file.name))
    annotations = _read_annotations(ordered, account)
    injections = [file for file in ordered if account.rows[file.name]["role"] is Role.SAMPLE]
    fitted, roles = _read_ladders(injections, panel, rules, account)
    complete = [ladder for ladder in fitted if ladder.fit.is_complete]
    n_dyes = len(complete[0].run.dyes) if complete else _DYES
    shape, unplaced = (n_dyes, rules.n_scanpoints), 0
    form: dict[str, Any] = {"key_column": "path", "columns": {HAS_ANNOTATION: "bool"}, "sidecars": (PANEL, ALLELE)}
    with ArrayStoreWriter(directory, profile_arrays(shape), key_config=config, **form) as store:
        for done, file in enumerate((each for each in injections if each.name in roles), 1):
            progress.advance(done, len(roles), "profiles")
            if not complete:
                account.leave_out(file.name, Reason.NO_LADDER, "the run has no complete ladder")
                continue
            try:
                image, facts, lost = _make_profile(folder, file, roles[file.name], complete, annotations, rules=rules)
            except LeftOutError as err:
                account.leave_out(file.name, err.reason, str(err))
                continue
            account.use(file.name, Fate.STORED, row=store.n_rows, **facts)
            store.write(**profile_row(image, shape))
            unplaced += lost
        named = {f"{folder}/{file.name}": file.sha256 for file in ordered}
        store.finalize(compute_fingerprint(config, {**named, **sources}))
    rows = _write_tables(directory, account, fitted, panel)
    counts = {**account.counts(), "annotated_samples": len(annotations), "alleles_without_bin": unplaced}
    return RunReport(counts, rows)


def _read_file(file: RunFile) -> tuple[bytes, RowStamp]:
    """Return the bytes of a file and their stamp; raise InputError if it changed since the build was planned."""
    data, stamp = read_stamped(file.path)
    if stamp.sha256 != file.sha256:
        raise InputError(
            file.name,
            "was changed while the run is built",
            expected=f"SHA-256 {file.sha256[:12]}",
            got=stamp.sha256[:12],
            remedy="Wait until the folder is complete, and build again",
        )
    return data, stamp


def _read_annotations(files: Sequence[RunFile], account: _Account) -> dict[str, AlleleAnnotation]:
    """Return what allele reports state, by sample; other files that are no injections are left out."""
    found: dict[str, AlleleAnnotation] = {}
    for file in files:
        role = account.rows[file.name]["role"]
        if role is Role.ANNOTATION:
            own = parse_allele_report(_read_file(file)[0], file.name)
            if twice := len(found.keys() & own.keys()):
                problem = "names samples of another report too"
                raise InputError(file.name, problem, expected="each sample once", got=str(twice))
            found |= own
            account.use(file.name, Fate.USED)
        elif role is Role.OTHER:
            account.leave_out(file.name, Reason.NOT_AN_INSTRUMENT_FILE)
    return found


def _read_ladders(
    files: Sequence[RunFile], panel: Panel, rules: RunRules, account: _Account
) -> tuple[list[Ladder], dict[str, Role]]:
    """Return the ladders that were fitted, and the roles of the other injections by file."""
    ladders: list[Ladder] = []
    roles: dict[str, Role] = {}
    for file in files:
        try:
            run = read_run(_read_file(file)[0], file.name)
            role = account.rows[file.name]["role"] = rules.role_of(file.name, run)
            if role is not Role.LADDER:
                roles[file.name] = role
                continue
            ladder = fit_run_ladder(file.name, run, panel, rules.grid, {})
        except LeftOutError as err:
            account.leave_out(file.name, err.reason, str(err))
            continue
        ladders.append(ladder)
        if ladder.fit.is_complete:
            account.use(file.name, Fate.USED, **_sizing_facts(run, ladder.sizing))
        else:
            missing = sum(map(len, ladder.fit.missing.values()))
            account.leave_out(file.name, Reason.LADDER_INCOMPLETE, f"{missing} ladder alleles were not found")
    return ladders, roles


def _make_profile(
    folder: str,
    file: RunFile,
    role: Role,
    ladders: Sequence[Ladder],
    annotations: Mapping[str, AlleleAnnotation],
    *,
    rules: RunRules,
) -> tuple[PreprocessedProfile, dict[str, str | int | float | bool], int]:
    """Return the profile of an injection, its columns of the account, and how many annotated alleles have no bin."""
    data, stamp = _read_file(file)
    run = read_run(data, file.name)
    ladder = _choose_ladder(run, ladders)
    if len(run.dyes) != len(ladder.run.dyes):
        expected, got = f"{len(ladder.run.dyes)}, as the ladder", str(len(run.dyes))
        other = InputError(run.where, "has another number of dyes", expected=expected, got=got)
        raise LeftOutError.of(Reason.OTHER_DYES, other)
    path = PurePosixPath(file.name)
    names = (path.stem, path.name, run.run.sample)
    annotation = next((annotations[name] for name in names if name and name in annotations), None)
    name, grid = f"{folder}/{file.name}", rules.grid
    made = make_profile(name, run, ladder.moved, annotation, grid, stamps={name: stamp})
    calls = call_alleles(run, made.sizing, ladder.fit.panel, rules=rules.calling)
    first = made.points.first_scan
    saturated = int(np.count_nonzero((run.off_scale >= first) & (run.off_scale < first + rules.n_scanpoints)))
    used: dict[str, str | int] = {"ladder": ladder.file, "first_scan": first}
    facts: dict[str, str | int | float | bool] = {
        **used,
        "annotated": annotation is not None,
        **_sizing_facts(run, made.sizing),
        **_count_peaks(calls),
    }
    meta: dict[str, JsonValue] = {"role": role.value, **used, "n_scans": run.n_scans}
    image = replace(made.image, alleles=_alleles_as_json(calls, annotation, first), meta=meta)
    return image, {**facts, "saturated_scans": saturated}, made.unplaced


def _sizing_facts(run: HidFile, sizing: Sizing) -> dict[str, int | float]:
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


def _count_peaks(calls: ProfileCalls) -> dict[str, int]:
    """Return the columns of ``FORENSIC_FILES`` that count peaks and loci."""
    found: Counter[str] = Counter()
    for peak in calls.peaks:
        found["listed"] += 1
        found["called"] += peak.is_allele
        found.update(_names(peak.flags))
    loci = sum(bool(alleles) for alleles in calls.genotype.values())
    return {**{f"peaks_{name}": found[name] for name in PEAK_COUNTS}, "loci_called": loci}


def _names(flags: PeakFlag) -> list[str]:
    return [flag.name.lower() for flag in flags if flag.name is not None]


def _alleles_as_json(calls: ProfileCalls, annotated: AlleleAnnotation | None, start: int) -> dict[str, JsonValue]:
    """Return the alleles and peaks of a profile; scans count from ``start``, with which its row begins."""
    return {
        "called": {locus: list(alleles) for locus, alleles in calls.genotype.items()},
        "annotated": None if annotated is None else {name: list(own) for name, own in annotated.loci.items()},
        "peaks": [
            {
                "locus": peak.locus,
                "channel": peak.channel,
                "allele": peak.allele,
                "size_bp": round(peak.size_bp, _DECIMALS),
                "height_rfu": peak.height_rfu,
                "scan": round(peak.scan - start, 2),
                "left": peak.left - start,
                "right": peak.right - start,
                "flags": list[JsonValue](_names(peak.flags)),
            }
            for peak in calls.peaks
        ],
    }


def _choose_ladder(run: HidFile, ladders: Sequence[Ladder]) -> Ladder:
    """Return the ladder of the same injection, else the one that ran nearest in time; of equals the first by name."""
    own = run.run

    def distance(ladder: Ladder) -> tuple[bool, timedelta, str]:
        other = ladder.run.run
        apart = timedelta.max
        if own.started is not None and other.started is not None:
            apart = abs(own.started - other.started)
        return not (own.injection and own.injection == other.injection), apart, ladder.file

    return min(ladders, key=distance)


def _write_tables(directory: Path, account: _Account, ladders: Sequence[Ladder], panel: Panel) -> dict[str, int]:
    tables = (
        [account.rows[name] for name in sorted(account.rows)],
        [row for ladder in ladders for row in _ladder_alleles(ladder, panel)],
        [row for ladder in ladders for row in _ladder_traces(ladder)],
    )
    for rows, (name, schema) in zip(tables, RUN_TABLES.items(), strict=True):
        write_table([pa.Table.from_pylist(rows, schema.arrow)], directory / name, schema)
    stored = sum(row["fate"] is Fate.STORED for row in account.rows.values())
    return {"index.parquet": stored, **dict(zip(RUN_TABLES, map(len, tables), strict=True))}


def _ladder_alleles(ladder: Ladder, panel: Panel) -> list[dict[str, Any]]:
    sizes = ladder.fit.sizes_bp
    return [
        {
            "file": ladder.file,
            "locus": locus.name,
            "channel": locus.channel,
            "allele": each.allele,
            "panel_bp": each.size_bp,
            "size_bp": None if (size := sizes[locus.name].get(each.allele)) is None else round(size, _DECIMALS),
        }
        for locus in panel.loci
        for each in locus.ladder
    ]


def _ladder_traces(ladder: Ladder) -> list[dict[str, Any]]:
    """Return the traces of a ladder between the first and the last fragment, dye by dye."""
    run, sizing = ladder.run, ladder.sizing
    start, end = int(sizing.scans[0]), int(np.ceil(sizing.scans[-1])) + 1
    traces = cut_traces(run, start, end)
    return [
        {
            "file": ladder.file,
            "channel": dye.channel,
            "is_size_standard": dye.channel == run.run.size_standard_channel,
            "first_scan": start,
            "rfu": traces[row].tolist(),
            "size_bp": sizing.scaler[start:end].tolist(),
        }
        for row, dye in enumerate(run.dyes)
    ]
