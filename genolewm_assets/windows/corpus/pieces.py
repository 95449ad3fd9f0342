"""Pieces of a corpus source: records by the hash of their ids, so that records of one id are in one piece.

A source of few records is one piece, named as the source. A larger one is divided into a power of two of pieces
(``mrna_evo2-00017``), so that a source that grows rarely changes their number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from genolewm_assets.genome import draw_bits
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource, RecordFault, SkipReason
from genolewm_assets.windows.corpus.windows import CORPUS_RECORDS

#: Digits of the number of a piece.
_DIGITS = 5


def count_pieces(records: int, per_piece: int) -> int:
    """Return the number of pieces of a source: a power of two, of about ``per_piece`` records or fewer each."""
    return 1 << (-(-records // per_piece) - 1).bit_length() if records > per_piece else 1


def piece_keys(source: str, pieces: int) -> tuple[str, ...]:
    """Return the keys of the pieces of a source, by number."""
    return (source,) if pieces == 1 else tuple(f"{source}-{number:0{_DIGITS}d}" for number in range(pieces))


def parse_piece(key: str) -> tuple[CorpusSource, int]:
    """Return source and number of a piece; ValueError for a text that is no key."""
    source, dash, digits = key.partition("-")
    if dash and not (len(digits) == _DIGITS and digits.isdecimal() and digits.isascii()):
        raise ValueError(f"{key!r} is no piece: expected a source, or a source, '-' and {_DIGITS} digits")
    return CorpusSource(source), int(digits or 0)


def piece_of(record_id: str, pieces: int) -> int:
    """Return the number of the piece of a record, below ``pieces``, a power of two."""
    return draw_bits("piece", 0, record_id) % pieces


def records_batch(records: Sequence[CorpusRecord]) -> pa.RecordBatch:
    """Return records as rows of ``CORPUS_RECORDS``."""
    rows = [(record.record_id, record.sequence, *_stated(record)) for record in records]
    columns = zip(*rows, strict=True) if rows else ([] for _ in CORPUS_RECORDS.columns)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, CORPUS_RECORDS.arrow, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=CORPUS_RECORDS.arrow)


def records_of(batch: pa.RecordBatch, source: CorpusSource) -> Iterator[CorpusRecord]:
    """Yield the records of rows of ``CORPUS_RECORDS``."""
    for row in batch.to_pylist():
        span = None if row["start"] is None else (row["start"], row["end"])
        yield CorpusRecord(
            source,
            row["record_id"],
            row["sequence"],
            span=span,
            junctions=None if row["junctions"] is None else tuple(row["junctions"]),
            **{name: row[name] for name in ("taxonomy", "contig", "strand", "note")},
            fault=None if row["fault"] is None else RecordFault(SkipReason(row["fault"]), row["got"]),
        )


class RecordsDigest:
    """SHA-256 of records in order, which depends neither on batches nor on the file that holds them."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, records: Iterable[CorpusRecord]) -> None:
        """Add records."""
        for record in records:
            said = json.dumps([record.record_id, len(record.sequence), *_stated(record)]).encode()
            self._hash.update(b"%d\0%b%b" % (len(said), said, record.sequence))

    def hexdigest(self) -> str:
        """Return the digest as 64 hex digits."""
        return self._hash.hexdigest()


def _stated(record: CorpusRecord) -> tuple[Any, ...]:
    """Return the values of all columns but id and sequence."""
    start, end = record.span or (None, None)
    junctions = None if record.junctions is None else list(record.junctions)
    reason, got = record.fault or (None, None)
    return record.taxonomy, record.contig, start, end, record.strand, junctions, record.note, reason, got
