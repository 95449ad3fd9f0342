"""Open a published artefact as the input of a build; every build opens its inputs with :func:`open_input`."""

from __future__ import annotations

from typing import Literal

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RejectedResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets.store.artefacts.published import ArtefactId, Published, bytes_to_hash, find_damage
from genolewm_assets.store.artefacts.rejected import rejection_reason
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files import FileDigests, resolve_generation


def open_input(
    root: Root,
    artefact: ArtefactId,
    location: str,
    *,
    contents: Literal["hash", "sizes"] = "hash",
    progress: Progress = NO_PROGRESS,
) -> Published:
    """Open a published artefact after comparing its files with its manifest.

    Parameters
    ----------
    contents
        ``hash`` hashes every file that is not known (:class:`FileDigests`), and records it. ``sizes`` compares sizes
        only; use it for array stores, whose reader compares the checksum of each batch of rows that it returns
        (``ArrayStoreReader(..., check=True)``).

    Raises
    ------
    MissingResourceError
        If nothing is published at the location.
    RejectedResourceError
        If the latest build failed, or the manifest contains a failed check.
    CorruptResourceError
        If another artefact is published at the location, or a file is altered, missing or not listed.
    """
    where, remedy = f"{artefact} ({location})", f"Rebuild {artefact}"
    if root.is_rejected(location):
        raise RejectedResourceError(
            where,
            f"the latest build failed: {rejection_reason(root, location)}",
            remedy=f"Correct its inputs or parameters, then rebuild {artefact}",
        )
    try:
        directory = resolve_generation(root.link_of(location))
        manifest = read_manifest(directory)
    except (MissingResourceError, CorruptResourceError) as err:
        problem = f"{err.where}: {err.problem}"
        raise type(err)(where, problem, expected=err.expected, got=err.got, remedy=remedy) from err
    if (manifest.asset, manifest.partition) != (artefact.asset, artefact.partition):
        problem = "another artefact is published here"
        raise CorruptResourceError(location, problem, expected=str(artefact), got=manifest.where, remedy=remedy)
    if manifest.failed_checks:
        raise RejectedResourceError(where, f"published with failed checks {manifest.failures}", remedy=remedy)
    digests = FileDigests(directory) if contents == "hash" else None
    count = ByteCount(progress, 0 if digests is None else bytes_to_hash(manifest, digests))
    for damage in find_damage(directory, manifest, count, digests):
        at = f"{artefact} ({location}/{damage.file})"
        raise CorruptResourceError(at, damage.problem, expected=damage.expected, got=damage.got, remedy=remedy)
    if digests is not None:
        digests.keep(directory)
    return Published(artefact, directory, manifest, reused=True)
