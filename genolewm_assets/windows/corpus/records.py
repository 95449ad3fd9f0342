"""Records of the pretraining corpus, independent of file layout, and the reasons why a record gives no window."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

#: NCBI taxonomy ids by scientific name (NCBI Taxonomy, https://www.ncbi.nlm.nih.gov/taxonomy): domains and kingdoms
#: without animals, two virus taxa that lineages of phages begin with, and genera of model organisms. No ancestor of
#: *Homo sapiens* (Eukaryota, Metazoa, Mammalia, ...) and no primate. A missing taxon costs alignments and, in doubt,
#: training windows; a wrong one could cost a leak: the list is short.
NON_HUMAN_TAXA = MappingProxyType({
    "Bacteria": 2, "Archaea": 2157, "Viruses": 10239, "Duplodnaviria": 2731341, "Caudoviricetes": 2731619,
    "Fungi": 4751, "Viridiplantae": 33090, "Escherichia": 561, "Klebsiella": 570, "Saccharomyces": 4930,
    "Schizosaccharomyces": 4895, "Neurospora": 5140, "Arabidopsis": 3701, "Oryza": 4527, "Zea": 4575,
    "Chlamydomonas": 3052, "Dictyostelium": 5782, "Plasmodium": 5820, "Caenorhabditis": 6237,
    "Drosophila": 7215, "Danio": 7954, "Xenopus": 8353, "Gallus": 9030, "Mus": 10088, "Rattus": 10114,
})  # fmt: skip

#: NCBI taxonomy ids of species of these genera, which texts state more often than the id of the genus.
NON_HUMAN_SPECIES = MappingProxyType({
    "Escherichia coli": 562, "Klebsiella pneumoniae": 573, "Saccharomyces cerevisiae": 4932,
    "Schizosaccharomyces pombe": 4896, "Neurospora crassa": 5141, "Arabidopsis thaliana": 3702,
    "Oryza sativa": 4530, "Zea mays": 4577, "Chlamydomonas reinhardtii": 3055,
    "Dictyostelium discoideum": 44689, "Plasmodium falciparum": 5833, "Caenorhabditis elegans": 6239,
    "Drosophila melanogaster": 7227, "Danio rerio": 7955, "Xenopus laevis": 8355, "Xenopus tropicalis": 8364,
    "Gallus gallus": 9031, "Mus musculus": 10090, "Rattus norvegicus": 10116,
})  # fmt: skip

_NAMES = frozenset(name.casefold() for name in NON_HUMAN_TAXA)
_IDS = frozenset(map(str, (*NON_HUMAN_TAXA.values(), *NON_HUMAN_SPECIES.values())))
#: Words with which no text exempts a record, whatever else it states: human taxa, and organisms with foreign sequence.
_DOUBT = re.compile(
    r"\b(?:homo|homin\w*|humans?|sapiens|9604|9605|9606|synthetic|transgenic|hybrid|chimer\w*|xenograft)\b"
)
#: Rank of an element of a lineage, as Greengenes, GTDB and Evo 2 write it: ``d__Bacteria``, ``sk__Bacteria``.
_RANK = re.compile(r"^[a-z]{1,2}__")
_TAXID = re.compile(r"^(?:ncbi)?[ :]*(?:tax(?:on|id)?|txid)?[ :]*(\d+)$")
_LINEAGE = re.compile(r"[;|]")


# Records of one organism follow one another.
@lru_cache(1024)
def states_non_human(stated: str) -> bool:
    """Tell whether a text states a taxon of the list, and no word that is in doubt (``Homo``, ``synthetic``, ...).

    The text is a name (``mus_musculus C57BL/6``), an NCBI taxonomy id (``10090``, ``NCBI:txid10090``) or a lineage with
    ``;`` or ``|`` between its elements, with or without ranks (``d__Bacteria``). A genus stands for its species.
    """
    # Without their ranks, and with one space between words.
    bare = (_RANK.sub("", element.strip()) for element in _LINEAGE.split(stated.casefold()))
    elements = [" ".join(element.replace("_", " ").split()) for element in bare]
    if any(_DOUBT.search(element) for element in elements):
        return False
    numbered = ((_TAXID.match(element), element) for element in elements)
    return any(number[1] in _IDS if number else element.partition(" ")[0] in _NAMES for number, element in numbered)


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
        """Whether the record can be human: unless it states one of :data:`NON_HUMAN_TAXA`.

        The source states nothing: a record of ``prokaryote_evo2`` without a taxon counts as human, so that holdouts
        apply to it.
        """
        return self.taxonomy is None or not states_non_human(self.taxonomy)

    @property
    def spliced(self) -> bool:
        """Whether introns are cut out; without stated junctions, whether the source is of transcripts."""
        return self.source.is_transcribed if self.junctions is None else bool(self.junctions)
