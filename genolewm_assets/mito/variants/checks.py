"""Checks of the joined variants that do not use the normalisation of the join."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, zip_longest

import numpy as np
import pyarrow as pa

from genolewm_assets.mito.variants.schema import MITO_SITES, MITO_VARIANTS
from genolewm_assets.store.artefacts import Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, check_schema, not_run
from genolewm_assets.variants import ALLELES_SORTED, REF_AGREES

#: Checks of :func:`check_variants`, in its order.
VARIANT_CHECKS = (
    SCHEMA_AS_DECLARED,
    ALLELES_SORTED,
    REF_AGREES,
    Check(
        "every_row_joined",
        "The rows of each shard equal its joined alleles plus merged spellings, and every substitution was joined.",
        "Materialise gnomad/shard of chrM and clinvar/shard, then this; report rows that come back.",
    ),
    Check(
        "sites_agree_with_alleles",
        "The level of every site is at least that of its substitutions, and no higher than that of its substitutions "
        "and the indels nearby.",
    ),
)


def check_variants(
    variants: pa.Table,
    sites: pa.Table,
    *,
    gnomad: pa.Table,
    clinvar: pa.Table,
    counts: Mapping[str, int],
    reference: str,
    no_gnomad: str | None = None,
) -> tuple[CheckResult, ...]:
    """Run :data:`VARIANT_CHECKS` on the tables of schema ``MITO_VARIANTS`` and ``MITO_SITES``, as written.

    Parameters
    ----------
    gnomad, clinvar
        The tables that were joined.
    counts
        Counts of :func:`~genolewm_assets.mito.variants.join.join_variants`.
    reference
        One turn of the circle, upper case.
    no_gnomad
        Why ``gnomad`` has no rows, if the catalogue names no source of it; heteroplasmy is then not compared.
    """
    for table, schema in ((variants, MITO_VARIANTS), (sites, MITO_SITES)):
        first = check_schema(table, schema)
        if not first.passed:
            return (first, *map(not_run, VARIANT_CHECKS[1:]))
    rows = variants.to_pylist()
    keys = [(row["pos"], row["ref"], row["alt"]) for row in rows]
    circle = reference * 2
    wrong_ref = [key for key in keys if not circle.startswith(key[1], key[0] - 1)]
    unordered = [{**_allele(b), "after": ":".join(map(str, a))} for a, b in pairwise(keys) if a >= b]
    differing = [{**_allele(key), "expected": circle[key[0] - 1 : key[0] - 1 + len(key[1])]} for key in wrong_ref]
    checks = (
        (CheckResult(ALLELES_SORTED, not unordered, {"alleles": len(keys)}, unordered), len(keys)),
        (CheckResult(REF_AGREES, not wrong_ref, {"differing": len(wrong_ref)}, differing), len(keys)),
        (_check_joined(rows, gnomad, clinvar, counts), gnomad.num_rows + clinvar.num_rows),
        (_check_sites(rows, sites, reference), sum(row["filter"] == "PASS" for row in rows)),
    )
    nothing, declared = no_gnomad or "no allele of gnomAD or ClinVar", no_gnomad is not None
    return (first, *(stating_compared(check, n, nothing, declared=declared) for check, n in checks))


def _allele(key: tuple[int, str, str]) -> dict[str, object]:
    return dict(zip(("pos", "ref", "alt"), key, strict=True))


def _check_joined(
    rows: list[dict[str, object]], gnomad: pa.Table, clinvar: pa.Table, counts: Mapping[str, int]
) -> CheckResult:
    """Find each single-base substitution of both shards, which normalisation does not change; compare the counts."""
    lost = RowsAtFault()
    sums = [("alleles", len(rows), counts["alleles"])]
    for source, shard in (("gnomad", gnomad), ("clinvar", clinvar)):
        flagged = {(row["pos"], row["ref"], row["alt"]) for row in rows if row[f"in_{source}"]}
        columns = (shard[name].to_pylist() for name in ("pos", "ref", "alt"))
        for key in zip(*columns, strict=True):
            if len(key[1]) == len(key[2]) == 1 and key not in flagged:
                lost.add(source=source, **_allele(key), problem="in the shard, not among the joined alleles")
        sums.append((f"rows of {source}", shard.num_rows, counts[f"{source}.rows"]))
        joined = len(flagged) + counts[f"{source}.merged"]
        sums.append((f"joined and merged rows of {source}", shard.num_rows, joined))
    wrong = [{"problem": f"{name} differ", "expected": n, "got": got} for name, n, got in sums if n != got]
    figures = {"rows": len(rows), "lost": len(lost)}
    return CheckResult("every_row_joined", not lost and not wrong, figures, [*wrong, *lost])


def _check_sites(rows: list[dict[str, object]], sites: pa.Table, reference: str) -> CheckResult:
    """Compare the reference bases, and the levels of sites with those of the alleles at or around them."""
    agrees = "".join(sites["ref"].to_pylist()) == reference
    agrees &= sites["pos"].to_pylist() == list(range(1, len(reference) + 1))
    if not agrees:
        figures = {"sites": sites.num_rows, "expected_sites": len(reference)}
        stated = zip(sites["pos"].to_pylist(), sites["ref"].to_pylist(), strict=True)
        pairs = enumerate(zip_longest(stated, enumerate(reference, 1), fillvalue=(None, None)))
        off = [
            {"row": row, "pos": got[0], "ref": got[1], "expected_pos": one[0], "expected": one[1]}
            for row, (got, one) in pairs
            if got != one
        ]
        return CheckResult("sites_agree_with_alleles", passed=False, figures=figures, rows=off)
    pop_hl = sites["pop_hl"].to_numpy()
    lost: list[dict[str, object]] = []
    least = np.zeros(len(reference), dtype=np.float32)
    longer = np.zeros(len(reference), dtype=np.float32)
    for row in rows:
        pos, ref, alt = int(str(row["pos"])), str(row["ref"]), str(row["alt"])
        if row["filter"] != "PASS":
            continue
        level = np.float32(str(row["max_hl"] or 0.0))
        places = [(pos - 1 + offset) % len(reference) for offset in range(len(ref))]
        if len(ref) == len(alt) == 1:
            least[places] = np.maximum(least[places], level)
        else:
            # Alignment can move an indel; this range of bases contains every position that it can have.
            reach = 2 * max(len(ref), len(alt)) + 30
            around = np.arange(pos - 1 - reach, pos + reach) % len(reference)
            longer[around] = np.maximum(longer[around], level)
            if pop_hl[around].max() < level:
                lost.append({**_allele((pos, ref, alt)), "level": pop_hl[around].max(), "at_least": level})
    most = np.maximum(least, longer)
    low, high = len(lost) + int(np.sum(pop_hl < least)), int(np.sum(pop_hl > most))
    figures = {"sites": sites.num_rows, "too_low": low, "too_high": high}
    off = [
        {"pos": at + 1, "ref": reference[at], "level": pop_hl[at], "at_least": least[at], "at_most": most[at]}
        for at in np.flatnonzero((pop_hl < least) | (pop_hl > most)).tolist()
    ]
    return CheckResult("sites_agree_with_alleles", not low and not high, figures, [*lost, *off])
