"""Checks of a table of changes, by code that shares nothing with the code that builds it.

The builder pairs alleles; the main check applies the changes to the earlier release, which must give the later one, and
reverts them in the later release, which must give the earlier one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import CLASSES
from genolewm_assets.store.artefacts import SHOWN_ROWS, Check, CheckResult, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, check_schema, not_run, rows_at_fault
from genolewm_assets.variants.changes import COMPARED, transitions, with_genes
from genolewm_assets.variants.checks import check_order, merge_checks
from genolewm_assets.variants.declared_checks import ALLELES_SORTED
from genolewm_assets.variants.schema import ALLELE_KEY, CLINVAR_CHANGES, Change
from genolewm_assets.variants.spans import Bools, as_bools

#: Checks of a table of changes, in the order of the results.
CHANGE_CHECKS = (
    SCHEMA_AS_DECLARED,
    ALLELES_SORTED,
    Check(
        "shards_hold_no_allele_twice",
        "Both releases are sorted and contain no allele twice, so alleles can be paired.",
        "Materialise clinvar/shard for both releases again, then this asset.",
    ),
    Check(
        "flags_agree_with_columns",
        "Every flag is set exactly if its two values differ, and only added and removed alleles lack a side.",
    ),
    Check(
        "classes_change_with_their_texts",
        "An allele's class changed only if ClinVar's CLNSIG text changed too.",
        "The two shards were built with different rules for the classes. Materialise clinvar/shard for both releases "
        "with the same code, then this asset.",
    ),
    Check(
        "changes_lead_to_the_release",
        "Applying the changes to the predecessor gives the release, and undoing them gives the predecessor.",
        "A shard changed while it was compared, or the code is wrong. Materialise clinvar/shard for both releases, "
        "then this asset; if the same rows come back, report them.",
    ),
    Check(
        "changes_add_up",
        "The counts equal the written rows and, for each class, the counts of both releases.",
        "Materialise clinvar/shard for both releases, then this asset; report rows that come back.",
    ),
)

#: Columns of a change that are shown where it is at fault.
_SHOWN = (*ALLELE_KEY, "change", "label_from", "label_to", "clnsig_from", "clnsig_to")

#: Returns the rows of one contig, given its name.
ByContig = Callable[[str], pa.Table]


def check_changes(
    contigs: Iterable[str],
    changes: ByContig,
    earlier: ByContig,
    later: ByContig,
    *,
    counts: Mapping[str, int],
    classes: tuple[Mapping[str, int], Mapping[str, int]],
    rows: int,
) -> tuple[CheckResult, ...]:
    """Check the changes between two releases, in the order of :data:`CHANGE_CHECKS`.

    Parameters
    ----------
    changes, earlier, later
        Return the written rows of a contig, schema ``CLINVAR_CHANGES``, and its alleles in each release,
        ``CLINVAR_VARIANTS``.
    counts
        Counts of :func:`~genolewm_assets.variants.changes.find_changes`, summed over all contigs.
    classes
        Alleles by class of the earlier and of the later release, as counted when their shards were built.
    rows
        Number of rows of the whole file.
    """
    found: Counter[str] = Counter()

    def check_contig(contig: str) -> tuple[CheckResult, ...]:
        table = changes(contig)
        declared = check_schema(table, CLINVAR_CHANGES)
        if not declared.passed:
            return (declared, *map(not_run, CHANGE_CHECKS[1:-1]))
        found.update(_recount(table))
        before, after = with_genes(earlier(contig)), with_genes(later(contig))
        return (
            declared,
            check_order(table, contig),
            _check_shards(before, after, contig),
            _check_flags(table),
            _check_texts(table),
            _check_replay(table, before, after, contig),
        )

    checked = merge_checks(check_contig(contig) for contig in contigs)
    sums = _check_sums(found, counts, classes, rows)
    compared = sum(classes[0].values()) + sum(classes[1].values())
    # The replay turns the earlier release into the later one, and so shows that a table without rows is right.
    replayed = next(each.passed for each in checked if each.name == "changes_lead_to_the_release")
    of_rows = {"flags_agree_with_columns", "classes_change_with_their_texts", "alleles_sorted_and_unique"}
    return tuple(
        each
        if each.name == "schema_as_declared"
        else stating_compared(
            each, rows if each.name in of_rows else compared, "the releases do not differ", declared=replayed
        )
        for each in (*checked, sums)
    )


def check_nothing_to_compare(table: pa.Table) -> tuple[CheckResult, ...]:
    """Check the table of a release without a predecessor: it has its schema and no rows."""
    figures = {"predecessor": "none", "rows": table.num_rows}
    rows = [{**row, "expected": "no row"} for row in table.slice(0, SHOWN_ROWS).select(list(_SHOWN)).to_pylist()]
    empty = (CheckResult(name, not table.num_rows, figures, rows) for name in CHANGE_CHECKS[1:])
    nothing = "the release has no predecessor"
    stated = (stating_compared(each, 0, nothing, declared=True) for each in empty)
    return (check_schema(table, CLINVAR_CHANGES), *stated)


def _check_shards(earlier: pa.Table, later: pa.Table, contig: str) -> CheckResult:
    """Check that both shards are sorted and hold each allele once, as the pairing of alleles assumes."""
    parts = {"earlier": check_order(earlier, contig), "later": check_order(later, contig)}
    figures = {f"{name}.{what}": n for name, part in parts.items() for what, n in part.figures.items()}
    rows = [{"release": name, **row} for name, part in parts.items() for row in part.rows]
    passed = all(part.passed for part in parts.values())
    return CheckResult("shards_hold_no_allele_twice", passed=passed, figures=figures, rows=rows)


def _check_flags(table: pa.Table) -> CheckResult:
    """Compare the kind of change with the columns that are null, and each flag with the two values it compares."""
    kinds = {kind: as_bools(pc.equal(table["change"], str(kind))) for kind in Change}
    flagged = np.logical_or.reduce([as_bools(table[flag]) for flag in COMPARED.values()])
    misplaced = np.zeros(table.num_rows, dtype=bool)
    for name in ("clinvar_id", "label", "stars", "genes"):
        misplaced |= _is_null(table, f"{name}_from") != kinds[Change.ADDED]
        misplaced |= _is_null(table, f"{name}_to") != kinds[Change.REMOVED]
    misplaced |= ~_is_null(table, "clnsig_from") & kinds[Change.ADDED]
    misplaced |= ~_is_null(table, "clnsig_to") & kinds[Change.REMOVED]
    faults = {
        "unknown_change": ~np.logical_or.reduce(list(kinds.values())),
        "sides_misplaced": misplaced,
        "changed_without_flag": kinds[Change.CHANGED] & ~flagged,
        **{
            f"{flag}_wrong": as_bools(table[flag]) != (kinds[Change.CHANGED] & _unequal(table, name))
            for name, flag in COMPARED.items()
        },
    }
    figures = {name: int(np.count_nonzero(mask)) for name, mask in faults.items()}
    rows = rows_at_fault(table, faults, (*_SHOWN, *COMPARED.values()))
    return CheckResult("flags_agree_with_columns", passed=not any(figures.values()), figures=figures, rows=rows)


def _check_texts(table: pa.Table) -> CheckResult:
    """Count classes that changed although CLNSIG did not: the shards were then built with different rules."""
    faults = {"class_changed_alone": as_bools(table["class_changed"]) & ~as_bools(table["text_changed"])}
    figures = {name: int(np.count_nonzero(mask)) for name, mask in faults.items()}
    rows = rows_at_fault(table, faults, _SHOWN)
    return CheckResult("classes_change_with_their_texts", passed=not any(figures.values()), figures=figures, rows=rows)


def _check_replay(table: pa.Table, earlier: pa.Table, later: pa.Table, contig: str) -> CheckResult:
    """Apply the changes to the earlier release and revert them in the later one; compare with the other release."""
    ends = {
        "later": (_replay(earlier, table, dropped="from", inserted="to"), later),
        "earlier": (_replay(later, table, dropped="to", inserted="from"), earlier),
    }
    reached = {name: (_sorted_alleles(made), _sorted_alleles(release)) for name, (made, release) in ends.items()}
    forth, back = (made.equals(release) for made, release in reached.values())
    rows = [row for name, (made, release) in reached.items() for row in _differences(made, release, name)]
    figures = {"not_leading_to_the_release": int(not forth), "not_leading_back": int(not back)}
    named = {} if forth and back else {"first_contig": contig}
    return CheckResult("changes_lead_to_the_release", forth and back, {**figures, **named}, rows)


def _differences(made: pa.Table, release: pa.Table, name: str) -> list[dict[str, object]]:
    """Return the first alleles that differ between a release and what the changes make: expected and got."""
    if made.equals(release):
        return []
    expected, got = (Counter(tuple(row.values()) for row in table.to_pylist()) for table in (release, made))
    wrong = sorted({row[: len(ALLELE_KEY)] for row in (expected - got) + (got - expected)})[:SHOWN_ROWS]
    return [
        {
            **dict(zip(ALLELE_KEY, key, strict=True)),
            "release": name,
            "expected": _values_of(expected, key),
            "got": _values_of(got, key),
        }
        for key in wrong
    ]


def _values_of(rows: Counter[tuple[object, ...]], key: tuple[object, ...]) -> str:
    """Return the values of an allele in words; "no such allele" if it has none."""
    found = [row[len(key) :] for row in rows.elements() if row[: len(key)] == key]
    return "; ".join(", ".join(map(str, values)) for values in found) or "no such allele"


def _replay(release: pa.Table, changes: pa.Table, *, dropped: str, inserted: str) -> pa.Table:
    """Return a release without the ``dropped`` values of the changes and with the ``inserted`` ones (from, to)."""
    removed = changes.filter(pc.is_valid(changes[f"label_{dropped}"])).select(list(ALLELE_KEY))
    kept = release.select([*ALLELE_KEY, *COMPARED]).join(removed, keys=list(ALLELE_KEY), join_type="left anti")
    added = changes.filter(pc.is_valid(changes[f"label_{inserted}"]))
    added = added.select([*ALLELE_KEY, *(f"{name}_{inserted}" for name in COMPARED)])
    return pa.concat_tables([_all_nullable(kept), _all_nullable(added.rename_columns([*ALLELE_KEY, *COMPARED]))])


def _sorted_alleles(table: pa.Table) -> pa.Table:
    ordered = [(name, "ascending") for name in ALLELE_KEY]
    return _all_nullable(table.select([*ALLELE_KEY, *COMPARED])).sort_by(ordered)


def _all_nullable(table: pa.Table) -> pa.Table:
    """Return a table with all columns nullable, because ``equals`` compares nullability too."""
    return table.cast(pa.schema([(field.name, field.type) for field in table.schema]))


def _recount(table: pa.Table) -> Counter[str]:
    """Count the rows again, under the names of the builder's counts."""
    counts: Counter[str] = Counter()
    groups = table.group_by(["change", "label_from", "label_to"]).aggregate([([], "count_all")])
    for row in groups.to_pylist():
        kind, n = row["change"], row["count_all"]
        counts[kind] += n
        side = {Change.ADDED: row["label_to"], Change.REMOVED: row["label_from"]}.get(kind)
        counts[f"class.{row['label_from']}_to_{row['label_to']}" if side is None else f"{kind}.{side}"] += n
    counts.update({flag: int(np.count_nonzero(as_bools(table[flag]))) for flag in COMPARED.values()})
    return counts


def _check_sums(
    found: Mapping[str, int], counts: Mapping[str, int], classes: tuple[Mapping[str, int], Mapping[str, int]], rows: int
) -> CheckResult:
    """Compare the counts with the written rows and, class by class, with the counts of both releases."""
    matrix = transitions(counts)
    n = len(CLASSES)
    from_classes, to_classes = matrix[:n].sum(axis=1), matrix[:, :n].sum(axis=0)
    reclassified = {f"class.{a}_to_{b}" for a in CLASSES for b in CLASSES if a != b}
    row_counts = {*map(str, Change), *COMPARED.values(), *reclassified}
    row_counts |= {f"{kind}.{name}" for kind in (Change.ADDED, Change.REMOVED) for name in CLASSES}
    kinds = sum(found.get(str(kind), 0) for kind in Change)
    compared: list[tuple[Any, ...]] = [
        *(
            ("rows by kind, class and flag differ", found.get(name, 0), counts.get(name, 0), name)
            for name in sorted(row_counts)
        ),
        ("rows are on other contigs", rows, kinds),
        ("the earlier release's classes differ", [classes[0].get(c, 0) for c in CLASSES], from_classes.tolist()),
        ("the later release's classes differ", [classes[1].get(c, 0) for c in CLASSES], to_classes.tolist()),
        ("earlier is not persisting + removed", counts["alleles.earlier"], counts["persisting"] + counts["removed"]),
        ("later is not persisting + added", counts["alleles.later"], counts["persisting"] + counts["added"]),
        ("persisting is not unchanged + changed", counts["persisting"], counts["unchanged"] + counts["changed"]),
        ("classes do not add up to persisting", counts["persisting"], int(matrix[:n, :n].sum())),
    ]
    wrong = [
        {"problem": text, "count": ", ".join(of), "expected": one, "got": two}
        for text, one, two, *of in compared
        if one != two
    ]
    problems = list(dict.fromkeys(str(row["problem"]) for row in wrong))
    shown = ("alleles.earlier", "removed", "added", "alleles.later", "persisting")
    figures: dict[str, JsonValue] = {"problems": [*problems], "rows": rows, **{name: counts[name] for name in shown}}
    return CheckResult("changes_add_up", passed=not problems, figures=figures, rows=wrong)


def _is_null(table: pa.Table, name: str) -> Bools:
    return as_bools(pc.is_null(table[name]))


def _unequal(table: pa.Table, name: str) -> Bools:
    missing: Bools = _is_null(table, f"{name}_from") != _is_null(table, f"{name}_to")
    return missing | as_bools(pc.not_equal(table[f"{name}_from"], table[f"{name}_to"]))
