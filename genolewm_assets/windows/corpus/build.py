"""Choose, tile and place the records of a source: all columns but those of texts. Not here: file layouts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from genolewm_assets.genome import TOKEN_BP, acgt_runs, draw_bits, encode_sequence
from genolewm_assets.store.tables import number_column, text_column
from genolewm_assets.windows.corpus.keys import KeySet
from genolewm_assets.windows.corpus.placement import PLACED, CorpusPlacer, Placement, Span, placed_columns
from genolewm_assets.windows.corpus.records import CorpusRecord, SkipReason
from genolewm_assets.windows.corpus.windows import (
    CORPUS_SKIPPED,
    CORPUS_WINDOWS,
    SHORTEST_BP,
    CorpusLedger,
    CorpusParams,
)

#: Rows, of both tables together, from which on a batch is yielded.
_ROWS_PER_TABLE = 512
_FOREIGN_TO_N = bytes(c if chr(c) in "ACGT" else ord("N") for c in range(256))
_STATED = ("source", "record_id", "taxonomy", "note", "maybe_human", "window_index", "start", "end", "window_bp")
#: Columns of decided windows: those of ``CORPUS_WINDOWS`` that need no text, the number of the window's first base
#: among the bases that are kept, and the number of the question to the aligner, -1 without one.
DECIDED = pa.schema(
    [CORPUS_WINDOWS.arrow.field(name) for name in _STATED]
    + [pa.field(name, pa.int64(), nullable=False) for name in ("first", "question")]
    + [CORPUS_WINDOWS.arrow.field(name) for name in PLACED]
)


@dataclass(frozen=True, slots=True)
class DecidedBatch:
    """Rows for some consecutive records, in their order: windows of the schema :data:`DECIDED`, and skipped records."""

    windows: pa.RecordBatch
    skipped: pa.Table


def decide_corpus_windows(
    records: Iterable[CorpusRecord],
    params: CorpusParams,
    placer: CorpusPlacer,
    ledger: CorpusLedger,
    keep: Callable[[bytes], int],
) -> Iterator[DecidedBatch]:
    """Tile and place records, and yield their rows in batches of some hundred; ask the aligner where that is needed.

    Parameters
    ----------
    records
        Records of one source, in the order of its files.
    params, placer
        Tiling, and placement on the reference.
    ledger
        Receives the counts; those of placements come from ``finish_windows``.
    keep
        Keeps the upper-case bases of a record that has windows, and returns the number of the first of them.

    Yields
    ------
    DecidedBatch
        Records outside the slice are counted, not listed.
    """
    builder = _Builder(params, placer, ledger, keep)
    for record in records:
        builder.add(record)
        if builder.waiting >= _ROWS_PER_TABLE:
            yield builder.take()
    yield builder.take()


class _Builder:
    """Collects the columns of both tables, and the counts."""

    def __init__(
        self, params: CorpusParams, placer: CorpusPlacer, ledger: CorpusLedger, keep: Callable[[bytes], int]
    ) -> None:
        self._params, self._placer, self._figures, self._keep = params, placer, ledger.figures, keep
        self._seen = KeySet()
        self._rows: list[tuple[object, ...]] = []
        self._placed: list[Placement] = []
        self._skipped: list[tuple[str, str, int, str]] = []

    @property
    def waiting(self) -> int:
        """Number of rows collected since the last :meth:`take`."""
        return len(self._placed) + len(self._skipped)

    def take(self) -> DecidedBatch:
        """Return the collected rows as tables and clear them."""
        windows = [*_columns([*DECIDED][: -len(PLACED)], self._rows), *placed_columns(self._placed).values()]
        skipped = [*_columns(CORPUS_SKIPPED.arrow, self._skipped)]
        self._rows, self._placed, self._skipped = [], [], []
        return DecidedBatch(
            pa.RecordBatch.from_arrays(windows, schema=DECIDED),
            pa.Table.from_arrays(skipped, schema=CORPUS_SKIPPED.arrow),
        )

    def add(self, record: CorpusRecord) -> None:
        """Add the windows of a record, or count and list it as skipped."""
        self._figures["records_in"] += 1
        if record.fault is not None:
            self._skip(record, record.fault.reason)
            return
        params = self._params
        if not is_in_slice(record.record_id, fraction=params.slice_fraction, seed=params.seed):
            self._figures[f"skipped.{SkipReason.SLICED_OUT}"] += 1
            return
        self._figures["bases_in"] += len(record.sequence)
        unique_id = f"{record.record_id}~{hashlib.sha256(record.sequence).hexdigest()[:8]}"
        if self._seen.add(unique_id.encode()):
            self._skip(record, SkipReason.DUPLICATE)
            return
        # An id that repeats with another sequence gets a digest of it.
        is_repeated = self._seen.add(record.record_id.encode())
        record_id = unique_id if is_repeated else record.record_id
        self._figures["record_ids_made_unique"] += is_repeated
        runs = _known_runs(record.sequence)
        windows = tile_record(runs, record_id, params)
        self._count_bases(record, runs, windows)
        if windows:
            self._use(record, record_id, windows)
        elif not record.sequence:
            self._skip(record, SkipReason.EMPTY)
        else:
            has_room = window_size(len(record.sequence), params) > 0
            self._skip(record, SkipReason.SPLIT_TOO_SHORT if has_room else SkipReason.TOO_SHORT)

    def _skip(self, record: CorpusRecord, reason: SkipReason) -> None:
        self._figures[f"skipped.{reason}"] += 1
        if reason is SkipReason.DUPLICATE:
            self._figures["bases_duplicate"] += len(record.sequence)
        self._skipped.append((record.source, record.record_id, len(record.sequence), reason))

    def _count_bases(self, record: CorpusRecord, runs: Sequence[Span], windows: Sequence[Span]) -> None:
        acgt = sum(end - start for start, end in runs)
        # Windows ascend by start and by end, so the size of their union needs no sorting.
        ends_before = [0, *(end for _, end in windows)]
        covered = sum(end - max(start, before) for (start, end), before in zip(windows, ends_before, strict=False))
        self._figures["bases_lost_non_acgt"] += len(record.sequence) - acgt
        self._figures["bases_in_windows"] += covered
        self._figures["bases_in_no_window"] += acgt - covered

    def _use(self, record: CorpusRecord, record_id: str, windows: Sequence[Span]) -> None:
        first, full_bp = self._keep(record.sequence), self._params.profile.window_bp
        self._figures["records_used"] += 1
        self._figures["windows"] += len(windows)
        self._figures["maybe_human"] += len(windows) * record.maybe_human
        self._figures["short_windows"] += sum(end - start < full_bp for start, end in windows)
        same = record.source, record_id, record.taxonomy, record.note, record.maybe_human
        placed = zip(windows, self._placer.place(record, windows), strict=True)
        for index, ((start, end), (verdict, placement, question)) in enumerate(placed):
            self._figures[f"coordinates.{verdict}"] += 1
            self._placed.append(placement)
            self._rows.append((*same, index, start, end, end - start, first + start, question))


def _columns(fields: Iterable[pa.Field], rows: Sequence[tuple[object, ...]]) -> Iterator[pa.Array]:
    for number, field in enumerate(fields):
        values: list[Any] = [row[number] for row in rows]
        is_text = field.type == pa.string()
        yield text_column(values) if is_text else number_column(np.array(values, field.type.to_pandas_dtype()))


def _known_runs(sequence: bytes) -> list[Span]:
    """Return the maximal runs of ACGT."""
    if sequence and not sequence.translate(None, b"ACGT"):
        return [(0, len(sequence))]
    return list(acgt_runs(encode_sequence(sequence.translate(_FOREIGN_TO_N))))


def is_in_slice(record_id: str, *, fraction: float, seed: int) -> bool:
    """Return whether a record belongs to the slice, by its id and the seed; a larger slice contains a smaller one."""
    return draw_bits("slice", seed, record_id) < int(fraction * 2**64)


def tile_record(runs: Sequence[Span], record_id: str, params: CorpusParams) -> list[Span]:
    """Tile the ACGT runs of a record; runs and windows are 0-based half-open, ascending.

    Starts in a run are margin + phase + n x stride; the phase is uniform over 0 to stride - 1, as far as there is room.
    """
    margin, stride = params.profile.margin_bp, params.profile.stride_bp
    bits = draw_bits("phase", params.seed, record_id)
    windows: list[Span] = []
    for run_start, run_end in runs:
        window = window_size(run_end - run_start, params)
        slack = run_end - run_start - 2 * margin - window
        if window and slack >= 0:
            first = run_start + margin + bits % (min(slack, stride - 1) + 1)
            windows += [(at, at + window) for at in range(first, run_end - margin - window + 1, stride)]
    return windows


def window_size(run_bp: int, params: CorpusParams) -> int:
    """Return the size of the windows of a run, in bases; 0 if it has no window."""
    room = run_bp - 2 * params.profile.margin_bp
    if room >= params.profile.window_bp:
        return params.profile.window_bp
    return max(0, room // TOKEN_BP * TOKEN_BP) if params.short_windows and run_bp >= SHORTEST_BP else 0
