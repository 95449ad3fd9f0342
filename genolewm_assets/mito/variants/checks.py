"""Checks of the joined variants that do not use the normalisation of the join."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from genolewm_assets.mito.variants.schema import MITO_SITES, MITO_VARIANTS
from genolewm_assets.store.artefacts import CheckResult, stating_compared
from genolewm_assets.store.tables import check_schema, not_run

#: Names of the checks of :func:`check_variants`, in its order.
VARIANT_CHECKS = (
    "schema_as_declared",
    "alleles_sorted_and_unique",
    "ref_agrees_with_genome",
    "every_row_joined",
    "sites_agree_with_alleles",
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
    """Run all content checks of ``mito/variants`` on the written tables; returns the checks :data:`VARIANT_CHECKS`.

    Parameters
    ----------
    variants, sites
        The tables of schema ``MITO_VARIANTS`` and ``MITO_SITES``, as written.
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
    ordered = all(a < b for a, b in pairwise(keys))
    checks = (
        (CheckResult("alleles_sorted_and_unique", passed=ordered, figures={"alleles": len(keys)}), len(keys)),
        (CheckResult("ref_agrees_with_genome", not wrong_ref, {"differing": len(wrong_ref)}), len(keys)),
        (_check_joined(rows, gnomad, clinvar, counts), gnomad.num_rows + clinvar.num_rows),
        (_check_sites(rows, sites, reference), sum(row["filter"] == "PASS" for row in rows)),
    )
    nothing, declared = no_gnomad or "no allele of gnomAD or ClinVar", no_gnomad is not None
    return (first, *(stating_compared(check, n, nothing, declared=declared) for check, n in checks))


def _check_joined(
    rows: list[dict[str, object]], gnomad: pa.Table, clinvar: pa.Table, counts: Mapping[str, int]
) -> CheckResult:
    """Find each single-base substitution of both shards, which normalisation does not change; compare the counts."""
    lost = 0
    passed = len(rows) == counts["alleles"]
    for source, shard in (("gnomad", gnomad), ("clinvar", clinvar)):
        flagged = {(row["pos"], row["ref"], row["alt"]) for row in rows if row[f"in_{source}"]}
        columns = (shard[name].to_pylist() for name in ("pos", "ref", "alt"))
        lost += sum(
            len(ref) == len(alt) == 1 and (pos, ref, alt) not in flagged for pos, ref, alt in zip(*columns, strict=True)
        )
        passed &= shard.num_rows == counts[f"{source}.rows"] == len(flagged) + counts[f"{source}.merged"]
    return CheckResult("every_row_joined", passed=passed and not lost, figures={"rows": len(rows), "lost": lost})


def _check_sites(rows: list[dict[str, object]], sites: pa.Table, reference: str) -> CheckResult:
    """Compare the reference bases, and compare the levels of sites with those of alleles.

    The level of a substitution must be reached at its base, the level of a longer allele at one of the bases around it.
    No site may exceed the levels of the alleles at or around it.
    """
    agrees = "".join(sites["ref"].to_pylist()) == reference
    agrees &= sites["pos"].to_pylist() == list(range(1, len(reference) + 1))
    if not agrees:
        figures = {"sites": sites.num_rows, "expected_sites": len(reference)}
        return CheckResult("sites_agree_with_alleles", passed=False, figures=figures)
    pop_hl = sites["pop_hl"].to_numpy()
    lost = 0
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
            lost += bool(pop_hl[around].max() < level)
    low, high = lost + int(np.sum(pop_hl < least)), int(np.sum(pop_hl > np.maximum(least, longer)))
    figures = {"sites": sites.num_rows, "too_low": low, "too_high": high}
    return CheckResult("sites_agree_with_alleles", passed=not low and not high, figures=figures)
