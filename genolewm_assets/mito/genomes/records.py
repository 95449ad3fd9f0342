"""One mitochondrial genome as its source gives it, whatever file it came from, and why a genome is not used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GenomeReject(StrEnum):
    """Why a genome is not used."""

    UNREADABLE = "unreadable"
    NO_NAME = "no_name"
    NO_SEQUENCE = "no_sequence"
    ALPHABET = "alphabet"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    TOO_MANY_N = "too_many_n"
    TOO_MANY_AMBIGUOUS = "too_many_ambiguous"
    JUNCTION_REPEAT = "junction_repeat"
    #: Found by the alignment to the reference, before genomes are compared with those kept.
    NOT_ALIGNABLE = "not_alignable"
    DUPLICATE_NAME = "duplicate_name"
    DUPLICATE_SEQUENCE = "duplicate_sequence"


@dataclass(frozen=True, slots=True)
class GenomeRecord:
    """A genome with what its file says about it.

    Parameters
    ----------
    name
        As the file gives it (first word of a FASTA title, accession and version of a GenBank record); need not be
        unique, and is empty where the file gives none.
    description
        The rest of the title, or the definition.
    sequence
        Upper-case, U as T, in the file's rotation and on the file's strand; may hold symbols that are no bases.
    haplogroup
        As stated; None: not stated.
    file
        What errors call the file.
    number
        Place among the file's records, from 1.
    problem
        Why the sequence could not be read, and is empty; empty where it could.
    """

    name: str
    description: str
    sequence: str
    haplogroup: str | None
    file: str
    number: int
    problem: str = ""

    @property
    def where(self) -> str:
        """File and record, for messages."""
        return f"{self.file}, record {self.number:,}"
