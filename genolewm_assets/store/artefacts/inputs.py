"""Open a published artefact as the input of a build; every build opens its inputs with :func:`open_input`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RejectedResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.store.artefacts.manifest import Manifest, read_manifest
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
    if root.is_rejected(location):
        raise RejectedResourceError(
            f"{artefact} ({location})",
            f"the latest build failed: {rejection_reason(root, location)}",
            remedy=f"Correct its inputs or parameters, then rebuild {artefact}",
        )
    directory, manifest = _read_published(root, artefact, location)
    _check_identity(manifest, artefact, location)
    digests = FileDigests(directory) if contents == "hash" else None
    count = ByteCount(progress, 0 if digests is None else bytes_to_hash(manifest, digests))
    for damage in find_damage(directory, manifest, count, digests):
        raise CorruptResourceError(
            f"{artefact} ({location}/{damage.file})",
            damage.problem,
            expected=damage.expected,
            got=damage.got,
            remedy=f"Rebuild {artefact}",
        )
    if digests is not None:
        digests.keep(directory)
    return Published(artefact, directory, manifest, reused=True)


def _read_published(root: Root, artefact: ArtefactId, location: str) -> tuple[Path, Manifest]:
    try:
        directory = resolve_generation(root.link_of(location))
        return directory, read_manifest(directory)
    except (MissingResourceError, CorruptResourceError) as err:
        raise type(err)(
            f"{artefact} ({location})",
            f"{err.where}: {err.problem}",
            expected=err.expected,
            got=err.got,
            remedy=f"Rebuild {artefact}",
        ) from err


def _check_identity(manifest: Manifest, artefact: ArtefactId, location: str) -> None:
    if (manifest.asset, manifest.partition) != (artefact.asset, artefact.partition):
        raise CorruptResourceError(
            location,
            "another artefact is published here",
            expected=str(artefact),
            got=manifest.where,
            remedy=f"Rebuild {artefact}",
        )
    if manifest.failed_checks:
        raise RejectedResourceError(
            f"{artefact} ({location})",
            f"published with failed checks {manifest.failures}",
            remedy=f"Rebuild {artefact}",
        )
