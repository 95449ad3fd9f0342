"""Write the mapped form of a split from the rows of its tables: windows, alleles, and the index that names them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import DECIDED, HARMFUL, Split
from genolewm_assets.memory_mapped.allele_writer import AlleleWriter
from genolewm_assets.memory_mapped.layout import HELD_OUT, HELD_SEQUENCES, INDEX, WINDOWS, AlleleIndexNames
from genolewm_assets.memory_mapped.window_writer import FACT_COLUMNS, READ_COLUMNS, SpellingWriter, WindowWriter
from genolewm_assets.packages import (
    PACKAGE_FILE,
    PIECE_BASES,
    CacheRef,
    Package,
    PieceRef,
    VariantSource,
    piece_path,
    piece_rows,
    read_package_info,
)
from genolewm_assets.variants import ALLELE_KEY
from genolewm_assets.windows.bases import REBUILD, Create, create_file, map_bases

#: Columns of ``PACKAGE_VARIANTS`` that are read.
VARIANT_COLUMNS: Final = ("holdout", "source", *ALLELE_KEY, "label", "stars", "clinvar_id", "gene_ids")


class SplitWriter(ExitStack):
    """Writes the mapped form of one split; a context manager.

    Parameters
    ----------
    folder
        Folder of the split.
    min_stars
        Least review stars of the ClinVar alleles of validation and test.
    contexts
        ``PACKAGE_CONTEXTS``; they are read only for training windows without an exact placement.
    create
        Opens the files; by default they are made.
    scratch
        Folder in which alleles wait; by default those of their arrays.
    """

    def __init__(
        self,
        folder: Path,
        split: Split,
        *,
        min_stars: int,
        contexts: Iterable[pa.RecordBatch],
        create: Create = create_file,
        scratch: Path | None = None,
    ) -> None:
        super().__init__()
        self._folder, self._split, self._min_stars = folder, split, min_stars
        self._create, self._scratch = create, scratch
        self._spelling = SpellingWriter(folder / HELD_SEQUENCES, contexts, create, scratch or folder)
        # Windows of validation and test are of the reference.
        spelling = self._spelling if split is Split.TRAIN else None
        self._windows = self.enter_context(WindowWriter(folder / WINDOWS, create, spelling))
        self._alleles = {
            source: self.enter_context(
                AlleleWriter(
                    folder / source, with_classes=source is VariantSource.CLINVAR, create=create, scratch=scratch
                )
            )
            for source in VariantSource
        }

    def add_windows(self, windows: pa.Table | pa.RecordBatch) -> None:
        """Append windows (``PACKAGE_WINDOWS``) in the order of the files; bases other than ACGT are an error."""
        self._windows.add(windows)

    def add_piece(self, directory: Path, ref: PieceRef, cache: CacheRef | None, *, margin_bp: int) -> None:
        """Append the training windows of a piece of the package in ``directory``; pieces come before other windows."""
        path = directory / piece_path(ref.source, PIECE_BASES)
        parts = piece_rows(directory, ref, cache, FACT_COLUMNS)
        self._windows.add_piece(ref.source, map_bases(path), parts, margin_bp)

    def add_variants(self, variants: pa.Table | pa.RecordBatch) -> None:
        """Append the alleles of the split, columns :data:`VARIANT_COLUMNS`; those that no edit samples are left out."""
        table = pa.table(variants).select(VARIANT_COLUMNS)
        for source, writer in self._alleles.items():
            writer.add(sampled(table, source, self._split, self._min_stars))

    def finish(self, held_out: pa.Table) -> None:
        """Write the rest and the index; nothing can be added afterwards.

        ``held_out`` has the columns role, chrom, pos, ref and alt of ``HOLDOUT_ALLELES``, of all splits.
        """
        windows = self._windows.finish()
        alleles: dict[str, AlleleIndexNames] = {str(source): one.finish() for source, one in self._alleles.items()}
        closed = closed_alleles(held_out, self._split)
        with AlleleWriter(self._folder / HELD_OUT, create=self._create, scratch=self._scratch) as writer:
            writer.add(closed.append_column("holdout", pa.nulls(len(closed), pa.string())))
            alleles[HELD_OUT] = writer.finish()
        n_kmers, n_seed_words = self._spelling.finish()
        index = replace(windows, alleles=alleles, n_kmers=n_kmers, n_seed_words=n_seed_words)
        with closing(self._create(self._folder / INDEX)) as file:
            file.write(index.to_bytes())


def write_from_tables(
    folder: Path, directory: Path, split: Split, *, create: Create = create_file, scratch: Path | None = None
) -> None:
    """Write the mapped form of a split from the tables of a package.

    Parameters
    ----------
    folder, directory
        Folder of the split's form, and of the package.
    create, scratch
        As for :class:`SplitWriter`.

    Raises
    ------
    CorruptResourceError
        If ``package.json`` or a table cannot be read, or a window holds another base than A, C, G and T.
    """
    package = Package(directory, read_package_info(directory), {})
    stars, contexts = package.info.policy.get("min_stars"), package.context_batches()
    if not isinstance(stars, int):
        raise CorruptResourceError(
            f"{directory}/{PACKAGE_FILE}", "its policy has no min_stars", got=repr(stars), remedy=REBUILD
        )
    with SplitWriter(folder, split, min_stars=stars, contexts=contexts, create=create, scratch=scratch) as writer:
        for ref in package.info.pieces if split is Split.TRAIN else ():
            cache = package.info.cache_of(ref.source)
            writer.add_piece(directory, ref, cache, margin_bp=package.info.margin_bp)
        for batch in package.own_batches(split, READ_COLUMNS):
            writer.add_windows(batch)
        for batch in package.variant_batches(split, VARIANT_COLUMNS):
            writer.add_variants(batch)
        writer.finish(package.holdouts("alleles", ["role", *ALLELE_KEY]))


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

    ``held_out`` has the column role and those of ``ALLELE_KEY``, which are returned.
    """
    alleles = held_out.select(ALLELE_KEY)
    if split is Split.TRAIN:
        return alleles
    return alleles.filter(pc.and_(pc.equal(held_out["role"], Split.TEST), split is Split.VALIDATION))
