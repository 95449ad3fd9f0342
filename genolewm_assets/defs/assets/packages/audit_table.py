"""Tables of ``packages/audit``, made from a report of the audit, which knows no formats of this house."""

from __future__ import annotations

import pyarrow as pa

from genolewm_assets.audit import AuditReport, LeakKind, SearchResult, Verdict
from genolewm_assets.store.tables import TableSchema, column, nullable

_KINDS, _VERDICTS = tuple(LeakKind), tuple(Verdict)

PACKAGE_AUDIT = TableSchema(
    "package_audit",
    "kind of leak that was looked for in a package",
    pa.schema(
        [
            column("kind", pa.string(), "kind of leak"),
            column("method", pa.string(), "how it was looked for"),
            column("n_searched", pa.int64(), "how much was searched: windows, tuples, alleles or labels"),
            column("searched", pa.string(), "the same with its unit, and what it was compared with"),
            column("planted", pa.int64(), "leaks of this kind that were planted in a part of the package"),
            column("found_planted", pa.int64(), "planted leaks that were found"),
            nullable("power", pa.float64(), "found_planted / planted, 0 to 1; null where none was planted"),
            column("findings", pa.int64(), "leaks that were found in the package itself"),
            column(
                "verdict",
                pa.string(),
                "clean: all was searched; inconclusive: nothing found, not all was searched; not_applicable: the "
                "package has nothing of the kind",
            ),
            column("result", pa.string(), "why the verdict is what it is"),
        ]
    ),
    ("kind",),
    closed={"kind": _KINDS, "verdict": _VERDICTS},
)

AUDIT_FINDINGS = TableSchema(
    "audit_findings",
    "leak that was found in a package; an audit that is published has none",
    pa.schema(
        [
            column("kind", pa.string(), "kind of leak"),
            column("what", pa.string(), "the window, allele or label at fault"),
        ]
    ),
    ("kind", "what"),
    closed={"kind": _KINDS},
)

#: The tables that this module declares.
TABLES: tuple[TableSchema, ...] = (PACKAGE_AUDIT, AUDIT_FINDINGS)


def tabulate_audit(report: AuditReport) -> pa.Table:
    """Return one row per kind of leak, in the order of the report."""
    return pa.Table.from_pylist([_row(result) for result in report], schema=PACKAGE_AUDIT.arrow)


def tabulate_findings(report: AuditReport) -> pa.Table:
    """Return all findings by kind, sorted."""
    rows = [{"kind": str(result.kind), "what": what} for result in report for what in sorted(result.found.keys)]
    return pa.Table.from_pylist(rows, schema=AUDIT_FINDINGS.arrow)


def _row(result: SearchResult) -> dict[str, object]:
    planted, found = (sum(getattr(one, name) for one in result.power) for name in ("planted", "found"))
    return {
        "kind": str(result.kind),
        "method": result.method,
        "n_searched": next(iter(result.searched.values()), 0),
        "searched": ", ".join(f"{number:,} {unit}" for unit, number in result.searched.items()),
        "planted": planted,
        "found_planted": found,
        "power": found / planted if planted else None,
        "findings": len(result.found.keys),
        "verdict": str(result.verdict),
        "result": result.reason,
    }
