"""From the files of a run folder to an array store, the account of every file, and the tables of its ladders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from genolewm_assets.forensic import ALLELE, HAS_ANNOTATION, PANEL, HidFile, Panel, profile_arrays, profile_row
from genolewm_assets.forensic.runs.annotations import Annotations, parse_annotations
from genolewm_assets.forensic.runs.injections import (
    Ladder,
    LeftOutError,
    choose_ladder,
    fit_run_ladder,
    read_file,
    read_injection,
)
from genolewm_assets.forensic.runs.profiles import cut_traces, make_profile, sizing_facts
from genolewm_assets.forensic.runs.rules import Fate, Reason, Role, RunFile, RunRules
from genolewm_assets.forensic.runs.tables import (
    FILES_FILE,
    FORENSIC_FILES,
    FORENSIC_LADDER_ALLELES,
    FORENSIC_LADDER_TRACES,
    LADDER_ALLELES_FILE,
    LADDER_TRACES_FILE,
)
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays import ArrayStoreWriter, compute_fingerprint
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import write_table

#: Dyes of a store without rows, where no ladder tells how many there are.
_DYES = 6


@dataclass(frozen=True, slots=True)
class RunReport:
    """Figures of what :func:`write_profiles` wrote.

    Attributes
    ----------
    counts
        Files by role, fate and reason; annotated alleles that are in no bin.
    rows
        Rows of each table by file name.
    """

    counts: Mapping[str, int]
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

    def table(self) -> pa.Table:
        return pa.Table.from_pylist([self.rows[name] for name in sorted(self.rows)], FORENSIC_FILES.arrow)

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
    folder
        Name of the run folder.
    files
        Every file of it.
    panel
        The kit's panel.
    directory
        Folder of the store, new or empty.
    rules
        Thresholds and the names of ladders and controls.
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
    columns = {HAS_ANNOTATION: "bool"}
    arrays = profile_arrays(shape)
    with ArrayStoreWriter(
        directory, arrays, key_config=config, key_column="path", columns=columns, sidecars=(PANEL, ALLELE)
    ) as store:
        for done, file in enumerate((each for each in injections if each.name in roles), 1):
            progress.advance(done, len(roles), "profiles")
            if not complete:
                account.leave_out(file.name, Reason.NO_LADDER, "the run has no complete ladder")
                continue
            try:
                injection = read_injection(file)
                ladder = choose_ladder(injection[0], complete)
                made = make_profile(
                    f"{folder}/{file.name}",
                    injection,
                    ladder,
                    role=roles[file.name],
                    annotations=annotations,
                    rules=rules,
                )
            except LeftOutError as err:
                account.leave_out(file.name, err.reason, str(err))
                continue
            account.use(file.name, Fate.STORED, row=store.n_rows, **made.facts)
            store.write(**profile_row(made.image, shape))
            unplaced += made.unplaced
        named = {f"{folder}/{file.name}": file.sha256 for file in ordered}
        store.finalize(compute_fingerprint(config, {**named, **sources}))
    rows = _write_tables(directory, account, fitted, panel)
    counts = {**account.counts(), "annotated_samples": len(annotations.by_sample), "alleles_without_bin": unplaced}
    return RunReport(counts, rows)


def _read_annotations(files: Sequence[RunFile], account: _Account) -> Annotations:
    """Return the annotations of the allele reports of the folder; other files that are no injections are left out."""
    texts = {}
    for file in files:
        role = account.rows[file.name]["role"]
        if role is Role.ANNOTATION:
            texts[file.name] = read_file(file)[0]
            account.use(file.name, Fate.USED)
        elif role is Role.OTHER:
            account.leave_out(file.name, Reason.NOT_AN_INSTRUMENT_FILE)
    return parse_annotations(texts)


def _read_ladders(
    files: Sequence[RunFile], panel: Panel, rules: RunRules, account: _Account
) -> tuple[list[Ladder], dict[str, Role]]:
    """Return the ladders that were fitted, and the roles of the other injections by file."""
    ladders: list[Ladder] = []
    roles: dict[str, Role] = {}
    for file in files:
        try:
            run, _ = read_injection(file)
            role = account.rows[file.name]["role"] = rules.role_of(file.name, run)
            if role is not Role.LADDER:
                roles[file.name] = role
                continue
            ladder = fit_run_ladder(file.name, run, panel, rules)
        except LeftOutError as err:
            account.leave_out(file.name, err.reason, str(err))
            continue
        ladders.append(ladder)
        if ladder.fit.is_complete:
            account.use(file.name, Fate.USED, **sizing_facts(run, ladder.sizing))
        else:
            missing = sum(map(len, ladder.fit.missing.values()))
            account.leave_out(file.name, Reason.LADDER_INCOMPLETE, f"{missing} ladder alleles were not found")
    return ladders, roles


def _write_tables(directory: Path, account: _Account, ladders: Sequence[Ladder], panel: Panel) -> dict[str, int]:
    alleles = [row for ladder in ladders for row in _ladder_alleles(ladder, panel)]
    traces = [row for ladder in ladders for row in _ladder_traces(ladder)]
    tables = {
        FILES_FILE: (account.table(), FORENSIC_FILES),
        LADDER_ALLELES_FILE: (
            pa.Table.from_pylist(alleles, FORENSIC_LADDER_ALLELES.arrow),
            FORENSIC_LADDER_ALLELES,
        ),
        LADDER_TRACES_FILE: (pa.Table.from_pylist(traces, FORENSIC_LADDER_TRACES.arrow), FORENSIC_LADDER_TRACES),
    }
    for name, (table, schema) in tables.items():
        write_table([table], directory / name, schema)
    stored = sum(row["fate"] is Fate.STORED for row in account.rows.values())
    return {"index.parquet": stored, **{name: table.num_rows for name, (table, _) in tables.items()}}


def _ladder_alleles(ladder: Ladder, panel: Panel) -> list[dict[str, Any]]:
    return [
        {
            "file": ladder.file,
            "locus": locus.name,
            "channel": locus.channel,
            "allele": each.allele,
            "panel_bp": each.size_bp,
            "size_bp": None if (size := ladder.fit.sizes_bp[locus.name].get(each.allele)) is None else round(size, 4),
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
            "is_size_standard": dye.channel == _standard_channel(run),
            "first_scan": start,
            "rfu": traces[row].tolist(),
            "size_bp": sizing.scaler[start:end].tolist(),
        }
        for row, dye in enumerate(run.dyes)
    ]


def _standard_channel(run: HidFile) -> int:
    return run.run.size_standard_channel or len(run.dyes)
