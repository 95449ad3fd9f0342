"""One record of the pretraining corpus, whatever file it came from, and why a record gives no window."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CorpusSource(StrEnum):
    """The four configurations of the pretraining corpus."""

    EUKARYOTE_GENERATOR = "eukaryote_generator"
    MRNA_EVO2 = "mrna_evo2"
    MRNA_SPLICE_EVO2 = "mrna_splice_evo2"
    PROKARYOTE_EVO2 = "prokaryote_evo2"

    @property
    def is_transcribed(self) -> bool:
        """Whether introns are cut out of its sequences."""
        return self in (CorpusSource.MRNA_EVO2, CorpusSource.MRNA_SPLICE_EVO2)


class SkipReason(StrEnum):
    """Why a record gives no window."""

    SLICED_OUT = "sliced_out"
    DUPLICATE = "duplicate"
    EMPTY = "empty"
    TOO_SHORT = "too_short"
    SPLIT_TOO_SHORT = "split_too_short"


@dataclass(frozen=True, slots=True)
class CorpusRecord:
    """A sequence of the corpus with what its file says about it.

    Parameters
    ----------
    source
        The configuration it belongs to.
    record_id
        As the file gives it; need not be unique.
    sequence
        ASCII, upper-case, U as T; may hold symbols other than ACGT. In the gene's orientation, 5' to 3'.
    taxonomy
        Organism as stated; None: not stated.
    contig
        Contig as spelt, where the record names one.
    span
        Stated place on that contig, 0-based half-open; the whole gene for a transcript.
    strand
        ``-`` where the sequence is the reverse complement of the contig; else ``+``, or None: not stated.
    junctions
        Offsets in the sequence at which introns were cut out, ascending; empty for a single exon, None: not stated.
    note
        The record's own note.
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

    @property
    def maybe_human(self) -> bool:
        """False only where the record names another organism, or is a bacterium's: holdouts must fail closed."""
        if self.source is CorpusSource.PROKARYOTE_EVO2:
            return False
        return self.taxonomy is None or "homo sapiens" in self.taxonomy.lower()

    @property
    def spliced(self) -> bool:
        """Whether introns are, or may be, cut out."""
        return self.source.is_transcribed if self.junctions is None else bool(self.junctions)
