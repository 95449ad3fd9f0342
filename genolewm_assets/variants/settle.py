"""Normalise, sort and de-duplicate the alleles of one contig, column-wise.

Not here: the normal form of a single allele (:mod:`.normal_form`), counts of alleles (:mod:`.ledger`), the meaning of a
source's fields (``sources.gnomad``, ``sources.clinvar``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Contig, Label, parts_around
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.tables import BatchSpool, number_column, numbers_of, repeated_text, text_column
from genolewm_assets.variants.ledger import RAW_FIELDS, AlleleLedger
from genolewm_assets.variants.normal_form import AlleleNormaliser, NormalAllele, Rejection
from genolewm_assets.variants.order import KEY, LowMarks, columns_of, find_repeats, order_alleles, without_rows
from genolewm_assets.variants.schema import RejectReason

#: Sort key among rows of equal normal form: the row with the smallest key is kept.
Preference = Callable[[Mapping[str, object]], tuple[object, ...]]

#: Evidence of a row for its class, in its column ``label``; that of the smallest counts.
Evidence = Callable[[Mapping[str, object]], tuple[int, ...]]


class _Record(NamedTuple):
    """A row that shares its normal form with others, and what it states."""

    rank: tuple[object, ...]
    row: int
    spelt: str
    evidence: tuple[int, ...]
    label: str
    stated: str


#: Rows converted to Python objects at a time.
_ROWS_AT_ONCE = 4_096
_RAW = [name for name, _ in RAW_FIELDS]


def settle_alleles(
    batches: Iterable[pa.RecordBatch],
    contig: Contig,
    normaliser: AlleleNormaliser,
    ledger: AlleleLedger,
    preference: Preference,
    *,
    folder: Path,
    evidence: Evidence | None = None,
    progress: Progress = NO_PROGRESS,
) -> Iterator[pa.Table]:
    """Normalise, sort and de-duplicate the rows of one contig.

    Parameters
    ----------
    batches
        Columns ``RAW_FIELDS`` and the shard's own columns; one row per allele, in any order and any batch size.
    ledger
        Counts kept, rejected and duplicate alleles; complete after the last table is taken.
    preference
        Sort key of a row. Of several rows with one normal form the row with the smallest key is kept. If keys are
        equal, the other columns decide, and the line number only between rows that are otherwise identical.
    evidence
        Rows with a class and equal evidence contradict each other where their classes differ: the row kept then has the
        class of both (:func:`~genolewm_assets.variants.settle.merge_labels`). None: rows have no class.
    folder
        Rows that do not fit in memory are spooled to a temporary folder inside this one.

    Yields
    ------
    pa.Table
        The columns of ``batches``, then ``chrom``, ``pos`` (1-based), ``ref``, ``alt``; sorted by and unique in these
        four columns, within and across tables.

    Notes
    -----
    An allele may move left by any distance, so no row is final until the last row is normalised. Normalised rows are
    therefore spooled, with the smallest position of each batch; on reading them back, rows below all later batches are
    final. Memory holds a few batches if the rows are nearly sorted, else all rows that are out of order.
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
            settled = _normalise_batch(batch, contig, normaliser, ledger)
            marks.add(settled)
            normal.append(contig.name, settled)
            done += batch.num_rows
            progress.advance(done, None, f"alleles of {contig.name}")
        for batch in order_alleles(normal.batches(contig.name), marks):
            unique = _drop_duplicates(batch, contig, ledger, preference, evidence)
            ledger.keep(unique.num_rows)
            column = repeated_text(contig.name, unique.num_rows)
            yield pa.Table.from_batches([unique.add_column(unique.num_columns - len(KEY), "chrom", column)])


def _normalise_batch(
    batch: pa.RecordBatch, contig: Contig, normaliser: AlleleNormaliser, ledger: AlleleLedger
) -> pa.RecordBatch:
    """Return the rows that can be normalised, with the columns ``KEY`` appended; reject the others in the ledger."""
    from genolewm_assets.variants.kernels import NORMAL_IN_UPPER_CASE, UNDECIDED

    pos, ref, alt = batch["raw_pos"], batch["raw_ref"], batch["raw_alt"]
    answer = _classify(batch, contig, normaliser)
    if (answer == NORMAL_IN_UPPER_CASE).any():
        ref, alt = pc.ascii_upper(ref), pc.ascii_upper(alt)
    undecided = np.flatnonzero(answer == UNDECIDED)
    if undecided.size:
        at, found, rejected = _normalise_rows(batch, undecided, contig, normaliser, ledger)
        pos, ref, alt = _replace_rows((pos, ref, alt), at, found)
    keyed = pa.RecordBatch.from_arrays([*batch.columns, pos, ref, alt], schema=pa.schema([*batch.schema, *KEY]))
    return without_rows(keyed, rejected) if undecided.size else keyed


def _classify(batch: pa.RecordBatch, contig: Contig, normaliser: AlleleNormaliser) -> npt.NDArray[np.uint8]:
    """Return the answers of ``classify_alleles`` for all rows: uint8, shape (rows,)."""
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


def _normalise_rows(
    batch: pa.RecordBatch,
    rows: npt.NDArray[np.int64],
    contig: Contig,
    normaliser: AlleleNormaliser,
    ledger: AlleleLedger,
) -> tuple[npt.NDArray[np.int64], list[NormalAllele], npt.NDArray[np.int64]]:
    """Normalise the given rows one at a time; return the rows normalised, their normal forms, and the rows rejected."""
    raw = batch.select(_RAW).take(number_column(rows))
    found: list[NormalAllele] = []
    refused: list[Rejection] = []
    sound = np.zeros(len(rows), dtype=bool)
    for at, spelling in enumerate(_iter_raw_alleles(raw)):
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


def _iter_raw_alleles(raw: pa.RecordBatch) -> Iterator[tuple[int, str, str]]:
    """Yield POS, REF and ALT of each row as the source gives them."""
    for start in range(0, raw.num_rows, _ROWS_AT_ONCE):
        part = raw.slice(start, _ROWS_AT_ONCE)
        yield from zip(*(part[name].to_pylist() for name in ("raw_pos", "raw_ref", "raw_alt")), strict=True)


def _replace_rows(
    columns: tuple[pa.Array, ...], rows: npt.NDArray[np.int64], alleles: list[NormalAllele]
) -> Iterator[pa.Array]:
    """Yield pos, ref and alt with the values of ``alleles`` in the given rows."""
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


def _drop_duplicates(
    batch: pa.RecordBatch, contig: Contig, ledger: AlleleLedger, preference: Preference, evidence: Evidence | None
) -> pa.RecordBatch:
    """Keep one row per normal form of a sorted batch; reject the others in the ledger."""
    rows, groups = find_repeats(batch)
    if not rows.size:
        return batch
    records: dict[int, list[_Record]] = {}
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        table = batch.take(number_column(rows[part])).to_pylist()
        for at, group, row in zip(rows[part].tolist(), groups[part].tolist(), table, strict=True):
            # Equal rows are ordered by their text, whatever their order in the file; only then by their line.
            text = repr([(name, value) for name, value in row.items() if name != "raw_line"])
            rank = (*preference({**row, "chrom": contig.name}), text, row["raw_line"])
            spelt = f"{contig.name}:{row['pos']} as {row['raw_pos']}:{row['raw_ref']}:{row['raw_alt']}"
            # VariationID, class and stars.
            named = "" if evidence is None else f"{row['clinvar_id']} {row['label']} {row['stars']}*"
            stated = ((), "", "") if evidence is None else (evidence(row), row["label"], named)
            records.setdefault(group, []).append(_Record(rank, at, spelt, *stated))
    rejected, labels = dict[int, tuple[RejectReason, str]](), dict[int, str]()
    for group_records in records.values():
        kept, *others = sorted(group_records)
        classes = {each.label for each in group_records if each.evidence == kept.evidence}
        label = kept.label if evidence is None else merge_labels(classes)
        if label != kept.label:
            labels[kept.row] = label
        contradicted = len(classes) > 1 and label == Label.OTHER
        for each in others:
            conflicting = contradicted and each.evidence == kept.evidence
            reason = RejectReason.CONFLICTING_RECORDS if conflicting else RejectReason.DUPLICATE
            both = f" ({kept.stated}), this is {each.stated}" if each.stated else ""
            rejected[each.row] = (reason, f"kept is {kept.spelt}"[:120] + both)
    lost = np.array(sorted(rejected), np.int64)
    raw = pa.Table.from_batches([batch.select(_RAW).take(number_column(lost))])
    ledger.reject(raw, *map(list, zip(*(rejected[row] for row in lost.tolist()), strict=True)))
    return without_rows(_with_labels(batch, labels), lost)


def _with_labels(batch: pa.RecordBatch, labels: Mapping[int, str]) -> pa.RecordBatch:
    """Return a batch with the classes of some rows replaced."""
    if not labels:
        return batch
    mask = np.zeros(batch.num_rows, dtype=bool)
    mask[list(labels)] = True
    values = text_column([labels[row] for row in sorted(labels)])
    place = batch.schema.get_field_index("label")
    return batch.set_column(
        place, batch.schema.field(place), pc.replace_with_mask(batch["label"], number_column(mask), values)
    )


#: Words of CLNSIG that state something about pathogenicity; ``no_known_pathogenicity`` does not.
_CLASS = re.compile(r"conflicting|pathogenic(?!ity)|benign|uncertain_significance", re.IGNORECASE)
#: Pairs of classes that differ in certainty alone, with what both together are.
_TOGETHER: Mapping[frozenset[str], str] = {
    frozenset((Label.P, Label.LP)): Label.LP,
    frozenset((Label.B, Label.LB)): Label.LB,
}
_MILDER = (Label.LP, Label.LB)


def evidence_of(record: Mapping[str, object]) -> tuple[int, int]:
    """Return the evidence of a record with ``label``, ``clnsig`` and ``stars``; the smallest counts.

    A record that states a class counts before one that states none, then one with more review stars.
    """
    stated = record["label"] != Label.OTHER or _CLASS.search(str(record["clnsig"] or "")) is not None
    return int(not stated), -int(str(record["stars"]))


def preference_of(record: Mapping[str, object]) -> tuple[object, ...]:
    """Return the order in which records of one allele are kept; the VariationID decides between equal classes alone."""
    return *evidence_of(record), record["label"] not in _MILDER, record["clinvar_id"]


def merge_labels(labels: Collection[str]) -> str:
    """Return the class of records of equal evidence: that of all, LP for P with LP, LB for B with LB, else OTHER."""
    one, *others = set(labels)
    return _TOGETHER.get(frozenset(labels), Label.OTHER) if others else one
