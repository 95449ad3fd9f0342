"""Every check of a shard, run on the files as they were written, contig by contig against the genome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.lewm.shard_checks import check_account, check_ref_mismatches, merge_checks
from genolewm_assets.store import CheckResult

REJECTS_FILE = "rejects.parquet"

#: Checks the rows of one contig: table, contig name, the contig's bases or None.
TableCheck = Callable[[pa.Table, str, bytes | None], tuple[CheckResult, ...]]


def audit_shard(
    folder: Path,
    check_table: TableCheck,
    *,
    contigs: ContigSet,
    reference: Callable[[Contig], bytes] | None,
    counts: Mapping[str, int],
    max_ref_mismatch_fraction: float,
) -> tuple[CheckResult, ...]:
    """Check the tables in a folder and their account of the source.

    Parameters
    ----------
    folder
        Holds one or several Parquet tables of alleles, and ``rejects.parquet``.
    check_table
        ``lewm.shard_checks.check_gnomad_table`` or ``check_clinvar_table``.
    reference
        Returns a contig as upper-case ASCII; None: REF is not compared.
    counts
        What the builder says of the alleles it read.

    Returns
    -------
    tuple of CheckResult
        In the order of ``GNOMAD_CHECKS`` or ``CLINVAR_CHECKS``.
    """
    rows, results = 0, []
    for table in _tables(folder):
        rows += table.num_rows
        results += [_check_contigs(table, check_table, contigs, reference)]
    return (
        *merge_checks(results),
        check_ref_mismatches(counts, max_fraction=max_ref_mismatch_fraction),
        check_account(counts, rows, pq.read_table(folder / REJECTS_FILE)),
    )


def _tables(folder: Path) -> Iterator[pa.Table]:
    for path in sorted(folder.glob("*.parquet")):
        if path.name != REJECTS_FILE:
            yield pq.read_table(path)


def _check_contigs(
    table: pa.Table, check_table: TableCheck, contigs: ContigSet, reference: Callable[[Contig], bytes] | None
) -> tuple[CheckResult, ...]:
    """Check a table contig by contig; an empty one is checked for its schema against the first contig."""
    names = pc.unique(table["chrom"]).to_pylist() or [contigs.names[0]]
    parts = []
    for name in names:
        contig = contigs[name]
        rows = table.filter(pc.equal(table["chrom"], name))
        parts.append(check_table(rows, name, reference(contig) if reference and rows.num_rows else None))
    return merge_checks(parts)
