"""Build the table of mitochondrial genomes for training, and the table of rejected records.

Of each genome only the differences from the reference stay in memory until the table is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

import pyarrow as pa

from genolewm_assets.errors import InputError
from genolewm_assets.genome import Split
from genolewm_assets.mito.genomes.alignment import CircularAligner
from genolewm_assets.mito.genomes.differences import Difference, lay_out, names_of
from genolewm_assets.mito.genomes.haplogroups import call_branch, is_rcrs
from genolewm_assets.mito.genomes.qc import GenomeQcPolicy, RejectedGenome, find_duplicates, judge_record, reject
from genolewm_assets.mito.genomes.records import GenomeRecord, GenomeReject
from genolewm_assets.mito.genomes.split import SplitGenomes, SplitPolicy, split_genomes
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.tables import TableSchema, column, nullable, one_of

#: Number of genomes whose sequences are in memory at once, when reading and when writing.
_AT_ONCE = 512


class HaplogroupFrom(StrEnum):
    """Where the haplogroup of a genome is from: its record, or its differences from rCRS."""

    STATED = "stated"
    CALLED = "called"


MITO_GENOMES = TableSchema(
    "mito_genomes",
    "mitochondrial genome, turned and numbered as the reference",
    pa.schema(
        [
            column("name", pa.string(), "as the collection gives it; unique"),
            column("split", pa.string(), one_of(Split)),
            column("cluster", pa.string(), "name of the first genome of its group of near copies, its own if alone"),
            nullable("haplogroup", pa.string(), "as stated with the genome, else the branch its differences lead to"),
            nullable("haplogroup_from", pa.string(), f"{one_of(HaplogroupFrom)}; null where there is no haplogroup"),
            column("length_bp", pa.int32(), "bases"),
            column("n_bases", pa.int32(), "of these N"),
            column("ambiguous_bases", pa.int32(), "of these another ambiguity code"),
            column("sequence", pa.string(), "upper case, from the base at the reference's lowest position on"),
            column("differences", pa.list_(pa.string()), "from the reference: 16189C, 309.1C, 249d, 8281-8289d"),
            column("placeholders", pa.list_(pa.int32()), "1-based positions at which it has the reference's N"),
            column("file", pa.string(), "collection that the genome is from"),
            column("record", pa.int32(), "its place in that collection, from 1"),
            column("description", pa.string(), "rest of the record's title"),
            column("is_reversed", pa.bool_(), "the collection shows the other strand"),
            column("first_base", pa.int32(), "0-based base, in the collection's strand turned, that comes first here"),
            column("circle_sha256", pa.string(), "SHA-256 of the canonical rotation of the collection's sequence"),
        ]
    ),
    ("name",),
    closed={"split": tuple(Split), "haplogroup_from": tuple(HaplogroupFrom)},
)

MITO_GENOME_REJECTS = TableSchema(
    "mito_genome_rejects",
    "record of a collection of genomes that is not used",
    pa.schema(
        [
            column("file", pa.string(), "collection that the record is in"),
            column("record", pa.int32(), "its place there, from 1"),
            column("name", pa.string(), "as the collection gives it; may be empty"),
            column("reason", pa.string(), "one of the closed set GenomeReject"),
            column("detail", pa.string(), "the figure or the other genome that decided it"),
        ]
    ),
    ("file", "record"),
    closed={"reason": tuple(GenomeReject)},
)

TABLES: tuple[TableSchema, ...] = (MITO_GENOMES, MITO_GENOME_REJECTS)


@dataclass(frozen=True, slots=True)
class PlacedGenome:
    """What is known of a kept and an aligned genome, without its sequence, which follows from ``differences``."""

    record: GenomeRecord
    n_bases: int
    ambiguous_bases: int
    circle_sha256: str
    differences: tuple[Difference, ...]
    is_reversed: bool
    first_base: int
    placeholders: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedCollection:
    """Result of quality control and alignment: every record is either kept or rejected, in the order of records."""

    genomes: tuple[PlacedGenome, ...]
    rejected: tuple[RejectedGenome, ...]

    def counts(self) -> dict[str, int]:
        """Return ``records``, ``kept`` and ``rejected.<reason>`` for every reason."""
        reasons = Counter(rejected.reason for rejected in self.rejected)
        return {
            "records": len(self.genomes) + len(self.rejected),
            "kept": len(self.genomes),
            **{f"rejected.{reason}": reasons[reason] for reason in GenomeReject},
        }


def place_genomes(
    records: Iterable[GenomeRecord],
    aligner: CircularAligner,
    policy: GenomeQcPolicy,
    *,
    threads: int = 1,
    progress: Progress = NO_PROGRESS,
) -> PlacedCollection:
    """Apply quality control to genomes and align them; the result does not depend on the number of threads."""
    found: list[PlacedGenome | RejectedGenome] = []
    remaining, done = iter(records), 0
    with ThreadPoolExecutor(threads) as pool:
        while batch := list(islice(remaining, _AT_ONCE)):
            found += pool.map(lambda each: _place(each, aligner, policy), batch)
            done += len(batch)
            progress.advance(done, None, "genomes")
    # Duplicates are found among genomes that align; a chimera must not reserve the name of another genome.
    placed = {number: genome for number, genome in enumerate(found) if isinstance(genome, PlacedGenome)}
    faults = find_duplicates([(genome.record, genome.circle_sha256) for genome in placed.values()])
    for at, number in enumerate(placed):
        if at in faults:
            found[number] = reject(placed[number].record, faults[at])
    return PlacedCollection(
        tuple(each for each in found if isinstance(each, PlacedGenome)),
        tuple(each for each in found if isinstance(each, RejectedGenome)),
    )


def _place(record: GenomeRecord, aligner: CircularAligner, policy: GenomeQcPolicy) -> PlacedGenome | RejectedGenome:
    """Judge and align one record, without comparison with others."""
    judged = judge_record(record, policy)
    if isinstance(judged, RejectedGenome):
        return judged
    try:
        aligned = aligner.align(record.sequence, where=record.where)
    except InputError as err:
        return reject(record, (GenomeReject.NOT_ALIGNABLE, f"got {err.got}"))
    kept = (replace(record, sequence=""), judged.n_bases, judged.ambiguous_bases, judged.circle_sha256)
    return PlacedGenome(
        *kept, aligned.differences, aligned.is_reversed, aligned.first_base, placeholders=aligned.placeholders
    )


def haplogroups_of(genomes: Sequence[PlacedGenome], reference: str) -> list[tuple[str | None, str | None]]:
    """Return each haplogroup and its origin, ``stated`` or ``called``, which needs rCRS; else (None, None)."""
    called = is_rcrs(reference)
    return [
        (stated, HaplogroupFrom.STATED)
        if (stated := genome.record.haplogroup)
        else (call_branch(genome.differences, reference), HaplogroupFrom.CALLED)
        if called
        else (None, None)
        for genome in genomes
    ]


def genome_tables(
    genomes: Sequence[PlacedGenome], reference: str, policy: SplitPolicy
) -> tuple[SplitGenomes, Iterator[pa.Table]]:
    """Divide kept and aligned genomes into splits; return the division and :data:`MITO_GENOMES` in parts of 512 rows.

    Parameters
    ----------
    reference
        One turn of the circle, upper case.
    """
    labels = haplogroups_of(genomes, reference)
    names = [genome.record.name for genome in genomes]
    split = split_genomes(names, [genome.differences for genome in genomes], [label for label, _ in labels], policy)

    def tables() -> Iterator[pa.Table]:
        for first in range(0, len(genomes), _AT_ONCE):
            rows = [
                _row(genomes[i], labels[i], split.split[i].value, names[split.cluster[i]], reference)
                for i in range(first, min(first + _AT_ONCE, len(genomes)))
            ]
            yield pa.Table.from_pylist(rows, schema=MITO_GENOMES.arrow)

    return split, tables()


def _row(
    genome: PlacedGenome, label: tuple[str | None, str | None], split: str, cluster: str, reference: str
) -> dict[str, object]:
    sequence = lay_out(reference, genome.differences, genome.placeholders).sequence
    return {
        "name": genome.record.name,
        "split": split,
        "cluster": cluster,
        "haplogroup": label[0],
        "haplogroup_from": label[1],
        "length_bp": len(sequence),
        "n_bases": genome.n_bases,
        "ambiguous_bases": genome.ambiguous_bases,
        "sequence": sequence,
        "differences": names_of(genome.differences),
        "placeholders": list(genome.placeholders),
        "file": genome.record.file,
        "record": genome.record.number,
        "description": genome.record.description,
        "is_reversed": genome.is_reversed,
        "first_base": genome.first_base,
        "circle_sha256": genome.circle_sha256,
    }


def reject_table(rejected: Sequence[RejectedGenome]) -> pa.Table:
    """Return the table :data:`MITO_GENOME_REJECTS` of rejected records."""
    rows = [
        {"file": r.file, "record": r.number, "name": r.name, "reason": r.reason.value, "detail": r.detail}
        for r in rejected
    ]
    return pa.Table.from_pylist(rows, schema=MITO_GENOME_REJECTS.arrow)
