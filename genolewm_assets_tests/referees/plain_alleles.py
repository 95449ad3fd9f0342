"""The plain way to settle alleles: one row after another, everything in memory. What the fast way must equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from genolewm_assets.genome import Contig
from genolewm_assets.variants.ledger import RAW_FIELDS
from genolewm_assets.variants.normal_form import AlleleNormaliser, Rejection
from genolewm_assets.variants.settle import Preference

Row = dict[str, Any]


def settle_plainly(
    rows: Iterable[Row], contig: Contig, normaliser: AlleleNormaliser, preference: Preference, *, file: str
) -> tuple[list[Row], list[Row]]:
    """Return the rows kept and the rows of ``rejects.parquet``."""
    normal: list[Row] = []
    rejects: list[Row] = []
    for row in rows:
        outcome = normaliser.normalise(contig, row["raw_pos"], row["raw_ref"], row["raw_alt"])
        if isinstance(outcome, Rejection):
            rejects.append(rejected(row, outcome.reason, outcome.detail, file))
        else:
            normal.append({**row, "chrom": contig.name, **outcome._asdict()})
    kept = []
    normal.sort(key=lambda row: (row["pos"], row["ref"].encode(), row["alt"].encode()))
    for _, group in groupby(normal, key=lambda row: (row["pos"], row["ref"], row["alt"])):
        best, *others = sorted(group, key=lambda row: (*preference(row), content(row), row["raw_line"]))
        kept.append(best)
        named = f"kept is {best['chrom']}:{best['pos']} as {best['raw_pos']}:{best['raw_ref']}:{best['raw_alt']}"
        rejects += [rejected(row, "duplicate", named[:120], file) for row in others]
    return kept, sorted(rejects, key=lambda row: (row["line"], row["alt"].encode(), row["reason"]))


def rejected(row: Row, reason: str, detail: str | None, file: str) -> Row:
    raw = {name.removeprefix("raw_"): row[name] for name, _ in RAW_FIELDS}
    raw["record_id"] = raw.pop("id")
    return {"file": file, **raw, "reason": str(reason), "detail": detail}


def content(row: Mapping[str, object]) -> str:
    return repr([(name, value) for name, value in row.items() if name != "raw_line"])
