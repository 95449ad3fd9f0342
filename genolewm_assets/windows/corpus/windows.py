"""Tables of corpus windows, the parameters they depend on, and their counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field

import pyarrow as pa

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import PROFILES, STRANDS, WindowProfile
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableSchema, column, nullable
from genolewm_assets.windows.corpus.placement import PlacementHow, Verdict
from genolewm_assets.windows.corpus.records import CorpusSource, SkipReason

#: Shortest ACGT run that gives a short window, in bases.
SHORTEST_BP = 2_048

CORPUS_RECORDS = TableSchema(
    "corpus_records",
    "record of the pretraining corpus",
    pa.schema(
        [
            column("record_id", pa.string(), "as the corpus gives it; need not be unique"),
            column("sequence", pa.large_binary(), "ASCII, upper-case, U replaced by T; in the gene's orientation"),
            nullable("taxonomy", pa.string(), "organism or lineage as stated"),
            nullable("contig", pa.string(), "contig name as spelt in the record"),
            nullable("start", pa.int64(), "first base on that contig, 0-based; of a transcript of the whole gene"),
            nullable("end", pa.int64(), "end on that contig, exclusive"),
            nullable("strand", pa.string(), "'-' if the sequence is the contig's reverse complement, else '+'"),
            nullable("junctions", pa.list_(pa.int64()), "offsets at which introns were cut out, in bases, ascending"),
            nullable("note", pa.string(), "the record's own note"),
            nullable("fault", pa.string(), "why the row cannot be used, one of the closed set SkipReason"),
            nullable("got", pa.string(), "what the row at fault holds"),
        ]
    ),
    ("record_id", "sequence"),
    closed={"fault": tuple(SkipReason), "strand": STRANDS},
)

CORPUS_WINDOWS = TableSchema(
    "corpus_windows",
    "window of a record of the pretraining corpus",
    pa.schema(
        [
            column("source", pa.string(), "one of the closed set CorpusSource"),
            column("record_id", pa.string(), "the record's id; '~' and a digest behind it where an id is used again"),
            column("window_index", pa.int32(), "0-based number of the window in its record"),
            column("start", pa.int64(), "first base in the record, 0-based"),
            column("end", pa.int64(), "end in the record, exclusive"),
            column("window_bp", pa.int32(), "bases, a multiple of 6; below the profile's for a short window"),
            column("sequence", pa.string(), "the window, upper-case ACGT, in the record's orientation"),
            column("left_flank", pa.string(), "the margin_bp bases of the record before the window"),
            column("right_flank", pa.string(), "the margin_bp bases of the record behind the window"),
            column("window_hash", pa.binary(32), "SHA-256 of sequence; not unique"),
            column("window_id", pa.string(), "first 32 hex digits of window_hash"),
            column("gc", pa.float32(), "share of G and C, 0 to 1"),
            column("maybe_human", pa.bool_(), "false only where the record states a listed taxon that is not human"),
            column("spliced", pa.bool_(), "introns are, or may be, cut out: the place may hold more bases"),
            column("placement_how", pa.string(), "one of the closed set PlacementHow"),
            nullable("placed_contig", pa.string(), "canonical contig name"),
            nullable(
                "placed_start",
                pa.int64(),
                "first base of the window on the reference, 0-based, flanks not counted; where it is spliced and "
                "placed as stated (coordinates, stated), first base of the whole record",
            ),
            nullable("placed_end", pa.int64(), "end on the reference, exclusive; of the same stretch"),
            nullable("strand", pa.string(), "'-' where the window reads along the reference's other strand, else '+'"),
            column("placement_exact", pa.bool_(), "sequence is that of the reference there, base for base"),
            nullable("identity", pa.float32(), "mappy only: matching share of the aligned columns, 0 to 1"),
            nullable("coverage", pa.float32(), "mappy only: aligned share of the window's bases, 0 to 1"),
            nullable(
                "stated_contig",
                pa.string(),
                "mappy only: contig that the record states, where it is another one or its coordinates there cannot be "
                "compared",
            ),
            nullable("stated_start", pa.int64(), "mappy only: start of stated coordinates that cannot be compared"),
            nullable("stated_end", pa.int64(), "end of the same stretch, exclusive"),
            nullable("taxonomy", pa.string(), "organism or lineage as the record states it"),
            nullable("note", pa.string(), "the record's own note"),
        ]
    ),
    ("source", "record_id", "window_index"),
    closed={"source": tuple(CorpusSource), "placement_how": tuple(PlacementHow), "strand": STRANDS},
)

CORPUS_SKIPPED = TableSchema(
    "corpus_skipped",
    "record of the slice that gives no window, and every record whose row is at fault",
    pa.schema(
        [
            column("source", pa.string(), "one of the closed set CorpusSource"),
            column("record_id", pa.string(), "as the corpus gives it; need not be unique, empty for no_id"),
            column("length_bp", pa.int64(), "bases of the record"),
            column("reason", pa.string(), "one of the closed set SkipReason"),
        ]
    ),
    ("source", "record_id", "reason"),
    closed={"source": tuple(CorpusSource), "reason": tuple(SkipReason)},
)

#: The tables that this module declares.
TABLES: tuple[TableSchema, ...] = (CORPUS_RECORDS, CORPUS_WINDOWS, CORPUS_SKIPPED)


@dataclass(frozen=True, slots=True)
class CorpusParams:
    """Parameters of corpus windows.

    Parameters
    ----------
    profile
        Window size, stride and margin in bases; ``cover_tails`` is ignored, it is for reference contigs only.
    slice_fraction
        Share of records used, above 0, up to 1, chosen by hash of their ids; a larger share includes a smaller one.
    seed
        Seed of the slice and of the phases (see :func:`tile_record`).
    short_windows
        Whether an ACGT run of 2,048 bp or more that is too short for the profile gives one shorter window; its size
        is the largest multiple of 6 bp that leaves both margins.

    Raises
    ------
    ConfigurationError
        If ``slice_fraction`` is not above 0 and up to 1.
    """

    profile: WindowProfile = PROFILES["default"]
    slice_fraction: float = 1.0
    seed: int = 0
    short_windows: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.slice_fraction <= 1:
            expected, got = "above 0, up to 1", f"{self.slice_fraction}"
            raise ConfigurationError("corpus.slice_fraction", "share out of range", expected=expected, got=got)

    def as_recipe(self) -> dict[str, JsonValue]:
        """Return all parameters as JSON values."""
        return asdict(self)


@dataclass(slots=True)
class CorpusLedger:
    """Counts records, windows and bases of one source by outcome."""

    figures: Counter[str] = field(default_factory=Counter)

    def counts(self) -> dict[str, int]:
        """Return every count, zeros included, sorted by name."""
        names = ["records_in", "records_used", "windows", "short_windows", "maybe_human", "record_ids_made_unique"]
        names += [f"bases_{what}" for what in ("in", "lost_non_acgt", "in_windows", "in_no_window", "duplicate")]
        names.append("placement_exact")
        names += [f"placed.{how}" for how in PlacementHow]
        names += [f"skipped.{reason}" for reason in SkipReason] + [f"coordinates.{verdict}" for verdict in Verdict]
        return {name: self.figures[name] for name in sorted({*names, *self.figures})}
