"""Write the mapped form of a split from the rows of its tables: windows, alleles, and the index that names them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.edits import HeldKmers, HeldSequences
from genolewm_assets.genome import DECIDED, HARMFUL, Split
from genolewm_assets.memory_mapped.allele_writer import AlleleWriter, write_alleles
from genolewm_assets.memory_mapped.array_file import HEADER_BYTES, map_array, write_array
from genolewm_assets.memory_mapped.layout import (
    HELD_OUT,
    HELD_SEQUENCES,
    INDEX,
    KMER_COLUMNS,
    WINDOW_COLUMNS,
    WINDOWS,
    AlleleIndexNames,
)
from genolewm_assets.memory_mapped.window_writer import READ_COLUMNS, WindowWriter
from genolewm_assets.packages import Package, VariantSource, read_package_info
from genolewm_assets.store.files import write_atomic
from genolewm_assets.variants import ALLELE_KEY

#: Windows whose bases are read at once.
_READ_ROWS: Final = 1_024
#: Columns of ``PACKAGE_VARIANTS`` that are read.
VARIANT_COLUMNS: Final = ("holdout", "source", *ALLELE_KEY, "label", "stars", "clinvar_id", "gene_ids")


class SplitWriter(ExitStack):
    """Writes the mapped form of one split; a context manager.

    Parameters
    ----------
    folder
        Folder of the split; it is made.
    min_stars
        Least review stars of the ClinVar alleles of validation and test.
    """

    def __init__(self, folder: Path, split: Split, *, min_stars: int) -> None:
        super().__init__()
        self._folder, self._split, self._min_stars = folder, split, min_stars
        self._windows = self.enter_context(WindowWriter(folder / WINDOWS))
        self._alleles = {
            source: self.enter_context(AlleleWriter(folder / source, with_classes=source is VariantSource.CLINVAR))
            for source in VariantSource
        }

    def add_windows(self, windows: pa.Table | pa.RecordBatch) -> None:
        """Append windows (``PACKAGE_WINDOWS``) in the order of the files; bases other than ACGT are an error."""
        self._windows.add(windows)

    def add_variants(self, variants: pa.Table | pa.RecordBatch) -> None:
        """Append the alleles of the split, columns :data:`VARIANT_COLUMNS`; those that no edit samples are left out."""
        table = pa.table(variants).select(VARIANT_COLUMNS)
        for source, writer in self._alleles.items():
            writer.add(sampled(table, source, self._split, self._min_stars))

    def finish(self, held_out: pa.Table, contexts: Iterable[pa.RecordBatch]) -> None:
        """Write the rest and the index; nothing can be added afterwards.

        ``held_out`` has the columns role, chrom, pos, ref and alt of ``HOLDOUT_ALLELES``, of all splits; ``contexts``
        (``PACKAGE_CONTEXTS``) are read only for training windows without an exact placement.
        """
        windows = self._windows.finish()
        alleles: dict[str, AlleleIndexNames] = {str(source): one.finish() for source, one in self._alleles.items()}
        closed = closed_alleles(held_out, self._split).select(ALLELE_KEY)
        alleles[HELD_OUT] = write_alleles(self._folder / HELD_OUT, [closed])
        n_kmers, n_seed_words = None, 0
        # Windows of validation and test are of the reference.
        if self._split is Split.TRAIN and not all(view.all_placed for view in windows.views):
            kmers = HeldSequences(contexts).table
            spells = find_spelling(self._folder / WINDOWS, windows.n_windows, kmers)
            for name, array in (("keys", kmers.keys), ("seeds", kmers.seeds), ("spells_held", spells)):
                write_array(self._folder / HELD_SEQUENCES / f"{name}.npy", array, KMER_COLUMNS[name].dtype)
            n_kmers, n_seed_words = len(kmers.keys), len(kmers.seeds)
        index = replace(windows, alleles=alleles, n_kmers=n_kmers, n_seed_words=n_seed_words)
        write_atomic(self._folder / INDEX, index.to_bytes())


def write_from_tables(folder: Path, directory: Path, split: Split) -> None:
    """Write the mapped form of a split from the tables of a package.

    Parameters
    ----------
    folder, directory
        Folder of the split's form, which is made, and of the package.

    Raises
    ------
    CorruptResourceError
        If ``package.json`` or a table cannot be read, or a window holds another base than A, C, G and T.
    """
    package = Package(directory, read_package_info(directory), {})
    with SplitWriter(folder, split, min_stars=int(str(package.info.policy["min_stars"]))) as writer:
        for batch in package.window_batches(split, READ_COLUMNS):
            writer.add_windows(batch)
        for batch in package.variant_batches(split, VARIANT_COLUMNS):
            writer.add_variants(batch)
        writer.finish(package.holdouts("alleles", ["role", *ALLELE_KEY]), package.context_batches())


def find_spelling(folder: Path, n_windows: int, kmers: HeldKmers) -> NDArray[np.bool_]:
    """Return which windows, written to a folder, have no exact placement and spell one of some 31-mers."""
    from genolewm_assets.edits import kmer_kernels

    spells = np.zeros(n_windows, dtype=np.bool_)
    contig, sizes, first_byte = (
        map_array(folder / f"{name}.npy", WINDOW_COLUMNS[name].dtype, shape)
        for name, shape in (("contig", (n_windows,)), ("sizes", (n_windows, 3)), ("first_byte", (n_windows,)))
    )
    with (folder / "bases.npy").open("rb") as bases:
        for start in range(0, n_windows, _READ_ROWS):
            rows = slice(start, start + _READ_ROWS)
            n_bases = np.where(contig[rows] < 0, sizes[rows].sum(axis=1, dtype=np.int64), 0)
            n_bytes = int(-(-sizes[rows].sum(axis=1, dtype=np.int64) // 4).sum())
            bases.seek(HEADER_BYTES + int(first_byte[start]))
            packed = np.fromfile(bases, dtype=np.uint8, count=n_bytes)
            kmer_kernels.mark_spelling(packed, first_byte[rows] - first_byte[start], n_bases, kmers, spells[rows])
    return spells


def sampled(variants: pa.Table, source: VariantSource, split: Split, min_stars: int) -> pa.Table:
    """Return the alleles of a source that edits of a split are drawn from."""
    ours = pc.equal(variants["source"], source)
    if source is VariantSource.CLINVAR:
        # Training samples the pathogenic alleles (RFC-0006 §3.3), evaluation those with a decided class and stars.
        classes = pa.array(HARMFUL if split is Split.TRAIN else DECIDED)
        ours = pc.and_(ours, pc.is_in(variants["label"], classes))
        if split is not Split.TRAIN:
            ours = pc.and_(ours, pc.greater_equal(variants["stars"], min_stars))
    return variants.filter(ours)


def closed_alleles(held_out: pa.Table, split: Split) -> pa.Table:
    """Return the held-out alleles that no edit of a split may make: all in training, those of the test in validation.

    ``held_out`` has the column role, and others.
    """
    if split is Split.TRAIN:
        return held_out
    return held_out.filter(pc.and_(pc.equal(held_out["role"], Split.TEST), split is Split.VALIDATION))
