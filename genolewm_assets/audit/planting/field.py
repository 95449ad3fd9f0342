"""What leaks are made from: rows of a package that are chosen by lot, and random stretches of its reference."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.audit.alleles.normal_alleles import canonical_names
from genolewm_assets.audit.reading.intervals import HeldSpans, Span
from genolewm_assets.audit.reading.package_files import TEST, TRAIN, OwnFiles, Row, rows_of, table_of
from genolewm_assets.audit.reading.reference import Codes, Reference, decode, unmasked
from genolewm_assets.audit.reading.window_bases import Bools, Integers
from genolewm_assets.errors import MissingResourceError

Choose = Callable[[pa.RecordBatch], Bools]

TOKEN_BP = 6
#: Windows, and rows of another table, that leaks are made from at most.
MOST_WINDOWS, MOST_ROWS = 512, 5_000
_BLOCK_ROWS = 32
_PLACE_COLUMNS = ("contig", "start", "end", "placement_exact")
#: Bases at the ends of a window in which no trainer puts an edit.
MARGIN_BP = 100


def window_schema(files: OwnFiles) -> pa.Schema:
    """Return the columns of the package's own tables of windows, which are those of every split."""
    return pq.read_schema(next(files.directory.glob("data/*.parquet")))


def draw_lot(
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[str],
    most: int,
    rng: np.random.Generator,
    is_ours: Choose | None = None,
) -> pa.Table:
    """Return ``most`` rows of batches, or of those that ``is_ours`` tells, chosen by lot, in the order given."""
    parts, numbers = list[pa.RecordBatch](), np.empty(0)
    for batch in batches:
        drawn = rng.random(batch.num_rows)
        if is_ours is not None:
            drawn[~is_ours(batch)] = 1
        # A row stays while fewer than ``most`` have a lower number.
        rows = np.flatnonzero(drawn < (numbers.max() if len(numbers) >= most else 1))
        kept = pa.Table.from_batches([*parts, batch.take(pa.array(rows))])
        numbers = np.append(numbers, drawn[rows])
        best = np.sort(np.argsort(numbers, kind="stable")[:most])
        parts, numbers = kept.take(pa.array(best)).to_batches(), numbers[best]
    return table_of(parts, columns)


def _in_blocks(rows: Integers, rng: np.random.Generator) -> Integers:
    """Return :data:`MOST_WINDOWS` of some rows, in blocks chosen by lot, so that few parts of a file are read."""
    n_blocks = max(1, MOST_WINDOWS // _BLOCK_ROWS)
    if len(rows) <= MOST_WINDOWS:
        return rows
    blocks = np.sort(rng.choice(len(rows) // _BLOCK_ROWS, n_blocks, replace=False))
    chosen: Integers = rows[(blocks[:, None] * _BLOCK_ROWS + np.arange(_BLOCK_ROWS)).ravel()]
    return chosen


class Field:
    """What plants are made from: rows of a package that are chosen by lot, its reference and a random generator.

    ``variants``: the alleles of training among which leaks are planted. ``loose``: held-out ones outside of intervals.
    """

    def __init__(self, files: OwnFiles, reference: Reference, rng: np.random.Generator) -> None:
        self.reference, self.rng, self._files = reference, rng, files
        #: Name of the plant that is made.
        self.plant = ""
        self.columns = window_schema(files).names
        self.held = HeldSpans.of_package(files)
        own = pq.read_schema(files.directory / f"variants/{TRAIN}.parquet")
        variants = draw_lot(files.variants(TRAIN, own.names), own.names, MOST_ROWS, rng)
        # Without an allele of training the types of the columns are not known from its rows.
        self.variants = variants if variants.num_rows else own.empty_table()
        columns = pq.read_schema(files.holdouts / "alleles.parquet").names
        self.alleles, self.loose = (
            draw_lot(files.holdout("alleles", columns), columns, MOST_ROWS, rng, is_ours).to_pylist()
            for is_ours in (None, self._is_loose)
        )
        record = ("source", "record_id", "window_index")
        self.records = draw_lot(files.holdout("corpus", record), record, MOST_ROWS, rng).to_pylist()
        compared, columns = pa.array(sorted(files.compared_holdouts()), pa.string()), ["sequence", "holdout"]
        tests = draw_lot(
            files.windows(TEST, columns), columns, MOST_WINDOWS, rng,
            lambda batch: pc.is_in(batch["holdout"], value_set=compared).to_numpy(zero_copy_only=False),
        )  # fmt: skip
        self.tests = tests["sequence"].to_pylist()
        self.margin_bp, self.knowledge = int(files.record["margin_bp"]), files.knowledge
        self._places = HeldSpans(Span(row["chrom"], row["pos"] - 1, row["pos"]) for row in self.loose)
        is_near = [self._is_near(batch) for batch in files.windows(TRAIN, _PLACE_COLUMNS)]
        near = np.flatnonzero(np.concatenate([np.empty(0, np.bool_), *is_near]))
        self._rows, self._near = _in_blocks(np.arange(sum(map(len, is_near))), rng), _in_blocks(near, rng)

    def _is_loose(self, alleles: pa.RecordBatch) -> Bools:
        start = alleles["pos"].to_numpy() - 1
        loose: Bools = self.held.shared_bp(canonical_names(alleles["chrom"]), start, start + 1) == 0
        return loose

    def _is_near(self, windows: pa.RecordBatch) -> Bools:
        start, end = (windows[name].fill_null(0).to_numpy() for name in ("start", "end"))
        shared = self._places.shared_bp(canonical_names(windows["contig"]), start + MARGIN_BP, end - MARGIN_BP)
        near: Bools = (shared > 0) & windows["placement_exact"].fill_null(False).to_numpy(zero_copy_only=False)
        return near

    @cached_property
    def windows(self) -> list[Row]:
        """Windows of training."""
        rows = [self._chosen[number] for number in self._rows.tolist()]
        if not rows:
            raise MissingResourceError(
                f"{self._files.directory}/data", "holds no windows of train", remedy="Plant in a package that trains"
            )
        return rows

    @cached_property
    def near(self) -> list[Row]:
        """Windows of training that have the place of a loose allele."""
        return [self._chosen[number] for number in self._near.tolist()]

    @cached_property
    def _chosen(self) -> dict[int, Row]:
        """Both kinds of windows by their number, read at once."""
        numbers = np.union1d(self._rows, self._near)
        return dict(zip(numbers.tolist(), rows_of(self._files.train_rows(self.columns, numbers)), strict=True))

    @cached_property
    def placed(self) -> list[Row]:
        """Windows of the reference, on its strand."""
        return [row for row in self.windows if row["origin"] == "reference" and row["strand"] == "+"]

    @cached_property
    def _held_spans(self) -> tuple[list[Span], Integers]:
        """Held-out spans of contigs of the reference, and their sizes."""
        spans = [span for span in self.held if span.contig in self.reference]
        return spans, np.array([span.end - span.start for span in spans], np.int64)

    @cached_property
    def window_bp(self) -> int:
        """Size of planted windows."""
        size = max(row["window_bp"] for row in self.windows)
        size = min([size, max((span.end - span.start for span in self.held), default=size)])
        return int(size // TOKEN_BP * TOKEN_BP)

    def random(self, size: int) -> str:
        """Return random bases."""
        return decode(self.rng.integers(0, 4, size, dtype=np.uint8))

    def held_place(self, size: int) -> tuple[Span, Codes]:
        """Return a random held-out stretch without an unknown base, and its bases."""
        spans, sizes = self._held_spans
        able = np.flatnonzero(sizes >= size).tolist()
        for _ in range(1_000):
            span = spans[self.pick(able)]
            start = int(self.rng.integers(span.start, span.end - size + 1))
            codes = unmasked(self.reference.fetch(span.contig, start, start + size))
            if codes.max() < 4:
                return Span(span.contig, start, start + size), codes
        raise LookupError(f"no held-out stretch of {size} known bases")

    def pick(self, rows: list[Any]) -> Any:
        """Return a random row; raise LookupError if there is none."""
        if not rows:
            raise LookupError("the package has no row to make it from")
        return rows[int(self.rng.integers(len(rows)))]

    def mutate(self, codes: Codes, identity: float) -> Codes:
        """Return a copy in which a share of the bases is another one."""
        change = self.rng.random(codes.size) >= identity
        return np.where(change, (codes + self.rng.integers(1, 4, codes.size)) % 4, codes).astype(np.uint8)

    def window(self, sequence: str, **columns: object) -> Row:
        """Return a training window of a corpus record of its own; ``columns`` say otherwise."""
        digest = hashlib.sha256(sequence.encode())
        template = dict.fromkeys(self.windows[0])
        record = f"planted.{self.plant}.{int(self.rng.integers(1 << 62))}"
        return (
            template
            | {"origin": "prokaryote_evo2", "record_id": record, "window_index": 0, "frame": 0}
            | {"window_id": digest.hexdigest()[:32], "window_hash": digest.digest(), "placement_exact": False}
            | {"window_bp": len(sequence), "gc": 0.5, "sequence": sequence, "role": TRAIN, "frozen": True}
            | {"left_flank": self.random(self.margin_bp), "right_flank": self.random(self.margin_bp)}
            | columns
        )

    def reference_window(self, contig: str, start: int, *, sequence: str | None = None) -> Row:
        """Return a window of the reference, its unknown bases random; ``sequence`` stands in place of its bases."""
        end, margin = start + self.window_bp, self.margin_bp
        return self.window(
            self._known(contig, start, end) if sequence is None else sequence,
            **{"origin": "reference", "record_id": None, "window_index": None, "contig": contig, "strand": "+"},
            **{"start": start, "end": end, "placement_exact": True, "frame": start % TOKEN_BP},
            left_flank=self._known(contig, start - margin, start),
            right_flank=self._known(contig, end, end + margin),
        )

    def _known(self, contig: str, start: int, end: int) -> str:
        codes = unmasked(self.reference.fetch(contig, start, end))
        return decode(np.where(codes < 4, codes, self.rng.integers(0, 4, codes.size, dtype=np.uint8)))
