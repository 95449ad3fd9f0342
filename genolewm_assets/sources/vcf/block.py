"""Consecutive records of a VCF as columns over their text: nothing is copied or parsed before it is asked for."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import VcfError

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_REMEDY = "Fetch the file again or report it to its publisher"
# VCF 4.3, section 1.3; "1." is read too. Python's float() would take blanks and underscores as well.
_NUMBER = re.compile(
    # Only ASCII: other alphabets have an i that is an I in capitals, which float() does not know.
    r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|[-+]?(inf|infinity|nan)",
    re.IGNORECASE | re.ASCII,
)
_PERCENT = re.compile(r"%(3A|3B|3D|25|2C|0D|0A|09)", re.IGNORECASE)
_CHROM, _POS, _ID, _REF, _ALT, _QUAL, _FILTER, _INFO, _END = range(9)


class Spans(NamedTuple):
    """One piece of text per row: ``[at, to)``, int32, shape (rows,); what is absent has ``at = -1``."""

    at: Ints
    to: Ints

    def take(self, rows: npt.NDArray[np.integer]) -> Spans:
        """Return the spans of some rows."""
        return Spans(self.at[rows], self.to[rows])


class Numbers(NamedTuple):
    """One number per row: values, int64 or float64, and where there is one, both of shape (rows,)."""

    values: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    there: Bools

    def take(self, rows: npt.NDArray[np.integer]) -> Numbers:
        """Return the numbers of some rows."""
        return Numbers(self.values[rows], self.there[rows])

    def arrow(self) -> pa.Array:
        """Return an Arrow array, null where there is none."""
        return pa.array(self.values, mask=None if self.there.all() else ~self.there)


@dataclass(frozen=True, slots=True)
class SourceText:
    """Where text comes from and how it is to be read.

    Attributes
    ----------
    label
        What errors call the file.
    percent_encoded
        Whether INFO values write reserved characters as ``%3B`` and the like (VCF 4.3, section 1.2).
    """

    label: str
    percent_encoded: bool = False


class _Rows(ABC):
    """What blocks and their alleles share: values read from spans, and errors that name the line."""

    source: SourceText
    text: npt.NDArray[np.uint8]

    @abstractmethod
    def line_of(self, row: int) -> int:
        """Return the line that a row comes from."""

    @abstractmethod
    def spans(self, key: str) -> Spans:
        """Return where the values of an INFO key are."""

    def where(self, row: int) -> str:
        """File and line of a row, as errors name them."""
        return f"{self.source.label}, line {self.line_of(row)}"

    def strings(self, spans: Spans) -> pa.StringArray:
        """Return pieces of text; null where there is none, or ``.``."""
        return self._gathered(spans, dot_is_missing=True)

    def pieces(self, spans: Spans) -> pa.StringArray:
        """Return pieces of text as they are; null where there is none."""
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
        """Return the text of one row."""
        return self.text[spans.at[row] : spans.to[row]].tobytes().decode()

    def strings_of(self, key: str) -> pa.StringArray:
        """Return an INFO value as text; null where it is absent, a flag, empty or ``.``."""
        values = self.strings(self.spans(key))
        if self.source.percent_encoded:
            encoded = pc.fill_null(pc.match_substring(values, "%"), False)
            if pc.any(encoded).as_py():
                decoded = [_decode(value) for value in values.filter(encoded).to_pylist()]
                values = pc.replace_with_mask(values, encoded, pa.array(decoded, pa.string()))
        return values

    def counts_of(self, key: str) -> Numbers:
        """Return an INFO value as counts, int64."""
        return self.counts(self.spans(key), f"INFO/{key}")

    def counts(self, spans: Spans, label: str) -> Numbers:
        """Return pieces of text as counts, int64.

        Raises
        ------
        VcfError
            If one is not made of 1 to 18 digits.
        """
        from genolewm_assets.sources.vcf import kernels

        values, state = np.empty(len(spans.at), np.int64), np.empty(len(spans.at), np.uint8)
        kernels.parse_counts(self.text, *spans, values, state)
        for row in np.flatnonzero(state == kernels.OTHER).tolist():
            self._bad_number(row, label, self.piece(spans, row), "a count")
        return Numbers(values, state == kernels.VALUE)

    def shares_of(self, key: str) -> Numbers:
        """Return an INFO value as numbers from 0 to 1, float64; ``nan`` is missing."""
        return self.shares(self.spans(key), f"INFO/{key}")

    def shares(self, spans: Spans, label: str) -> Numbers:
        """Return pieces of text as numbers from 0 to 1, float64; ``nan`` is missing.

        Raises
        ------
        VcfError
            If one is not such a number as VCF writes it (VCF 4.3, section 1.3).
        """
        from genolewm_assets.sources.vcf import kernels

        values, state = np.empty(len(spans.at), np.float64), np.empty(len(spans.at), np.uint8)
        kernels.parse_shares(self.text, *spans, values, state)
        there = state == kernels.VALUE
        for row in np.flatnonzero(state == kernels.OTHER).tolist():
            value = self._share(row, label, self.piece(spans, row))
            values[row], there[row] = value, not math.isnan(value)
        return Numbers(values, there)

    def share(self, row: int, key: str, text: str) -> float | None:
        """Return one number of a packed value as a share, 0 to 1; None for ``.``, nothing and ``nan``."""
        value = math.nan if text in {".", ""} else self._share(row, f"INFO/{key}", text)
        return None if math.isnan(value) else value

    def _share(self, row: int, label: str, text: str) -> float:
        value = float(text) if _NUMBER.fullmatch(text) else -1.0
        if value < 0.0 or value > 1.0:
            self._bad_number(row, label, text, "a number from 0 to 1")
        return value

    def _bad_number(self, row: int, label: str, text: str, expected: str) -> NoReturn:
        raise VcfError(
            self.where(row), f"{label} cannot be read", expected=expected, got=repr(text[:40]), remedy=_REMEDY
        )


@dataclass(slots=True)
class VcfBlock(_Rows):
    """Consecutive records.

    Attributes
    ----------
    text
        uint8: whole lines.
    line
        int64, shape (records,): 1-based in the decompressed file.
    pos
        int64, shape (records,): 1-based.
    alts
        int32, shape (records,): ALT alleles; ``.`` counts as one.
    starts
        int32, shape (9, records): where CHROM to INFO begin, and one more than where INFO ends.
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
        """Return the line of a record."""
        return int(self.line[row])

    def take(self, records: npt.NDArray[np.integer] | slice) -> Self:
        """Return some of the records, over the same text; what was located stays so."""
        located = {key: Spans(spans.at[records], spans.to[records]) for key, spans in self._located.items()}
        return replace(
            self,
            line=self.line[records],
            pos=self.pos[records],
            alts=self.alts[records],
            starts=self.starts[:, records],
            _located=located,
        )

    def runs(self) -> Iterator[tuple[str, slice]]:
        """Yield each run of records that name the same CHROM."""
        from genolewm_assets.sources.vcf import kernels

        spans, first = self.column(_CHROM), np.empty(len(self) + 1, np.int32)
        runs = kernels.find_runs(self.text, *spans, first)
        first[runs] = len(self)
        for run in range(runs):
            yield self.piece(spans, first[run]), slice(int(first[run]), int(first[run + 1]))

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
        """Return ID as counts, int64."""
        return self.counts(self.column(_ID), "ID")

    def flag(self, key: str) -> Bools:
        """Return whether INFO has a key, with or without a value."""
        return self.spans(key).at >= 0

    def locate(self, keys: Sequence[str]) -> None:
        """Find keys in INFO in one pass; what is asked for later is there.

        Raises
        ------
        VcfError
            If a record has one of them twice.
        """
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
        """Return where the values of an INFO key are."""
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
        """Return where a column is, 0 for CHROM to 7 for INFO."""
        return Spans(self.starts[column], self.starts[column + 1] - np.int32(1))

    def _repeated(self, row: int, info: str, keys: Sequence[str]) -> NoReturn:
        # VCF 4.3, section 1.6.1: a key may not be there twice; nothing says which of its values would count.
        there = [item.partition("=")[0] for item in info.split(";")]
        key = next(key for key in keys if there.count(key) > 1)
        raise VcfError(self.where(row), f"INFO/{key} is there twice", remedy=_REMEDY)


@dataclass(frozen=True, slots=True)
class AlleleRows(_Rows):
    """ALT alleles of a block; values of an INFO key are those of each row's own allele (``Number=A``).

    Attributes
    ----------
    record
        int32, shape (rows,): the record of each, in ``block``.
    index
        int32, shape (rows,): which of its ALTs.
    """

    block: VcfBlock
    record: Ints
    index: Ints

    def __len__(self) -> int:
        return len(self.record)

    @property
    def source(self) -> SourceText:  # type: ignore[override]
        """Where the text comes from."""
        return self.block.source

    @property
    def text(self) -> npt.NDArray[np.uint8]:  # type: ignore[override]
        """Text of the block."""
        return self.block.text

    def line_of(self, row: int) -> int:
        """Return the line of an allele's record."""
        return self.block.line_of(int(self.record[row]))

    def take(self, rows: Bools | npt.NDArray[np.integer]) -> AlleleRows:
        """Return some of the alleles, over a block of their records alone."""
        records, record = np.unique(self.record[rows], return_inverse=True)
        return AlleleRows(self.block.take(records), record.astype(np.int32), self.index[rows])

    def alts(self) -> pa.StringArray:
        """Return ALT of each row as written."""
        lists = self.block.column(_ALT).take(self.record)
        own = self._own(self.block.column(_ALT), "ALT")
        whole = own.at < 0
        return self.pieces(Spans(np.where(whole, lists.at, own.at), np.where(whole, lists.to, own.to)))

    def spans(self, key: str) -> Spans:
        """Return where each row's own value of an INFO key is.

        Raises
        ------
        VcfError
            If a record does not have one value per ALT allele.
        """
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
            expected=f"{self.block.alts[self.record[row]]} values",
            got=repr(self.piece(lists, row)[:80]),
            remedy=_REMEDY,
        )


def _key_table(keys: Sequence[str]) -> tuple[npt.NDArray[np.uint8], Ints, Ints, Ints]:
    """Return what ``locate_keys`` looks keys up in."""
    encoded = [key.encode() for key in keys]
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    head, chain = np.full(256, -1, np.int32), np.full(len(keys), -1, np.int32)
    for index, name in enumerate(encoded):
        chain[index], head[name[0]] = head[name[0]], index
    return np.frombuffer(b"".join(encoded), np.uint8), starts, head, chain


def _decode(text: str) -> str:
    return _PERCENT.sub(lambda match: chr(int(match[1], 16)), text)
