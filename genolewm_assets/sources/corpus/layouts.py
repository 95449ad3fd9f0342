"""Parse rows of the pretraining corpus, which has two file layouts.

Gene: ``record_id``, ``sequence``, optional ``taxonomy``, ``chrom``, ``start``, ``end`` (0-based), ``strand``. Text:
``record``, ``text``, optional ``metadata``, whose ``note`` may begin with 1-based coordinates
(``chr17:42458880-42522582(+)``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from genolewm_assets.errors import InputError
from genolewm_assets.genome import start_from_pos
from genolewm_assets.sources.corpus.packed import read_bases
from genolewm_assets.store.tables import Unreadable, Value, Wanted, column_faults, find_misspelt, read_column
from genolewm_assets.windows.corpus import CorpusRecord, CorpusSource, RecordFault, SkipReason

Row = Mapping[str, Value]

_COORDINATES = re.compile(r"([^\s:]+):(\d+)-(\d+)\(([+-])\)(?:\s+exons=(\d+))?(?:\s+junctions=(\S+))?")
_CONTIG_WORD = re.compile(r"(?<![A-Za-z0-9])chr(?:[0-9]{1,2}|X|Y|M|MT)(?![A-Za-z0-9])")
_ACCESSION = re.compile(r"[A-Z]{2}_\d+\.\d+")
#: First word of a source that states the taxon of its records.
_DOMAIN = re.compile(r"(bacteria|archaea|viruses)(?=_)", re.IGNORECASE)
#: Text of the field ``junctions`` for "no junction".
_NO_JUNCTION = "."
#: Strands as files state them; None: not stated.
_STRANDS: Mapping[Value, str | None] = {
    **dict.fromkeys((None, "", ".", "0")),
    **dict.fromkeys(("+", "1"), "+"),
    **dict.fromkeys(("-", "-1"), "-"),
}
#: No coordinate reaches it.
_TOO_FAR = 1 << 62

_PLACE = ("chrom", "start", "end")
_GENE = {
    **{"record_id": Wanted.LABEL, "sequence": Wanted.TEXT, "taxonomy": Wanted.LABEL, "chrom": Wanted.LABEL},
    **{"start": Wanted.WHOLE, "end": Wanted.WHOLE, "strand": Wanted.LABEL},
}
_TEXT = {"record": Wanted.LABEL, "text": Wanted.TEXT, "metadata": Wanted.TEXT}
#: Fields of ``metadata``, if it is a struct; a text is its ``note``.
_METADATA = {"source": Wanted.TEXT, "note": Wanted.TEXT, "taxonomy": Wanted.LABEL}


class _RowError(Exception):
    """A row is at fault."""

    def __init__(self, reason: SkipReason, got: str) -> None:
        super().__init__(reason, got)
        self.fault = RecordFault(reason, got)


@dataclass(frozen=True, slots=True)
class CorpusLayout:
    """A file layout."""

    wanted: Mapping[str, Wanted]
    parse: Callable[[Row, bytes, CorpusSource], CorpusRecord]

    def columns(self, schema: pa.Schema) -> list[str]:
        """Return the columns of a file that are read."""
        return [name for name in self.wanted if name in schema.names]

    def faults(self, schema: pa.Schema, *, where: str) -> Iterator[InputError]:
        """Yield an error for each column of a file that is misspelt, of another type, or missing beside others."""
        names = schema.names
        details = schema.types[names.index("metadata")] if "metadata" in names else None
        if details is not None and pa.types.is_struct(details):
            yield from column_faults(pa.schema(list(details)), _METADATA, where=f"{where} (metadata)")
            schema = schema.set(names.index("metadata"), pa.field("metadata", pa.string()))
        yield from column_faults(schema, self.wanted, where=where)
        missing = [name for name in _PLACE if name not in names] if self.wanted is _GENE else []
        if missing and {"start", "end"} & {*names}:
            stated = ", ".join(f"{name!r}" for name in _PLACE if name in names)
            expected = "'chrom', 'start' and 'end', or none but 'chrom'"
            remedy = "Add or rename the column, or leave out the coordinates"
            yield InputError(where, f"lacks column {missing[0]!r}", expected=expected, got=stated, remedy=remedy)

    def records(self, batch: pa.RecordBatch, source: CorpusSource) -> Iterator[CorpusRecord]:
        """Yield the record of each row of a batch; one at fault has its id, sequence and fault only."""
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        wanted, details = {**_METADATA, **self.wanted}, arrays.pop("metadata", None)
        if details is not None and pa.types.is_struct(details.type):
            fields = (field.name for field in details.type)
            arrays |= {name: each for name, each in zip(fields, details.flatten(), strict=True) if name in _METADATA}
        elif details is not None:
            arrays["note"] = details
        sequence = list(self.wanted)[1]
        bases = read_bases(arrays.pop(sequence))
        columns = [read_column(array, wanted[name]) for name, array in arrays.items()]
        for own, *values in zip(bases, *columns, strict=True):
            row = dict(zip(arrays, values, strict=True))
            try:
                yield self._record(row, own, source)
            except _RowError as error:
                record_id = row[next(iter(self.wanted))]
                yield CorpusRecord(source, record_id if isinstance(record_id, str) else "", own, fault=error.fault)

    def _record(self, row: Row, bases: bytes, source: CorpusSource) -> CorpusRecord:
        for name, value in row.items():
            if isinstance(value, Unreadable):
                raise _RowError(SkipReason.NOT_A_WHOLE_NUMBER, f"{name} {value.text!r}")
        record = self.parse(row, bases, source)
        if not record.record_id:
            raise _RowError(SkipReason.NO_ID, "none")
        if record.span and record.sequence:
            size, room = len(record.sequence), record.span[1] - record.span[0]
            if size > room or (size < room and not record.spliced):
                raise _RowError(SkipReason.LENGTH_DIFFERS, f"{size:,} bases for {room:,}")
        return record


def find_layout(schema: pa.Schema, *, where: str) -> CorpusLayout:
    """Return the layout of a file, given its schema."""
    for layout in _LAYOUTS:
        if {*list(layout.wanted)[:2]} <= {*schema.names}:
            return layout
    misspelt = find_misspelt(schema.names, {**_GENE, **_TEXT})
    remedy = "Point the catalogue's corpus section at the corpus's Parquet files"
    if misspelt:
        remedy = ", ".join(f"Rename {name!r} to {near!r}" for name, near in misspelt.items())
    raise InputError(
        where,
        "not a layout of the pretraining corpus",
        expected="text columns 'record_id' and 'sequence', or 'record' and 'text'",
        got=", ".join(f"{field.name}: {field.type}" for field in schema) or "no column",
        remedy=remedy,
    )


def _parse_gene(row: Row, bases: bytes, source: CorpusSource) -> CorpusRecord:
    record_id = _text(row["record_id"]) or ""
    contig = _text(row.get("chrom"))
    if contig is None:
        # Genes without coordinates carry the accession of their contig: "ActB|NC_000007.14".
        tail = record_id.rpartition("|")[2]
        contig = tail if _ACCESSION.fullmatch(tail) else None
    return CorpusRecord(
        source,
        record_id,
        bases,
        taxonomy=_text(row.get("taxonomy")),
        contig=contig,
        span=_span(contig, row.get("start"), row.get("end")),
        strand=_strand(row.get("strand")),
        junctions=None if source.is_transcribed else (),
    )


def _parse_text(row: Row, bases: bytes, source: CorpusSource) -> CorpusRecord:
    origin, note = _text(row.get("source")), _text(row.get("note"))
    domain = _DOMAIN.match(origin or "")
    taxonomy = _text(row.get("taxonomy")) or (domain[1] if domain else None)
    record = CorpusRecord(source, _text(row["record"]) or "", bases, taxonomy=taxonomy, note=note)
    stated = _COORDINATES.match(note or "")
    if stated is None:
        words = (_CONTIG_WORD.search(text) for text in (note, origin) if text)
        return replace(record, contig=next((word[0] for word in words if word), None))
    contig, first, last, strand, exons, junctions = stated.groups()
    # Position 0 is before the contig; start -1 makes _span reject it.
    start = start_from_pos(int(first)) if int(first) else -1
    return replace(
        record,
        contig=contig,
        span=_span(contig, start, int(last)),
        strand=strand,
        junctions=_junctions(exons, junctions),
    )


_LAYOUTS = (CorpusLayout(_GENE, _parse_gene), CorpusLayout(_TEXT, _parse_text))


def _junctions(exons: str | None, text: str | None) -> tuple[int, ...] | None:
    """Return the offsets of the exon junctions; None if they are not stated and the note does not state one exon."""
    if text is None:
        return () if exons == "1" else None
    try:
        offsets = () if text == _NO_JUNCTION else tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise _RowError(SkipReason.INVALID_JUNCTIONS, repr(text)) from error
    if list(offsets) != sorted(set(offsets)) or (exons is not None and len(offsets) + 1 != int(exons)):
        raise _RowError(SkipReason.INVALID_JUNCTIONS, f"{text!r} for {exons or 'unstated'} exons")
    return offsets


def _span(contig: str | None, start: Value, end: Value) -> tuple[int, int] | None:
    """Return stated coordinates, 0-based half-open; None if neither is stated."""
    if start is None and end is None:
        return None
    if contig is None or not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end < _TOO_FAR:
        raise _RowError(SkipReason.INVALID_COORDINATES, f"[{start}, {end}) on {contig}")
    return start, end


def _strand(stated: Value) -> str | None:
    word = stated.strip() if isinstance(stated, str) else stated
    if word not in _STRANDS:
        raise _RowError(SkipReason.UNKNOWN_STRAND, repr(stated))
    return _STRANDS[word]


def _text(value: Value) -> str | None:
    """Return a non-empty text, else None."""
    return value if isinstance(value, str) and value else None
