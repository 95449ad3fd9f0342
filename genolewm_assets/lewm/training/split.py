"""Read one split of a package: its windows, the alleles to sample edits from, and the alleles that no edit may make.

Not here: the package format (``lewm.packages``), sampling (``sampling``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.genome import DECIDED, HARMFUL, Holdout, IntervalArray, Split
from genolewm_assets.lewm.edits import AlleleIndex, EditSource, HeldSequences, SplitWindows
from genolewm_assets.lewm.packages import REFERENCE_ORIGIN, Package, VariantSource
from genolewm_assets.lewm.training.options import Coverage
from genolewm_assets.store.arrays import usable_memory_bytes
from genolewm_assets.variants import ALLELE_KEY

#: Columns of ``PACKAGE_VARIANTS`` that edits are sampled from.
_VARIANTS = ["holdout", "source", *ALLELE_KEY, "label", "stars", "clinvar_id", "gene_ids"]
#: Share of the memory available to this process that the packed bases of a split may take.
_MEMORY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class SplitSources:
    """Windows and alleles of one split.

    Attributes
    ----------
    windows
        Windows of the split.
    real
        Alleles of the split to sample edits from, by source.
    held_out
        Alleles that no edit may make.
    haplotypes
        Rows of ``HOLDOUT_HAPLOTYPES`` of the split; None unless the holdout is ``holdout-haplotypes``.
    held_sequences
        The bases that the alleles of ``held_out`` make; None unless a window has no exact placement.
    """

    windows: SplitWindows
    real: Mapping[EditSource, AlleleIndex]
    held_out: AlleleIndex
    haplotypes: pa.Table | None = None
    held_sequences: HeldSequences | None = None


def read_split(
    package: Package, split: Split, holdout: str | None, coverage: Coverage = Coverage.WINDOWS
) -> SplitSources:
    """Read the windows and alleles of a split.

    Parameters
    ----------
    package
        Package to read.
    split
        Split to read.
    holdout
        Holdout whose validation or test windows are read; None for training.
    coverage
        ``windows``: the windows of the running loss; ``alleles``: also those that are there to score alleles.

    Returns
    -------
    SplitSources
        Edits of training sample ClinVar's pathogenic alleles (P, LP); edits of validation and test sample all decided
        ones (P, LP, B, LB) with the review stars of the package's policy.

    Raises
    ------
    ConfigurationError
        If the split has no window of the holdout.
    CorruptResourceError
        If a training window overlaps a held-out interval.
    MemoryLimitError
        If the windows take more than half of the memory available to this process.
    """
    variants = _of_holdout(package.variants(split, _VARIANTS), holdout)
    if split is Split.TRAIN:
        _check_windows(package)
    windows = SplitWindows(_window_batches(package, split, holdout, coverage), max_bytes=window_bytes_allowed())
    if holdout is not None and not len(windows):
        raise ConfigurationError(
            f"{package.directory.name}: {split} windows of holdout {holdout!r}",
            "the holdout has none",
            expected=f"one of {_holdouts(package, split)}",
            got=repr(holdout),
        )
    clinvar = variants.filter(pc.equal(variants["source"], VariantSource.CLINVAR))
    # Training samples the pathogenic alleles (RFC-0006 §3.3), evaluation those with a decided class and enough stars.
    clinvar = clinvar.filter(pc.is_in(clinvar["label"], pa.array(HARMFUL if split is Split.TRAIN else DECIDED)))
    if split is not Split.TRAIN:
        clinvar = clinvar.filter(pc.greater_equal(clinvar["stars"], package.info.policy["min_stars"]))
    return SplitSources(
        windows=windows,
        real={
            EditSource.GNOMAD: AlleleIndex.of(
                variants.filter(pc.equal(variants["source"], VariantSource.GNOMAD)).select(ALLELE_KEY)
            ),
            EditSource.CLINVAR: AlleleIndex.of(clinvar),
        },
        held_out=read_closed_alleles(package, split),
        haplotypes=_haplotypes(package, split) if holdout == Holdout.HAPLOTYPES else None,
        # Windows of validation and test are of the reference.
        held_sequences=None if windows.all_placed else HeldSequences(package.context_batches()),
    )


def window_bytes_allowed() -> int:
    """Return the most bytes that the packed windows of a split may take: half of the memory of this process."""
    return int(_MEMORY_SHARE * usable_memory_bytes())


def read_closed_alleles(package: Package, split: Split) -> AlleleIndex:
    """Read the held-out alleles that no edit of a split may make, as :func:`closed_alleles`."""
    return closed_alleles(package.holdouts("alleles", ["role", *ALLELE_KEY]), split)


def closed_alleles(alleles: pa.Table, split: Split) -> AlleleIndex:
    """Return the held-out alleles that no edit of a split may make.

    Parameters
    ----------
    alleles
        Schema ``HOLDOUT_ALLELES``.
    split
        In training all held-out alleles are closed, in validation those of the test, in a test none.
    """
    if split is not Split.TRAIN:
        alleles = alleles.filter(pc.and_(pc.equal(alleles["role"], Split.TEST), split is Split.VALIDATION))
    return AlleleIndex.of(alleles.select(ALLELE_KEY))


def _haplotypes(package: Package, split: Split) -> pa.Table:
    table = package.holdouts("haplotypes")
    return table.filter(pc.equal(table["role"], split))


def _of_holdout(table: pa.Table, holdout: str | None) -> pa.Table:
    return table if holdout is None else table.filter(pc.equal(table["holdout"], holdout))


def _window_batches(
    package: Package, split: Split, holdout: str | None, coverage: Coverage
) -> Iterator[pa.RecordBatch]:
    for batch in package.window_batches(split):
        ours = batch if holdout is None else batch.filter(pc.equal(batch["holdout"], holdout))
        yield ours if coverage is Coverage.ALLELES else ours.filter(ours["frozen"])


def _holdouts(package: Package, split: Split) -> list[str]:
    return sorted(pc.unique(package.windows(split, ["holdout"])["holdout"]).to_pylist())


def _check_windows(package: Package) -> None:
    """Raise if a training window with an exact placement overlaps a held-out interval.

    The package build excludes such windows; this check verifies the published tables. A reference window counts with
    its margin of ``margin_bp`` bases.
    """
    intervals = package.holdouts("intervals")
    columns = ["origin", "contig", "start", "end", "placement_exact"]
    windows = package.windows(Split.TRAIN, columns).filter(pc.field("placement_exact"))
    for contig in pc.unique(intervals["contig"]).to_pylist():
        held = intervals.filter(pc.equal(intervals["contig"], contig))
        region = IntervalArray.from_unsorted(held["start"].to_numpy(), held["end"].to_numpy())
        contig_windows = windows.filter(pc.equal(windows["contig"], contig))
        margin = pc.if_else(pc.equal(contig_windows["origin"], REFERENCE_ORIGIN), package.info.margin_bp, 0)
        footprints = IntervalArray.from_unsorted(
            contig_windows["start"].to_numpy(), pc.add(contig_windows["end"], margin).to_numpy()
        )
        overlapping = int((region.overlap_bases(footprints) > 0).sum())
        if overlapping:
            raise CorruptResourceError(
                f"{package.directory.name}: training windows of {contig}",
                "some overlap held-out intervals",
                expected="none",
                got=f"{overlapping}",
                remedy="Rebuild the package",
            )
