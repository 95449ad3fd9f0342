"""Which layout a folder has that is to be audited, and files that lie beside it in a root."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from genolewm_assets.audit.reading.geno_lewm import MANIFEST, PATTERNS, open_geno_lewm
from genolewm_assets.audit.reading.package_files import RECORD, PackageFiles, open_files
from genolewm_assets.errors import MissingResourceError


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


_ROOT_FILE = "root.json"


def find_fasta(files: PackageFiles) -> Path:
    """Return the FASTA of the root that holds a package.

    Raises
    ------
    MissingResourceError
        If no root holds the package, or it does not have one FASTA of the package's genome.
    """
    root = _root_of(files)
    digest = str(files.record.get("genome_digest", ""))
    found = sorted(root.glob("reference/*/genome.fa.gz")) if root is not None else []
    of_genome = [path for path in found if digest.startswith(path.parent.name)] or found
    if len(of_genome) != 1:
        raise MissingResourceError(
            str(files.directory),
            "has no reference FASTA beside it",
            expected="one reference/*/genome.fa.gz in the package's root",
            got=f"{len(of_genome)}",
            remedy="Name it with --reference",
        )
    return of_genome[0].resolve()


def find_clinvar(files: PackageFiles, release: str | None) -> Path | None:
    """Return the VCF of a ClinVar release in the root that holds a package; None where there is none."""
    root = _root_of(files)
    if root is None or not release:
        return None
    found = sorted((root / "clinvar" / release / "vcf").glob("*.vcf.gz"))
    return found[0].resolve() if len(found) == 1 else None


def earlier_release(files: PackageFiles) -> str | None:
    """Return T0 of the temporal holdout; None without one."""
    policy = files.record.get("policy")
    pair = policy.get("temporal") if isinstance(policy, dict) else None
    return str(pair[0]) if isinstance(pair, list) and pair else None


def _root_of(files: PackageFiles) -> Path | None:
    return next((folder for folder in files.directory.parents if (folder / _ROOT_FILE).is_file()), None)
