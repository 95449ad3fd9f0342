"""Checks that a written package trains on nothing that it holds out, and that its splits share nothing.

They compare rows of the files with the held-out intervals, alleles and windows that lie beside them, by code of their
own: neither the holdout index nor the masks that divide the rows are used.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from genolewm_assets.genome import EVALUATION, Bases, Split, reverse_complement
from genolewm_assets.lewm.holdouts import Buffer
from genolewm_assets.lewm.package_build.written_rows import WrittenRow, allele_text, read_rows, read_window_rows
from genolewm_assets.lewm.packages import (
    CONTEXT_BP,
    CONTEXTS_PATH,
    HOLDOUT_PATHS,
    REFERENCE_ORIGIN,
    PackageInfo,
    variants_path,
)
from genolewm_assets.store.artefacts import CheckResult, RowsAtFault
from genolewm_assets.store.files import JsonValue
from genolewm_assets.variants import ALLELE_KEY

_CORPUS_KEY = ("source", "record_id", "window_index")


class HeldInterval(NamedTuple):
    """A held-out interval of a contig, 0-based half-open, the holdout and the name of its unit."""

    start: int
    end: int
    holdout: str = ""
    name: str = ""


class HeldIntervals:
    """The held-out intervals of a package by contig, sorted and merged once.

    Parameters
    ----------
    intervals
        Contig and interval, in any order; intervals may overlap.
    """

    def __init__(self, intervals: Iterable[tuple[str, HeldInterval]]) -> None:
        self._given: defaultdict[str, list[HeldInterval]] = defaultdict(list)
        for contig, interval in intervals:
            self._given[contig].append(interval)
        self._merged: dict[str, tuple[list[int], list[int]]] = {}
        for contig, held in self._given.items():
            held.sort()
            starts, ends = [held[0].start], [held[0].end]
            for interval in held[1:]:
                if interval.start <= ends[-1]:
                    ends[-1] = max(ends[-1], interval.end)
                else:
                    starts.append(interval.start)
                    ends.append(interval.end)
            self._merged[contig] = starts, ends

    @classmethod
    def of_package(cls, directory: Path) -> HeldIntervals:
        """Read the intervals of a package."""
        columns = ("contig", "start", "end", "holdout", "name")
        rows = read_rows(directory / HOLDOUT_PATHS["intervals"], columns)
        return cls((row["contig"], HeldInterval(*(row[name] for name in columns[1:]))) for row in rows)

    def __len__(self) -> int:
        return sum(map(len, self._given.values()))

    def __contains__(self, contig: str) -> bool:
        return contig in self._given

    def meet(self, contig: str, start: int, end: int) -> bool:
        """Return whether an interval of a contig, 0-based half-open, shares a base with a held-out one."""
        starts, ends = self._merged.get(contig, ([], []))
        at = bisect_left(starts, end) - 1
        return at >= 0 and ends[at] > start

    def first_met(self, contig: str, start: int, end: int) -> dict[str, object]:
        """Return the first held-out interval that :meth:`meet` finds, for a row at fault."""
        met = next(one for one in self._given[contig] if one.start < end and one.end > start)
        return self._shown(met)

    def first_of(self, contig: str) -> dict[str, object]:
        """Return the first held-out interval of a contig, for a row at fault."""
        return self._shown(self._given[contig][0])

    @staticmethod
    def _shown(held: HeldInterval) -> dict[str, object]:
        return {"holdout": held.holdout, "held_out_as": held.name, "held_start": held.start, "held_end": held.end}


def check_no_window(directory: Path, info: PackageInfo) -> CheckResult:
    """Check that no footprint of a reference window in train overlaps a held-out interval."""
    held, wrong, n, contigs = HeldIntervals.of_package(directory), RowsAtFault(), 0, set[str]()
    columns = ["origin", "window_id", "contig", "start", "end", "strand"]
    for row in read_window_rows(directory, info, Split.TRAIN, columns):
        if row["origin"] != REFERENCE_ORIGIN or row["start"] is None:
            continue
        n += 1
        start, end = _footprint(row, info)
        if held.meet(row["contig"], start, end):
            contigs.add(row["contig"])
            shown = _shown_window(row, ("window_id", "contig", "start", "end"))
            place = held.first_met(row["contig"], start, end) if wrong.keeps_next() else {}
            wrong.add(**shown, **place)
    figures: dict[str, JsonValue] = {
        "windows": n,
        "intervals": len(held),
        "windows_in_holdouts": len(wrong),
        "contigs": sorted(contigs),
    }
    return CheckResult("no_holdout_window_in_train", passed=not wrong, figures=figures, rows=tuple(wrong))


def check_no_allele(directory: Path) -> CheckResult:
    """Check that no allele of train is listed as held out or overlaps a held-out interval."""
    listed = {allele_text(row) for row in read_rows(directory / HOLDOUT_PATHS["alleles"], ALLELE_KEY)}
    held, wrong = HeldIntervals.of_package(directory), RowsAtFault()
    by_key = by_place = n = 0
    for row in read_rows(directory / variants_path(Split.TRAIN), (*ALLELE_KEY, "source")):
        n += 1
        start, end = row["pos"] - 1, row["pos"] - 1 + len(row["ref"])
        if is_listed := allele_text(row) in listed:
            by_key += 1
        if meets := held.meet(row["chrom"], start, end):
            by_place += 1
        if is_listed or meets:
            place = held.first_met(row["chrom"], start, end) if meets and wrong.keeps_next() else {}
            fault = _joined(("listed as held out", is_listed), ("in a held-out interval", meets))
            wrong.add(**row, fault=fault, **place)
    figures: dict[str, JsonValue] = {
        "alleles": n,
        "held_out_alleles": len(listed),
        "listed": by_key,
        "in_held_out_intervals": by_place,
    }
    return CheckResult("no_holdout_allele_in_train", passed=not wrong, figures=figures, rows=tuple(wrong))


def check_no_corpus_row(directory: Path, info: PackageInfo) -> CheckResult:
    """Check that no corpus window of train is listed as held out, or is or may be in a held-out interval by placement.

    A window of which only the contig is known fails the check if that contig has a held-out interval.
    """
    listed = {
        tuple(row[name] for name in _CORPUS_KEY) for row in read_rows(directory / HOLDOUT_PATHS["corpus"], _CORPUS_KEY)
    }
    held, wrong = HeldIntervals.of_package(directory), RowsAtFault()
    by_key = by_place = by_name = n = placed = 0
    columns = ["origin", "record_id", "window_index", "contig", "start", "end", "strand"]
    for row in read_window_rows(directory, info, Split.TRAIN, columns):
        if row["origin"] == REFERENCE_ORIGIN:
            continue
        n += 1
        is_listed = (row["origin"], row["record_id"], row["window_index"]) in listed
        meets = somewhere = False
        place: dict[str, object] = {}
        if row["start"] is None:
            somewhere = row["contig"] in held
            place = held.first_of(row["contig"]) if somewhere else {}
        else:
            placed += 1
            start, end = _footprint(row, info)
            meets = held.meet(row["contig"], start, end)
            place = held.first_met(row["contig"], start, end) if meets and wrong.keeps_next() else {}
        by_key, by_place, by_name = by_key + is_listed, by_place + meets, by_name + somewhere
        if is_listed or meets or somewhere:
            fault = _joined(
                ("listed as held out", is_listed),
                ("in a held-out interval", meets),
                ("somewhere on a contig with held-out intervals", somewhere),
            )
            wrong.add(**_shown_window(row, columns[:-1]), fault=fault, **place)
    figures: dict[str, JsonValue] = {
        "windows": n,
        "placed": placed,
        "listed": by_key,
        "in_held_out_intervals": by_place,
        "somewhere_on_a_contig_with_intervals": by_name,
    }
    return CheckResult("no_holdout_corpus_row_in_train", passed=not wrong, figures=figures, rows=tuple(wrong))


def check_disjoint(directory: Path, info: PackageInfo) -> CheckResult:
    """Check that splits share no window (by sequence, on both strands) and no allele.

    Windows of a holdout with alleles only are not compared: they may be in train, with other alleles.
    """
    wrong, figures = RowsAtFault(), dict[str, int]()
    _compare_windows(directory, info, wrong, figures)
    if info.policy.get("buffer") == Buffer.WINDOWS:
        _compare_bases(directory, info, wrong, figures)
    validation, test = (
        {allele_text(row) for row in read_rows(directory / variants_path(s), ALLELE_KEY)} for s in EVALUATION
    )
    name = "alleles_in_train_and_evaluation"
    figures[name] = 0
    for row in read_rows(directory / variants_path(Split.TRAIN), ALLELE_KEY):
        key = allele_text(row)
        if key in validation or key in test:
            figures[name] += 1
            wrong.add(**row, fault=f"allele in train and in {_joined(*_named(key, validation, test))}")
    figures["alleles_in_validation_and_test"] = len(validation & test)
    for row in read_rows(directory / variants_path(Split.TEST), ALLELE_KEY) if validation & test else ():
        if allele_text(row) in validation:
            wrong.add(**row, fault="allele in validation and in test")
    return CheckResult("splits_disjoint", passed=not any(figures.values()), figures=figures, rows=tuple(wrong))


def check_contexts(directory: Path, reference: Callable[[str], Bases]) -> CheckResult:
    """Check that every held-out allele has one row of contexts, whose bases are those of the genome."""
    missing = {allele_text(row): row for row in read_rows(directory / HOLDOUT_PATHS["alleles"], ALLELE_KEY)}
    wrong, n, faults = RowsAtFault(), len(missing), dict.fromkeys(("not_held_out", "not_the_reference", "missing"), 0)
    contig, genome = "", reference(next(iter(missing.values()))["chrom"]) if missing else b""
    for row in read_rows(directory / CONTEXTS_PATH, (*ALLELE_KEY, "left_context", "right_context")):
        if row["chrom"] != contig:
            contig, genome = row["chrom"], reference(row["chrom"])
        start, end = row["pos"] - 1, row["pos"] - 1 + len(row["ref"])
        expected = genome[max(0, start - CONTEXT_BP) : end + CONTEXT_BP].decode("ascii")
        known = missing.pop(allele_text(row), None) is not None
        fits = f"{row['left_context']}{row['ref']}{row['right_context']}" == expected
        fits = fits and len(row["left_context"]) == min(start, CONTEXT_BP)
        faults["not_held_out"] += not known
        faults["not_the_reference"] += not fits
        if not (known and fits):
            fault = _joined(("not held out, or twice", not known), ("not the reference's bases", not fits))
            wrong.add(**row, fault=fault, expected=expected)
    for row in missing.values():
        faults["missing"] += 1
        wrong.add(**row, fault="held out, but without a context")
    figures: dict[str, JsonValue] = {"held_out_alleles": n, **faults}
    return CheckResult("held_out_contexts_right", passed=not wrong, figures=figures, rows=tuple(wrong))


def _compare_windows(directory: Path, info: PackageInfo, wrong: RowsAtFault, figures: dict[str, int]) -> None:
    """Compare the windows of the splits, and add rows at fault and figures."""
    areas = {row["holdout"] for row in read_rows(directory / HOLDOUT_PATHS["intervals"], ("holdout",))}
    held, reversed_held = dict[bytes, WrittenRow](), dict[bytes, WrittenRow]()
    keys: dict[Split, set[tuple[str, int]]] = {}
    for split in EVALUATION:
        keys[split] = set()
        columns = ["holdout", "contig", "start", "window_hash", "sequence"]
        for row in (row for row in read_window_rows(directory, info, split, columns) if row["holdout"] in areas):
            keys[split].add((row["contig"], row["start"]))
            sequence = row.pop("sequence")
            held.setdefault(row["window_hash"], row)
            reversed_held.setdefault(hashlib.sha256(reverse_complement(sequence).encode()).digest(), row)
    faults = {
        "train_windows_equal_to_evaluation": held,
        "train_windows_reverse_complement_of_evaluation": reversed_held,
    }
    figures |= dict.fromkeys(faults, 0)
    shown = ["origin", "window_id", "contig", "start"]
    for row in read_window_rows(directory, info, Split.TRAIN, [*shown, "window_hash"]):
        for fault, known in faults.items():
            if other := known.get(row["window_hash"]):
                figures[fault] += 1
                twin = {"holdout": other["holdout"], "held_contig": other["contig"], "held_start": other["start"]}
                wrong.add(**_shown_window(row, shown), fault=fault.replace("_", " "), **twin)
    both = keys[Split.VALIDATION] & keys[Split.TEST]
    figures["windows_in_validation_and_test"] = len(both)
    for contig, start in sorted(both):
        wrong.add(contig=contig, start=start, fault="window in validation and in test")


def _compare_bases(directory: Path, info: PackageInfo, wrong: RowsAtFault, figures: dict[str, int]) -> None:
    """Compare the bases of placed training windows, flanks included, with those of evaluation windows and intervals."""
    intervals = list(read_rows(directory / HOLDOUT_PATHS["intervals"], ("contig", "start", "end", "holdout", "name")))
    areas, margin, name = {row["holdout"] for row in intervals}, info.margin_bp, "train_windows_beside_evaluation"
    beside = [(row["contig"], HeldInterval(*(row[key] for key in HeldInterval._fields))) for row in intervals]
    for split in EVALUATION:
        for row in read_window_rows(directory, info, split, ["holdout", "contig", "start", "end", "window_id"]):
            if row["holdout"] in areas:
                span = HeldInterval(row["start"] - margin, row["end"] + margin, row["holdout"], row["window_id"])
                beside.append((row["contig"], span))
    near, shown = HeldIntervals(beside), ["origin", "window_id", "contig", "start", "end"]
    figures[name] = 0
    for row in read_window_rows(directory, info, Split.TRAIN, shown):
        if row["start"] is None:
            continue
        place = row["contig"], row["start"] - margin, row["end"] + margin
        if near.meet(*place):
            figures[name] += 1
            met = near.first_met(*place) if wrong.keeps_next() else {}
            wrong.add(**row, fault="shares bases with an evaluation window or a held-out interval", **met)


def _footprint(row: WrittenRow, info: PackageInfo) -> tuple[int, int]:
    """Return the bases that a placed window and its deletions can show, 0-based half-open."""
    # On strand "-" the right flank, from which deletions take bases, is to the left of the window.
    left, right = (info.margin_bp, 0) if row["strand"] == "-" else (0, info.margin_bp)
    return row["start"] - left, row["end"] + right


def _shown_window(row: WrittenRow, columns: Iterable[str]) -> dict[str, object]:
    return {name: row[name] for name in columns}


def _joined(*faults: tuple[str, bool]) -> str:
    """Return the texts of the faults that a row has."""
    return "; ".join(text for text, found in faults if found)


def _named(key: str, validation: set[str], test: set[str]) -> tuple[tuple[str, bool], tuple[str, bool]]:
    return ("validation", key in validation), ("test", key in test)
