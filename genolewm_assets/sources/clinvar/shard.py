"""ClinVar VCF -> one row per normalised allele with its class.

Nothing is dropped for what ClinVar says of it: an allele is kept, *rejected* as a sequence variant, or *filtered*
because its contig is one of the human assembly that this genome lacks. Classes are counted twice: over everything that
was not filtered (``label_before_rejects.*``) and over what was kept (``label.*``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from itertools import chain, groupby
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import Bases, Contig, ContigSet, Label
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.clinvar.rows import SPOOLED, read_rows
from genolewm_assets.sources.vcf import ContigNames, LocalVcf, VcfScanner, check_assembly
from genolewm_assets.store.tables import BatchSpool, memory_given_back, write_table, write_tables
from genolewm_assets.variants import (
    CLINVAR_VARIANTS,
    REJECTS,
    REJECTS_FILE,
    VARIANTS_FILE,
    AlleleLedger,
    AlleleNormaliser,
    FilterReason,
    OutOfOrderError,
    ShardReport,
    settle_alleles,
    settle_sorted_alleles,
)

#: Rows in the file's order, each batch of one contig.
ContigRows: TypeAlias = Iterator[tuple[Contig, pa.RecordBatch]]
#: Contigs in the genome's order, each with its tables in theirs.
Settled: TypeAlias = Iterator[tuple[Contig, Iterator[pa.Table]]]

#: Rows whose classes are counted at a time.
_LABELS_AT_ONCE = 65_536


def contig_file(contig: Contig) -> str:
    """Return the name of the file that holds a contig's alleles."""
    return f"{contig.name}.parquet"


def read_release_date(vcf: Path, *, label: str | None = None) -> date:
    """Return the release date that the header states (``##fileDate``).

    Parameters
    ----------
    label
        What errors call the file; default: its path.

    Raises
    ------
    VcfError
        If the file is no VCF, holds no record or states no date.
    """
    with VcfScanner(LocalVcf(vcf, label or ""), threads=1) as scanner:
        stated = scanner.header.file_date
        next(iter(scanner), None)
    if stated is None:
        raise VcfError(
            label or str(vcf),
            "the header states no release date",
            expected="##fileDate=YYYY-MM-DD",
            remedy="Use ClinVar's file",
        )
    return stated


def build_clinvar_shard(
    vcf: Path,
    *,
    release: str,
    contigs: ContigSet,
    reference: Callable[[Contig], Bases] | None,
    out_dir: Path,
    single_file: bool = False,
    origin: Mapping[str, str] = MappingProxyType({}),
    threads: int = 2,
    progress: Progress = NO_PROGRESS,
) -> ShardReport:
    """Write one Parquet file per contig of the genome, empty ones included, and ``rejects.parquet``.

    Parameters
    ----------
    release
        Release key, such as ``2026-02-26``; kept in the files' metadata.
    reference
        Returns a contig's bases. None: alleles are trimmed but not left-aligned, and REF is not checked.
    out_dir
        Made if absent; the caller publishes it.
    single_file
        Write ``variants.parquet`` instead, contigs in the order of ``contigs``.
    origin
        What the files' metadata say of how they were made; see
        :func:`~genolewm_assets.variants.shard.state_origin`.
    threads
        Threads that may work at once; the files do not depend on it.

    Returns
    -------
    ShardReport
        ``counts``: ``records``, ``alleles_in``, ``kept``, ``rejected``, ``rejected.<reason>``, ``filtered``,
        ``filtered.other_contig``, ``label.<class>`` and ``label_before_rejects.<class>``.

    Raises
    ------
    VcfError
        If the file is malformed, on another assembly, holds no record on a contig of the genome, or lacks what
        ClinVar's files have.
    UnknownTermError
        If a classification or review status is not in the closed tables.
    UnknownContigError
        If a record's contig is no contig of the human assembly.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    recipe = {**origin, "release": release, "normal_form": "trimmed" if reference is None else "left-aligned"}
    normaliser = AlleleNormaliser(reference)

    def run(*, in_passing: bool) -> ShardReport:
        ledger, names = AlleleLedger(vcf.name), ContigNames(contigs)
        for label in Label:
            ledger.note(f"label_before_rejects.{label}", 0)
            ledger.note(f"label.{label}", 0)
        with memory_given_back(), VcfScanner(vcf, threads=threads, progress=progress) as scanner:
            _check_clinvar(scanner, contigs, str(vcf))
            rows = _contig_rows(scanner, names, ledger)
            if in_passing:
                settled = _settle_in_passing(rows, contigs, normaliser, ledger)
            else:
                settled = _settle_spooled(rows, contigs, normaliser, ledger, folder=out_dir)
            written = _write(settled, contigs, ledger, out_dir, recipe, single_file=single_file)
            names.check_met(contigs, where=str(vcf))
        ledger.note("records", scanner.records)
        written[REJECTS_FILE] = write_table([ledger.rejects()], out_dir / REJECTS_FILE, REJECTS, recipe=recipe)
        return ShardReport(ledger.counts(), written, scanner.alleles)

    try:
        return run(in_passing=True)
    except OutOfOrderError:
        # No ClinVar file so far; it takes the disk instead of one pass.
        return run(in_passing=False)


def _contig_rows(scanner: VcfScanner, names: ContigNames, ledger: AlleleLedger) -> ContigRows:
    """Yield every allele on a contig of the genome, and count the classes."""
    with _LabelCount("label_before_rejects", ledger) as count:
        for block in scanner:
            for name, rows in block.runs():
                records = block.take(rows)
                contig = names.resolve(name, records.where)
                alleles = int(records.alts.sum())
                ledger.read(alleles)
                if contig is None:
                    ledger.filter(FilterReason.OTHER_CONTIG, alleles)
                    continue
                batch = read_rows(records)
                count.add(pa.chunked_array([batch["label"]]))
                yield contig, batch
                # Let go before the next text is there.
                del records, batch
            del block


def _settle_in_passing(
    rows: Iterable[tuple[Contig, pa.RecordBatch]],
    contigs: ContigSet,
    normaliser: AlleleNormaliser,
    ledger: AlleleLedger,
) -> Settled:
    """Yield each contig with its tables; each must be taken to its end before the next.

    Raises
    ------
    OutOfOrderError
        If the file is not sorted: contigs as the genome has them, then positions.
    """
    places = {contig.name: place for place, contig in enumerate(contigs)}
    last = -1
    for name, group in groupby(rows, key=lambda row: row[0].name):
        if places[name] <= last:
            raise OutOfOrderError
        last = places[name]
        batches = (batch for _, batch in group)
        yield contigs[name], settle_sorted_alleles(batches, contigs[name], normaliser, ledger, _preference)


def _settle_spooled(
    rows: ContigRows, contigs: ContigSet, normaliser: AlleleNormaliser, ledger: AlleleLedger, *, folder: Path
) -> Settled:
    """Yield each contig with its tables, for a file in any order."""
    with BatchSpool(SPOOLED, folder) as spool:
        for contig, batch in rows:
            spool.append(contig.name, batch)
        for contig in contigs:
            batches = spool.batches(contig.name)
            yield contig, settle_alleles(batches, contig, normaliser, ledger, _preference, folder=folder)


def _write(
    settled: Settled,
    contigs: ContigSet,
    ledger: AlleleLedger,
    out_dir: Path,
    recipe: Mapping[str, str],
    *,
    single_file: bool,
) -> dict[str, int]:
    """Write the tables and return the rows of each file."""
    noted = ((contig, _noted(tables, ledger)) for contig, tables in settled)
    if single_file:
        tables = chain.from_iterable(tables for _, tables in noted)
        return {VARIANTS_FILE: write_table(tables, out_dir / VARIANTS_FILE, CLINVAR_VARIANTS, recipe=recipe)}
    paths = {contig.name: out_dir / contig_file(contig) for contig in contigs}
    files = ((paths[contig.name], tables) for contig, tables in noted)
    rows = write_tables(files, CLINVAR_VARIANTS, recipe=recipe)
    absent: list[tuple[Path, list[pa.Table]]] = [(path, []) for path in paths.values() if path not in rows]
    rows |= write_tables(absent, CLINVAR_VARIANTS, recipe=recipe)
    return {path.name: rows[path] for path in paths.values()}


def _noted(tables: Iterable[pa.Table], ledger: AlleleLedger) -> Iterator[pa.Table]:
    """Count the classes of what is kept."""
    with _LabelCount("label", ledger) as count:
        for table in tables:
            count.add(table["label"])
            yield table


class _LabelCount:
    """Counts classes, many rows at a time; complete on exit."""

    def __init__(self, name: str, ledger: AlleleLedger) -> None:
        self._name = name
        self._ledger = ledger
        self._waiting: list[pa.ChunkedArray] = []
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._count()

    def add(self, labels: pa.ChunkedArray) -> None:
        """Take the classes of some rows."""
        self._waiting.append(labels)
        self._rows += len(labels)
        if self._rows >= _LABELS_AT_ONCE:
            self._count()

    def _count(self) -> None:
        if self._waiting:
            together = pa.chunked_array([chunk for labels in self._waiting for chunk in labels.chunks], pa.string())
            for row in pc.value_counts(together).to_pylist():
                self._ledger.note(f"{self._name}.{row['values']}", row["counts"])
        self._waiting, self._rows = [], 0


def _check_clinvar(scanner: VcfScanner, contigs: ContigSet, where: str) -> None:
    check_assembly(scanner.header, contigs, where=where)
    if "CLNSIG" not in scanner.header.info:
        raise VcfError(
            where,
            "the header does not declare ClinVar's classification",
            expected="INFO field CLNSIG",
            got=", ".join(sorted(scanner.header.info)[:12]) or "no INFO fields",
            remedy="Use ClinVar's VCF (vcf_GRCh38/clinvar.vcf.gz)",
        )


def _preference(row: Mapping[str, object]) -> tuple[object, ...]:
    """Of two records of one allele, keep the better reviewed one, then the older VariationID."""
    return -int(str(row["stars"])), row["clinvar_id"]
