"""Crash-safe files: atomic publication, manifests, builds, checked reading, verification, garbage collection.

Belongs here: whatever decides how bytes get to disk whole and how readers know that they are. Knows files, digests and
recipes, no biology and no orchestrator. Does not belong here: file formats of the field and downloads (``sources``),
table schemas and content checks (``lewm``), the asset graph (``defs``).
"""

from genolewm_assets.store.atomic import (
    publish_generation,
    resolve_generation,
    sync_directory,
    sync_tree,
    write_atomic,
)
from genolewm_assets.store.build import BuildPlan, BuildRejectedError, BuildReport, build, is_current
from genolewm_assets.store.gc import Reason, Removed, collect_garbage
from genolewm_assets.store.generation import ArtefactId, Published
from genolewm_assets.store.inputs import open_input
from genolewm_assets.store.manifest import CheckResult, FileEntry, InputRef, JsonValue, Manifest, read_manifest
from genolewm_assets.store.progress import NO_PROGRESS, Progress
from genolewm_assets.store.provenance import write_provenance
from genolewm_assets.store.root import Root
from genolewm_assets.store.verify import Finding, FindingKind, verify_root

__all__ = [
    "NO_PROGRESS",
    "ArtefactId",
    "BuildPlan",
    "BuildRejectedError",
    "BuildReport",
    "CheckResult",
    "FileEntry",
    "Finding",
    "FindingKind",
    "InputRef",
    "JsonValue",
    "Manifest",
    "Progress",
    "Published",
    "Reason",
    "Removed",
    "Root",
    "build",
    "collect_garbage",
    "is_current",
    "open_input",
    "publish_generation",
    "read_manifest",
    "resolve_generation",
    "sync_directory",
    "sync_tree",
    "verify_root",
    "write_atomic",
    "write_provenance",
]
