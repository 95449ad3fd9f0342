"""Audits of packages as files of a root: whether the latest audit of exactly one package passed.

::

    <root>/audits/<release>/manifest.json            the audit that passed, and the package that it audited
    <root>/rejected/audits/<release>/manifest.json   the latest audit of the release, if it failed

Whoever copies a package copies ``audits/<release>`` too, to a folder that the package is in.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from genolewm_assets.errors import CorruptResourceError, GenoLeWMError, MissingResourceError, RejectedResourceError
from genolewm_assets.store.artefacts import Check, Manifest, Root, read_manifest
from genolewm_assets.store.files import generations_of, resolve_generation

#: Folder of the audits in a root, and the asset that writes them.
AUDITS, AUDIT_ASSET = "audits", "packages/audit"
#: Checks of an audit that must have passed.
NO_LEAK_FOUND = Check(
    "no_leak_found",
    "Code that shares nothing with the filters read the package and the FASTA, drew the training stream and the "
    "benches, and found no held-out interval, record, sequence or allele, no window of an evaluation, no wrong label, "
    "and nothing else that the other checks name.",
    "Do not train on this package: packages/current does not move to it. The rows name what leaks, and "
    "findings.parquet in the folder rejected of the root names all. Hold it out (holdouts in the catalogue), or take "
    "its records out of the corpus, then materialise holdouts/manifest, packages/split and packages/audit. If the "
    "catalogue should have kept it out, report the rows: a filter is wrong.",
)
PLANTED_LEAKS_FOUND = Check(
    "planted_leaks_found",
    "Of each kind of leak that was planted in a part of the package, the audit found at least the stated share; kinds "
    "that the catalogue declares (`packages.audit_may_lack`) may be found less often.",
    "The audit would miss leaks of the kinds of the rows, so its result says too little: packages/current does not "
    "move. Raise packages.audit_planted if chance may be the reason, and packages.audit_tuples if recreated_allele is "
    "among the rows, or declare that kind in packages.audit_may_lack; otherwise report them.",
)
IS_CONCLUSIVE = Check(
    "audit_is_conclusive",
    "Every search of the audit had all that it needs, such as whole held-out contigs in the FASTA, except those of the "
    "kinds that the catalogue declares (`packages.audit_may_lack`).",
    "Give the audit what the rows name: a FASTA with whole contigs, the ClinVar VCF of the release, or more tuples "
    "(packages.audit_tuples). If the genome is meant to be partial, declare the kinds: packages.audit_may_lack.",
)
PASSED = frozenset({NO_LEAK_FOUND, PLANTED_LEAKS_FOUND, IS_CONCLUSIVE})

_PACKAGE_ASSET = "packages/split"


def audit_location(release: str) -> str:
    """Return the root-relative path at which the audit of a release's package is published."""
    return f"{AUDITS}/{release}"


def check_audited(root: Path, release: str, manifest_sha256: str) -> Path:
    """Check that the latest audit of a package passed, and return the folder of the audit.

    Parameters
    ----------
    root
        Root of the artefacts.
    release, manifest_sha256
        ClinVar release and manifest of the package; an audit of another build of the release does not count.

    Raises
    ------
    RejectedResourceError
        If the latest audit of the package failed.
    MissingResourceError
        If no audit of the package is published.
    CorruptResourceError
        If the record of the published audit cannot be read.
    """
    where, location = f"{AUDIT_ASSET}[{release}]", audit_location(release)
    failed = _read_rejected(root, location)
    if failed is not None and manifest_sha256 in _audited(failed):
        raise RejectedResourceError(
            where,
            f"the audit of the package failed: {', '.join(failed.failed_checks)}",
            remedy=f"See the rows on its page, or in {root / 'rejected' / location}; mend what they name, and "
            "materialise packages/split and packages/audit",
        )
    remedy, published = f"Materialise {AUDIT_ASSET} for {release}", root / location
    try:
        # A copy is a folder, not a link to a generation.
        is_copy = published.is_dir() and not published.is_symlink()
        folder = published if is_copy else resolve_generation(published)
        found = read_manifest(folder)
    except MissingResourceError as err:
        raise MissingResourceError(where, "the package is not audited", remedy=remedy) from err
    except CorruptResourceError as err:
        raise CorruptResourceError(where, f"the audit cannot be read ({err.problem})", remedy=remedy) from err
    passed = {check.name for check in found.checks if check.passed}
    if (found.asset, found.partition) != (AUDIT_ASSET, release) or not passed >= PASSED:
        raise CorruptResourceError(where, "no audit that passed is published here", remedy=remedy)
    if manifest_sha256 not in _audited(found):
        raise MissingResourceError(
            where,
            "the package is not audited, another build of the release is",
            expected=f"manifest {manifest_sha256[:12]}",
            got=", ".join(f"manifest {sha256[:12]}" for sha256 in sorted(_audited(found))) or "none",
            remedy=remedy,
        )
    return folder


def find_audit(directory: Path, release: str, cache_root: Path | None) -> Path:
    """Return the folder of an audit that a package passed: in the named root, or in a folder that the package is in.

    Raises
    ------
    RejectedResourceError, MissingResourceError, CorruptResourceError
        If the latest audit of the package failed, none is there, or its record cannot be read.
    """
    location, missing = audit_location(release), None
    try:
        manifest_sha256 = read_manifest(directory).sha256
        for root in (*([cache_root] if cache_root else []), *directory.parents):
            if (root / location).exists() or (root / "rejected" / location).exists():
                # A superseded audit is still that of its package.
                earlier = _passed_before(root, location, manifest_sha256)
                return earlier or check_audited(root, release, manifest_sha256)
    except (MissingResourceError, RejectedResourceError, CorruptResourceError) as err:
        missing = err
    problem = "no audit of the package is here" if missing is None else missing.problem
    remedy = f"Materialise {AUDIT_ASSET} for {release}" if missing is None else missing.remedy
    kind = MissingResourceError if missing is None else type(missing)
    raise kind(
        str(directory),
        problem,
        expected=f"{location}, in a folder that the package is in, with a passed audit of exactly this package",
        remedy=f"{remedy}; of a copy, copy {location} of its root too; or pass allow_unaudited=True",
    ) from missing


def _passed_before(root: Path, location: str, manifest_sha256: str) -> Path | None:
    """Return the folder of a superseded audit of a release that is of this package, if none of it failed since."""
    failed = _read_rejected(root, location)
    if failed is not None and manifest_sha256 in _audited(failed):
        return None
    for folder in generations_of(root / location):
        with suppress(GenoLeWMError, OSError):
            found = read_manifest(folder)
            if manifest_sha256 in _audited(found) and {check.name for check in found.checks if check.passed} >= PASSED:
                return folder
    return None


def _read_rejected(root: Path, location: str) -> Manifest | None:
    """Return the manifest of the latest audit of a release if it failed its checks."""
    # An audit that could not be finished has no manifest, and says nothing of the package.
    with suppress(GenoLeWMError, OSError):
        failed = read_manifest(resolve_generation(Root(root).rejected_path(location)))
        return failed if failed.failed_checks else None
    return None


def _audited(audit: Manifest) -> set[str]:
    """Return the manifests of the packages that an audit read."""
    return {each.manifest_sha256 for each in audit.inputs if each.asset == _PACKAGE_ASSET}
