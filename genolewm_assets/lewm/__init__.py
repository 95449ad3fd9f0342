"""The data pipeline of the genomic world model, without the edge: tables in, tables and checks out.

Belongs here: the schemas of the tables, the window index, and checks of table contents by code that does not share the
builders'; everything a trainer imports. Does not belong here: reading of outside formats and downloads (``sources``),
crash-safe files and manifests (``store``), sequence arithmetic (``genome``), the asset graph (``defs``). Imports
neither Dagster nor pysam.
"""

from genolewm_assets.lewm.schema import (
    CLINVAR_VARIANTS,
    GENOME_CONTIGS,
    GNOMAD_VARIANTS,
    REJECTS,
    TABLES,
    WINDOWS,
    TableSchema,
)

__all__ = [
    "CLINVAR_VARIANTS",
    "GENOME_CONTIGS",
    "GNOMAD_VARIANTS",
    "REJECTS",
    "TABLES",
    "WINDOWS",
    "TableSchema",
]
