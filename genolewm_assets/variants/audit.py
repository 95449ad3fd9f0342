"""Run all checks of a shard on its written files, in pieces of some thousand rows, against the genome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.genome import Bases, Contig, ContigSet
from genolewm_assets.store.artefacts import CheckResult, stating_compared
from genolewm_assets.store.tables import memory_given_back, open_parquet
from genolewm_assets.variants.checks import check_account, check_order, check_ref_mismatches, merge_checks
from genolewm_assets.variants.shard import REJECTS_FILE, VARIANTS_FILE, ShardReport

#: Rows checked at a time.
_ROWS_AT_ONCE = 8_192

#: Checks the rows of one contig. Arguments: table, contig, the contig's bases or None.
TableCheck = Callable[[pa.Table, Contig, Bases | None], tuple[CheckResult, ...]]


def audit_shard(
    folder: Path,
    report: ShardReport,
    check_table: TableCheck,
    *,
    contigs: ContigSet,
    reference: Callable[[Contig], Bases] | None,
    max_ref_mismatch_fraction: float,
    no_source: str | None = None,
) -> tuple[CheckResult, ...]:
    """Check the tables in a folder, and that their counts agree with the source.

    Results are in the order of ``GNOMAD_CHECKS`` or ``CLINVAR_CHECKS``; ``ref_agrees_with_genome`` needs a reference.

    Parameters
    ----------
    folder
        Holds ``rejects.parquet`` and the alleles: in ``variants.parquet``, or in one ``<contig>.parquet`` per contig.
    report
        What the builder reports.
    check_table
        ``GnomadParams.check_table`` or :func:`~genolewm_assets.variants.checks.check_clinvar_table`.
    reference
        Returns a contig's bases, upper-case; None: REF is not compared.
    max_ref_mismatch_fraction
        Largest share (0 to 1) of alleles that may not fit the genome.
    no_source
        Why the shard is empty, if the catalogue names no source of it.
    """
    tables = [
        _audit_table(path, check_table, contigs, reference)
        for path in sorted(folder.glob("*.parquet"))
        if path.name != REJECTS_FILE
    ]
    counts, alleles_in_source = report.counts, report.alleles_in_source
    rejects = pq.read_table(folder / REJECTS_FILE, partitioning=None)
    rows = sum(n for n, _ in tables)
    rare = check_ref_mismatches(counts, rejects, max_fraction=max_ref_mismatch_fraction)
    account = check_account(counts, rows, rejects, alleles_in_source=alleles_in_source)
    schema, *merged = merge_checks(checks for _, checks in tables)
    # The account compares each allele of the source with its fate, and so shows that a shard without rows is right.
    removed = "every allele of the source was filtered or rejected" if alleles_in_source and account.passed else None
    nothing = no_source or removed
    sizes = [*((each, rows) for each in merged), (rare, counts["kept"] + counts["rejected"])]
    return (
        schema,
        *(
            stating_compared(each, n, nothing or "the source has no allele", declared=nothing is not None)
            for each, n in sizes
        ),
        stating_compared(account, alleles_in_source, no_source or "the source has no allele", declared=bool(no_source)),
    )


def _audit_table(
    path: Path, check_table: TableCheck, contigs: ContigSet, reference: Callable[[Contig], Bases] | None
) -> tuple[int, tuple[CheckResult, ...]]:
    """Return the number of rows of a file and its merged checks; each piece checked holds rows of one contig."""
    # Every other file holds one contig and is named after it.
    allowed = contigs.names if path.name == VARIANTS_FILE else [path.stem]
    parts: list[tuple[CheckResult, ...]] = []
    names: list[str] = []
    last: pa.Table | None = None
    with memory_given_back(), open_parquet(path) as file:
        for name, rows in _pieces(file, allowed[0]):
            # Rows of a contig that the genome lacks are checked as rows of its first contig, and so all fail.
            contig = contigs[name if name in contigs else contigs.names[0]]
            # Without rows, a contig is not read.
            bases = None if reference is None else reference(contig) if rows.num_rows else b""
            checks = check_table(rows, contig, bases)
            parts.append(checks)
            valid = checks[0].passed
            if names[-1:] != [name]:
                names.append(name)
            elif valid and last is not None:
                parts.append((check_order(pa.concat_tables([last, rows.slice(0, 1)]), name),))
            last = rows.slice(max(0, rows.num_rows - 1)) if valid else None
        in_genome_order = names == [name for name in allowed if name in names]
        figures = {"contigs_out_of_place": 0 if in_genome_order else len(names)}
        met = [{"file": path.name, "expected": ", ".join(allowed), "got": ", ".join(names)}]
        parts.append((CheckResult("alleles_sorted_and_unique", passed=in_genome_order, figures=figures, rows=met),))
        return file.metadata.num_rows, merge_checks(parts)


def _pieces(file: pq.ParquetFile, first: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield consecutive rows of one contig with its name; for a file without rows one empty table, named ``first``."""
    if not file.metadata.num_rows:
        yield first, file.schema_arrow.empty_table()
    for batch in file.iter_batches(_ROWS_AT_ONCE):
        table = pa.Table.from_batches([batch])
        yield from list(_runs(table)) or [(first, table)]


def _runs(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield each run of rows of one contig; nothing if the table has no valid column ``chrom``."""
    if table.num_rows and table.schema.field(0).equals(pa.field("chrom", pa.string(), nullable=False)):
        runs, start = pc.run_end_encode(table["chrom"].combine_chunks()), 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield str(name), table.slice(start, end - start)
            start = end
