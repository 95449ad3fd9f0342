"""Crash-safe files: atomic publication, manifests, builds, checked reading, verification, garbage collection.

Belongs here: whatever decides how bytes get to disk whole and how readers know that they are. Knows files, digests and
recipes, no biology and no orchestrator. Does not belong here: file formats of the field and downloads (``sources``),
the tables and their content checks (``lewm``, ``mito``), the asset graph (``defs``).
"""

from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.arrays.cache import ArrayCacheWriter
from genolewm_assets.store.arrays.export import export_array_store
from genolewm_assets.store.arrays.keys import (
    CACHE_VERSION,
    cache_key_dir,
    compute_fingerprint,
    compute_key,
    fingerprint_differences,
    read_fingerprint,
    validate_fingerprint,
    validate_sources,
)
from genolewm_assets.store.arrays.layout import ArraySpec, IndexEntry, is_complete
from genolewm_assets.store.arrays.memory import MemoryLimitError, usable_memory_bytes
from genolewm_assets.store.arrays.reader import ArrayStoreReader, verify_array_store
from genolewm_assets.store.arrays.report import ArrayStoreReport, find_caches, inspect_cache
from genolewm_assets.store.arrays.row_index import IndexedStore, RowAddress, RowIndex
from genolewm_assets.store.arrays.stamp_log import StampedStoreWriter
from genolewm_assets.store.arrays.stamps import (
    RowStamp,
    SourceChangedError,
    changed_files,
    read_stamped,
    stamp_file,
    stamp_files,
)
from genolewm_assets.store.arrays.writer import ArrayStoreWriter
from genolewm_assets.store.artefacts.build import (
    BuildPlan,
    BuildRejectedError,
    BuildReport,
    build,
    is_current,
    write_provenance,
)
from genolewm_assets.store.artefacts.gc import Reason, Removed, collect_garbage, sweep_caches
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.manifest import CheckResult, FileEntry, InputRef, Manifest, read_manifest
from genolewm_assets.store.artefacts.published import ArtefactId, Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import Finding, FindingKind, Verification, Verified, verify_root
from genolewm_assets.store.files.atomic import sync_directory, sync_tree, write_atomic
from genolewm_assets.store.files.canonical_json import JsonValue
from genolewm_assets.store.files.generations import publish_generation, resolve_generation
from genolewm_assets.store.tables.export import TableFormat

__all__ = [
    "CACHE_VERSION",
    "NO_PROGRESS",
    "ArrayCacheWriter",
    "ArraySpec",
    "ArrayStoreReader",
    "ArrayStoreReport",
    "ArrayStoreWriter",
    "ArtefactId",
    "BuildPlan",
    "BuildRejectedError",
    "BuildReport",
    "CheckResult",
    "FileEntry",
    "Finding",
    "FindingKind",
    "IndexEntry",
    "IndexedStore",
    "InputRef",
    "JsonValue",
    "Manifest",
    "MemoryLimitError",
    "Progress",
    "Published",
    "Reason",
    "Removed",
    "Root",
    "RowAddress",
    "RowIndex",
    "RowStamp",
    "SourceChangedError",
    "StampedStoreWriter",
    "TableFormat",
    "Verification",
    "Verified",
    "build",
    "cache_key_dir",
    "changed_files",
    "collect_garbage",
    "compute_fingerprint",
    "compute_key",
    "export_array_store",
    "find_caches",
    "fingerprint_differences",
    "inspect_cache",
    "is_complete",
    "is_current",
    "open_input",
    "publish_generation",
    "read_fingerprint",
    "read_manifest",
    "read_stamped",
    "resolve_generation",
    "stamp_file",
    "stamp_files",
    "sweep_caches",
    "sync_directory",
    "sync_tree",
    "usable_memory_bytes",
    "validate_fingerprint",
    "validate_sources",
    "verify_array_store",
    "verify_root",
    "write_atomic",
    "write_provenance",
]
