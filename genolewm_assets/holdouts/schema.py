"""Schemas of the six holdout tables, and their closed sets of names. Not here: building them (``build``)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import pyarrow as pa

from genolewm_assets.genome import EVALUATION, STRANDS, Holdout, Label
from genolewm_assets.store.tables import TableSchema, column, nullable, one_of
from genolewm_assets.variants import ALLELE_KEY, allele_fields
from genolewm_assets.windows.corpus import CorpusSource


class IntervalReason(StrEnum):
    """Why an interval of a contig is held out; ``kept``: an earlier package of the root held it out."""

    CONTIG = "contig"
    CONTIG_BLOCK = "contig_block"
    GENE_COMPONENT = "gene_component"
    PROXIMITY_BLOCK = "proximity_block"
    PHASED_BLOCK = "phased_block"
    KEPT = "kept"


class AlleleReason(StrEnum):
    """Why an allele is held out.

    Here *labelled* means P, LP, B or LB in ClinVar with at least ``min_stars`` review stars. ``bench``: a labelled
    allele of a held-out gene, used to evaluate the gene holdout. ``of_gene``: any other ClinVar allele of a held-out
    gene. ``in_span``: an allele of any source whose reference bases overlap a held-out interval. ``became_labelled``:
    labelled at the later release, present without a P, LP, B or LB label at the earlier one. ``new``: labelled at the
    later release, absent from the earlier one. ``kept``: an earlier package of the root held it out.
    """

    BENCH = "bench"
    OF_GENE = "of_gene"
    IN_SPAN = "in_span"
    BECAME_LABELLED = "became_labelled"
    NEW = "new"
    KEPT = "kept"


class CorpusReason(StrEnum):
    """Why a corpus window is held out.

    ``placed``: the window with its flanks, as placed on the reference or as its record states, overlaps a held-out
    interval. ``fail_closed``: the window may come from a held-out interval, and its placement cannot exclude this.
    ``similar``: its bases are similar to held-out sequence.
    """

    PLACED = "placed"
    FAIL_CLOSED = "fail_closed"
    SIMILAR = "similar"


class SimilarReason(StrEnum):
    """Why a window counts as similar to held-out sequence, the strongest reason first.

    ``aligned``: an alignment of 90 % equal bases over 1,000 bp outside repeats. ``chained``: chained alignments of half
    of the window. ``shared_kmers``: 31-mers outside repeats as the audit counts them: 62 equal bases, or 1.9 % of those
    of 1,000 bp in two places.
    """

    ALIGNED = "aligned"
    CHAINED = "chained"
    SHARED_KMERS = "shared_kmers"


class VariantOrigin(StrEnum):
    """Source of a held-out allele."""

    GNOMAD = "gnomad"
    CLINVAR = "clinvar"


_HOLDOUT = column("holdout", pa.string(), "one of the closed set Holdout")
_ROLE = column("role", pa.string(), one_of(EVALUATION))
_CLOSED: Mapping[str, tuple[str, ...]] = {"holdout": tuple(Holdout), "role": EVALUATION}

HOLDOUT_INTERVALS = TableSchema(
    "holdout_intervals",
    "held-out interval of a contig; every window whose footprint overlaps it is excluded from training",
    pa.schema(
        [
            _HOLDOUT,
            _ROLE,
            column("contig", pa.string(), "canonical contig name"),
            column("start", pa.int64(), "first base, 0-based"),
            column("end", pa.int64(), "end, exclusive"),
            column(
                "unit",
                pa.string(),
                "what is held out as a whole: contig or a block, gene component or haplotype block, by id",
            ),
            column("name", pa.string(), "the same for people: gene symbols with ',' between, else the unit"),
            column("reason", pa.string(), "one of the closed set IntervalReason"),
        ]
    ),
    ("holdout", "contig", "start", "unit"),
    closed={**_CLOSED, "reason": tuple(IntervalReason)},
)

HOLDOUT_ALLELES = TableSchema(
    "holdout_alleles",
    "held-out allele, once per holdout and source",
    pa.schema(
        [
            _HOLDOUT,
            _ROLE,
            column("source", pa.string(), one_of(VariantOrigin)),
            *allele_fields(),
            nullable("label", pa.string(), f"clinvar: class at the package's release; {one_of(Label)}"),
            nullable("stars", pa.int8(), "clinvar: review stars, 0 to 4"),
            nullable("clinvar_id", pa.int64(), "clinvar: VariationID"),
            column("gene_ids", pa.list_(pa.int64()), "clinvar: NCBI GeneIDs in ClinVar's order; empty for gnomad"),
            column("unit", pa.string(), "contig, gene component or block that decided the role"),
            column("reason", pa.string(), "one of the closed set AlleleReason"),
        ]
    ),
    ("holdout", "source", *ALLELE_KEY),
    closed={**_CLOSED, "source": tuple(VariantOrigin), "label": tuple(Label), "reason": tuple(AlleleReason)},
)

HOLDOUT_CORPUS = TableSchema(
    "holdout_corpus",
    "corpus window that is excluded from training, once per holdout",
    pa.schema(
        [
            column("source", pa.string(), "one of the closed set CorpusSource"),
            column("record_id", pa.string(), "as in the corpus windows"),
            column("window_index", pa.int32(), "0-based number of the window in its record"),
            _HOLDOUT,
            column("reason", pa.string(), "one of the closed set CorpusReason"),
        ]
    ),
    ("source", "record_id", "window_index", "holdout"),
    closed={"source": tuple(CorpusSource), "holdout": tuple(Holdout), "reason": tuple(CorpusReason)},
)

_WINDOW = (
    column("origin", pa.string(), "reference, or one of the closed set CorpusSource"),
    column("contig", pa.string(), "reference: canonical contig name; else empty"),
    column("start", pa.int64(), "reference: first base of the window, 0-based; else 0"),
    column("record_id", pa.string(), "corpus: as in the corpus windows; else empty"),
    column("window_index", pa.int32(), "corpus: 0-based number of the window in its record; else 0"),
)
_PLACE = (
    column("held_contig", pa.string(), "held-out sequence that it is similar to: canonical contig name"),
    column("held_start", pa.int64(), "its first base, 0-based"),
    column("held_end", pa.int64(), "its end, exclusive"),
    column("strand", pa.string(), "strand of the window: - if it is similar to the reverse complement, else +"),
    nullable("identity", pa.float64(), "share of equal bases outside repeats, 0 to 1; null: not aligned"),
    column("aligned_bp", pa.int64(), "aligned bases outside repeats"),
    column("share", pa.float64(), "share of the window in chained alignments to one held-out interval, 0 to 1"),
    column("shared_kmers", pa.int32(), "21-mers outside repeats shared with the interval in the densest 1,000 bp"),
)
_WINDOW_KEY = tuple(field.name for field in _WINDOW)
#: Origin of a window of the reference; a corpus window has its source. And all origins.
REFERENCE = "reference"
ORIGINS = (REFERENCE, *CorpusSource)

HOLDOUT_SIMILAR = TableSchema(
    "holdout_similar",
    "window that is similar to held-out sequence and excluded from training, once per holdout",
    pa.schema([*_WINDOW, _HOLDOUT, *_PLACE, column("reason", pa.string(), "one of the closed set SimilarReason")]),
    (*_WINDOW_KEY, "holdout"),
    closed={"origin": ORIGINS, "holdout": tuple(Holdout), "strand": STRANDS, "reason": tuple(SimilarReason)},
)

HOLDOUT_COMPARED = TableSchema(
    "holdout_compared",
    "what a window shares with one interval of held-out sequence, if enough to compare them: each place to which "
    "it aligns as similar, and that of a shared 21-mer if it does not, or has shared 31-mers. Whether it is similar "
    "follows from its rows; a later release takes over those of equal intervals, and compares it with changed ones",
    pa.schema(
        [
            *_WINDOW,
            column("piece", pa.string(), "piece of corpus windows, or contig of the reference, that has the window"),
            column("window_bp", pa.int32(), "bases of the window and the flank behind it"),
            *_PLACE,
            column("unit_start", pa.int64(), "the interval, a part of it if it is long: first base, 0-based"),
            column("unit_end", pa.int64(), "its end, exclusive"),
            column("number", pa.int32(), "0-based number of the place in the interval, the best first"),
            column(
                "runs",
                pa.list_(pa.int32()),
                "number 0: of each run of shared 31-mers, first base in the window, 0-based, and how many begin there",
            ),
        ]
    ),
    (*_WINDOW_KEY, "held_contig", "unit_start", "number"),
    closed={"origin": ORIGINS, "strand": STRANDS},
)

_ALLELE_TYPES = {"pos": pa.int64(), "ref": pa.string(), "alt": pa.string()}
_ALLELE = pa.struct([pa.field(name, kind, nullable=False) for name, kind in _ALLELE_TYPES.items()])

HOLDOUT_HAPLOTYPES = TableSchema(
    "holdout_haplotypes",
    "haplotype of a held-out block: a set of its alleles that one haplotype carries, or all alleles of a block that is "
    "formed by distance alone",
    pa.schema(
        [
            _ROLE,
            column("contig", pa.string(), "canonical contig name"),
            column("unit", pa.string(), "block, by its id"),
            column("number", pa.int32(), "0-based number in the block: by falling n_carriers, then by alleles"),
            column("phased", pa.bool_(), "whether phased genotypes show the alleles on one haplotype"),
            nullable(
                "n_carriers",
                pa.int64(),
                "haplotypes that carry these alleles of the block and no others; null: no genotypes",
            ),
            column("alleles", pa.list_(_ALLELE), "two or more alleles in normal form, sorted; pos is 1-based"),
        ]
    ),
    ("contig", "unit", "number"),
    closed={"role": EVALUATION},
)

#: The tables that this module declares.
TABLES: tuple[TableSchema, ...] = (
    HOLDOUT_INTERVALS,
    HOLDOUT_ALLELES,
    HOLDOUT_CORPUS,
    HOLDOUT_SIMILAR,
    HOLDOUT_COMPARED,
    HOLDOUT_HAPLOTYPES,
)
