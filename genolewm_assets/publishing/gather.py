"""What of a package is published: its own files, the audit that it passed, the state caches that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError
from genolewm_assets.packages import find_audit, open_package, open_tables, verify_package
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.releases import ReleaseIndex, parse_index
from genolewm_assets.store.artefacts import MANIFEST, ROOT_FILE, FileEntry, enclosing_root, read_manifest, verify_folder
from genolewm_assets.store.files import measure_file

_PACKAGE_ASSET = "packages/split"


@dataclass(frozen=True, slots=True)
class Gathered:
    """A release that may be published: its index, and the local file of each path of it."""

    index: ReleaseIndex
    files: Mapping[str, Path]


def gather(
    package: Path, *, cache_root: Path | None = None, states: bool = True, progress: Progress = NO_PROGRESS
) -> Gathered:
    """Verify a package, and return what of it is published.

    Files that no manifest lists stay here: ``provenance.json`` names the machine.

    Parameters
    ----------
    package
        Folder of the package, or the link to it.
    cache_root
        Root that has the audit and the state caches; None: the one that the package is in.
    states
        Publish the state caches too.

    Raises
    ------
    InputError
        If the folder is of another asset, such as forensic profiles, which are personal data.
    RejectedResourceError, MissingResourceError
        If the audit of the package failed, it was not audited, or it or a cache is missing.
    CorruptResourceError
        If a byte differs from a manifest, or a figure from the tables.
    """
    directory = package.resolve()
    asset = read_manifest(directory).asset
    if asset != _PACKAGE_ASSET:
        raise InputError(
            str(package),
            "only packages are published; artefacts may be personal data",
            expected=f"a package ({_PACKAGE_ASSET})",
            got=asset,
            remedy="Name the folder of a package",
        )
    opened = (open_package if states else open_tables)(directory, cache_root=cache_root, contents="sizes")
    audit = find_audit(directory, opened.info.release, cache_root)
    _check_bytes(directory, cache_root if states else directory, audit, states=states, progress=progress)
    folders = {"package": directory, f"audits/{opened.info.release}": audit}
    folders |= {ref.path: opened.caches[ref.source] for ref in opened.info.caches} if states else {}
    entries: list[FileEntry] = []
    files: dict[str, Path] = {}
    for place, folder in folders.items():
        manifest = read_manifest(folder)
        listed = (*manifest.files, FileEntry(MANIFEST, len(manifest.to_bytes()), manifest.sha256))
        entries += [FileEntry(f"{place}/{each.path}", each.size_bytes, each.sha256) for each in listed]
        files |= {f"{place}/{each.path}": folder / each.path for each in listed}
    if (root := cache_root or enclosing_root(directory)) is not None and (root / ROOT_FILE).is_file():
        measured = measure_file(root / ROOT_FILE)
        entries.append(FileEntry(ROOT_FILE, measured.size_bytes, measured.sha256))
        files[ROOT_FILE] = root / ROOT_FILE
    index = ReleaseIndex(
        opened.info.release,
        read_manifest(directory).sha256,
        tuple(sorted(entries, key=lambda entry: entry.path)),
    )
    return Gathered(parse_index(index.to_bytes(), str(package)), files)


def _check_bytes(directory: Path, root: Path | None, audit: Path, *, states: bool, progress: Progress) -> None:
    """Raise at the first file of package, caches or audit that differs from its record.

    Without states, ``root`` is the package itself: no cache is found there, so that none is hashed.
    """
    for finding in verify_package(directory, cache_root=root, progress=progress):
        if finding.is_fault and (states or finding.location == directory.name):
            kind = MissingResourceError if finding.kind == "missing" else CorruptResourceError
            raise kind(str(finding), "the package does not verify", remedy="Build it again; nothing was published")
    for line in verify_folder(audit, progress=progress):
        raise CorruptResourceError(str(audit), f"the audit does not verify ({line})", remedy="Audit the package again")
