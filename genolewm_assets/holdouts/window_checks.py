"""Checks of the windows that holdouts exclude, independent of the code that chooses them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import GRCH38
from genolewm_assets.holdouts.build import HoldoutInputs, HoldoutTables
from genolewm_assets.holdouts.corpus import CONCLUSIVE_SHARE, GRCH38_BASES
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.schema import HOLDOUT_CORPUS
from genolewm_assets.variants import Bools, Int64s, as_bools, join_columns

_CORPUS_KEY = ("holdout", "source", "record_id", "window_index")
_CORPUS_KEYS = pa.schema([HOLDOUT_CORPUS.arrow.field(name) for name in _CORPUS_KEY])
#: Rows at fault, each with the text ``problem``.
Problems = list[dict[str, object]]

#: Rows of the table of corpus windows whose keys are made at once.
_AT_ONCE = 65_536

_Bounds: TypeAlias = tuple[Int64s, Int64s]


def spans_of(held: HoldoutTables, but: str = "") -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Return start and end of the intervals by holdout and contig, without those of the reason ``but``."""
    spans: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in (row for row in held.intervals.to_pylist() if row["reason"] != but):
        spans[row["holdout"], row["contig"]].append((row["start"], row["end"]))
    return spans


def bounds_of(held: HoldoutTables) -> dict[tuple[str, str], _Bounds]:
    """Return the sorted starts and the sorted ends of the intervals by holdout and contig."""
    return {
        key: (np.sort([a for a, _ in spans]), np.sort([b for _, b in spans])) for key, spans in spans_of(held).items()
    }


def meets_any(bounds: _Bounds | None, start: Int64s, end: Int64s) -> Bools:
    """Tell which spans overlap an interval: more start before a span's end than end at or before its start."""
    if bounds is None:
        return np.zeros(len(start), dtype=bool)
    return np.searchsorted(bounds[0], end, side="left") > np.searchsorted(bounds[1], start, side="right")


def check_similar(held: HoldoutTables, _given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Find similar windows of the corpus that are not excluded, and places that are not held out."""
    ours, found = _joined(held.similar.rename_columns({"origin": "source"})), list[pa.Array]()
    for batch in held.corpus.to_batches(_AT_ONCE):
        theirs = _joined(batch)
        found.append(theirs.filter(pc.is_in(theirs, value_set=ours)))
    known, of_corpus = (
        pc.is_in(ours, value_set=pa.chunked_array(found, pa.string())),
        pc.not_equal(held.similar["record_id"], ""),
    )
    elsewhere = np.ones(held.similar.num_rows, dtype=bool)
    start, end = (held.similar[name].to_numpy() for name in ("held_start", "held_end"))
    for (holdout, contig), bounds in bounds_of(held).items():
        there = as_bools(
            pc.and_(pc.equal(held.similar["holdout"], holdout), pc.equal(held.similar["held_contig"], contig))
        )
        elsewhere[there] = ~meets_any(bounds, start[there], end[there])
    problems: Problems = []
    for wrong, problem in (
        (pc.and_(of_corpus, pc.invert(known)), "similar to held-out sequence and not excluded"),
        (pa.array(elsewhere), "similar to a place that {holdout} does not hold out"),
    ):
        for row in held.similar.filter(wrong).to_pylist():
            what = f"{row['origin']} {row['record_id'] or row['contig']}:{row['window_index'] or row['start']}"
            problems.append({**row, "problem": f"{what} is {problem.format(**row)}"})
    return problems


def check_corpus(held: HoldoutTables, given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Decide batch by batch which corpus windows are, or may be, held out, and compare with the table."""
    on: defaultdict[str, dict[str, _Bounds]] = defaultdict(dict)
    for (holdout, contig), bounds in bounds_of(held).items():
        on[holdout][contig] = bounds
    doubtful = {holdout: any(_is_inconclusive(given, contig) for contig in by) for holdout, by in on.items()}
    listed, wrong, n = _Listed(held.corpus), list[dict[str, Any]](), 0
    for table in given.corpus:
        n += table.num_rows
        expected = [_CORPUS_KEYS.empty_table()]
        unconfirmed = as_bools(pc.and_(table["maybe_human"], pc.not_equal(table["placement_how"], "coordinates")))
        for holdout, by_contig in on.items():
            mask = _are_there(table, by_contig, given.profile.margin_bp) | (doubtful[holdout] & unconfirmed)
            rows = table.select(_CORPUS_KEY[1:]).filter(pa.array(mask))
            expected.append(pa.table([pa.repeat(holdout, rows.num_rows), *rows.columns], schema=_CORPUS_KEYS))
        wrong += listed.note_expected(pa.concat_tables(expected))
    wrong += listed.not_expected()
    problems = _of_windows(wrong, given) if wrong else []
    if n != (counted := held.counts.get("corpus_windows", 0)):
        problems.append({"expected": n, "got": counted, "problem": f"{n} corpus windows, {counted} were counted"})
    return problems


class _Listed:
    """The table of corpus windows, and which of its rows a second pass expects; keys of one source are in memory."""

    def __init__(self, corpus: pa.Table) -> None:
        self._corpus, self._expected = corpus, np.zeros(corpus.num_rows, dtype=bool)
        self._source, self._first, self._keys = "", 0, pa.array([], pa.string())

    def note_expected(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Note expected rows, and return those that are not listed."""
        missing = list[dict[str, Any]]()
        for source in pc.unique(rows["source"]).to_pylist():
            self._choose(source)
            ours = rows.filter(pc.equal(rows["source"], source))
            keys = _joined(ours)
            at = np.flatnonzero(as_bools(pc.is_in(self._keys, value_set=keys)))
            self._expected[self._first + at] = True
            missing += ours.filter(pc.invert(pc.is_in(keys, value_set=self._keys.take(at)))).to_pylist()
        return missing

    def not_expected(self) -> list[dict[str, Any]]:
        """Return the rows listed by place or in doubt that were not expected."""
        by_place = pc.is_in(self._corpus["reason"], value_set=pa.array(["placed", "fail_closed"]))
        wrong = self._corpus.filter(pc.and_(by_place, pa.array(~self._expected)))
        return list(wrong.select([*_CORPUS_KEY, "reason"]).to_pylist())

    def _choose(self, source: str) -> None:
        """Make the keys of a source, and of what a table that is not sorted has between them."""
        if source != self._source:
            rows = np.flatnonzero(as_bools(pc.equal(self._corpus["source"], source)))
            self._source, self._first = source, int(rows[0]) if rows.size else 0
            self._keys = _joined(self._corpus.slice(self._first, 1 + rows[-1] - self._first if rows.size else 0))


def _joined(corpus: pa.Table | pa.RecordBatch) -> pa.Array:
    return join_columns(*(pc.cast(corpus[name], pa.string()) for name in _CORPUS_KEY))


def _are_there(table: pa.Table, on: Mapping[str, _Bounds], margin_bp: int) -> Bools:
    """Tell which corpus windows are, or may be, in a held-out interval, as placed or as stated."""
    there = np.zeros(table.num_rows, dtype=bool)
    for how in ("placed", "stated"):
        start, end = (pc.fill_null(table[f"{how}_{bound}"], 0).to_numpy() for bound in ("start", "end"))
        somewhere = ~as_bools(pc.is_valid(table[f"{how}_start"]))
        for contig, bounds in on.items():
            ours = as_bools(pc.equal(table[f"{how}_contig"], contig))
            there |= ours & (somewhere | meets_any(bounds, start - margin_bp, end + margin_bp))
    return there


def _is_inconclusive(given: HoldoutInputs, contig: str) -> bool:
    """Return whether too little of a contig's assembly is in the genome for a search to show that nothing is there."""
    found = [row for row in given.genome.to_pylist() if row["contig"] == contig]
    if not found:
        return True
    if contig not in GRCH38_BASES or found[0]["length"] != GRCH38[contig].length:
        return False
    return bool(found[0]["acgt_bases"] < CONCLUSIVE_SHARE * GRCH38_BASES[contig])


def _of_windows(wrong: Sequence[dict[str, Any]], given: HoldoutInputs) -> Problems:
    """Describe corpus windows that are listed, or not listed, wrongly, with their placement if they have one."""
    names = ("placement_how", "placed_contig", "placed_start", "placed_end")
    keys = pa.array([_text(row) for row in wrong])
    places: dict[str, dict[str, Any]] = {}
    for table in given.corpus:
        ours = table.filter(pc.is_in(_joined_windows(table), value_set=keys))
        places |= {_text(row): row for row in ours.to_pylist()}
    problems: Problems = []
    for row in wrong:
        what = f"listed as {row['reason']}" if "reason" in row else "not listed"
        place = {name: places.get(_text(row), {}).get(name) for name in names}
        problem = f"{row['holdout']} {_text(row)}: {what}, although its placement says otherwise"
        problems.append({**{name: row[name] for name in _CORPUS_KEY}, **place, "reason": row.get("reason")})
        problems[-1]["problem"] = problem
    return sorted(problems, key=lambda row: str(row["problem"]))


def _text(row: dict[str, Any]) -> str:
    return " ".join(str(row[name]) for name in _CORPUS_KEY[1:])


def _joined_windows(table: pa.Table) -> pa.Array:
    return pc.binary_join_element_wise(*(pc.cast(table[name], pa.string()) for name in _CORPUS_KEY[1:]), " ")
