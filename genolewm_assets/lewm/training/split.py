"""Read one split of a package: its windows, the alleles to sample edits from, and the alleles that no edit may make.

Not here: the package format (``lewm.packages``), sampling (``sampling``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.genome import DECIDED, HARMFUL, IntervalArray, Split
from genolewm_assets.lewm.packages import REFERENCE_ORIGIN, Package, VariantSource
from genolewm_assets.lewm.training.allele_index import AlleleIndex
from genolewm_assets.lewm.training.schedule import EditSource
from genolewm_assets.lewm.training.windows import SplitWindows
from genolewm_assets.store.arrays import usable_memory_bytes
from genolewm_assets.variants import ALLELE_KEY

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
    """

    windows: SplitWindows
    real: Mapping[EditSource, AlleleIndex]
    held_out: AlleleIndex


def read_split(package: Package, split: Split, holdout: str | None) -> SplitSources:
    """Read the windows and alleles of a split.

    Parameters
    ----------
    package
        Package to read.
    split
        Split to read.
    holdout
        Holdout whose validation or test windows are read; None for training.

    Returns
    -------
    SplitSources
        Edits of training sample ClinVar's pathogenic alleles (P, LP); edits of validation and test sample all decided
        ones (P, LP, B, LB).

    Raises
    ------
    ConfigurationError
        If the split has no window of the holdout.
    CorruptResourceError
        If a training window overlaps a held-out interval.
    MemoryLimitError
        If the windows take more than half of the memory available to this process.
    """
    variants = _of_holdout(package.variants(split), holdout)
    alleles = package.holdouts("alleles")
    if split is Split.TRAIN:
        _check_windows(package)
    else:
        # No edit of validation may make a test allele; in a test every allele is allowed.
        alleles = alleles.filter(pc.and_(pc.equal(alleles["role"], Split.TEST), split is Split.VALIDATION))
    max_bytes = int(_MEMORY_SHARE * usable_memory_bytes())
    windows = SplitWindows(_window_batches(package, split, holdout), max_bytes=max_bytes)
    if holdout is not None and not len(windows):
        raise ConfigurationError(
            f"{package.directory.name}: {split} windows of holdout {holdout!r}",
            "the holdout has none",
            expected=f"one of {_holdouts(package, split)}",
            got=repr(holdout),
        )
    # Training samples the pathogenic alleles (RFC-0006 §3.3), evaluation all alleles with a decided class.
    labels = HARMFUL if split is Split.TRAIN else DECIDED
    clinvar = variants.filter(pc.equal(variants["source"], VariantSource.CLINVAR))
    return SplitSources(
        windows=windows,
        real={
            EditSource.GNOMAD: AlleleIndex(variants.filter(pc.equal(variants["source"], VariantSource.GNOMAD))),
            EditSource.CLINVAR: AlleleIndex(clinvar.filter(pc.is_in(clinvar["label"], pa.array(labels)))),
        },
        held_out=AlleleIndex(alleles.select(ALLELE_KEY)),
    )


def _of_holdout(table: pa.Table, holdout: str | None) -> pa.Table:
    return table if holdout is None else table.filter(pc.equal(table["holdout"], holdout))


def _window_batches(package: Package, split: Split, holdout: str | None) -> Iterator[pa.RecordBatch]:
    for batch in package.window_batches(split):
        yield batch if holdout is None else batch.filter(pc.equal(batch["holdout"], holdout))


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
