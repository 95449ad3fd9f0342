"""Parse rows of the pretraining corpus, which has two file layouts.

Gene layout: ``record_id``, ``sequence``, and optionally ``taxonomy``, ``chrom``, ``start``, ``end`` (0-based half-open)
and ``strand``. Text layout: ``record``, ``text``, and optionally ``metadata`` with ``source``, ``note`` and
``taxonomy``; a note may begin with 1-based coordinates: ``chr17:42458880-42522582(+) exons=21 junctions=84,248,...``; a
source may begin with a domain: ``bacteria_NC_008253.1_Ecoli_536``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from genolewm_assets.errors import InputError
from genolewm_assets.genome import start_from_pos
from genolewm_assets.lewm.corpus import CorpusRecord, CorpusSource

Row = Mapping[str, object]

_COORDINATES = re.compile(r"([^\s:]+):(\d+)-(\d+)\(([+-])\)(?:\s+exons=(\d+))?(?:\s+junctions=(\S+))?")
_CONTIG_WORD = re.compile(r"(?<![A-Za-z0-9])chr(?:[0-9]{1,2}|X|Y|M|MT)(?![A-Za-z0-9])")
_ACCESSION = re.compile(r"[A-Z]{2}_\d+\.\d+")
#: First word of a source that states the taxon of its records.
_DOMAIN = re.compile(r"(bacteria|archaea|viruses)(?=_)", re.IGNORECASE)
#: Text of the field ``junctions`` for "no junction".
_NO_JUNCTION = "."


@dataclass(frozen=True, slots=True)
class CorpusLayout:
    """A file layout.

    Attributes
    ----------
    parse
        Turns a row, its source and its place (file and row, for errors) into a record.
    columns
        Columns of the file that ``parse`` reads.
    """

    parse: Callable[[Row, CorpusSource, str], CorpusRecord]
    columns: list[str]


def find_layout(schema: pa.Schema, *, where: str) -> CorpusLayout:
    """Return the layout of a file, given its schema.

    Raises
    ------
    InputError
        If the schema fits neither layout; the message names the columns expected and found.
    """
    layouts = (
        (_parse_gene, ("record_id", "sequence"), ("taxonomy", "chrom", "start", "end", "strand")),
        (_parse_text, ("record", "text"), ("metadata",)),
    )
    for parse, needed, optional in layouts:
        if set(needed) <= set(schema.names) and all(_is_text(schema.field(name).type) for name in needed):
            return CorpusLayout(parse, [*needed, *(name for name in optional if name in schema.names)])
    raise InputError(
        where,
        "not a layout of the pretraining corpus",
        expected="text columns 'record_id' and 'sequence', or 'record' and 'text'",
        got=", ".join(f"{field.name}: {field.type}" for field in schema) or "no column",
        remedy="Point the catalogue's corpus section at the corpus's Parquet files",
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _parse_gene(row: Row, source: CorpusSource, where: str) -> CorpusRecord:
    record_id = _record_id(row["record_id"], where)
    contig = _text(row.get("chrom"))
    start, end = row.get("start"), row.get("end")
    span = _span(start, end, where) if contig and isinstance(start, int) and isinstance(end, int) else None
    if contig is None:
        # Genes without coordinates carry the accession of their contig: "ActB|NC_000007.14".
        tail = record_id.rpartition("|")[2]
        contig = tail if _ACCESSION.fullmatch(tail) else None
    strand = row.get("strand")
    return CorpusRecord(
        source,
        record_id,
        _bases(row["sequence"]),
        taxonomy=_text(row.get("taxonomy")),
        contig=contig,
        span=span,
        strand=strand if strand in ("+", "-") else None,
        junctions=None if source.is_transcribed else (),
    )


def _parse_text(row: Row, source: CorpusSource, where: str) -> CorpusRecord:
    metadata = row.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {"note": metadata}
    origin, note = _text(fields.get("source")), _text(fields.get("note"))
    domain = _DOMAIN.match(origin or "")
    taxonomy = _text(fields.get("taxonomy")) or (domain[1] if domain else None)
    record_id = _record_id(row["record"], where)
    record = CorpusRecord(source, record_id, _bases(row["text"]), taxonomy=taxonomy, note=note)
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
        span=_span(start, int(last), where),
        strand=strand,
        junctions=_junctions(exons, junctions, where),
    )


def _junctions(exons: str | None, text: str | None, where: str) -> tuple[int, ...] | None:
    """Return the offsets of the exon junctions; None if they are not stated and the note does not state one exon."""
    if text is None:
        return () if exons == "1" else None
    try:
        offsets = () if text == _NO_JUNCTION else tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(where, "junctions are not numbers", expected="'84,248' or '.'", got=repr(text)) from error
    if list(offsets) != sorted(set(offsets)) or (exons is not None and len(offsets) + 1 != int(exons)):
        expected = f"{int(exons) - 1} ascending offsets" if exons else "ascending offsets"
        raise InputError(where, "junctions do not fit the exons", expected=expected, got=repr(text))
    return offsets


def _record_id(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(where, "record has no id", expected="text", got=repr(value))
    return value


def _span(start: int, end: int, where: str) -> tuple[int, int]:
    if not 0 <= start < end:
        got = f"[{start}, {end}) (0-based)"
        raise InputError(where, "invalid coordinates", expected="0 <= start < end", got=got)
    return start, end


def _bases(sequence: object) -> bytes:
    """Return upper-case ASCII with U replaced by T; empty for a null; '?', which is not a base, for non-ASCII."""
    text = sequence if isinstance(sequence, str) else ""
    return text.encode("ascii", "replace").upper().replace(b"U", b"T")


def _text(value: object) -> str | None:
    """Return a non-empty text, else None."""
    return value if isinstance(value, str) and value else None
