"""Build the tables of genomes from collection files, and join heteroplasmy VCFs to the genomes, by their names.

Not here: reading one file (``genomes``, ``heteroplasmy``), processing of a genome (``mito``).
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
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
    """A collection of genomes, its name in errors and tables, and its format; None: that of the file name's ending."""

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
    """Write ``genomes.parquet`` and ``rejects.parquet`` of collections; return counts, rows by file, and the checks.

    Parameters
    ----------
    reference
        One turn of the reference circle, upper case.
    threads
        Number of alignment threads.
    progress
        Receives the number of genomes done.

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
        """Yield the genomes of a table ``MITO_GENOMES`` with their levels, None without a sample; call this once.

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

        A sample with a name in ``rejected``, the records of the collections that are not used, needs no genome.
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


#: Names among which a similar one is searched; the time of a search is proportional to it.
_SEARCHED = 5_000
_SHOWN = 3


def closest_name(name: str, names: Collection[str]) -> str | None:
    """Return the longest of some names that a name contains or is contained in, else the most similar one.

    Examples
    --------
    >>> closest_name("HG01119.final", ["HG0111", "HG01119", "NA12878"])
    'HG01119'
    """
    if nested := [each for each in names if each and (each in name or name in each)]:
        return max(nested, key=len)
    return next(iter(difflib.get_close_matches(name, islice(names, _SEARCHED), 1)), None)


def show_names(names: Iterable[str]) -> str:
    """Return the first names, for a message."""
    first = list(islice(names, _SHOWN + 1))
    return ", ".join(map(repr, first[:_SHOWN])) + (", ..." if len(first) > _SHOWN else "") or "none"


def find_strangers(where: str, samples: Collection[str], names: Collection[str]) -> InputError | None:
    """Return an error about the samples of a file whose names are not among the names of genomes; None if all are."""
    strangers = [sample for sample in samples if sample not in names]
    if not strangers:
        return None
    closest = closest_name(strangers[0], names)
    return InputError(
        where,
        f"{len(strangers):,} of {len(samples):,} samples have no genome of their name",
        expected=f"names of genomes, such as {show_names(names)}",
        got=f"{show_names(strangers)}" + (f"; closest to the first is {closest!r}" if closest else ""),
        remedy="Rename the samples (bcftools reheader -s) or the genomes, or leave the samples out",
    )
