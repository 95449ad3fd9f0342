"""From the spelling of a source to one normal form per allele, whole columns at once.

Belongs here: bringing the rows of one contig into normal form and order, and leaving out duplicates. The normal form
of a single allele is in :mod:`~genolewm_assets.variants.normal_form`, the account of what was kept and rejected in
:mod:`~genolewm_assets.variants.ledger`, the order in :mod:`~genolewm_assets.variants.order`. Contig names
are in :mod:`~genolewm_assets.sources.vcf.contig_names`; what a field means is in
:mod:`~genolewm_assets.sources.gnomad.layouts` and :mod:`~genolewm_assets.sources.clinvar.terms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Contig, parts_around
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.tables import BatchSpool, number_column, numbers_of, repeated_text, text_column
from genolewm_assets.variants.ledger import RAW_FIELDS, AlleleLedger, RejectReason
from genolewm_assets.variants.normal_form import AlleleNormaliser, NormalAllele, Rejection
from genolewm_assets.variants.order import (
    KEY,
    LowMarks,
    SlidingMarks,
    columns_of,
    find_repeats,
    order_alleles,
    without_rows,
)

#: Ranks the rows of one normal form: the smallest is kept.
Preference = Callable[[Mapping[str, object]], tuple[object, ...]]

#: Rows that become Python objects at a time.
_ROWS_AT_ONCE = 4_096
# Twice the longest allele: repeats over which an allele rolls further are a matter of hand-picked exceptions.
_REACH_BP = 20_000
_RAW = [name for name, _ in RAW_FIELDS]


def settle_alleles(
    batches: Iterable[pa.RecordBatch],
    contig: Contig,
    normaliser: AlleleNormaliser,
    ledger: AlleleLedger,
    preference: Preference,
    *,
    folder: Path,
    progress: Progress = NO_PROGRESS,
) -> Iterator[pa.Table]:
    """Normalise, sort and de-duplicate the rows of one contig.

    Parameters
    ----------
    batches
        Columns ``RAW_FIELDS`` and the shard's own; one row per allele, cut anywhere, in any order.
    preference
        Of several rows with one normal form the one with the smallest value is kept; what is still equal is decided
        by the rest of the row, never by the order of the file.
    folder
        Where rows wait, in a temporary folder of its own, if there are many.

    Yields
    ------
    pa.Table
        The columns of ``batches`` with ``chrom``, ``pos``, ``ref``, ``alt`` added, sorted by them, unique, also from
        one table to the next. The ledger is complete once the last one is taken.

    Notes
    -----
    An allele may move to the left by any distance, so that nothing is final before the last row is normalised: rows
    are put aside once more, with the smallest position of each batch. Then those below every later batch are final.
    Memory is that of a few batches if the rows are about sorted; of all that is out of order otherwise.
    """
    incoming = iter(batches)
    first = next(incoming, None)
    if first is None:
        return
    marks = LowMarks()
    done = 0
    schema = pa.schema([*first.schema, *KEY])
    with BatchSpool(schema, folder) as normal:
        for batch in chain([first], incoming):
            settled = _normal_rows(batch, contig, normaliser, ledger)
            marks.add(settled)
            normal.append(contig.name, settled)
            done += batch.num_rows
            progress.advance(done, None, f"alleles of {contig.name}")
        yield from _unique_tables(order_alleles(normal.batches(contig.name), marks), contig, ledger, preference)


def settle_sorted_alleles(
    batches: Iterable[pa.RecordBatch],
    contig: Contig,
    normaliser: AlleleNormaliser,
    ledger: AlleleLedger,
    preference: Preference,
) -> Iterator[pa.Table]:
    """Do as :func:`settle_alleles`, in one pass and a few batches of memory, for rows that are about sorted.

    Raises
    ------
    OutOfOrderError
        If a row belongs before rows that were yielded: the rows are not sorted, or an allele moves further to the
        left than ``_REACH_BP``. Nothing that came out of it may be used then, the ledger included.
    """
    marks = SlidingMarks(_REACH_BP)

    def normal() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            settled = _normal_rows(batch, contig, normaliser, ledger)
            marks.add(settled)
            yield settled

    yield from _unique_tables(order_alleles(normal(), marks), contig, ledger, preference)


def _unique_tables(
    batches: Iterable[pa.RecordBatch], contig: Contig, ledger: AlleleLedger, preference: Preference
) -> Iterator[pa.Table]:
    for batch in batches:
        unique = _without_duplicates(batch, contig, ledger, preference)
        ledger.keep(unique.num_rows)
        yield _with_contig(unique, contig)


def _normal_rows(
    batch: pa.RecordBatch, contig: Contig, normaliser: AlleleNormaliser, ledger: AlleleLedger
) -> pa.RecordBatch:
    """Return the rows that have a normal form, which is appended as ``KEY``; the others go into the ledger."""
    from genolewm_assets.variants.kernels import NORMAL_IN_UPPER_CASE, UNDECIDED

    pos, ref, alt = batch["raw_pos"], batch["raw_ref"], batch["raw_alt"]
    answer = _classify(batch, contig, normaliser)
    if (answer == NORMAL_IN_UPPER_CASE).any():
        ref, alt = pc.ascii_upper(ref), pc.ascii_upper(alt)
    undecided = np.flatnonzero(answer == UNDECIDED)
    if undecided.size:
        at, found, rejected = _one_by_one(batch, undecided, contig, normaliser, ledger)
        pos, ref, alt = _replaced((pos, ref, alt), at, found)
    keyed = pa.RecordBatch.from_arrays([*batch.columns, pos, ref, alt], schema=pa.schema([*batch.schema, *KEY]))
    return without_rows(keyed, rejected) if undecided.size else keyed


def _classify(batch: pa.RecordBatch, contig: Contig, normaliser: AlleleNormaliser) -> npt.NDArray[np.uint8]:
    from genolewm_assets.variants.kernels import classify_alleles

    bases, pos = normaliser.bases(contig), numbers_of(batch["raw_pos"])
    parts: Iterable[tuple[slice, int, bytes]] = [(slice(0, len(pos)), 0, b"")]
    if bases is not None:
        parts = parts_around(bases, pos - 1, pos - 1 + normaliser.max_allele_bp)
    answers = [np.empty(0, np.uint8)]
    for rows, first, part in parts:
        columns = columns_of(batch.slice(rows.start, rows.stop - rows.start), "raw_pos", "raw_ref", "raw_alt")
        known, checked, longest = np.frombuffer(part, np.uint8), bases is not None, normaliser.max_allele_bp
        answers.append(classify_alleles(columns, known, first, checked, contig.length, longest))
    return np.concatenate(answers)


def _one_by_one(
    batch: pa.RecordBatch,
    rows: npt.NDArray[np.int64],
    contig: Contig,
    normaliser: AlleleNormaliser,
    ledger: AlleleLedger,
) -> tuple[npt.NDArray[np.int64], list[NormalAllele], npt.NDArray[np.int64]]:
    """Normalise the given rows one at a time; return where which normal form belongs, and the rows rejected."""
    raw = batch.select(_RAW).take(number_column(rows))
    found: list[NormalAllele] = []
    refused: list[Rejection] = []
    sound = np.zeros(len(rows), dtype=bool)
    for at, spelling in enumerate(_spellings(raw)):
        outcome = normaliser.normalise(contig, *spelling)
        if isinstance(outcome, Rejection):
            refused.append(outcome)
        else:
            found.append(outcome)
            sound[at] = True
    if refused:
        table = pa.Table.from_batches([raw.filter(number_column(~sound))])
        ledger.reject(table, [each.reason for each in refused], [each.detail for each in refused])
    return rows[sound], found, rows[~sound]


def _spellings(raw: pa.RecordBatch) -> Iterator[tuple[int, str, str]]:
    for start in range(0, raw.num_rows, _ROWS_AT_ONCE):
        part = raw.slice(start, _ROWS_AT_ONCE)
        yield from zip(*(part[name].to_pylist() for name in ("raw_pos", "raw_ref", "raw_alt")), strict=True)


def _replaced(
    columns: tuple[pa.Array, ...], rows: npt.NDArray[np.int64], alleles: list[NormalAllele]
) -> Iterator[pa.Array]:
    """Yield pos, ref and alt with other values in the given rows."""
    mask = np.zeros(len(columns[0]), dtype=bool)
    mask[rows] = True
    where = number_column(mask)
    values = (
        number_column(np.array([allele.pos for allele in alleles], np.int64)),
        text_column([allele.ref for allele in alleles]),
        text_column([allele.alt for allele in alleles]),
    )
    for column, changed in zip(columns, values, strict=True):
        yield pc.replace_with_mask(column, where, changed)


def _without_duplicates(
    batch: pa.RecordBatch, contig: Contig, ledger: AlleleLedger, preference: Preference
) -> pa.RecordBatch:
    """Keep one row per normal form of a sorted batch."""
    rows, groups = find_repeats(batch)
    if not rows.size:
        return batch
    best: dict[int, tuple[tuple[object, ...], int, str]] = {}
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        table = batch.take(number_column(rows[part])).to_pylist()
        for at, group, row in zip(rows[part].tolist(), groups[part].tolist(), table, strict=True):
            rank = (*preference({**row, "chrom": contig.name}), _content(row), row["raw_line"])
            if group not in best or rank < best[group][0]:
                kept = f"{contig.name}:{row['pos']} as {row['raw_pos']}:{row['raw_ref']}:{row['raw_alt']}"
                best[group] = (rank, at, f"kept is {kept}"[:120])
    lost = ~np.isin(rows, [at for _, at, _ in best.values()])
    raw = pa.Table.from_batches([batch.select(_RAW).take(number_column(rows[lost]))])
    details = [best[group][2] for group in groups[lost].tolist()]
    ledger.reject(raw, [RejectReason.DUPLICATE] * len(details), details)
    return without_rows(batch, rows[lost])


def _content(row: Mapping[str, object]) -> str:
    """Return a text that orders rows by what they say, not by where they stand."""
    return repr([(name, value) for name, value in row.items() if name != "raw_line"])


def _with_contig(batch: pa.RecordBatch, contig: Contig) -> pa.Table:
    """Return a batch as a table with ``chrom`` before the other columns of the key."""
    column = repeated_text(contig.name, batch.num_rows)
    return pa.Table.from_batches([batch.add_column(batch.num_columns - len(KEY), "chrom", column)])
