"""Checks of the table of genomes that use neither the aligner nor the linkage of the split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Split
from genolewm_assets.mito.genomes.differences import Difference, lay_out, parse_names
from genolewm_assets.mito.genomes.haplogroups import majors
from genolewm_assets.mito.genomes.records import GenomeReject
from genolewm_assets.mito.genomes.rotation import canonical_rotation
from genolewm_assets.mito.genomes.split import SplitPolicy, near_pairs
from genolewm_assets.mito.genomes.table import MITO_GENOME_REJECTS, MITO_GENOMES
from genolewm_assets.store.artefacts import SHOWN_ROWS, Check, CheckResult
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, check_schema, not_run

#: Checks of :func:`check_genomes`, in its order.
GENOME_CHECKS = (
    SCHEMA_AS_DECLARED,
    Check(
        "every_genome_accounted_for",
        "Every record of the collections has a row among the genomes or the rejects, and the counts equal these rows.",
        "A record is lost or read twice, for example because a collection changed while it was read. Materialise "
        "again; report rows that come back.",
    ),
    Check("genomes_are_their_sources", "Every genome equals its source record, apart from rotation and strand."),
    Check(
        "differences_spell_genomes",
        "The reference with a genome's differences applied gives the sequence of the genome.",
    ),
    Check(
        "near_copies_on_one_side",
        "Two genomes in different splits differ at more positions than the catalogue's bound (all pairs are "
        "compared), and no haplogroup is divided if the policy keeps haplogroups together.",
        "Genomes of the rows are near copies in two splits. Materialise again; if the same rows come back, report "
        "them: training would have seen a genome of the test.",
    ),
)


def check_genomes(
    table: pa.Table, rejects: pa.Table, counts: Mapping[str, int], reference: str, policy: SplitPolicy
) -> tuple[CheckResult, ...]:
    """Run :data:`GENOME_CHECKS` on the tables of genomes and of rejects, read back from their files.

    Parameters
    ----------
    counts
        Counts of the build: ``records``, ``kept`` and ``rejected.<reason>``.
    reference
        One turn of the circle, upper case.
    """
    for each, schema in ((rejects, MITO_GENOME_REJECTS), (table, MITO_GENOMES)):
        first = check_schema(each, schema)
        if not first.passed:
            return (first, *map(not_run, GENOME_CHECKS[1:]))
    differences = [parse_names(names, where="genome") for names in table["differences"].to_pylist()]
    return (
        first,
        check_account(table, rejects, counts),
        check_sources(table),
        check_differences(table, differences, reference),
        check_split(table, differences, policy),
    )


def check_account(table: pa.Table, rejects: pa.Table, counts: Mapping[str, int]) -> CheckResult:
    """Compare rows and reject reasons with the counts; the record numbers of each file must be 1, 2, 3, ..."""
    reasons = rejects["reason"].to_pylist()
    counted = {f"rejected.{reason}": reasons.count(reason) for reason in GenomeReject}
    # A reason outside the closed set is in no count, so the total differs.
    counted["rejected, all reasons"] = sum(counted.values())
    stated = {**counts, "rejected, all reasons": rejects.num_rows}
    places = sorted(
        (file, record)
        for each in (table, rejects)
        for file, record in zip(each["file"].to_pylist(), each["record"].to_pylist(), strict=True)
    )
    counted |= {"records": len(places), "kept": table.num_rows}
    wrong: list[dict[str, object]] = [
        {"problem": f"the count {name} differs", "expected": n, "got": stated.get(name, 0)}
        for name, n in counted.items()
        if stated.get(name, 0) != n
    ]
    problem = "a record is missing or has two rows"
    wrong += [
        {"problem": problem, "file": file, "expected": f"record {n}", "got": f"record {got}"}
        for _, of_file in groupby(places, key=lambda place: place[0])
        for n, (file, got) in enumerate(of_file, 1)
        if n != got
    ]
    figures = {"records": counts["records"], "kept": table.num_rows, "rejected": rejects.num_rows}
    return CheckResult("every_genome_accounted_for", passed=not wrong, figures=figures, rows=wrong)


def check_sources(table: pa.Table) -> CheckResult:
    """Compare the digest of each sequence's canonical rotation with the digest of the sequence as read."""
    wrong = [
        name
        for name, sequence, digest in _columns(table, "name", "sequence", "circle_sha256")
        if hashlib.sha256(canonical_rotation(sequence).encode("ascii")).hexdigest() != digest
    ]
    return _compared("genomes_are_their_sources", table, wrong)


def check_differences(table: pa.Table, differences: list[tuple[Difference, ...]], reference: str) -> CheckResult:
    """Rebuild each genome from its differences and the reference, and compare it with the stored sequence."""
    rows = zip(_columns(table, "name", "sequence", "placeholders"), differences, strict=True)
    wrong = [
        name
        for (name, sequence, placeholders), found in rows
        if lay_out(reference, found, placeholders).sequence != sequence
        or any(each.bases and each.bases == reference[each.start : each.end] for each in found)
    ]
    return _compared("differences_spell_genomes", table, wrong)


def check_split(table: pa.Table, differences: list[tuple[Difference, ...]], policy: SplitPolicy) -> CheckResult:
    """Compute the least distance between two splits, and count haplogroups that occur in more than one split."""
    split = [Split(name) for name in table["split"].to_pylist()]
    least, near = near_pairs(differences, split, limit=policy.max_differences, most=SHOWN_ROWS)
    branches = zip(majors(table["haplogroup"].to_pylist()), split, strict=True)
    sides = sorted({(branch, str(found)) for branch, found in branches if branch is not None})
    divided = len(sides) - len({branch for branch, _ in sides}) if policy.by_haplogroup else 0
    passed = (least is None or least > policy.max_differences) and not divided
    figures: dict[str, int | str] = {each.value: split.count(each) for each in Split}
    figures |= {"least_difference": "one side only" if least is None else least, "parted_haplogroups": divided}
    names = table["name"].to_pylist()
    rows: list[dict[str, object]] = [
        {
            "problem": "near copies in two splits",
            "genome": names[one],
            "split": split[one],
            "other_genome": names[other],
            "other_split": split[other],
            "expected": f"more than {policy.max_differences} differences",
            "got": n,
        }
        for one, other, n in near
    ]
    if divided:
        both = [(branch, [side for name, side in sides if name == branch]) for branch in dict(sides)]
        rows += [
            {"problem": "haplogroup in several splits", "haplogroup": b, "splits": s} for b, s in both if len(s) > 1
        ]
    return CheckResult("near_copies_on_one_side", passed=passed, figures=figures, rows=rows)


def _columns(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of columns, row by row."""
    for batch in table.select(names).to_batches(max_chunksize=256):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _compared(name: str, table: pa.Table, wrong: list[str]) -> CheckResult:
    """Return the result of a check that found the genomes of some names wrong, with the first of these."""
    first = table.filter(pc.is_in(table["name"], pa.array(wrong[:SHOWN_ROWS], pa.string())))
    rows = first.select(["name", "file", "record", "haplogroup", "split"]).to_pylist()
    figures = {"genomes": table.num_rows, "wrong": len(wrong), "first_wrong": wrong[0] if wrong else "none"}
    return CheckResult(name, not wrong, figures, rows)
