"""Rows of a package's tables from the rows of its inputs. Not here: the choice of rows (``split``, ``plan``)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import TOKEN_BP, Bases, Split
from genolewm_assets.packages import (
    CONTEXT_BP,
    PACKAGE_CONTEXTS,
    PACKAGE_CONTROLS,
    PACKAGE_VARIANTS,
    PACKAGE_WINDOWS,
    REFERENCE_ORIGIN,
    STRATA,
    CacheRef,
    VariantSource,
)
from genolewm_assets.store.tables import TableSchema
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_spans

#: Shifts of the control windows in bases: 1 to 5, every 6-mer frame except the window's own.
CONTROL_SHIFTS: tuple[int, ...] = tuple(range(1, TOKEN_BP))

#: Columns of ``PACKAGE_VARIANTS`` that are taken from the shard of each source.
SHARD_COLUMNS: Mapping[VariantSource, tuple[str, ...]] = {
    VariantSource.GNOMAD: (*ALLELE_KEY, "af"),
    VariantSource.CLINVAR: (*ALLELE_KEY, "label", "stars", "clinvar_id", "gene_ids"),
}

#: Counts of the alleles of a source that ``packages.min_training_stars`` leaves out of train, and of the P and LP ones.
UNDER_STARS, HARMFUL_UNDER_STARS = "under_min_stars", "under_min_stars.harmful"


@dataclass(frozen=True, slots=True)
class Membership:
    """Split of a row, and the holdout that it is evaluated for; ``holdout`` is None in train."""

    split: Split
    holdout: str | None = None

    def columns(self, n: int) -> dict[str, pa.Array]:
        """Return the columns holdout and role for ``n`` rows."""
        return {
            "holdout": pa.array([self.holdout] * n, pa.string()),
            "role": pa.array([str(self.split)] * n, pa.string()),
        }


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
    """Make package rows (``PACKAGE_WINDOWS``) from rows of a contig's window table and the contig's bases.

    ``frozen``: bool, shape (n_rows,), the rows in the stream of windows; None: all.
    """
    picked = windows.take(pa.array(rows))
    n, starts, ends = len(rows), picked["start"].to_pylist(), picked["end"].to_pylist()
    if n and not (min(starts) >= margin_bp and max(ends) + margin_bp <= len(sequence)):
        raise CorruptResourceError(
            f"windows/index[{picked['contig'][0]}]",
            "a window with its flanks extends beyond its contig",
            expected=f"windows in [{margin_bp}, {len(sequence) - margin_bp})",
            got=f"[{min(starts)}, {max(ends)})",
            remedy="Rebuild the window index",
        )
    spans = list(zip(starts, ends, strict=True))
    # Each window is read once with its flanks: a contig that is read on demand keeps few of its pieces.
    whole = [sequence[start - margin_bp : end + margin_bp].decode("ascii") for start, end in spans]
    columns: dict[str, object] = {
        "origin": [REFERENCE_ORIGIN] * n,
        "placement_exact": [True] * n,
        "record_id": pa.nulls(n, pa.string()),
        "window_index": pa.nulls(n, pa.int32()),
        "window_bp": np.array([end - start for start, end in spans], np.int32),
        "sequence": [text[margin_bp : len(text) - margin_bp] for text in whole],
        "frozen": np.ones(n, bool) if frozen is None else frozen,
        "left_flank": [text[:margin_bp] for text in whole],
        "right_flank": [text[len(text) - margin_bp :] for text in whole],
        **_cache_columns(rows, cache),
        **member.columns(n),
    }
    return _table(columns, picked, PACKAGE_WINDOWS)


def corpus_rows(batch: pa.Table, rows: Int64s, *, member: Membership, cache: CacheRef | None) -> pa.Table:
    """Make package rows (``PACKAGE_WINDOWS``) from corpus windows and their row numbers in the whole table."""
    n = batch.num_rows
    columns: dict[str, object] = {
        "origin": batch["source"],
        "contig": batch["placed_contig"],
        "start": batch["placed_start"],
        "end": batch["placed_end"],
        "frozen": np.ones(n, bool),
        "frame": (batch["start"].to_numpy() % TOKEN_BP).astype(np.int8),
        **{name: pa.nulls(n, pa.float32()) for name in STRATA},
        **_cache_columns(rows, cache),
        **member.columns(n),
    }
    return _table(columns, batch, PACKAGE_WINDOWS)


def control_rows(windows: pa.Table) -> pa.Table:
    """Make the control windows: each window shifted by 1 to 5 bp into its right flank, without an edit."""
    columns: dict[str, list[object]] = {name: [] for name in PACKAGE_CONTROLS.columns}
    kept = ("contig", "holdout", "role", "cache_key", "cache_row")
    for row in windows.to_pylist():
        bases = row["sequence"] + row["right_flank"]
        for shift in CONTROL_SHIFTS:
            moved = bases[shift : shift + row["window_bp"]]
            values = {
                "window_id": hashlib.sha256(moved.encode("ascii")).hexdigest()[:32],
                "source_window_id": row["window_id"],
                "start": row["start"] + shift,
                "end": row["end"] + shift,
                "shift_bp": shift,
                "sequence": moved,
                **{name: row[name] for name in kept},
            }
            for name, value in values.items():
                columns[name].append(value)
    return pa.table(columns, schema=PACKAGE_CONTROLS.arrow)


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
    return _table(columns, table, PACKAGE_VARIANTS)


def sort_variants(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate rows of one contig and sort them by holdout, pos, ref, alt and source, the order of the file."""
    order = ("holdout", "pos", "ref", "alt", "source")
    joined = pa.concat_tables([PACKAGE_VARIANTS.empty(), *tables])
    return joined.take(pc.sort_indices(joined, [(name, "ascending") for name in order]))


def _cache_columns(rows: Int64s, cache: CacheRef | None) -> dict[str, pa.Array]:
    n = len(rows)
    if cache is None:
        return {"cache_key": pa.nulls(n, pa.string()), "cache_row": pa.nulls(n, pa.int64())}
    return {"cache_key": pa.array([cache.key] * n, pa.string()), "cache_row": pa.array(rows, pa.int64())}


def _table(columns: Mapping[str, object], rest: pa.Table, schema: TableSchema) -> pa.Table:
    """Build a table of a schema; a column that is not in ``columns`` is taken from ``rest``."""
    arrays = [columns.get(name, rest[name] if name in rest.schema.names else None) for name in schema.columns]
    typed = {
        field.name: values if isinstance(values, pa.ChunkedArray | pa.Array) else pa.array(values, field.type)
        for field, values in zip(schema.arrow, arrays, strict=True)
    }
    return pa.table(typed).cast(schema.arrow)


#: Alleles per table.
_ROWS = 65_536


def context_tables(alleles: pa.Table, reference: Callable[[str], Bases]) -> Iterator[pa.Table]:
    """Yield tables of schema ``PACKAGE_CONTEXTS``, sorted by allele."""
    different = alleles.select(ALLELE_KEY).group_by(list(ALLELE_KEY)).aggregate([])
    ordered = different.sort_by([(name, "ascending") for name in ALLELE_KEY])
    for contig in pc.unique(ordered["chrom"]).to_pylist():
        bases, ours = reference(contig), ordered.filter(pc.equal(ordered["chrom"], contig))
        for first in range(0, ours.num_rows, _ROWS):
            rows = ours.slice(first, _ROWS)
            starts, ends = (bounds.tolist() for bounds in allele_spans(rows))
            left = [bases[max(0, start - CONTEXT_BP) : start].decode("ascii") for start in starts]
            right = [bases[end : end + CONTEXT_BP].decode("ascii") for end in ends]
            columns = [*(rows[name] for name in ALLELE_KEY), pa.array(left), pa.array(right)]
            yield pa.table(columns, schema=PACKAGE_CONTEXTS.arrow)
