"""Tables of a run: the account of its files, and its ladders. None of them holds an allele of a sample."""

from __future__ import annotations

import pyarrow as pa

from genolewm_assets.forensic.dataset import Reason
from genolewm_assets.forensic.runs.rules import Fate, Role
from genolewm_assets.store.tables import TableSchema, column, nullable, one_of

FILES_FILE, LADDER_ALLELES_FILE, LADDER_TRACES_FILE = "files.parquet", "ladder_alleles.parquet", "ladder_traces.parquet"

#: Counts of peaks of a profile, by the flag or fact that they count.
PEAK_COUNTS = ("listed", "called", "stutter", "pull_up", "low", "minor", "unsized", "off_ladder", "off_scale")

FORENSIC_FILES = TableSchema(
    "forensic_files",
    "file of a run folder, whether it was used or left out",
    pa.schema(
        [
            column("file", pa.string(), "path relative to the run folder"),
            column("sha256", pa.string(), "SHA-256 of the file, hex"),
            column("role", pa.string(), one_of(Role)),
            column("fate", pa.string(), one_of(Fate)),
            nullable("reason", pa.string(), "why it was left out"),
            nullable("problem", pa.string(), "message about a file that was left out; names no allele"),
            nullable("row", pa.int64(), "row of the profile in the array store; null if it has none"),
            nullable("ladder", pa.string(), "file of the ladder that its alleles were named by"),
            nullable("annotated", pa.bool_(), "whether an allele report names its sample; null without a row"),
            nullable("n_scans", pa.int64(), "scans of the injection"),
            nullable("first_scan", pa.int64(), "0-based scan that the row begins with"),
            nullable("fragments", pa.int64(), "fragments of the size standard"),
            nullable("fragments_found", pa.int64(), "fragments that were found"),
            nullable("max_residual_bp", pa.float64(), "largest distance of one from the smooth curve, in base pairs"),
            nullable("r_squared", pa.float64(), "share of the variance of their sizes that the curve explains"),
            nullable("standard_rfu", pa.float64(), "median height of the fragments"),
            nullable("saturated_scans", pa.int64(), "scans of the row at which the detector was saturated"),
            *(nullable(f"peaks_{name}", pa.int64(), f"peaks of all loci: {name}") for name in PEAK_COUNTS),
            nullable("loci_called", pa.int64(), "loci in which at least one peak is called"),
        ]
    ),
    ("file",),
    closed={"role": tuple(Role), "fate": tuple(Fate), "reason": tuple(Reason)},
)

FORENSIC_LADDER_ALLELES = TableSchema(
    "forensic_ladder_alleles",
    "allele of a ladder of a run",
    pa.schema(
        [
            column("file", pa.string(), "file of the ladder"),
            column("locus", pa.string(), "name of the locus"),
            column("channel", pa.int64(), "channel of its dye, from 1"),
            column("allele", pa.string(), "name of the allele of the kit's ladder"),
            column("panel_bp", pa.float64(), "size in the panel file, in base pairs"),
            nullable("size_bp", pa.float64(), "size in the run; null if it was not found"),
        ]
    ),
    ("file", "locus", "allele"),
)

FORENSIC_LADDER_TRACES = TableSchema(
    "forensic_ladder_traces",
    "dye of a ladder of a run",
    pa.schema(
        [
            column("file", pa.string(), "file of the ladder"),
            column("channel", pa.int64(), "channel of the dye, from 1"),
            column("is_size_standard", pa.bool_(), "whether it is the dye of the size standard"),
            column("first_scan", pa.int64(), "0-based scan of the first value"),
            column("rfu", pa.list_(pa.int16()), "fluorescence at each scan, in relative fluorescence units"),
            column("size_bp", pa.list_(pa.float32()), "size at each scan, in base pairs"),
        ]
    ),
    ("file", "channel"),
)

TABLES: tuple[TableSchema, ...] = (FORENSIC_FILES, FORENSIC_LADDER_ALLELES, FORENSIC_LADDER_TRACES)
#: Schemas by file.
RUN_TABLES = dict(zip((FILES_FILE, LADDER_ALLELES_FILE, LADDER_TRACES_FILE), TABLES, strict=True))
