"""All findings of a root: artefacts, links, records that readers follow, and the index of windows."""

from __future__ import annotations

from genolewm_assets.lewm.states import find_index_faults
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import Finding, Root, verify_root
from genolewm_assets.verification.records import find_record_faults


def verify_whole_root(root: Root, *, progress: Progress = NO_PROGRESS) -> list[Finding]:
    """Hash every published file of a root, and open every record and index as its readers do.

    Returns
    -------
    list of Finding
        Those of records and of the index first; empty if a reader can open everything.

    Raises
    ------
    MissingResourceError
        If the folder is not a root.
    RootError
        If ``root.json`` is damaged.
    ResourceError
        If a folder cannot be read.
    """
    root.check_is_root()
    return [*further_findings(root), *verify_root(root, progress=progress)]


def further_findings(root: Root) -> list[Finding]:
    """Return the findings that are of no artefact; errors are those of :func:`verify_whole_root`."""
    return [*find_record_faults(root), *find_index_faults(root)]
