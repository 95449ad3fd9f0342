"""Checks of the holdout tables by code that shares nothing with what made them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.holdouts.build import HoldoutInputs, HoldoutTables
from genolewm_assets.lewm.holdouts.policy import HAPLOTYPE_TOLERANCE, HoldoutPolicy
from genolewm_assets.lewm.holdouts.schema import TABLES, Holdout
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableSchema

Problems = list[str]


def check_holdouts(held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy) -> tuple[CheckResult, ...]:
    """Run every check of ``holdouts/manifest``; the figures name the first problems. The corpus is not read again."""
    schemas = _result("schema_as_declared", _schemas(held))
    if not schemas.passed:
        missed: dict[str, JsonValue] = {"error": "not run: a table does not have its schema"}
        return (schemas, *(CheckResult(name, passed=False, figures=missed) for name in HOLDOUT_CHECKS[1:]))
    return (schemas, *(_result(name, find(held, given, policy)) for name, find in _CHECKS.items()))


def _schemas(held: HoldoutTables) -> Problems:
    problems = []
    for table, schema in _tables(held):
        try:
            schema.check(table.schema, where=schema.name)
            table.validate(full=True)
        except (CorruptResourceError, pa.ArrowInvalid) as err:
            problems.append(str(err))
    return problems


def _keys(held: HoldoutTables, _given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    problems = []
    for table, schema in _tables(held):
        rows = zip(*(table[name].to_pylist() for name in schema.key), strict=True)
        problems += [f"{schema.name}: {one} twice or out of order" for one, two in pairwise(rows) if one >= two]
    return problems


def _roles(held: HoldoutTables, _given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Look for contigs, gene components and blocks that are on both sides, in one holdout or between two."""
    roles: defaultdict[str, set[str]] = defaultdict(set)
    for table in (held.intervals, held.alleles):
        for unit, role in set(zip(table["unit"].to_pylist(), table["role"].to_pylist(), strict=True)):
            roles[unit].add(role)
    return [f"{unit}: {sorted(found)}" for unit, found in sorted(roles.items()) if len(found) > 1]


def _contigs(held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy) -> Problems:
    """Look for held-out contigs that do not leave as a whole."""
    whole = {
        row["contig"]: row["role"]
        for row in held.intervals.to_pylist()
        if row["holdout"] == Holdout.CHR and row["start"] == 0
        if row["contig"] not in given.contigs or row["end"] == given.contigs[row["contig"]].length
    }
    wanted = policy.canonical(given.contigs).contig_roles()
    return [
        f"{contig} is not held out whole for {role}" for contig, role in wanted.items() if whole.get(contig) != role
    ]


def _alleles(held: HoldoutTables, given: HoldoutInputs, _policy: HoldoutPolicy) -> Problems:
    """Count the alleles whose bases meet a held-out stretch, and compare with those that the table names.

    An allele meets as many of some stretches as start before its end, less those that end before its start.
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
    named = Counter(key for key in zip(*columns, strict=True) if key[0] != Holdout.TEMPORAL)
    return [
        f"{' '.join(key)}: {named[key]} of {expected[key]} alleles"
        for key in sorted({*expected, *named})
        if expected[key] != named[key]
    ]


def _haplotypes(held: HoldoutTables, given: HoldoutInputs, policy: HoldoutPolicy) -> Problems:
    """Count the windows that blocks remove; too few are accepted where the blocks that may be taken were used up."""
    met: set[tuple[str, int]] = set()
    bounds = {name: (table["start"].to_pylist(), table["end"].to_pylist()) for name, table in given.windows.items()}
    for (holdout, contig), spans in _spans(held).items():
        if holdout == Holdout.HAPLOTYPES and contig in bounds:
            starts, ends = bounds[contig]
            for start, end in spans:
                low = bisect_right(ends, start - given.profile.margin_bp)
                met.update((contig, row) for row in range(low, bisect_left(starts, end)))
    total = sum(len(starts) for starts, _ in bounds.values())
    off = len(met) - policy.haplotype_fraction * total
    if abs(off) <= HAPLOTYPE_TOLERANCE * total or (off < 0 and held.counts["haplotype_blocks.used_up"]):
        return []
    return [f"{len(met)} of {total} windows are removed: {len(met) / total:.2%} for {policy.haplotype_fraction:.2%}"]


_CHECKS: dict[str, Callable[[HoldoutTables, HoldoutInputs, HoldoutPolicy], Problems]] = {
    "rows_sorted_and_unique": _keys,
    "units_have_one_role": _roles,
    "contigs_held_out_whole": _contigs,
    "alleles_in_stretches_named": _alleles,
    "haplotype_share_in_bounds": _haplotypes,
}

#: Names of the checks, in the order of :func:`check_holdouts`.
HOLDOUT_CHECKS = ("schema_as_declared", *_CHECKS)


def _tables(held: HoldoutTables) -> list[tuple[pa.Table, TableSchema]]:
    return list(zip((held.intervals, held.alleles, held.corpus), TABLES, strict=True))


def _spans(held: HoldoutTables) -> dict[tuple[str, str], list[tuple[int, int]]]:
    spans: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in held.intervals.to_pylist():
        spans[row["holdout"], row["contig"]].append((row["start"], row["end"]))
    return spans


def _result(name: str, problems: Problems) -> CheckResult:
    figures: dict[str, JsonValue] = {"problems": len(problems), "first": list(problems[:5])}
    return CheckResult(name, passed=not problems, figures=figures)
