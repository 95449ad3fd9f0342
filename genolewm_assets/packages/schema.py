"""Format of a package: file names, table schemas, the record of a cache. Not here: reading (``reader``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import pyarrow as pa

from genolewm_assets.genome import STRANDS, Holdout, Label, Split
from genolewm_assets.store.tables import TableSchema, column, nullable, one_of
from genolewm_assets.variants import ALLELE_KEY, allele_fields
from genolewm_assets.windows.bases import BASES_NAME
from genolewm_assets.windows.corpus import CorpusSource

#: Format name and version in ``package.json``; readers refuse another major version.
PACKAGE_FORMAT, PACKAGE_FORMAT_VERSION = "genolewm.package", "5.0"

PACKAGE_FILE = "package.json"
CARD = "README.md"
#: The same facts, and every table, for programs: JSON-LD of Croissant 1.1.
CROISSANT = "croissant.json"
#: Name, among the sources of a package, of what its encoder was pretrained on; and the text where nobody says.
PRETRAINED_ON, NOT_STATED = "encoder pretrained on", "not stated"
#: Licence of a source whose licence nobody states: the word of SPDX for it.
NO_ASSERTION = "NOASSERTION"

#: Value of ``origin`` for reference windows; for corpus windows it is the name of the corpus source.
REFERENCE_ORIGIN = "reference"

#: Bases on either side of a held-out allele in ``PACKAGE_CONTEXTS``: with them, its 31-mers can be told.
CONTEXT_BP = 30

#: Value of ``scoring`` of the bench alleles that a window shows; other values are members of :class:`Unscored`.
SCORED = "scored"


class Unscored(StrEnum):
    """Reason why a bench allele is not scored.

    ``in_no_window``: no window of the holdout and split contains it. The others hold in the window that shows it best.
    ``leaves_inset``: it touches an edge margin. ``held_out``: its edit makes a test allele. ``no_difference``: the
    edited window does not differ before its right margin. ``beyond_flank``: its change of length exceeds the shorter
    flank. ``other_reference``: its ``ref`` differs from the window.
    """

    IN_NO_WINDOW = "in_no_window"
    LEAVES_INSET = "leaves_inset"
    HELD_OUT = "held_out"
    NO_DIFFERENCE = "no_difference"
    BEYOND_FLANK = "beyond_flank"
    OTHER_REFERENCE = "other_reference"


#: Tracks of the reference, one column each; results on windows that overlap a track are reported separately.
STRATA: tuple[str, ...] = ("segmental_duplication", "excluded_region", "repeat")


class Knowledge(StrEnum):
    """Release whose ClinVar labels training uses: the package's own, or T0 of the temporal holdout."""

    NEWEST = "newest"
    T0 = "T0"


class VariantSource(StrEnum):
    """Source of an allele of a package."""

    GNOMAD = "gnomad"
    CLINVAR = "clinvar"


@dataclass(frozen=True, slots=True)
class SourceTerms:
    """Release of a source, its licence, and how to cite it."""

    #: Releases in use, with ``, `` between; ``not stated`` where the catalogue names none.
    release: str
    #: SPDX licence expression, or ``NOASSERTION``.
    license: str = NO_ASSERTION
    citation: str = NOT_STATED


@dataclass(frozen=True, slots=True)
class CacheRef:
    """Reference from a package to one cache of encoder states."""

    #: Contig or corpus source whose windows were encoded.
    source: str
    #: Cache key, which is the name of the cache's folder.
    key: str
    #: Number of rows; row i of the cache belongs to row i of the window table.
    rows: int
    #: SHA-256, 64 hex digits, of the Parquet file of the window table that the cache was made from.
    windows_sha256: str
    #: SHA-256, 64 hex digits, of the cache's ``manifest.json``.
    manifest_sha256: str
    #: Path of the cache relative to the root, ``/`` between parts.
    path: str


@dataclass(frozen=True, slots=True)
class PieceRef:
    """A published table of windows that a package refers to: some of its rows are training windows."""

    #: Contig, or piece of the corpus.
    source: str
    #: Value of ``origin`` of its windows.
    origin: str
    #: ``rows``, ``training``: number of its windows, and of those that train.
    rows: int
    training: int
    #: SHA-256, 64 hex digits, of the ``manifest.json`` of its ``windows/index`` or ``corpus/windows``.
    manifest_sha256: str


def _membership_fields() -> list[pa.Field]:
    return [
        nullable("holdout", pa.string(), "holdout that the row serves; null in train"),
        column("role", pa.string(), f"{one_of(Split)}: the split of the file"),
    ]


def _cache_fields() -> list[pa.Field]:
    return [
        nullable("cache_key", pa.string(), "cache that holds the window's states; null where the package has none"),
        nullable("cache_row", pa.int64(), "row of the window in that cache"),
    ]


_CLOSED: Mapping[str, tuple[str, ...]] = {"holdout": tuple(Holdout), "role": tuple(Split)}

PACKAGE_WINDOWS = TableSchema(
    "package_windows",
    "window of a split, with its sequence; in validation and test one row per holdout that the window serves",
    pa.schema(
        [
            column("window_id", pa.string(), "first 32 hex digits of window_hash; not unique"),
            column("window_hash", pa.binary(32), "SHA-256 of sequence; not unique"),
            column("origin", pa.string(), "'reference' or the corpus source"),
            nullable("contig", pa.string(), "contig that the window stands on; null where that is not known"),
            nullable("start", pa.int64(), "first base on the contig, 0-based; null where not known"),
            nullable("end", pa.int64(), "end on the contig, exclusive; null where not known"),
            nullable("strand", pa.string(), "'-' where sequence is the contig's reverse complement; null: not known"),
            column("placement_exact", pa.bool_(), "sequence is the contig's at [start, end), base for base"),
            nullable("record_id", pa.string(), "corpus windows: record of the source"),
            nullable("window_index", pa.int32(), "corpus windows: 0-based number of the window in its record"),
            column("window_bp", pa.int32(), "bases of sequence, a multiple of 6"),
            column("frame", pa.int8(), "first base modulo 6, on the contig or, for corpus windows, in the record"),
            column("gc", pa.float32(), "share of G and C, 0 to 1"),
            *(
                nullable(name, pa.float32(), f"{name.replace('_', ' ')}: share of bases, 0 to 1; null: not known")
                for name in STRATA
            ),
            column("sequence", pa.string(), "the window, upper-case ACGT"),
            column("left_flank", pa.string(), "the margin_bp bases before the window, on its own strand"),
            column("right_flank", pa.string(), "the margin_bp bases behind the window, on its own strand"),
            *_membership_fields(),
            column("frozen", pa.bool_(), "False: in validation only to score alleles; True: in the stream of windows"),
            *_cache_fields(),
        ]
    ),
    ("holdout", "origin", "contig", "start", "record_id", "window_index"),
    closed={**_CLOSED, "origin": (REFERENCE_ORIGIN, *CorpusSource), "strand": STRANDS},
)

PACKAGE_VARIANTS = TableSchema(
    "package_variants",
    "normalised allele of a split and source; in validation and test one row per holdout that the allele serves",
    pa.schema(
        [
            column("source", pa.string(), one_of(VariantSource)),
            *allele_fields(),
            nullable("af", pa.float64(), "gnomad: allele frequency, 0 to 1"),
            nullable("label", pa.string(), f"clinvar: {one_of(Label)}; in train at T0 if knowledge is T0"),
            nullable("stars", pa.int8(), "clinvar: review stars, 0 to 4"),
            nullable("clinvar_id", pa.int64(), "clinvar: VariationID"),
            column("gene_ids", pa.list_(pa.int64()), "clinvar: NCBI GeneIDs in ClinVar's order; empty for gnomad"),
            *_membership_fields(),
            nullable("scoring", pa.string(), "bench alleles: scored, or why no window shows it; null: not of a bench"),
        ]
    ),
    ("holdout", "source", *ALLELE_KEY),
    closed={**_CLOSED, "source": tuple(VariantSource), "label": tuple(Label), "scoring": (SCORED, *Unscored)},
)

PACKAGE_CONTROLS = TableSchema(
    "package_controls",
    "unedited window moved by 1 to 5 bp, to measure what a shift of the 6-mer frame alone does to the states",
    pa.schema(
        [
            column("window_id", pa.string(), "first 32 hex digits of the SHA-256 of sequence"),
            column("source_window_id", pa.string(), "window_id of the window that was moved"),
            column("contig", pa.string(), "contig that it stands on"),
            column("start", pa.int64(), "first base of the moved window, 0-based"),
            column("end", pa.int64(), "end of the moved window, exclusive"),
            column("shift_bp", pa.int8(), "bases that the window was moved to the right by, 1 to 5"),
            column("sequence", pa.string(), "the moved window, upper-case ACGT"),
            *_membership_fields(),
            nullable("cache_key", pa.string(), "cache with the states of the window that was moved"),
            nullable("cache_row", pa.int64(), "its row there"),
        ]
    ),
    ("holdout", "contig", "start", "shift_bp"),
    closed=_CLOSED,
)

PACKAGE_CONTEXTS = TableSchema(
    "package_contexts",
    "held-out allele with the reference around it: training makes these bases in no window without an exact place",
    pa.schema(
        [
            *allele_fields(),
            column("left_context", pa.string(), "30 bases of the reference before ref, upper case; fewer at its start"),
            column("right_context", pa.string(), "30 bases of the reference behind ref, upper case; fewer at its end"),
        ]
    ),
    ALLELE_KEY,
)

#: The tables that this module declares.
TABLES: tuple[TableSchema, ...] = (PACKAGE_WINDOWS, PACKAGE_VARIANTS, PACKAGE_CONTROLS, PACKAGE_CONTEXTS)


def window_pattern(split: Split) -> str:
    """Return the glob pattern of a split's window files, relative to the package."""
    return f"data/{split}-*.parquet"


def window_shard(split: Split, shard: int, n_shards: int) -> str:
    """Return the path of window file number ``shard`` (0-based) of ``n_shards``, relative to the package."""
    return f"data/{split}-{shard:05d}-of-{n_shards:05d}.parquet"


def variants_path(split: Split) -> str:
    """Return the path of a split's allele table, relative to the package."""
    return f"variants/{split}.parquet"


def controls_path(split: Split) -> str:
    """Return the path of a split's control windows, relative to the package; train has none."""
    return f"controls/{split}.parquet"


#: Folder of the pieces, and files of each: links to its table and bases, and which of its rows train (bool, (rows,)).
PIECES, PIECE_WINDOWS, PIECE_BASES, PIECE_TRAINS = "pieces", "windows.parquet", BASES_NAME, "trains.npy"
PIECE_FILES = (PIECE_WINDOWS, PIECE_BASES, PIECE_TRAINS)


def piece_path(source: str, file: str) -> str:
    """Return the path of a file of a piece, relative to the package."""
    return f"{PIECES}/{source}/{file}"


#: Folder of the mapped form of the splits, relative to the package.
ARRAYS = "arrays"


def arrays_path(split: Split) -> str:
    """Return the folder of a split's mapped form, relative to the package; ``memory_mapped`` describes its files."""
    return f"{ARRAYS}/{split}"


#: Path of the held-out alleles with the reference around them.
CONTEXTS_PATH = "holdouts/contexts.parquet"

#: Path of each holdout table, relative to the package, by the name of the table.
HOLDOUT_PATHS: Mapping[str, str] = MappingProxyType(
    {noun: f"holdouts/{noun}.parquet" for noun in ("intervals", "alleles", "corpus", "similar", "haplotypes")}
)
