"""Consecutive records of a VCF as columns of offsets into their text; a value is copied and parsed on request only."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import VcfError
from genolewm_assets.store.tables import numbers_of

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Spans(NamedTuple):
    """One piece of text per row: bytes ``[at, to)`` of it, int32, shape (rows,); ``at = -1`` if the value is absent."""

    at: Ints
    to: Ints

    def take(self, rows: npt.NDArray[np.integer]) -> Spans:
        """Return the spans of the rows with these indices."""
        return Spans(self.at[rows], self.to[rows])


class Numbers(NamedTuple):
    """One number per row: values, int64 or float64, and whether a row has a value, bool, both of shape (rows,)."""

    values: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    there: Bools

    def take(self, rows: npt.NDArray[np.integer]) -> Numbers:
        """Return the numbers of the rows with these indices."""
        return Numbers(self.values[rows], self.there[rows])

    def arrow(self) -> pa.Array:
        """Return an Arrow array, null in rows without a value."""
        return pa.array(self.values, mask=None if self.there.all() else ~self.there)


_REMEDY = "Fetch the file again or report it to its publisher"
_JOINED = (
    "It has {} ALTs: several records seem to have been joined, as `bcftools norm -m +any` does. Take the published "
    "file, or divide them with `bcftools norm -m -any`"
)
# VCF 4.3, section 1.3, and also "1."; Python's float() would accept blanks and underscores too.
_NUMBER = re.compile(
    # ASCII only: ignoring case, other alphabets have letters equal to "i", which float() does not accept.
    r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|[-+]?(inf|infinity|nan)",
    re.IGNORECASE | re.ASCII,
)
_PERCENT = re.compile(r"%(3A|3B|3D|25|2C|0D|0A|09)", re.IGNORECASE)
_CHROM, _POS, _ID, _REF, _ALT, _QUAL, _FILTER, _INFO, _END = range(9)


@dataclass(frozen=True, slots=True)
class SourceText:
    """Name of a text's file, and the encoding of its INFO values."""

    label: str
    percent_encoded: bool = False


class _Rows(ABC):
    """Base class of blocks and their alleles: reads values from spans; its errors name file and line."""

    source: SourceText
    text: npt.NDArray[np.uint8]

    @abstractmethod
    def line_of(self, row: int) -> int:
        """Return the 1-based line of the file that a row comes from."""

    @abstractmethod
    def spans(self, key: str) -> Spans:
        """Return the spans of the values of an INFO key."""

    @abstractmethod
    def alts_of(self, row: int) -> int:
        """Return the number of ALT alleles of the record that a row comes from."""

    def remedy(self, row: int, otherwise: str = _REMEDY) -> str:
        """Return what to do about a row that cannot be read: ``otherwise``, unless its record has several ALTs."""
        return otherwise if self.alts_of(row) == 1 else _JOINED.format(self.alts_of(row))

    def where(self, row: int) -> str:
        """Return file and line of a row, for errors."""
        return f"{self.source.label}, line {self.line_of(row)}"

    def strings(self, spans: Spans) -> pa.StringArray:
        """Return the text of spans; null if a span is absent, empty or ``.``."""
        return self._gathered(spans, dot_is_missing=True)

    def pieces(self, spans: Spans) -> pa.StringArray:
        """Return the text of spans as written; null if a span is absent."""
        return self._gathered(spans, dot_is_missing=False)

    def _gathered(self, spans: Spans, *, dot_is_missing: bool) -> pa.StringArray:
        from genolewm_assets.sources.vcf import kernels

        rows = len(spans.at)
        offsets, valid = np.empty(rows + 1, np.int32), np.zeros((rows + 7) // 8, np.uint8)
        nulls = kernels.measure(self.text, *spans, dot_is_missing, offsets, valid)
        out = np.empty(offsets[rows], np.uint8)
        kernels.gather(self.text, spans.at, offsets, out)
        buffers = (pa.py_buffer(offsets), pa.py_buffer(out), pa.py_buffer(valid) if nulls else None)
        return pa.StringArray.from_buffers(rows, *buffers, nulls)

    def piece(self, spans: Spans, row: int) -> str:
        """Return the text of one row's span."""
        return self.text[spans.at[row] : spans.to[row]].tobytes().decode()

    def strings_of(self, key: str) -> pa.StringArray:
        """Return the decoded values of an INFO key; null if a value is absent, empty or ``.``, or the key is a flag."""
        values = self.strings(self.spans(key))
        if self.source.percent_encoded:
            encoded = pc.fill_null(pc.match_substring(values, "%"), False)
            if pc.any(encoded).as_py():
                found = values.filter(encoded).to_pylist()
                decoded = [_PERCENT.sub(lambda match: chr(int(match[1], 16)), value) for value in found]
                values = pc.replace_with_mask(values, encoded, pa.array(decoded, pa.string()))
        return values

    def counts_of(self, key: str) -> Numbers:
        """Return the values of an INFO key as counts; as :meth:`counts`."""
        return self.counts(self.spans(key), f"INFO/{key}")

    def counts(self, spans: Spans, label: str) -> Numbers:
        """Return the text of spans as counts, int64; a span that is absent, empty or ``.`` has no value."""
        from genolewm_assets.sources.vcf import kernels

        values, state = np.empty(len(spans.at), np.int64), np.empty(len(spans.at), np.uint8)
        kernels.parse_counts(self.text, *spans, values, state)
        for row in np.flatnonzero(state == kernels.OTHER).tolist():
            self._bad_number(row, label, self.piece(spans, row), "a count")
        return Numbers(values, state == kernels.VALUE)

    def shares_of(self, key: str) -> Numbers:
        """Return the values of an INFO key as numbers from 0 to 1; as :meth:`shares`."""
        return self.shares(self.spans(key), f"INFO/{key}")

    def shares(self, spans: Spans, label: str) -> Numbers:
        """Return the text of spans as numbers from 0 to 1, float64; as in :meth:`counts`, and ``nan`` is no value."""
        from genolewm_assets.sources.vcf import kernels

        values, state = np.empty(len(spans.at), np.float64), np.empty(len(spans.at), np.uint8)
        kernels.parse_shares(self.text, *spans, values, state)
        there = state == kernels.VALUE
        for row in np.flatnonzero(state == kernels.OTHER).tolist():
            value = self._share(row, label, self.piece(spans, row))
            values[row], there[row] = value, not math.isnan(value)
        return Numbers(values, there)

    def share(self, row: int, key: str, text: str) -> float | None:
        """Return ``text``, a part of an INFO value, as a number from 0 to 1; None if it is ``.``, empty or ``nan``."""
        value = math.nan if text in {".", ""} else self._share(row, f"INFO/{key}", text)
        return None if math.isnan(value) else value

    def _share(self, row: int, label: str, text: str) -> float:
        value = float(text) if _NUMBER.fullmatch(text) else -1.0
        if value < 0.0 or value > 1.0:
            self._bad_number(row, label, text, "a number from 0 to 1")
        return value

    def _bad_number(self, row: int, label: str, text: str, expected: str) -> NoReturn:
        raise VcfError(
            self.where(row), f"{label} cannot be read", expected=expected, got=repr(text[:40]), remedy=self.remedy(row)
        )


@dataclass(slots=True)
class VcfBlock(_Rows):
    """Consecutive records of a VCF.

    Attributes
    ----------
    text
        uint8, shape (bytes,): the text of the records.
    line, pos
        int64, shape (records,): line in the decompressed file, and POS, both 1-based.
    alts
        int32, shape (records,): number of ALT alleles; ``.`` counts as one.
    starts
        int32, shape (9, records): offsets in ``text`` where CHROM to INFO begin, and the end of INFO plus 1.
    """

    source: SourceText
    text: npt.NDArray[np.uint8]
    line: Longs
    pos: Longs
    alts: Ints
    starts: Ints
    _located: Mapping[str, Spans] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.pos)

    def line_of(self, row: int) -> int:
        """Return the 1-based line of a record."""
        return int(self.line[row])

    def alts_of(self, row: int) -> int:
        """Return the number of ALT alleles of a record."""
        return int(self.alts[row])

    def take(self, records: npt.NDArray[np.integer] | slice) -> Self:
        """Return a block of some records over the same text; INFO keys that were located stay located."""
        located = {key: Spans(spans.at[records], spans.to[records]) for key, spans in self._located.items()}
        return replace(
            self,
            line=self.line[records],
            pos=self.pos[records],
            alts=self.alts[records],
            starts=self.starts[:, records],
            _located=located,
        )

    def distinct_chroms(self) -> tuple[list[str], Ints]:
        """Return the distinct CHROM, by first record, and the index of each record's own: int32, shape (records,)."""
        from genolewm_assets.sources.vcf import kernels

        spans, first = self.column(_CHROM), np.empty(len(self), np.int32)
        first = first[: kernels.find_runs(self.text, *spans, first)]
        runs = self.pieces(spans.take(first)).dictionary_encode()
        return runs.dictionary.to_pylist(), np.repeat(numbers_of(runs.indices), np.diff(first, append=len(self)))

    def chroms(self) -> pa.StringArray:
        """Return CHROM as written."""
        return self.pieces(self.column(_CHROM))

    def ids(self) -> pa.StringArray:
        """Return ID; null for ``.``."""
        return self.strings(self.column(_ID))

    def refs(self) -> pa.StringArray:
        """Return REF as written."""
        return self.pieces(self.column(_REF))

    def filters(self) -> pa.DictionaryArray:
        """Return FILTER as written; null for ``.``."""
        return self.strings(self.column(_FILTER)).dictionary_encode()

    def numeric_ids(self) -> Numbers:
        """Return ID as counts; as :meth:`counts`."""
        return self.counts(self.column(_ID), "ID")

    def flag(self, key: str) -> Bools:
        """Return whether INFO has a key, with or without a value: bool, shape (records,)."""
        return self.spans(key).at >= 0

    def locate(self, keys: Sequence[str]) -> None:
        """Find INFO keys in one pass; raises :class:`VcfError` if a record has one of them twice."""
        from genolewm_assets.sources.vcf import kernels

        wanted = [key for key in dict.fromkeys(keys) if key not in self._located]
        if not wanted:
            return
        names, name_starts, head, chain = _key_table(wanted)
        at, to = (np.full((len(wanted), len(self)), -1, np.int32) for _ in range(2))
        info = self.column(_INFO)
        row = kernels.locate_keys(self.text, *info, names, name_starts, head, chain, at, to)
        if row >= 0:
            self._repeated(row, self.piece(info, row), wanted)
        self._located = {**self._located, **{key: Spans(at[i], to[i]) for i, key in enumerate(wanted)}}

    def spans(self, key: str) -> Spans:
        """Return the spans of the values of an INFO key; raises as :meth:`locate`."""
        if key not in self._located:
            self.locate([key])
        return self._located[key]

    def alleles(self) -> AlleleRows:
        """Return one row per ALT allele, in the order of the file."""
        record = np.repeat(np.arange(len(self), dtype=np.int32), self.alts)
        before = np.cumsum(self.alts, dtype=np.int64) - self.alts
        index = (np.arange(len(record)) - before[record]).astype(np.int32)
        return AlleleRows(self, record, index)

    def column(self, column: int) -> Spans:
        """Return the spans of a column, 0 (CHROM) to 7 (INFO)."""
        return Spans(self.starts[column], self.starts[column + 1] - np.int32(1))

    def _repeated(self, row: int, info: str, keys: Sequence[str]) -> NoReturn:
        # VCF 4.3, section 1.6.1: a key may not be repeated; nothing defines which of its values would count.
        there = [item.partition("=")[0] for item in info.split(";")]
        key = next(key for key in keys if there.count(key) > 1)
        raise VcfError(self.where(row), f"INFO/{key} occurs twice", remedy=_REMEDY)


@dataclass(frozen=True, slots=True)
class AlleleRows(_Rows):
    """ALT alleles of a block, one per row; INFO values are those of the row's own allele (``Number=A``).

    Attributes
    ----------
    record, index
        int32, shape (rows,): index of the allele's record in ``block``, and of the allele among its ALTs, 0-based.
    """

    block: VcfBlock
    record: Ints
    index: Ints

    def __len__(self) -> int:
        return len(self.record)

    @property
    def source(self) -> SourceText:  # type: ignore[override]
        """Source of the block's text."""
        return self.block.source

    @property
    def text(self) -> npt.NDArray[np.uint8]:  # type: ignore[override]
        """Text of the block."""
        return self.block.text

    def line_of(self, row: int) -> int:
        """Return the 1-based line of an allele's record."""
        return self.block.line_of(int(self.record[row]))

    def alts_of(self, row: int) -> int:
        """Return the number of ALT alleles of an allele's record."""
        return self.block.alts_of(int(self.record[row]))

    def take(self, rows: Bools | npt.NDArray[np.integer]) -> AlleleRows:
        """Return the alleles of these rows, over a block that has only their records."""
        records, record = np.unique(self.record[rows], return_inverse=True)
        return AlleleRows(self.block.take(records), record.astype(np.int32), self.index[rows])

    def alts(self) -> pa.StringArray:
        """Return the ALT allele of each row as written."""
        lists = self.block.column(_ALT).take(self.record)
        own = self._own(self.block.column(_ALT), "ALT")
        whole = own.at < 0
        return self.pieces(Spans(np.where(whole, lists.at, own.at), np.where(whole, lists.to, own.to)))

    def spans(self, key: str) -> Spans:
        """Return the span of each allele's own value; raises :class:`VcfError` unless there is one per ALT allele."""
        lists, label = self.block.spans(key), f"INFO/{key}"
        own = self._own(lists, label)
        empty = (own.at == own.to) & (own.at >= 0)
        if empty.any():
            self._uneven(int(np.argmax(empty)), lists.take(self.record), label)
        return own

    def _own(self, lists: Spans, label: str) -> Spans:
        from genolewm_assets.sources.vcf import kernels

        lists, own = lists.take(self.record), Spans(*(np.empty(len(self), np.int32) for _ in range(2)))
        row = kernels.find_elements(self.text, *lists, self.block.alts[self.record], self.index, *own)
        if row >= 0:
            self._uneven(row, lists, label)
        return own

    def _uneven(self, row: int, lists: Spans, label: str) -> NoReturn:
        raise VcfError(
            self.where(row),
            f"{label} does not have one value per ALT allele",
            expected=f"{self.alts_of(row)} values",
            got=repr(self.piece(lists, row)[:80]),
            remedy=self.remedy(row),
        )


def _key_table(keys: Sequence[str]) -> tuple[npt.NDArray[np.uint8], Ints, Ints, Ints]:
    """Return the key table of ``kernels.locate_keys``: names, name_starts, head, chain."""
    encoded = [key.encode() for key in keys]
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    head, chain = np.full(256, -1, np.int32), np.full(len(keys), -1, np.int32)
    for index, name in enumerate(encoded):
        chain[index], head[name[0]] = head[name[0]], index
    return np.frombuffer(b"".join(encoded), np.uint8), starts, head, chain
