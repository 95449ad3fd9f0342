"""Electropherograms of forensic DNA profiles, without the edge: what a profile is, and how profiles are kept and read.

Belongs here: pre-processed profiles, their cache, and what turns the traces of a run into profiles: sizing, panels,
allelic ladders, annotations, the data set that a trainer opens. Does not belong here: finding and fetching files
(``sources``), arrays on disk, checksums and locks (``store``), the asset graph (``defs``). Imports neither Dagster nor
pysam.
"""

from genolewm_assets.forensic.memmap_reader import MemmapCacheReader
from genolewm_assets.forensic.memmap_writer import MemmapCacheWriter
from genolewm_assets.forensic.profile import PreprocessedProfile
from genolewm_assets.store import (
    IndexEntry,
    cache_key_dir,
    compute_fingerprint,
    compute_key,
    is_complete,
    validate_fingerprint,
)

__all__ = [
    "IndexEntry",
    "MemmapCacheReader",
    "MemmapCacheWriter",
    "PreprocessedProfile",
    "cache_key_dir",
    "compute_fingerprint",
    "compute_key",
    "is_complete",
    "validate_fingerprint",
]
