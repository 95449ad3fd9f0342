"""Check that the splits of a written package share no window, by interval and by hash, and no allele, by key.

Everything else about leaks is measured by ``genolewm_assets.audit``, which knows no filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import EVALUATION, IntervalArray, Split, meets
from genolewm_assets.holdouts import Buffer
from genolewm_assets.packages import Package
from genolewm_assets.store.artefacts import CheckResult, RowsAtFault
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_keys, as_bools

_SHOWN = ["origin", "record_id", "window_index", "window_id", "contig", "start", "end"]


def check_disjoint(package: Package) -> CheckResult:
    """Check that splits share no window and no allele.

    Windows of a holdout with alleles only are not compared: they may be in train, with other alleles.
    """
    wrong, figures = RowsAtFault(), dict[str, int]()
    for split, fault, rows in (*_shared_windows(package), *_shared_alleles(package)):
        figures[fault.replace(" ", "_")] = rows.num_rows
        for row in rows.slice(0, 100).to_pylist():
            wrong.add(split=split, **row, fault=fault)
    return CheckResult("splits_disjoint", passed=not any(figures.values()), figures=figures, rows=tuple(wrong))


def _shared_windows(package: Package) -> Iterator[tuple[Split, str, pa.Table]]:
    margin, intervals = package.info.margin_bp, package.holdouts("intervals", ["holdout", "contig", "start", "end"])
    areas = pc.unique(intervals["holdout"])
    columns = ["holdout", "contig", "start", "end", "window_hash"]
    held = {s: package.windows(s, columns) for s in EVALUATION}
    held = {s: table.filter(pc.is_in(table["holdout"], value_set=areas)) for s, table in held.items()}
    train = package.windows(Split.TRAIN, [*_SHOWN, "strand", "window_hash"])
    hashes = pa.concat_tables([table.select(["window_hash"]) for table in held.values()])["window_hash"]
    placed = train.filter(pc.is_valid(train["start"]))
    reverse = as_bools(pc.fill_null(pc.equal(placed["strand"], "-"), False))
    faults = {"in a held-out interval": _meeting(placed, [(intervals, 0)], margin * reverse, margin * ~reverse)}
    if package.info.policy.get("buffer") == Buffer.WINDOWS:
        flanks, evaluated = np.full(placed.num_rows, margin), [(table, margin) for table in held.values()]
        faults["beside evaluation"] = _meeting(placed, [(intervals, 0), *evaluated], flanks, flanks)
    for fault, found in faults.items():
        yield Split.TRAIN, f"train windows {fault}", placed.select(_SHOWN).filter(pa.array(found))
    equal = train.filter(pc.is_in(train["window_hash"], value_set=hashes))
    yield Split.TRAIN, "train windows equal to evaluation", equal.select(_SHOWN)
    validation, test = (table.select(["contig", "start"]) for table in held.values())
    both = validation.join(test, ["contig", "start"], join_type="left semi")
    yield Split.VALIDATION, "windows in validation and test", both


def _shared_alleles(package: Package) -> Iterator[tuple[Split, str, pa.Table]]:
    alleles = {split: package.variants(split, list(ALLELE_KEY)) for split in Split}
    keys = {split: allele_keys(table) for split, table in alleles.items()}
    for split, other in ((Split.TRAIN, Split.VALIDATION), (Split.TRAIN, Split.TEST), (Split.VALIDATION, Split.TEST)):
        shared = alleles[split].filter(pc.is_in(keys[split], value_set=keys[other]))
        yield split, f"alleles in {split} and {other}", shared


def _meeting(windows: pa.Table, held: Iterable[tuple[pa.Table, int]], before: Int64s, behind: Int64s) -> Bools:
    """Tell which windows, made longer on either side, share a base with held-out rows: bool, shape (n_windows,).

    ``held`` has tables with contig, start and end, each with the bases by which its rows are made longer.
    """
    start, end = windows["start"].to_numpy() - before, windows["end"].to_numpy() + behind
    found: Bools = np.zeros(windows.num_rows, bool)
    contigs = windows["contig"].to_numpy(zero_copy_only=False)
    for table, margin in held:
        for contig in pc.unique(table["contig"]).to_pylist():
            ours, at = table.filter(pc.equal(table["contig"], contig)), np.flatnonzero(contigs == contig)
            bounds = ours["start"].to_numpy() - margin, ours["end"].to_numpy() + margin
            found[at] |= meets(IntervalArray.from_unsorted(*bounds).merge(), start[at], end[at])
    return found
