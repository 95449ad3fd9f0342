"""Checks of the holdout tables, independent of the code that builds the tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import EVALUATION, Holdout
from genolewm_assets.holdouts.build import HoldoutInputs, HoldoutTables
from genolewm_assets.holdouts.policy import HAPLOTYPE_TOLERANCE, HoldoutPolicy
from genolewm_assets.holdouts.schema import TABLES, AlleleReason, IntervalReason
from genolewm_assets.holdouts.window_checks import Problems, bounds_of, check_corpus, check_similar, meets_any, spans_of
from genolewm_assets.store.artefacts import NOT_RUN, Check, CheckResult, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, TableSchema, give_memory_back
from genolewm_assets.variants import ALLELE_KEY, join_columns

#: The checks, in the order of :func:`check_holdouts`.
HOLDOUT_CHECKS = (
    SCHEMA_AS_DECLARED,
    Check("rows_sorted_and_unique", "The rows of each table are sorted by key, and no key occurs twice."),
    Check(
        "units_have_one_role",
        "No contig, gene component or haplotype block is in both validation and test, and two of one holdout that "
        "share bases are in the same one.",
        "The policy gives a unit of the rows to validation and to test. See that no contig is in both lists of the "
        "section holdouts, and no gene in both; otherwise report the rows.",
    ),
    Check(
        "contigs_held_out_whole",
        "Every contig that the policy holds out is held out from its first base to its last, and of the blocks of the "
        "others (holdouts.block_bp) as many as it asks for; a block of validation touches none of test.",
        "See that the contigs in holdouts.contigs_validation and holdouts.contigs_test are names of the catalogue's "
        "genome, and materialise again; otherwise report the rows.",
    ),
    Check(
        "alleles_in_stretches_named",
        "For every holdout, source and contig, the table lists as many alleles as overlap the held-out intervals.",
    ),
    Check(
        "similar_windows_excluded",
        "Every corpus window that is similar to held-out sequence, other than by repeats, is excluded; every place "
        "that a window is similar to is held out.",
    ),
    Check(
        "corpus_windows_in_doubt_named",
        "The corpus windows listed by place or in doubt are those that a second pass over all corpus windows finds: "
        "they overlap a held-out interval as placed or as stated or, while a held-out contig is inconclusive, may be "
        "human and have no confirmed coordinates.",
    ),
    Check(
        "haplotype_share_in_bounds",
        "Haplotype blocks remove the share of windows that the policy requests, within 0.3 percentage points, or less "
        "if no admissible block is left.",
        "The blocks do not add up to the share that is asked for. Choose another holdouts.haplotype_fraction, or a "
        "smaller holdouts.max_block_bp, in the catalogue.",
    ),
    Check(
        "haplotypes_as_carried",
        "The haplotypes of every phased block, and the number of haplotypes that carry each, are those of a second "
        "count of the genotypes; every held-out block has its haplotypes.",
        "The phased VCF changed since it was read, or the code is wrong. Materialise again; report rows that come "
        "back.",
    ),
    Check(
        "evaluated_stays_held_out",
        "Every interval and allele that the earlier package of the root held out is held out; what was test is test.",
    ),
    Check(
        "moves_in_bounds",
        "Of the alleles of this release and of that of the earlier package, at most 2 % (holdouts.max_moved_fraction) "
        "would change their side by this release alone, and at most as many changed their genes.",
        "See genes_changed in clinvar/changes: a damaged GENEINFO names other genes. Wait for a corrected release, or "
        "raise holdouts.max_moved_fraction in the catalogue if the changes are meant.",
    ),
)

_FIRST = "no earlier package of the root was made under this policy"


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
    results = [schemas]
    for name, find in zip(HOLDOUT_CHECKS[1:], _FIND, strict=True):
        results.append(_stating(_result(name, find(held, given, policy)), held, given, policy))
        give_memory_back()
    return tuple(results)


def _stating(check: CheckResult, held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy) -> CheckResult:
    """State how many rows, contigs, intervals or windows a check compared; none passes if the policy asks for none."""
    contigs = len(policy.canonical(given.contigs).contig_roles()) + (policy.block_bp is not None)
    windows = sum(table.num_rows for table in given.windows.values())
    rows = sum(table.num_rows for table, _ in _tables(held))
    n, nothing, declared = {
        "contigs_held_out_whole": (contigs, "the policy holds out no contig and no block of one", True),
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
        key = table.select(schema.key)
        one, two = key.slice(0, max(0, key.num_rows - 1)), key.slice(1)
        ascends = pa.array(np.zeros(one.num_rows, dtype=bool))
        for name in reversed(schema.key):
            equal_so_far = pc.and_(pc.equal(one[name], two[name]), ascends)
            ascends = pc.or_(pc.less(one[name], two[name]), equal_so_far)
        wrong = pc.invert(ascends)
        problems += [
            {
                "table": schema.name,
                "key": tuple(before.values()),
                "next": tuple(after.values()),
                "problem": f"{schema.name}: {tuple(before.values())} is repeated or not sorted",
            }
            for before, after in zip(one.filter(wrong).to_pylist(), two.filter(wrong).to_pylist(), strict=True)
        ]
    return problems


def _roles(held: HoldoutTables, _given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Find contigs, gene components and blocks that have two roles, and intervals of one holdout that share bases."""
    roles: defaultdict[str, set[str]] = defaultdict(set)
    holdouts: defaultdict[str, set[str]] = defaultdict(set)
    for table in (held.intervals, held.alleles):
        for row in table.group_by(["unit", "role", "holdout"]).aggregate([]).to_pylist():
            roles[row["unit"]].add(row["role"])
            holdouts[row["unit"]].add(row["holdout"])
    problems: Problems = [
        {
            "unit": unit,
            "holdouts": sorted(holdouts[unit]),
            "roles": sorted(found),
            "problem": f"{unit} has the roles {sorted(found)}",
        }
        for unit, found in sorted(roles.items())
        if len(found) > 1
    ]
    ends: dict[tuple[str, str, str], tuple[int, str]] = {}
    for row in held.intervals.sort_by([("contig", "ascending"), ("start", "ascending")]).to_pylist():
        place = row["holdout"], row["contig"]
        for role in set(EVALUATION) - {row["role"]}:
            end, unit = ends.get((*place, role), (0, ""))
            if row["start"] < end:
                problem = f"{unit} in {role} and {row['unit']} in {row['role']} share bases of {row['contig']}"
                problems.append({"unit": row["unit"], "holdouts": [row["holdout"]], "problem": problem})
        ends[(*place, row["role"])] = max(ends.get((*place, row["role"]), (0, "")), (row["end"], row["unit"]))
    return problems


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
    ] + list(_wrong_blocks(held, given, policy, wanted))


def _wrong_blocks(
    held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy, whole: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Yield what is no block with windows, blocks of two roles that touch, and roles with a wrong number of blocks."""
    size, rows = policy.block_bp or 0, held.intervals.to_pylist()
    rows = [row for row in rows if row["holdout"] == Holdout.CHR and row["contig"] not in whole]
    divided = {c: {start // size for start in table["start"].to_pylist()} for c, table in given.windows.items() if size}
    blocks = {(contig, number) for contig in divided.keys() - whole for number in divided[contig]}
    roles = {(row["contig"], row["start"] // size if size else -1): row["role"] for row in rows}
    for row in rows:
        contig, start, end = row["contig"], row["start"], row["end"]
        number = start // size if size else -1
        end_of_block = size and min(start + size, given.contigs[contig].length)
        if (contig, number) not in blocks or start % size or end != end_of_block:
            yield {**row, "problem": f"{row['unit']} is held out and is no block with windows"}
        elif roles.get((contig, number + 1), row["role"]) != row["role"]:
            yield {**row, "problem": f"{row['unit']} touches a block of another role"}
    shares = {"validation": policy.block_validation_fraction, "test": policy.block_test_fraction}
    for role, share in shares.items():
        n, expected = [*roles.values()].count(role), max(share > 0 and len(blocks) > 0, round(share * len(blocks)))
        if n != expected:
            yield {"role": role, "expected": expected, "got": n, "problem": f"{n} blocks in {role}, not {expected}"}


def _alleles(held: HoldoutTables, given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Count the alleles whose reference bases overlap a held-out interval, and compare with the allele table."""
    expected: Counter[tuple[str, str, str]] = Counter()
    bounds = bounds_of(held)
    for source, shards in (("gnomad", given.gnomad), ("clinvar", given.clinvar)):
        for contig in shards.keys() & given.windows.keys() & {contig for _, contig in bounds}:
            alleles = shards[contig]
            start = alleles["pos"].to_numpy() - 1
            end = start + pc.binary_length(alleles["ref"]).to_numpy()
            for holdout in Holdout:
                met = meets_any(bounds.get((holdout, contig)), start, end)
                expected[holdout, source, contig] = int(np.count_nonzero(met))
    ours = pc.and_(
        pc.not_equal(held.alleles["holdout"], str(Holdout.TEMPORAL)),
        pc.not_equal(held.alleles["reason"], str(AlleleReason.KEPT)),
    )
    key = ["holdout", "source", "chrom"]
    listed = held.alleles.select(key).filter(ours).group_by(key).aggregate([([], "count_all")]).to_pylist()
    named = Counter({tuple(row[name] for name in key): row["count_all"] for row in listed})
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


def _haplotypes(held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy) -> Problems:
    """Compare the share of windows that blocks exclude with the policy; less is accepted if too few blocks exist."""
    bounds = {name: (table["start"].to_numpy(), table["end"].to_numpy()) for name, table in given.windows.items()}
    met = {contig: np.zeros(len(starts), dtype=bool) for contig, (starts, _) in bounds.items()}
    for (holdout, contig), spans in spans_of(held, but=IntervalReason.KEPT).items():
        if holdout == Holdout.HAPLOTYPES and contig in bounds:
            starts, ends = bounds[contig]
            for start, end in spans:
                low = np.searchsorted(ends, start - given.profile.margin_bp, side="right")
                met[contig][low : np.searchsorted(starts, end)] = True
    total = sum(len(starts) for starts, _ in bounds.values())
    n = sum(int(np.count_nonzero(mask)) for mask in met.values())
    off = n - policy.haplotype_fraction * total
    if abs(off) <= HAPLOTYPE_TOLERANCE * total or (off < 0 and held.counts["haplotype_blocks.used_up"]):
        return []
    share, target = f"{n / total:.2%}", f"{policy.haplotype_fraction:.2%}"
    problem = f"{n} of {total} windows are excluded from training: {share}, expected {target}"
    return [{"windows": total, "excluded": n, "expected": target, "got": share, "problem": problem}]


def _carriers(held: HoldoutTables, given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Count again which alleles of each phased block occur together, and compare; another block has one row."""
    units = {
        row["unit"]: (row["contig"], row["role"], row["start"], row["end"], row["reason"] == "phased_block")
        for row in held.intervals.to_pylist()
        if row["holdout"] == Holdout.HAPLOTYPES and row["reason"] != IntervalReason.KEPT
    }
    listed: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in held.haplotypes.to_pylist():
        listed[row["unit"]].append(row)
    problems: Problems = [
        {"unit": unit, "problem": f"{unit}: held out without a haplotype, or listed without being held out"}
        for unit in sorted(units.keys() ^ listed.keys())
    ]
    for unit in sorted(units.keys() & listed.keys()):
        (contig, role, start, end, phased), rows = units[unit], listed[unit]
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
    if contig not in given.phased:
        return {}
    positions = sorted(pos for pos, _, _ in alleles)
    table = given.gnomad[contig]
    pos = table["pos"].to_numpy()
    first, last = np.searchsorted(pos, positions[0]), np.searchsorted(pos, positions[-1], side="right")
    near = table.slice(first, last - first)
    keys = zip(*(near[name].to_pylist() for name in ("pos", "ref", "alt")), strict=True)
    by_haplotype: defaultdict[int, set[tuple[int, str, str]]] = defaultdict(set)
    for row, key in enumerate(keys, start=int(first)):
        if key in alleles:
            for haplotype in np.flatnonzero(np.unpackbits(given.phased[contig].packed[row])).tolist():
                by_haplotype[haplotype].add(key)
    return Counter(frozenset(carried) for carried in by_haplotype.values() if len(carried) > 1)


def _sides(held: HoldoutTables, given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Find what the earlier release held out and this one does not, or tested and this one uses for validation."""
    columns, problems = ("holdout", "source", *ALLELE_KEY), Problems()
    for contig in pc.unique(given.before.alleles["chrom"]).to_pylist():
        before, now = (table.filter(pc.equal(table["chrom"], contig)) for table in (given.before.alleles, held.alleles))
        theirs, ours = (
            join_columns(*(pc.cast(table[name], pa.string()) for name in columns)) for table in (before, now)
        )
        role = now["role"].combine_chunks().take(pc.index_in(theirs, value_set=ours))
        weaker = pc.and_(pc.equal(before["role"], "test"), pc.fill_null(pc.equal(role, "validation"), False))
        wrong = pc.or_(pc.is_null(role), weaker)
        for row, got in zip(before.filter(wrong).to_pylist(), role.filter(wrong).to_pylist(), strict=True):
            what = f"{row['holdout']} {row['chrom']}:{row['pos']} {row['ref']}>{row['alt']}"
            facts = {**{name: row[name] for name in columns}, "expected": row["role"], "got": got}
            problems.append({**facts, "problem": f"{what} was {row['role']}, is {got}"})
    spans = spans_of(held)
    for row in given.before.intervals.to_pylist():
        if not any(a <= row["start"] and row["end"] <= b for a, b in spans.get((row["holdout"], row["contig"]), ())):
            problems.append({**row, "problem": f"{row['unit']}: {row['contig']}:{row['start']} is no longer held out"})
    return problems


def _moves(held: HoldoutTables, _given: HoldoutInputs, policy: HoldoutPolicy) -> Problems:
    """Report more alleles than allowed that change their side, or have other genes, since the earlier release."""
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
    _keys, _roles, _contigs, _alleles, check_similar, check_corpus, _haplotypes, _carriers, _sides, _moves,
)  # fmt: skip


def _tables(held: HoldoutTables) -> list[tuple[pa.Table, TableSchema]]:
    tables = held.intervals, held.alleles, held.corpus, held.similar, held.compared, held.haplotypes
    return list(zip(tables, TABLES, strict=True))


def _result(name: str, problems: Problems) -> CheckResult:
    first: list[JsonValue] = [str(problem["problem"]) for problem in problems[:5]]
    figures: dict[str, JsonValue] = {"problems": len(problems), "first": first}
    return CheckResult(name, passed=not problems, figures=figures, rows=problems)
