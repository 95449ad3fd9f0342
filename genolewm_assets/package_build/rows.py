"""Rows of a package's tables from the rows of its inputs. Not here: the choice of rows (``split``, ``plan``)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import TOKEN_BP, Bases
from genolewm_assets.packages import (
    CONTEXT_BP,
    PACKAGE_CONTEXTS,
    PACKAGE_CONTROLS,
    PACKAGE_VARIANTS,
    REFERENCE_ORIGIN,
    CacheRef,
    Membership,
    VariantSource,
    package_rows,
)
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_spans
from genolewm_assets.windows.reference import WINDOWS, with_bases

#: Shifts of the control windows in bases: 1 to 5, every 6-mer frame except the window's own.
CONTROL_SHIFTS: tuple[int, ...] = tuple(range(1, TOKEN_BP))

#: Columns of ``PACKAGE_VARIANTS`` that are taken from the shard of each source.
SHARD_COLUMNS: Mapping[VariantSource, tuple[str, ...]] = {
    VariantSource.GNOMAD: (*ALLELE_KEY, "af"),
    VariantSource.CLINVAR: (*ALLELE_KEY, "label", "stars", "clinvar_id", "gene_ids"),
}

#: Counts of the alleles of a source that ``packages.min_training_stars`` leaves out of train, and of the P and LP ones.
UNDER_STARS, HARMFUL_UNDER_STARS = "under_min_stars", "under_min_stars.harmful"


def reference_rows(
    windows: pa.Table,
    rows: Int64s,
    sequence: Bases,
    *,
    margin_bp: int,
    member: Membership,
    cache: CacheRef | None,
    frozen: Bools | None = None,
) -> pa.Table:
    """Make rows (``PACKAGE_WINDOWS``) of a contig; ``frozen``: bool, (n_rows,): those in the stream; None: all."""
    picked = with_bases(windows.take(pa.array(rows)), sequence, margin_bp=margin_bp)
    texts = pa.concat_tables([WINDOWS.empty(), *picked])
    return package_rows(texts, rows, REFERENCE_ORIGIN, member=member, cache=cache, frozen=frozen)


def control_rows(windows: pa.Table) -> pa.Table:
    """Make the control windows: each window shifted by 1 to 5 bp into its right flank, without an edit."""
    rows = []
    kept = ("contig", "holdout", "role", "cache_key", "cache_row")
    for row in windows.to_pylist():
        bases = row["sequence"] + row["right_flank"]
        for shift in CONTROL_SHIFTS:
            moved = bases[shift : shift + row["window_bp"]]
            made = {
                "window_id": hashlib.sha256(moved.encode("ascii")).hexdigest()[:32],
                "source_window_id": row["window_id"],
                "start": row["start"] + shift,
                "end": row["end"] + shift,
                "shift_bp": shift,
                "sequence": moved,
            }
            rows.append(made | {name: row[name] for name in kept})
    return pa.Table.from_pylist(rows, schema=PACKAGE_CONTROLS.arrow)


def variant_rows(
    source: VariantSource, table: pa.Table, member: Membership, scoring: pa.Array | None = None
) -> pa.Table:
    """Make package rows (``PACKAGE_VARIANTS``) from a shard; ``scoring`` is the column of that name, None: all null."""
    n = table.num_rows
    columns: dict[str, object] = {"source": [str(source)] * n, **member.columns(n)}
    for name in ("af", "label", "stars", "clinvar_id"):
        columns[name] = pa.nulls(n, PACKAGE_VARIANTS.arrow.field(name).type)
    if source is VariantSource.GNOMAD:
        columns["gene_ids"] = pa.array([[]] * n, pa.list_(pa.int64()))
    columns["scoring"] = pa.nulls(n, pa.string()) if scoring is None else scoring
    columns |= {name: table[name] for name in SHARD_COLUMNS[source]}
    arrays = {
        field.name: columns[field.name] if field.name in columns else table[field.name]
        for field in PACKAGE_VARIANTS.arrow
    }
    return pa.table(arrays).cast(PACKAGE_VARIANTS.arrow)


def sort_variants(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate rows of one contig and sort them by holdout, pos, ref, alt and source, the order of the file."""
    order = ("holdout", "pos", "ref", "alt", "source")
    joined = pa.concat_tables([PACKAGE_VARIANTS.empty(), *tables])
    return joined.take(pc.sort_indices(joined, [(name, "ascending") for name in order]))


#: Alleles per table.
_ROWS = 65_536


def context_tables(alleles: pa.Table, reference: Callable[[str], Bases]) -> Iterator[pa.Table]:
    """Yield tables of schema ``PACKAGE_CONTEXTS``, sorted by allele."""
    for contig in sorted(pc.unique(alleles["chrom"]).to_pylist()):
        rows = alleles.select(ALLELE_KEY).filter(pc.equal(alleles["chrom"], contig))
        different = rows.group_by(list(ALLELE_KEY)).aggregate([])
        bases, ours = reference(contig), different.sort_by([(name, "ascending") for name in ALLELE_KEY])
        for first in range(0, ours.num_rows, _ROWS):
            rows = ours.slice(first, _ROWS)
            start, end = allele_spans(rows)
            low = np.maximum(0, start - CONTEXT_BP)
            spans = zip(low.tolist(), (end + CONTEXT_BP).tolist(), strict=True)
            around = [bases[at:after].decode("ascii") for at, after in spans]
            left = [text[:at] for text, at in zip(around, (start - low).tolist(), strict=True)]
            right = [text[at:] for text, at in zip(around, (end - low).tolist(), strict=True)]
            columns = [*(rows[name] for name in ALLELE_KEY), pa.array(left), pa.array(right)]
            yield pa.table(columns, schema=PACKAGE_CONTEXTS.arrow)
