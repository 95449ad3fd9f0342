"""Choose and tile records of the corpus, and build the tables. Not here: file layouts (``sources.corpus``)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import PROFILES, STRANDS, TOKEN_BP, WindowProfile, acgt_runs, draw_bits, encode_sequence
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableSchema, column, nullable
from genolewm_assets.windows.corpus.placement import CorpusPlacer, Placement, PlacementHow, Span, Verdict
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource, SkipReason

#: Shortest ACGT run that gives a short window, in bases.
SHORTEST_BP = 2_048

#: Rows, of both tables together, from which on a batch is yielded.
_ROWS_PER_TABLE = 512
_FOREIGN_TO_N = bytes(c if chr(c) in "ACGT" else ord("N") for c in range(256))


CORPUS_WINDOWS = TableSchema(
    "corpus_windows",
    "window of a record of the pretraining corpus",
    pa.schema(
        [
            column("source", pa.string(), "one of the closed set CorpusSource"),
            column("record_id", pa.string(), "the record's id; '~' and a digest behind it where an id is used again"),
            column("window_index", pa.int32(), "0-based number of the window in its record"),
            column("start", pa.int64(), "first base in the record, 0-based"),
            column("end", pa.int64(), "end in the record, exclusive"),
            column("window_bp", pa.int32(), "bases, a multiple of 6; below the profile's for a short window"),
            column("sequence", pa.string(), "the window, upper-case ACGT, in the record's orientation"),
            column("left_flank", pa.string(), "the margin_bp bases of the record before the window"),
            column("right_flank", pa.string(), "the margin_bp bases of the record behind the window"),
            column("window_hash", pa.binary(32), "SHA-256 of sequence; not unique"),
            column("window_id", pa.string(), "first 32 hex digits of window_hash"),
            column("gc", pa.float32(), "share of G and C, 0 to 1"),
            column("maybe_human", pa.bool_(), "false only where the record states a listed taxon that is not human"),
            column("spliced", pa.bool_(), "introns are, or may be, cut out: the place may hold more bases"),
            column("placement_how", pa.string(), "one of the closed set PlacementHow"),
            nullable("placed_contig", pa.string(), "canonical contig name"),
            nullable(
                "placed_start",
                pa.int64(),
                "first base of the window on the reference, 0-based, flanks not counted; where it is spliced and "
                "placed as stated (coordinates, stated), first base of the whole record",
            ),
            nullable("placed_end", pa.int64(), "end on the reference, exclusive; of the same stretch"),
            nullable("strand", pa.string(), "'-' where the window reads along the reference's other strand, else '+'"),
            column("placement_exact", pa.bool_(), "sequence is that of the reference there, base for base"),
            nullable("identity", pa.float32(), "mappy only: matching share of the aligned columns, 0 to 1"),
            nullable("coverage", pa.float32(), "mappy only: aligned share of the window's bases, 0 to 1"),
            nullable(
                "stated_contig",
                pa.string(),
                "mappy only: contig that the record states, where it is another one or its coordinates there cannot be "
                "compared",
            ),
            nullable("stated_start", pa.int64(), "mappy only: start of stated coordinates that cannot be compared"),
            nullable("stated_end", pa.int64(), "end of the same stretch, exclusive"),
            nullable("taxonomy", pa.string(), "organism or lineage as the record states it"),
            nullable("note", pa.string(), "the record's own note"),
        ]
    ),
    ("source", "record_id", "window_index"),
    closed={"source": tuple(CorpusSource), "placement_how": tuple(PlacementHow), "strand": STRANDS},
)

CORPUS_SKIPPED = TableSchema(
    "corpus_skipped",
    "record of the slice that gives no window, and every record whose row is at fault",
    pa.schema(
        [
            column("source", pa.string(), "one of the closed set CorpusSource"),
            column("record_id", pa.string(), "as the corpus gives it; need not be unique, empty for no_id"),
            column("length_bp", pa.int64(), "bases of the record"),
            column("reason", pa.string(), "one of the closed set SkipReason"),
        ]
    ),
    ("source", "record_id", "reason"),
    closed={"source": tuple(CorpusSource), "reason": tuple(SkipReason)},
)

#: The tables that this module declares.
TABLES: tuple[TableSchema, ...] = (CORPUS_WINDOWS, CORPUS_SKIPPED)


@dataclass(frozen=True, slots=True)
class CorpusParams:
    """Parameters of corpus windows.

    Parameters
    ----------
    profile
        Window size, stride and margin in bases; ``cover_tails`` is ignored, it is for reference contigs only.
    slice_fraction
        Share of records used, above 0, up to 1, chosen by hash of their ids; a larger share includes a smaller one.
    seed
        Seed of the slice and of the phases (see :func:`tile_record`).
    short_windows
        Whether an ACGT run of 2,048 bp or more that is too short for the profile gives one shorter window; its size
        is the largest multiple of 6 bp that leaves both margins.
    max_faulty_fraction
        Largest share of the records of a source, 0 to 1, whose rows may be at fault.

    Raises
    ------
    ConfigurationError
        If ``slice_fraction`` is not above 0 and up to 1.
    """

    profile: WindowProfile = PROFILES["default"]
    slice_fraction: float = 1.0
    seed: int = 0
    short_windows: bool = False
    max_faulty_fraction: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.slice_fraction <= 1:
            got = f"{self.slice_fraction}"
            raise ConfigurationError(
                "corpus.slice_fraction", "share out of range", expected="above 0, up to 1", got=got
            )

    def as_recipe(self) -> dict[str, JsonValue]:
        """Return all parameters as JSON values."""
        return asdict(self)


@dataclass(slots=True)
class CorpusLedger:
    """Counts records, windows and bases of one source by outcome."""

    figures: Counter[str] = field(default_factory=Counter)

    def counts(self) -> dict[str, int]:
        """Return every count, zeros included, sorted by name."""
        names = ["records_in", "records_used", "windows", "short_windows", "maybe_human", "record_ids_made_unique"]
        names += [f"bases_{what}" for what in ("in", "lost_non_acgt", "in_windows", "in_no_window", "duplicate")]
        names.append("placement_exact")
        names += [f"placed.{how}" for how in PlacementHow]
        names += [f"skipped.{reason}" for reason in SkipReason] + [f"coordinates.{verdict}" for verdict in Verdict]
        return {name: self.figures[name] for name in sorted({*names, *self.figures})}


@dataclass(frozen=True, slots=True)
class CorpusBatch:
    """Rows of both tables for some consecutive records, in the order of the records."""

    windows: pa.Table
    skipped: pa.Table


def is_in_slice(record_id: str, *, fraction: float, seed: int) -> bool:
    """Return whether a record belongs to the slice, by its id and the seed; a larger slice contains a smaller one."""
    return draw_bits("slice", seed, record_id) < int(fraction * 2**64)


def tile_record(runs: Sequence[Span], record_id: str, params: CorpusParams) -> list[Span]:
    """Tile the ACGT runs of a record; runs and windows are 0-based half-open, ascending.

    Starts in a run are margin + phase + n x stride. The phase is uniform over 0 to stride - 1, or to the largest value
    that leaves room for one window. A run too short for a window gives none, or a short one (``params.short_windows``).
    """
    margin, stride = params.profile.margin_bp, params.profile.stride_bp
    bits = draw_bits("phase", params.seed, record_id)
    windows: list[Span] = []
    for run_start, run_end in runs:
        window = _window_bp(run_end - run_start, params)
        slack = run_end - run_start - 2 * margin - window
        if window and slack >= 0:
            first = run_start + margin + bits % (min(slack, stride - 1) + 1)
            windows += [(at, at + window) for at in range(first, run_end - margin - window + 1, stride)]
    return windows


def _window_bp(run_bp: int, params: CorpusParams) -> int:
    """Return the size of the windows of a run, in bases; 0 if it has no window."""
    room = run_bp - 2 * params.profile.margin_bp
    if room >= params.profile.window_bp:
        return params.profile.window_bp
    return max(0, room // TOKEN_BP * TOKEN_BP) if params.short_windows and run_bp >= SHORTEST_BP else 0


def build_corpus_windows(
    records: Iterable[CorpusRecord], params: CorpusParams, placer: CorpusPlacer, ledger: CorpusLedger
) -> Iterator[CorpusBatch]:
    """Tile and place records, and yield the rows of both tables in batches of some hundred rows.

    Parameters
    ----------
    records
        Records of one source, in the order of its files.
    params, placer
        Tiling, and placement on the reference.
    ledger
        Receives the counts; complete after the last batch is taken.

    Yields
    ------
    CorpusBatch
        Tables of the schemas :data:`CORPUS_WINDOWS` and :data:`CORPUS_SKIPPED`. Records outside the slice are
        counted, not listed.
    """
    builder = _Builder(params, placer, ledger)
    for record in records:
        builder.add(record)
        if builder.waiting >= _ROWS_PER_TABLE:
            yield builder.take()
    yield builder.take()


class RecordNamer:
    """Makes record ids unique: appends ``~`` and a digest of the sequence if an id repeats with another sequence."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def name(self, record: CorpusRecord) -> str | None:
        """Return the unique id of a record; None if an earlier record had the same id and sequence."""
        sequence_hex = hashlib.sha256(record.sequence).hexdigest()[:8]
        names = record.record_id, f"{record.record_id}~{sequence_hex}"
        plain, full = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
        if full in self._seen:
            return None
        unique = names[plain in self._seen]
        self._seen |= {plain, full}
        return unique


class _Builder:
    """Collects the rows of both tables, and the counts."""

    def __init__(self, params: CorpusParams, placer: CorpusPlacer, ledger: CorpusLedger) -> None:
        self._params, self._placer, self._figures = params, placer, ledger.figures
        self._namer = RecordNamer()
        self._windows: list[dict[str, object]] = []
        self._skipped: list[dict[str, object]] = []

    @property
    def waiting(self) -> int:
        """Number of rows collected since the last :meth:`take`."""
        return len(self._windows) + len(self._skipped)

    def take(self) -> CorpusBatch:
        """Return the collected rows as tables and clear them."""
        windows = pa.Table.from_pylist(self._windows, schema=CORPUS_WINDOWS.arrow)
        skipped = pa.Table.from_pylist(self._skipped, schema=CORPUS_SKIPPED.arrow)
        self._windows, self._skipped = [], []
        return CorpusBatch(windows, skipped)

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
        record_id = self._namer.name(record)
        if record_id is None:
            self._skip(record, SkipReason.DUPLICATE)
            return
        self._figures["record_ids_made_unique"] += record_id != record.record_id
        runs = list(acgt_runs(encode_sequence(record.sequence.translate(_FOREIGN_TO_N))))
        windows = tile_record(runs, record_id, params)
        self._count_bases(record, runs, windows)
        if windows:
            self._use(record, record_id, windows)
        else:
            self._skip(record, _skip_reason(record, params))

    def _skip(self, record: CorpusRecord, reason: SkipReason) -> None:
        self._figures[f"skipped.{reason}"] += 1
        if reason is SkipReason.DUPLICATE:
            self._figures["bases_duplicate"] += len(record.sequence)
        row = {"source": record.source, "record_id": record.record_id, "length_bp": len(record.sequence)}
        self._skipped.append({**row, "reason": reason})

    def _count_bases(self, record: CorpusRecord, runs: Sequence[Span], windows: Sequence[Span]) -> None:
        acgt = sum(end - start for start, end in runs)
        # Windows ascend by start and by end, so the size of their union needs no sorting.
        ends_before = [0, *(end for _, end in windows)]
        covered = sum(end - max(start, before) for (start, end), before in zip(windows, ends_before, strict=False))
        self._figures["bases_lost_non_acgt"] += len(record.sequence) - acgt
        self._figures["bases_in_windows"] += covered
        self._figures["bases_in_no_window"] += acgt - covered

    def _use(self, record: CorpusRecord, record_id: str, windows: Sequence[Span]) -> None:
        placements = self._placer.place(record, windows)
        self._figures["records_used"] += 1
        self._figures["windows"] += len(windows)
        self._figures["maybe_human"] += len(windows) * record.maybe_human
        for index, (window, (verdict, placement)) in enumerate(zip(windows, placements, strict=True)):
            self._figures[f"coordinates.{verdict}"] += 1
            self._figures[f"placed.{placement.how}"] += 1
            self._figures["placement_exact"] += placement.exact
            self._figures["short_windows"] += window[1] - window[0] < self._params.profile.window_bp
            margin = self._params.profile.margin_bp
            self._windows.append(_row(record, record_id, index, window, placement, margin=margin))


def _skip_reason(record: CorpusRecord, params: CorpusParams) -> SkipReason:
    if not record.sequence:
        return SkipReason.EMPTY
    too_short = _window_bp(len(record.sequence), params) == 0
    return SkipReason.TOO_SHORT if too_short else SkipReason.SPLIT_TOO_SHORT


def _row(
    record: CorpusRecord, record_id: str, index: int, window: Span, placement: Placement, *, margin: int
) -> dict[str, object]:
    start, end = window
    sequence = record.sequence[start:end]
    digest = hashlib.sha256(sequence).digest()
    return {
        "source": record.source,
        "record_id": record_id,
        "window_index": index,
        "start": start,
        "end": end,
        "window_bp": end - start,
        "sequence": sequence.decode("ascii"),
        "left_flank": record.sequence[start - margin : start].decode("ascii"),
        "right_flank": record.sequence[end : end + margin].decode("ascii"),
        "window_hash": digest,
        "window_id": digest.hex()[:32],
        "gc": (sequence.count(b"G") + sequence.count(b"C")) / len(sequence),
        "maybe_human": record.maybe_human,
        "spliced": placement.spliced,
        "placement_how": placement.how,
        "placed_contig": placement.contig,
        "placed_start": placement.start,
        "placed_end": placement.end,
        "strand": placement.strand,
        "placement_exact": placement.exact,
        "identity": placement.identity,
        "coverage": placement.coverage,
        "stated_contig": placement.stated_contig,
        "stated_start": placement.stated_start,
        "stated_end": placement.stated_end,
        "taxonomy": record.taxonomy,
        "note": record.note,
    }
