"""Build a variant shard from a ClinVar VCF: one row per normalised allele, with its class.

No allele is dropped because of its class or review status; *filtered* ones are on contigs of the human assembly that
this genome lacks. Classes are counted over all others (``label_before_rejects.*``) and over those kept (``label.*``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from itertools import chain, groupby
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import Bases, Contig, ContigSet, Label
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.clinvar.rows import read_rows
from genolewm_assets.sources.vcf import ContigNames, LocalVcf, VcfScanner, check_assembly
from genolewm_assets.store.tables import memory_given_back, write_table, write_tables
from genolewm_assets.variants import (
    CLINVAR_VARIANTS,
    REJECTS,
    REJECTS_FILE,
    VARIANTS_FILE,
    AlleleLedger,
    AlleleNormaliser,
    FilterReason,
    ShardReport,
    evidence_of,
    preference_of,
    settle_alleles,
)

#: Batches of rows in the order of the file, each with its contig.
ContigRows: TypeAlias = Iterator[tuple[Contig, pa.RecordBatch]]
#: Contigs, each with its batches in the order of the file, and each with its tables in order of position.
Divided: TypeAlias = Iterator[tuple[Contig, Iterator[pa.RecordBatch]]]
Settled: TypeAlias = Iterator[tuple[Contig, Iterator[pa.Table]]]

#: Number of rows from which their classes are counted together.
_LABELS_AT_ONCE = 65_536


def contig_file(contig: Contig) -> str:
    """Return the name of the Parquet file of a contig's alleles."""
    return f"{contig.name}.parquet"


def read_release_date(vcf: Path, *, label: str | None = None) -> date:
    """Return the release date that the header of a ClinVar VCF states (``##fileDate``).

    Parameters
    ----------
    label
        Name of the file in errors; default: its path.

    Raises
    ------
    VcfError
        If the file is not a VCF, has no record or states no date.
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
    """Write one Parquet file per contig of the genome, also for contigs without alleles, and ``rejects.parquet``.

    Parameters
    ----------
    release, origin
        Release key, and what :func:`~genolewm_assets.variants.shard.state_origin` returns: metadata for the files.
    reference
        Returns a contig's bases. None: alleles are trimmed but not left-aligned, and REF is not checked.
    out_dir
        Folder of the files, made if absent; the caller publishes it.
    single_file
        Whether to write one file, ``variants.parquet``, with contigs in the order of ``contigs``.
    threads
        Number of threads used; the files do not depend on it.
    progress
        Receives the number of compressed bytes read so far.

    Returns
    -------
    ShardReport
        ``counts``: ``records``, ``alleles_in``, ``kept``, ``rejected``, ``rejected.<reason>``, ``filtered``,
        ``filtered.other_contig``, ``label.<class>``, ``label_before_rejects.<class>``, and as
        :meth:`ContigNames.other_contigs` ``other_contig.<name>``.

    Raises
    ------
    VcfError
        If the file is malformed, on another assembly, has no record on a contig of the genome, does not declare
        ``CLNSIG``, or returns to a contig after another one; with ``single_file``, also if its contigs are not in the
        order of the genome.
    UnknownTermError, UnknownContigError
        If a classification or review status is not in the closed vocabularies, or a contig not of the human assembly.

    Notes
    -----
    Records of one contig may come in any order; rows that are out of order are all held in memory. Of one contig at a
    time, the first 48 MiB of batches are held in memory, others in a temporary folder in ``out_dir``.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    recipe = {**origin, "release": release, "normal_form": "trimmed" if reference is None else "left-aligned"}
    normaliser, ledger, names = AlleleNormaliser(reference), AlleleLedger(vcf.name), ContigNames(contigs)
    for label in Label:
        ledger.note(f"label_before_rejects.{label}", 0)
        ledger.note(f"label.{label}", 0)
    with memory_given_back(), VcfScanner(vcf, threads=threads, progress=progress) as scanner:
        _check_clinvar(scanner, contigs, str(vcf))
        divided = _divide(_contig_rows(scanner, names, ledger), contigs, where=str(vcf), in_order=single_file)
        files = _files(_settle(divided, normaliser, ledger, out_dir), contigs, out_dir, single_file=single_file)
        written = {path.name: rows for path, rows in write_tables(files, CLINVAR_VARIANTS, recipe=recipe).items()}
        names.check_met(contigs, where=str(vcf))
    ledger.note("records", scanner.records)
    for name, records in names.other_contigs().items():
        ledger.note(name, records)
    written[REJECTS_FILE] = write_table([ledger.rejects()], out_dir / REJECTS_FILE, REJECTS, recipe=recipe)
    return ShardReport(ledger.counts(), written, scanner.alleles)


def _contig_rows(scanner: VcfScanner, names: ContigNames, ledger: AlleleLedger) -> ContigRows:
    """Yield all alleles on contigs of the genome, and count their classes."""
    with _LabelCount("label_before_rejects", ledger) as count:
        for block in scanner:
            for contig, records in names.divide(block):
                alleles = int(records.alts.sum())
                ledger.read(alleles)
                if contig is None:
                    ledger.filter(FilterReason.OTHER_CONTIG, alleles)
                    continue
                batch = read_rows(records)
                count.add(pa.chunked_array([batch["label"]]))
                yield contig, batch
                # Release the text before the next one is read.
                del records, batch
            del block


def _divide(rows: ContigRows, contigs: ContigSet, *, where: str, in_order: bool) -> Divided:
    """Yield each contig with its batches, as the file has them; take the batches of one before the next contig."""
    places = {contig.name: place for place, contig in enumerate(contigs)}
    met: dict[str, int] = {}
    for name, group in groupby(rows, key=lambda row: row[0].name):
        if name in met or (in_order and places[name] < max(met.values(), default=-1)):
            raise VcfError(
                where,
                f"records of {name} come after those of {[*met][-1]}",
                expected="all records of a contig together" + ", contigs in the order of the genome" * in_order,
                remedy="Sort the file (bcftools sort; the order of contigs is that of the header's ##contig lines)",
            )
        met[name] = places[name]
        yield contigs[name], (batch for _, batch in group)


def _settle(divided: Divided, normaliser: AlleleNormaliser, ledger: AlleleLedger, folder: Path) -> Settled:
    """Yield each contig with its alleles in normal form, and count their classes."""
    for contig, batches in divided:
        alleles = settle_alleles(
            batches, contig, normaliser, ledger, preference_of, evidence=evidence_of, folder=folder
        )
        yield contig, _count_kept(alleles, ledger)


def _files(
    settled: Settled, contigs: ContigSet, folder: Path, *, single_file: bool
) -> Iterator[tuple[Path, Iterable[pa.Table]]]:
    """Yield the files of a shard with their tables, those without alleles last."""
    if single_file:
        yield folder / VARIANTS_FILE, chain.from_iterable(tables for _, tables in settled)
        return
    absent = {contig.name: contig for contig in contigs}
    for contig, tables in settled:
        yield folder / contig_file(absent.pop(contig.name)), tables
    for contig in absent.values():
        yield folder / contig_file(contig), []


def _count_kept(tables: Iterable[pa.Table], ledger: AlleleLedger) -> Iterator[pa.Table]:
    """Yield the tables and count the classes of their alleles, which are those kept."""
    with _LabelCount("label", ledger) as count:
        for table in tables:
            count.add(table["label"])
            yield table


class _LabelCount:
    """Counts classes into the ledger as ``<name>.<class>``, many rows at a time; the counts are complete on exit."""

    def __init__(self, name: str, ledger: AlleleLedger) -> None:
        self._name = name
        self._ledger = ledger
        self._waiting: list[pa.ChunkedArray] = []
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._count()

    def add(self, labels: pa.ChunkedArray) -> None:
        """Add the classes of some rows."""
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
    """Check that a file is on this assembly and declares ClinVar's ``CLNSIG``."""
    check_assembly(scanner.header, contigs, where=where)
    if "CLNSIG" not in scanner.header.info:
        raise VcfError(
            where,
            "the header does not declare ClinVar's classification",
            expected="INFO field CLNSIG",
            got=", ".join(sorted(scanner.header.info)[:12]) or "no INFO fields",
            remedy="Use ClinVar's VCF (vcf_GRCh38/clinvar.vcf.gz)",
        )
