"""Every check of a shard, run on the files as they were written, contig by contig against the genome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.lewm.shard_checks import check_account, check_ref_mismatches, merge_checks
from genolewm_assets.sources.shard_file import REJECTS_FILE, VARIANTS_FILE
from genolewm_assets.store import CheckResult

#: Checks the rows of one contig: table, contig, the contig's bases or None.
TableCheck = Callable[[pa.Table, Contig, bytes | None], tuple[CheckResult, ...]]


def audit_shard(
    folder: Path,
    check_table: TableCheck,
    *,
    contigs: ContigSet,
    reference: Callable[[Contig], bytes] | None,
    counts: Mapping[str, int],
    alleles_in_source: int,
    max_ref_mismatch_fraction: float,
) -> tuple[CheckResult, ...]:
    """Check the tables in a folder and their account of the source.

    Parameters
    ----------
    folder
        Holds ``rejects.parquet`` and the alleles: in ``variants.parquet``, or in one ``<contig>.parquet`` per contig.
    check_table
        ``GnomadParams.check_table`` or ``lewm.shard_checks.check_clinvar_table``.
    reference
        Returns a contig as upper-case ASCII; None: REF is not compared.
    counts
        What the builder says of the alleles it read.
    alleles_in_source
        See :class:`~genolewm_assets.sources.allele_count.AlleleCount`.

    Returns
    -------
    tuple of CheckResult
        In the order of ``GNOMAD_CHECKS`` or ``CLINVAR_CHECKS``; without a reference, REF is in none of them.
    """
    tables = [
        _audit_table(path, check_table, contigs, reference)
        for path in sorted(folder.glob("*.parquet"))
        if path.name != REJECTS_FILE
    ]
    rejects = pq.read_table(folder / REJECTS_FILE, partitioning=None)
    return (
        *merge_checks(checks for _, checks in tables),
        check_ref_mismatches(counts, max_fraction=max_ref_mismatch_fraction),
        check_account(counts, sum(rows for rows, _ in tables), rejects, alleles_in_source=alleles_in_source),
    )


def _audit_table(
    path: Path, check_table: TableCheck, contigs: ContigSet, reference: Callable[[Contig], bytes] | None
) -> tuple[int, tuple[CheckResult, ...]]:
    """Return the rows of a table and its checks, run by run of rows of one contig, as they lie in the file."""
    table = pq.read_table(path, partitioning=None)
    # Every other file is named after the one contig it holds.
    allowed = contigs.names if path.name == VARIANTS_FILE else [path.stem]
    runs = list(_runs(table)) or [(allowed[0], table)]
    names = [name for name, _ in runs]
    parts = []
    for name, rows in runs:
        # Rows of a contig that is none of the genome's are checked as if they were of the first: they all fail.
        contig = contigs[name if name in contigs else contigs.names[0]]
        parts.append(check_table(rows, contig, _bases(rows, contig, reference)))
    in_place = names == [name for name in allowed if name in names]
    figures = {"contigs_out_of_place": 0 if in_place else len(names)}
    parts.append((CheckResult("alleles_sorted_and_unique", passed=in_place, figures=figures),))
    return table.num_rows, merge_checks(parts)


def _runs(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield each run of rows of one contig; nothing of a table that does not even say its contigs."""
    if table.num_rows and table.schema.field(0).equals(pa.field("chrom", pa.string(), nullable=False)):
        runs, start = pc.run_end_encode(table["chrom"].combine_chunks()), 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield str(name), table.slice(start, end - start)
            start = end


def _bases(rows: pa.Table, contig: Contig, reference: Callable[[Contig], bytes] | None) -> bytes | None:
    """Return what the rows are compared with; no contig is read for no rows."""
    if reference is None:
        return None
    return reference(contig) if rows.num_rows else b""
