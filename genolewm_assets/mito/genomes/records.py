"""One mitochondrial genome as read from its file, and the reasons why a genome is not used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GenomeReject(StrEnum):
    """Reason why a genome is not used; written to the column ``reason`` of the table of rejects."""

    UNREADABLE = "unreadable"
    NO_NAME = "no_name"
    NO_SEQUENCE = "no_sequence"
    ALPHABET = "alphabet"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    TOO_MANY_N = "too_many_n"
    TOO_MANY_AMBIGUOUS = "too_many_ambiguous"
    JUNCTION_REPEAT = "junction_repeat"
    #: Found by the alignment to the reference, which runs before the search for duplicates.
    NOT_ALIGNABLE = "not_alignable"
    CONFLICTING_NAME = "conflicting_name"
    DUPLICATE_NAME = "duplicate_name"
    DUPLICATE_SEQUENCE = "duplicate_sequence"


@dataclass(frozen=True, slots=True)
class GenomeRecord:
    """A genome and its annotations, as read from a file."""

    #: First word of a FASTA title, or accession and version of a GenBank record; not necessarily unique, and empty if
    #: the file gives no name.
    name: str
    #: Rest of the FASTA title, or the GenBank definition.
    description: str
    #: Upper case, U as T, in the file's rotation and on the file's strand; may contain symbols that are not bases.
    sequence: str
    #: Haplogroup stated in the file; None: not stated.
    haplogroup: str | None
    file: str
    #: Number of the record in the file, from 1.
    number: int
    #: Reason why the record could not be read, in which case ``sequence`` is empty; else the empty string.
    problem: str = ""

    @property
    def where(self) -> str:
        """File and record number, for messages."""
        return f"{self.file}, record {self.number:,}"
