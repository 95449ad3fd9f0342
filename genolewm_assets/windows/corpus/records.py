"""Records of the pretraining corpus, independent of file layout, and the reasons why a record gives no window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from genolewm_assets.windows.corpus.taxa import states_non_human


class CorpusSource(StrEnum):
    """The four configurations of the pretraining corpus."""

    EUKARYOTE_GENERATOR = "eukaryote_generator"
    MRNA_EVO2 = "mrna_evo2"
    MRNA_SPLICE_EVO2 = "mrna_splice_evo2"
    PROKARYOTE_EVO2 = "prokaryote_evo2"

    @property
    def is_transcribed(self) -> bool:
        """Whether the sequences of this source are transcripts, with introns cut out."""
        return self in (CorpusSource.MRNA_EVO2, CorpusSource.MRNA_SPLICE_EVO2)


class SkipReason(StrEnum):
    """Why a record gives no window.

    ``SLICED_OUT``: not in the slice of the corpus used. ``DUPLICATE``: same id and sequence as an earlier record.
    ``SPLIT_TOO_SHORT``: long enough as a whole, but all its ACGT runs are too short. The last six are faults of a row,
    which :data:`FAULTS` explains; such a record is counted whether it is in the slice or not.
    """

    SLICED_OUT = "sliced_out"
    DUPLICATE = "duplicate"
    EMPTY = "empty"
    TOO_SHORT = "too_short"
    SPLIT_TOO_SHORT = "split_too_short"
    NO_ID = "no_id"
    NOT_A_WHOLE_NUMBER = "not_a_whole_number"
    INVALID_COORDINATES = "invalid_coordinates"
    LENGTH_DIFFERS = "length_differs"
    UNKNOWN_STRAND = "unknown_strand"
    INVALID_JUNCTIONS = "invalid_junctions"


#: Faults of a row, with what is expected instead.
FAULTS: Mapping[SkipReason, str] = MappingProxyType(
    {
        SkipReason.NO_ID: "an id",
        SkipReason.NOT_A_WHOLE_NUMBER: "a whole number",
        SkipReason.INVALID_COORDINATES: "0 <= start < end on a stated contig",
        SkipReason.LENGTH_DIFFERS: "end - start bases, of a spliced record at most as many",
        SkipReason.UNKNOWN_STRAND: "'+', '-', '.', 1, -1 or 0",
        SkipReason.INVALID_JUNCTIONS: "ascending offsets, one less than the exons",
    }
)


class RecordFault(NamedTuple):
    """A fault of a row: its reason, one of :data:`FAULTS`, and what the row holds."""

    reason: SkipReason
    got: str


@dataclass(frozen=True, slots=True)
class CorpusRecord:
    """A sequence of the corpus with the annotations of its file.

    Parameters
    ----------
    source
        Configuration of the corpus that the record belongs to.
    record_id
        Id as in the file; need not be unique.
    sequence
        ASCII, upper-case, U replaced by T; may hold symbols other than ACGT. In the gene's orientation, 5' to 3'.
    taxonomy
        Organism or lineage as stated; None: not stated.
    contig
        Contig name as spelt in the record; None: not stated.
    span
        Stated interval on that contig, 0-based half-open; of a transcript the whole gene. None: not stated.
    strand
        ``-`` if the sequence is the reverse complement of the contig, else ``+``; None: not stated.
    junctions
        Offsets in the sequence, in bases, at which introns were cut out, ascending; empty: one exon; None: not stated.
    note
        The record's own note.
    fault
        Why the row cannot be used; such a record has id and sequence only. None: it can.
    """

    source: CorpusSource
    record_id: str
    sequence: bytes
    taxonomy: str | None = None
    contig: str | None = None
    span: tuple[int, int] | None = None
    strand: str | None = None
    junctions: tuple[int, ...] | None = None
    note: str | None = None
    fault: RecordFault | None = None

    @property
    def maybe_human(self) -> bool:
        """Whether the record can be human: unless it states a listed taxon (``taxa``).

        The source states nothing: a record of ``prokaryote_evo2`` without a taxon counts as human, so that holdouts
        apply to it.
        """
        return self.taxonomy is None or not states_non_human(self.taxonomy)

    @property
    def spliced(self) -> bool:
        """Whether introns are cut out; without stated junctions, whether the source is of transcripts."""
        return self.source.is_transcribed if self.junctions is None else bool(self.junctions)
