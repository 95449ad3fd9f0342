"""Which layout a folder has that is to be audited, and its files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from genolewm_assets.audit.reading.geno_lewm import MANIFEST, PATTERNS, open_geno_lewm
from genolewm_assets.audit.reading.package_files import RECORD, PackageFiles, open_files


class Layout(StrEnum):
    """Layouts that can be audited: a package of this platform, or data of geno-lewm 0.2.1."""

    PACKAGE = "package"
    GENO_LEWM = "geno-lewm"


def find_layout(directory: Path) -> Layout:
    """Return the layout that a folder has; ``package`` where it has none that is known."""
    if (directory / RECORD).is_file():
        return Layout.PACKAGE
    peer = (directory / MANIFEST).is_file() or any(True for each in PATTERNS for _ in directory.glob(each))
    return Layout.GENO_LEWM if peer else Layout.PACKAGE


def open_layout(
    directory: Path, fasta: Path, holdouts: Path | None = None, layout: Layout | None = None
) -> PackageFiles:
    """Open a folder that is to be audited."""
    if (layout or find_layout(directory)) is Layout.GENO_LEWM:
        return open_geno_lewm(directory, holdouts, fasta)
    return open_files(directory, holdouts)
