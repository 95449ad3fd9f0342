"""Checks of the holdout tables, independent of the code that builds the tables."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import GRCH38, Holdout
from genolewm_assets.holdouts.build import HoldoutInputs, HoldoutTables
from genolewm_assets.holdouts.corpus import CONCLUSIVE_SHARE, GRCH38_BASES
from genolewm_assets.holdouts.declared_checks import HOLDOUT_CHECKS
from genolewm_assets.holdouts.policy import HAPLOTYPE_TOLERANCE, HoldoutPolicy
from genolewm_assets.holdouts.schema import HOLDOUT_CORPUS, TABLES, AlleleReason, IntervalReason
from genolewm_assets.store.artefacts import NOT_RUN, CheckResult, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, TableSchema
from genolewm_assets.variants import ALLELE_KEY

_CORPUS_KEY = ("holdout", "source", "record_id", "window_index")
_FIRST = "no earlier package of the root was made under this policy"
#: Rows at fault, each with the text ``problem``.
Problems = list[dict[str, object]]


def check_holdouts(held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy) -> tuple[CheckResult, ...]:
    """Run every check of ``holdouts/manifest``.

    Parameters
    ----------
    given
        Inputs that the tables were built from; the corpus is iterated a second time.

    Returns
    -------
    tuple of CheckResult
        One result per name in :data:`HOLDOUT_CHECKS`; the figures give the number of problems and the first five. If
        the schemas are wrong, the other checks are not run and fail.
    """
    schemas = _result(SCHEMA_AS_DECLARED, _schemas(held))
    if not schemas.passed:
        missed: dict[str, JsonValue] = {NOT_RUN: "not run: a table does not have its schema"}
        return (schemas, *(CheckResult(name, passed=False, figures=missed) for name in HOLDOUT_CHECKS[1:]))
    found = (_result(name, find(held, given, policy)) for name, find in zip(HOLDOUT_CHECKS[1:], _FIND, strict=True))
    return (schemas, *(_stating(check, held, given, policy) for check in found))


def _stating(check: CheckResult, held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy) -> CheckResult:
    """State how many rows, contigs, intervals or windows a check compared; none passes if the policy asks for none."""
    contigs = len(policy.canonical(given.contigs).contig_roles())
    windows = sum(table.num_rows for table in given.windows.values())
    rows = sum(table.num_rows for table, _ in _tables(held))
    n, nothing, declared = {
        "contigs_held_out_whole": (contigs, "the policy holds out no contig", True),
        "alleles_in_stretches_named": (held.intervals.num_rows, "no interval is held out", not contigs),
        "similar_windows_excluded": (held.similar.num_rows, "no window is similar to held-out sequence", True),
        "corpus_windows_in_doubt_named": (held.counts.get("corpus_windows", 0), "the corpus has no window", True),
        "haplotype_share_in_bounds": (windows, "no contig has a window", False),
        "haplotypes_as_carried": (held.haplotypes.num_rows, "no haplotype block is held out", True),
        "evaluated_stays_held_out": (given.before.alleles.num_rows, _FIRST, True),
        "moves_in_bounds": (held.counts.get("moves.persisting", 0), _FIRST, True),
    }.get(check.name, (rows, "nothing is held out", not contigs))
    return stating_compared(check, n, nothing, declared=declared)


def _schemas(held: HoldoutTables) -> Problems:
    problems: Problems = []
    for table, schema in _tables(held):
        try:
            schema.check(table.schema, where=schema.name)
            table.validate(full=True)
        except (CorruptResourceError, pa.ArrowInvalid) as err:
            problems += [
                {**row, "problem": str(err)} for row in schema.differences(table.schema) or ({"table": schema.name},)
            ]
    return problems


def _keys(held: HoldoutTables, _given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    problems: Problems = []
    for table, schema in _tables(held):
        rows = zip(*(table[name].to_pylist() for name in schema.key), strict=True)
        problems += [
            {
                "table": schema.name,
                "key": one,
                "next": two,
                "problem": f"{schema.name}: {one} is repeated or not sorted",
            }
            for one, two in pairwise(rows)
            if one >= two
        ]
    return problems


def _roles(held: HoldoutTables, _given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Find contigs, gene components and blocks that have two roles, in one holdout or across holdouts."""
    roles: defaultdict[str, set[str]] = defaultdict(set)
    holdouts: defaultdict[str, set[str]] = defaultdict(set)
    for table in (held.intervals, held.alleles):
        for unit, role, holdout in set(zip(*(table[n].to_pylist() for n in ("unit", "role", "holdout")), strict=True)):
            roles[unit].add(role)
            holdouts[unit].add(holdout)
    return [
        {
            "unit": unit,
            "holdouts": sorted(holdouts[unit]),
            "roles": sorted(found),
            "problem": f"{unit} has the roles {sorted(found)}",
        }
        for unit, found in sorted(roles.items())
        if len(found) > 1
    ]


def _contigs(held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy) -> Problems:
    """Find contigs of the policy that are not held out from end to end with their role."""
    whole = {
        row["contig"]: row["role"]
        for row in held.intervals.to_pylist()
        if row["holdout"] == Holdout.CHR and row["start"] == 0
        if row["contig"] not in given.contigs or row["end"] == given.contigs[row["contig"]].length
    }
    wanted = policy.canonical(given.contigs).contig_roles()
    return [
        {
            "contig": contig,
            "expected": role,
            "got": whole.get(contig, "not held out as a whole"),
            "problem": f"{contig} is not held out as a whole for {role}",
        }
        for contig, role in wanted.items()
        if whole.get(contig) != role
    ]


def _alleles(held: HoldoutTables, given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Count the alleles whose reference bases overlap a held-out interval, and compare with the allele table.

    An allele overlaps as many intervals as start before its end, less those that end at or before its start.
    """
    expected: Counter[tuple[str, str, str]] = Counter()
    for (holdout, contig), spans in _spans(held).items():
        starts, ends = (np.sort(np.array(bounds, dtype=np.int64)) for bounds in zip(*spans, strict=True))
        for source, shards in (("gnomad", given.gnomad), ("clinvar", given.clinvar)):
            if contig in shards and contig in given.windows:
                start = shards[contig]["pos"].to_numpy() - 1
                end = start + pc.binary_length(shards[contig]["ref"]).to_numpy()
                met = np.searchsorted(starts, end, side="left") > np.searchsorted(ends, start, side="right")
                expected[holdout, source, contig] = int(np.count_nonzero(met))
    columns = (held.alleles[name].to_pylist() for name in ("holdout", "source", "chrom"))
    rows = zip(zip(*columns, strict=True), held.alleles["reason"].to_pylist(), strict=True)
    named = Counter(key for key, reason in rows if key[0] != Holdout.TEMPORAL and reason != AlleleReason.KEPT)
    return [
        {
            **dict(zip(("holdout", "source", "contig"), key, strict=True)),
            "expected": expected[key],
            "got": named[key],
            "problem": f"{' '.join(key)}: {expected[key]} alleles overlap an interval, {named[key]} are listed",
        }
        for key in sorted({*expected, *named})
        if expected[key] != named[key]
    ]


def _similar(held: HoldoutTables, _given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Find similar windows of the corpus that are not excluded, and places that are not held out."""
    excluded = set(zip(*(held.corpus[name].to_pylist() for name in HOLDOUT_CORPUS.key), strict=True))
    spans, problems = _spans(held), Problems()
    for row in held.similar.to_pylist():
        what = f"{row['origin']} {row['record_id'] or row['contig']}:{row['window_index'] or row['start']}"
        key = row["origin"], row["record_id"], row["window_index"], row["holdout"]
        if row["record_id"] and row["reason"] != "repeats" and key not in excluded:
            problems.append({**row, "problem": f"{what} is similar to held-out sequence and not excluded"})
        held_out = spans.get((row["holdout"], row["held_contig"]), [])
        if not any(start < row["held_end"] and row["held_start"] < end for start, end in held_out):
            problems.append({**row, "problem": f"{what} is similar to a place that {row['holdout']} does not hold out"})
    return problems


def _corpus(held: HoldoutTables, given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Decide window by window which corpus windows are, or may be, held out, and compare with the table."""
    keys = zip(*(held.corpus[name].to_pylist() for name in _CORPUS_KEY), strict=True)
    listed: dict[tuple[Any, ...], str] = dict(zip(keys, held.corpus["reason"].to_pylist(), strict=True))
    by_place = {key for key, reason in listed.items() if reason in ("placed", "fail_closed")}
    bounds: defaultdict[str, dict[str, tuple[list[int], list[int]]]] = defaultdict(dict)
    for (holdout, contig), spans in _spans(held).items():
        bounds[holdout][contig] = sorted(start for start, _ in spans), sorted(end for _, end in spans)
    doubtful = {holdout: any(_is_inconclusive(given, contig) for contig in on) for holdout, on in bounds.items()}
    problems: Problems = []
    n = 0
    for row in (row for table in given.corpus for row in table.to_pylist()):
        n += 1
        for holdout, on in bounds.items():
            key = (holdout, row["source"], row["record_id"], row["window_index"])
            confirmed = row["placement_how"] == "coordinates"
            expected = _is_there(row, on, given.profile.margin_bp) or (
                doubtful[holdout] and row["maybe_human"] and not confirmed
            )
            if (expected and key not in listed) or (not expected and key in by_place):
                problems.append(_of_window(key, listed.get(key), row))
            by_place.discard(key)
    problems += [_of_window(key, listed[key], {}) for key in sorted(by_place)]
    if n != (counted := held.counts.get("corpus_windows", 0)):
        problems.append({"expected": n, "got": counted, "problem": f"{n} corpus windows, {counted} were counted"})
    return problems


def _is_there(row: dict[str, Any], on: dict[str, tuple[list[int], list[int]]], margin_bp: int) -> bool:
    """Return whether a corpus window is, or may be, in a held-out interval, as placed or as stated."""
    for contig, start, end in (
        (row["placed_contig"], row["placed_start"], row["placed_end"]),
        (row["stated_contig"], row["stated_start"], row["stated_end"]),
    ):
        if contig in on:
            starts, ends = on[contig]
            if start is None or bisect_left(starts, end + margin_bp) > bisect_right(ends, start - margin_bp):
                return True
    return False


def _is_inconclusive(given: HoldoutInputs, contig: str) -> bool:
    """Return whether too little of a contig's assembly is in the genome for a search to show that nothing is there."""
    found = [row for row in given.genome.to_pylist() if row["contig"] == contig]
    if not found:
        return True
    if contig not in GRCH38_BASES or found[0]["length"] != GRCH38[contig].length:
        return False
    return bool(found[0]["acgt_bases"] < CONCLUSIVE_SHARE * GRCH38_BASES[contig])


def _of_window(key: tuple[Any, ...], reason: str | None, row: dict[str, Any]) -> dict[str, object]:
    what = "not listed" if reason is None else f"listed as {reason}"
    facts = dict(zip(_CORPUS_KEY, key, strict=True))
    place = {name: row.get(name) for name in ("placement_how", "placed_contig", "placed_start", "placed_end")}
    problem = f"{' '.join(map(str, key))}: {what}, although its placement says otherwise"
    return {**facts, **place, "reason": reason, "problem": problem}


def _haplotypes(held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy) -> Problems:
    """Compare the share of windows that blocks exclude with the policy; less is accepted if too few blocks exist."""
    met: set[tuple[str, int]] = set()
    bounds = {name: (table["start"].to_pylist(), table["end"].to_pylist()) for name, table in given.windows.items()}
    for (holdout, contig), spans in _spans(held, but=IntervalReason.KEPT).items():
        if holdout == Holdout.HAPLOTYPES and contig in bounds:
            starts, ends = bounds[contig]
            for start, end in spans:
                low = bisect_right(ends, start - given.profile.margin_bp)
                met.update((contig, row) for row in range(low, bisect_left(starts, end)))
    total = sum(len(starts) for starts, _ in bounds.values())
    off = len(met) - policy.haplotype_fraction * total
    if abs(off) <= HAPLOTYPE_TOLERANCE * total or (off < 0 and held.counts["haplotype_blocks.used_up"]):
        return []
    share, target = f"{len(met) / total:.2%}", f"{policy.haplotype_fraction:.2%}"
    problem = f"{len(met)} of {total} windows are excluded from training: {share}, expected {target}"
    return [{"windows": total, "excluded": len(met), "expected": target, "got": share, "problem": problem}]


def _carriers(held: HoldoutTables, given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Count again which alleles of each phased block occur together, and compare; another block has one row."""
    problems: Problems = []
    units = {
        row["unit"]: (row["contig"], row["role"], row["start"], row["end"], row["reason"] == "phased_block")
        for row in held.intervals.to_pylist()
        if row["holdout"] == Holdout.HAPLOTYPES and row["reason"] != IntervalReason.KEPT
    }
    listed: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in held.haplotypes.to_pylist():
        listed[row["unit"]].append(row)
    problems += [
        {"unit": unit, "problem": f"{unit}: held out without a haplotype, or listed without being held out"}
        for unit in sorted(units.keys() ^ listed.keys())
    ]
    for unit in sorted(units.keys() & listed.keys()):
        contig, role, start, end, phased = units[unit]
        rows = listed[unit]
        sets = [frozenset((one["pos"], one["ref"], one["alt"]) for one in row["alleles"]) for row in rows]
        inside = all(start < pos and pos - 1 + len(ref) <= end for alleles in sets for pos, ref, _ in alleles)
        if not inside or any((row["contig"], row["role"], row["phased"]) != (contig, role, phased) for row in rows):
            problems.append(_of_block(unit, contig, start, end, "its haplotypes are not those of its interval"))
        stated = {alleles: row["n_carriers"] for alleles, row in zip(sets, rows, strict=True)}
        if not phased:
            wrong = len(rows) != 1 or rows[0]["n_carriers"] is not None
        else:
            wrong = stated != _count_carried(given, contig, frozenset().union(*sets)) or len(stated) < len(rows)
        if wrong:
            problems.append(_of_block(unit, contig, start, end, "its haplotypes are not those of the genotypes"))
    return problems


def _of_block(unit: str, contig: str, start: int, end: int, problem: str) -> dict[str, object]:
    return {"unit": unit, "contig": contig, "start": start, "end": end, "problem": f"{unit}: {problem}"}


def _count_carried(
    given: HoldoutInputs, contig: str, alleles: frozenset[tuple[int, str, str]]
) -> dict[frozenset[tuple[int, str, str]], int]:
    """Return the number of haplotypes by the set of two or more of ``alleles`` that they carry."""
    keys = zip(*(given.gnomad[contig][name].to_pylist() for name in ("pos", "ref", "alt")), strict=True)
    by_haplotype: defaultdict[int, set[tuple[int, str, str]]] = defaultdict(set)
    for row, key in enumerate(keys):
        if key in alleles and contig in given.phased:
            text = "".join(f"{byte:08b}" for byte in given.phased[contig].packed[row].tolist())
            for haplotype, bit in enumerate(text):
                if bit == "1":
                    by_haplotype[haplotype].add(key)
    return Counter(frozenset(carried) for carried in by_haplotype.values() if len(carried) > 1)


def _sides(held: HoldoutTables, given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Find what the earlier release held out and this one does not, or tested and this one uses for validation."""
    columns, problems = ("holdout", "source", *ALLELE_KEY), Problems()
    roles = {tuple(row[name] for name in columns): row["role"] for row in held.alleles.to_pylist()}
    for row in given.before.alleles.to_pylist():
        now = roles.get(tuple(row[name] for name in columns))
        if now is None or (row["role"], now) == ("test", "validation"):
            what = f"{row['holdout']} {row['chrom']}:{row['pos']} {row['ref']}>{row['alt']}"
            facts = {**{name: row[name] for name in columns}, "expected": row["role"], "got": now}
            problems.append({**facts, "problem": f"{what} was {row['role']}, is {now}"})
    spans = _spans(held)
    for row in given.before.intervals.to_pylist():
        if not any(a <= row["start"] and row["end"] <= b for a, b in spans.get((row["holdout"], row["contig"]), ())):
            problems.append({**row, "problem": f"{row['unit']}: {row['contig']}:{row['start']} is no longer held out"})
    return problems


def _moves(held: HoldoutTables, _given: HoldoutInputs, policy: HoldoutPolicy) -> Problems:
    """Bound the alleles that would change their side, and those whose genes changed, since the earlier release."""
    n, limit = held.counts.get("moves.persisting", 0), policy.max_moved_fraction
    found = {
        "would change their side": held.counts.get("moves.to_training", 0) + held.counts.get("moves.from_training", 0),
        "changed their genes": held.counts.get("moves.genes_changed", 0),
    }
    return [
        {
            "expected": f"at most {limit:.2%}",
            "got": f"{moved / n:.2%}",
            "problem": f"{moved:,} of the {n:,} alleles of both releases {what}: {moved / n:.2%}, at most {limit:.2%}",
        }
        for what, moved in found.items()
        if moved > limit * n
    ]


_FIND: tuple[Callable[[HoldoutTables, HoldoutInputs, HoldoutPolicy], Problems], ...] = (
    _keys, _roles, _contigs, _alleles, _similar, _corpus, _haplotypes, _carriers, _sides, _moves,
)  # fmt: skip


def _tables(held: HoldoutTables) -> list[tuple[pa.Table, TableSchema]]:
    return list(zip((held.intervals, held.alleles, held.corpus, held.similar, held.haplotypes), TABLES, strict=True))


def _spans(held: HoldoutTables, but: str = "") -> dict[tuple[str, str], list[tuple[int, int]]]:
    spans: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in (row for row in held.intervals.to_pylist() if row["reason"] != but):
        spans[row["holdout"], row["contig"]].append((row["start"], row["end"]))
    return spans


def _result(name: str, problems: Problems) -> CheckResult:
    first: list[JsonValue] = [str(problem["problem"]) for problem in problems[:5]]
    figures: dict[str, JsonValue] = {"problems": len(problems), "first": first}
    return CheckResult(name, passed=not problems, figures=figures, rows=problems)
