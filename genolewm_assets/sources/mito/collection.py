"""Build the tables of genomes from collection files, and join heteroplasmy VCFs to the genomes.

Not here: reading one file (``genomes``, ``heteroplasmy``), processing of a genome (``mito``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import InputError
from genolewm_assets.genome import Contig
from genolewm_assets.mito.genomes import (
    MITO_GENOME_REJECTS,
    MITO_GENOMES,
    GenomeQcPolicy,
    GenomeRecord,
    PlacedCollection,
    SplitPolicy,
    check_genomes,
    genome_tables,
    place_genomes,
    reject_table,
)
from genolewm_assets.mito.tokens import LevelledGenome, read_placements
from genolewm_assets.mito.variants import CallDrop, HeteroplasmyCall, levels_of_genome
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.mito.genomes import CollectionFormat, read_genomes
from genolewm_assets.sources.mito.heteroplasmy import read_heteroplasmy
from genolewm_assets.sources.mito.sample_names import closest_name, show_names
from genolewm_assets.store.artefacts import BuildReport, Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.store.files import JsonValue

#: Check of :meth:`SampleLevels.check`.
SAMPLE_CHECK = Check(
    "samples_reach_genomes",
    "Every sample of the heteroplasmy files has a genome of its name, or one that was rejected, and calls of every "
    "file count.",
    "Samples of the rows are named otherwise than their genomes. Rename them with bcftools reheader -s, or take "
    "samples without a genome out of the file with bcftools view -s. Where no call counts, look at its filters and "
    "levels.",
)
GENOMES_FILE, REJECTS_FILE = "genomes.parquet", "rejects.parquet"


class CollectionFile(NamedTuple):
    """A collection of genomes.

    Attributes
    ----------
    path
        Path of the file.
    name
        Name of the collection in errors and tables.
    file_format
        Format of the file; None: determined by the file name's ending.
    """

    path: Path
    name: str
    file_format: CollectionFormat | None


def write_genomes(
    files: Sequence[CollectionFile],
    out_dir: Path,
    *,
    reference: str,
    qc: GenomeQcPolicy,
    split: SplitPolicy,
    threads: int = 1,
    progress: Progress = NO_PROGRESS,
) -> BuildReport:
    """Write the genomes of collections to ``genomes.parquet``, and rejected records to ``rejects.parquet``.

    Parameters
    ----------
    files
        Collections to read, in this order.
    out_dir
        Folder to write to.
    reference
        One turn of the reference circle, upper case.
    qc
        Limits that a genome must satisfy.
    split
        Parameters of the division into splits.
    threads
        Number of alignment threads.
    progress
        Receives the number of genomes done.

    Returns
    -------
    BuildReport
        Counts, rows per file, and the checks of :func:`~genolewm_assets.mito.genomes.checks.check_genomes`.

    Raises
    ------
    InputError
        If a file is unusable as a whole; see :func:`~genolewm_assets.sources.mito.genomes.read_genomes`.
    """
    # Imported here, because the aligner is slow to import.
    from genolewm_assets.mito.genomes import CircularAligner

    placed = PlacedCollection((), ())
    if files:
        placed = place_genomes(_records(files), CircularAligner(reference), qc, threads=threads, progress=progress)
    counts = placed.counts()
    division, tables = genome_tables(placed.genomes, reference, split)
    _write(out_dir / GENOMES_FILE, tables, MITO_GENOMES.arrow)
    _write(out_dir / REJECTS_FILE, [reject_table(placed.rejected)], MITO_GENOME_REJECTS.arrow)
    table, rejects = (pq.read_table(out_dir / name) for name in (GENOMES_FILE, REJECTS_FILE))
    splits = Counter(f"split.{each}" for each in division.split)
    return BuildReport(
        counts={
            **counts,
            **splits,
            "clusters": len(set(division.cluster)),
            "bases": sum(table["length_bp"].to_pylist()),
            "reference_bp": len(reference),
        },
        rows={GENOMES_FILE: table.num_rows, REJECTS_FILE: rejects.num_rows},
        checks=check_genomes(table, rejects, counts, reference, split),
    )


def _records(files: Sequence[CollectionFile]) -> Iterator[GenomeRecord]:
    for file in files:
        yield from read_genomes(file.path, file_format=file.file_format, label=file.name)


def _write(path: Path, tables: Iterator[pa.Table] | Sequence[pa.Table], schema: pa.Schema) -> None:
    """Write each table as one row group; sequences are long, so the row groups are small."""
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


class SampleLevels:
    """Heteroplasmy levels of genomes, from VCFs whose samples have the genomes' names.

    Parameters
    ----------
    files
        VCFs by name in errors; a sample may be in one file only.
    contig, reference
        The mitochondrial contig, and its bases in upper case; None and the empty string if there are no files.

    Attributes
    ----------
    counts
        ``het.samples``, ``het.calls`` and ``het.field.<name>``, the calls whose level is from a FORMAT field; after
        :meth:`levelled` has yielded all genomes also ``het.genomes`` (genomes with a sample), ``het.counted`` (calls
        that count) and ``het.dropped.<reason>``. ``het.calls`` is the sum of counted and dropped calls.

    Raises
    ------
    InputError
        If a sample is in two files.
    VcfError, UnknownContigError
        If a file cannot be read; see :func:`~genolewm_assets.sources.mito.heteroplasmy.read_heteroplasmy`.
    """

    def __init__(self, files: Mapping[str, Path], contig: Contig | None, reference: str) -> None:
        self._reference = reference.encode("ascii")
        self._calls: dict[str, list[HeteroplasmyCall]] = {}
        self._samples: dict[str, tuple[str, ...]] = {}
        self._counted: Counter[str] = Counter()
        self._genomes: dict[str, None] = {}
        self.counts: Counter[str] = Counter()
        for name, path in files.items():
            assert contig is not None, "heteroplasmy files need a mitochondrial contig"
            found = read_heteroplasmy(path, contig)
            if twice := sorted(self._calls.keys() & found.calls.keys()):
                raise InputError(
                    name, "has a sample of another file", expected="each sample in one file", got=repr(twice[0])
                )
            self._calls |= found.calls
            self._samples[name] = tuple(found.calls)
            self.counts.update({f"het.field.{field}": n for field, n in found.fields.items()})
            self.counts.update({f"het.dropped.{reason}": n for reason, n in found.dropped.items()})
        self.counts["het.samples"] = len(self._calls)
        self.counts["het.calls"] = (
            sum(map(len, self._calls.values())) + self.counts[f"het.dropped.{CallDrop.OTHER_CONTIG}"]
        )

    def levelled(self, table: pa.Table) -> Iterator[LevelledGenome]:
        """Yield the genomes of a table with their levels; levels are None if no sample has the genome's name.

        Call this method once: each sample's calls are used for one genome.

        Parameters
        ----------
        table
            Table of schema ``MITO_GENOMES``.

        Raises
        ------
        InputError
            If a call that counts is invalid; see :func:`~genolewm_assets.mito.variants.levels_of_genome`.
        """
        without_genome = dict(self._calls)
        for name, split, placement in read_placements(table, self._reference.decode("ascii")):
            levels = None
            self._genomes[name] = None
            if (calls := without_genome.pop(name, None)) is not None:
                levels, dropped = levels_of_genome(calls, self._reference, placement)
                self._counted[name] = len(calls) - dropped.total()
                self.counts.update({"het.genomes": 1, "het.counted": self._counted[name]})
                self.counts.update({f"het.dropped.{reason}": n for reason, n in dropped.items()})
            yield LevelledGenome(name, split, placement, levels)
        self.counts[f"het.dropped.{CallDrop.NO_GENOME}"] += sum(map(len, without_genome.values()))

    def check(self, rejected: Collection[str]) -> CheckResult:
        """Compare the samples of each file with the genomes; call this after :meth:`levelled` has yielded all genomes.

        Parameters
        ----------
        rejected
            Names of the records of the collections that are not used. A sample of such a name needs no genome.
        """
        faults, passed_over = RowsAtFault(), 0
        for file, samples in self._samples.items():
            rest = [sample for sample in samples if sample not in self._genomes]
            strangers = [sample for sample in rest if sample not in rejected]
            passed_over += len(rest) - len(strangers)
            for sample in strangers:
                closest = closest_name(sample, self._genomes) if faults.keeps_next() else None
                faults.add(file=file, sample=sample, problem="no genome has its name", closest=closest or "none")
            if len(rest) < len(samples) and not any(self._counted[sample] for sample in samples):
                calls = sum(len(self._calls[sample]) for sample in samples)
                faults.add(file=file, problem="none of its calls counts", expected="at least one", got=f"0 of {calls}")
        figures: dict[str, JsonValue] = {
            "samples": self.counts["het.samples"],
            "genomes": self.counts["het.genomes"],
            "samples_of_rejected_genomes": passed_over,
            "wrong": len(faults),
            "first_genomes": show_names(self._genomes),
        }
        check = CheckResult(SAMPLE_CHECK, passed=not len(faults), figures=figures, rows=[*faults])
        return stating_compared(check, len(self._samples), "the catalogue names no heteroplasmy file", declared=True)
