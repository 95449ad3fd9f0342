"""Schemas of the window index and of the table of contigs; ``start``, ``end`` are 0-based half-open."""

from __future__ import annotations

import pyarrow as pa

from genolewm_assets.genome import STRANDS
from genolewm_assets.store.tables import TableSchema, column, nullable
from genolewm_assets.windows.bases import TEXTS

WINDOWS = TableSchema(
    "windows",
    "reference window",
    pa.schema(
        [
            column("contig", pa.string(), "canonical contig name"),
            column("start", pa.int64(), "first base, 0-based"),
            column("end", pa.int64(), "end, exclusive; the footprint reaches margin_bp further"),
            column("window_hash", pa.binary(32), "SHA-256 of the upper-case sequence; not unique"),
            column("window_id", pa.string(), "first 32 hex digits of window_hash"),
            column("gc", pa.float32(), "share of G and C, 0 to 1"),
            column("frame", pa.int8(), "start modulo 6"),
            column("strand", pa.string(), "always '+'"),
            column("gap_distance_bp", pa.int64(), "bases from the footprint to a non-ACGT base or the contig end"),
            nullable("segmental_duplication", pa.float32(), "share of bases in the track, 0 to 1; null without one"),
            nullable("excluded_region", pa.float32(), "share of bases in the track, 0 to 1; null without one"),
            nullable("repeat", pa.float32(), "share of bases in the track, 0 to 1; null without one"),
            column("sequence", pa.string(), "the window, upper-case ACGT"),
            column("left_flank", pa.string(), "the margin_bp bases before the window"),
            column("right_flank", pa.string(), "the margin_bp bases behind the window"),
        ]
    ),
    ("contig", "start"),
    closed={"strand": STRANDS[:1]},
)

#: Columns of ``WINDOWS`` that :func:`build_window_table` makes: all but the bases.
FACTS: tuple[str, ...] = tuple(name for name in WINDOWS.columns if name not in TEXTS)

GENOME_CONTIGS = TableSchema(
    "genome_contigs",
    "contig of the reference genome",
    pa.schema(
        [
            column("contig", pa.string(), "canonical name"),
            column("length", pa.int64(), "bases"),
            column("circular", pa.bool_(), "topology"),
            column("md5", pa.string(), "MD5 of the upper-case sequence (SAM M5)"),
            column("acgt_bases", pa.int64(), "bases that are A, C, G or T"),
            column("acgt_runs", pa.int64(), "maximal runs of such bases"),
        ]
    ),
    ("contig",),
)

#: The tables that this module declares.
TABLES: tuple[TableSchema, ...] = (WINDOWS, GENOME_CONTIGS)
