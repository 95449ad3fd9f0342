"""Open the mapped form of a split; nothing of a window or an allele is read until it is asked for."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import LEAST_WORDS, AlleleIndex, Classification, HeldKmers, HeldSequences
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.genome import Split
from genolewm_assets.memory_mapped.layout import (
    ALLELE_COLUMNS,
    CLASS_COLUMNS,
    HELD_OUT,
    HELD_SEQUENCES,
    INDEX,
    KMER_COLUMNS,
    VIEW_ROWS,
    VIEW_ROWS_COLUMN,
    WINDOW_COLUMNS,
    WINDOWS,
    SplitIndex,
    ViewIndex,
)
from genolewm_assets.packages import PIECE_BASES, Package, VariantSource, arrays_path, piece_path
from genolewm_assets.windows.bases import BASES_TYPE, HEADER_BYTES, REBUILD, map_array


def open_mapped(package: Package, split: Split) -> MappedSplit:
    """Open the mapped form of a split of an open package.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        If the package does not carry the form, or a file of it is missing, damaged or of another version.
    """
    path = arrays_path(split)
    if not any(entry.path == f"{path}/{INDEX}" for entry in package.info.files):
        raise MissingResourceError(
            str(package.directory),
            "lacks the files that trainers map",
            expected=f"{path}/{INDEX} among its files",
            remedy="Build the package again",
        )
    return MappedSplit(package.directory / path)


class MappedSplit:
    """One split in its mapped form, of which ``index`` has the names and counts; a pickle holds the path alone.

    All files are compared with the index at once; a column is mapped when it is first used.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.index = folder, SplitIndex.read(folder)
        self._mapped: dict[str, NDArray[Any]] = {}
        self._descriptors: dict[int, int] = {}
        weakref.finalize(self, _close_all, self._descriptors)
        try:
            self._kinds = dict(_kinds(self.index))
            for name, kind in self._kinds.items():
                map_array(self._path(name), *kind)
            for name, n_bytes in zip(self.index.pieces, self.index.piece_bytes, strict=True):
                map_array(self._piece_path(name), BASES_TYPE, (n_bytes,))
        except (AttributeError, TypeError, ValueError, OverflowError) as err:
            raise CorruptResourceError(str(folder / INDEX), f"is no index of a split ({err})", remedy=REBUILD) from err

    def __reduce__(self) -> tuple[object, ...]:
        return MappedSplit, (self.folder,)

    def column(self, name: str) -> NDArray[Any]:
        """Return a mapped column by its path without ending, such as ``windows/start``; it is read-only."""
        if name not in self._mapped:
            self._mapped[name] = map_array(self._path(name), *self._kinds[name])
        return self._mapped[name]

    def read_bases(
        self, piece: NDArray[np.int64], first_byte: NDArray[np.int64], n_bytes: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """Read parts of the files of bases, one after another; a map would read more of a cold disk.

        ``piece``: code of the piece of each part, -1 for ``windows/bases``.
        """
        found = np.empty(int(n_bytes.sum()), dtype=np.uint8)
        # Windows that follow each other in a file are read at once.
        apart = (first_byte[1:] != (first_byte + n_bytes)[:-1]) | (piece[1:] != piece[:-1])
        begins = np.flatnonzero(np.concatenate(([True], apart))[: len(n_bytes)])
        at, view = np.cumsum(n_bytes) - n_bytes, memoryview(found.data)
        bounds, pieces = [*at[begins].tolist(), len(found)], piece[begins].tolist()
        for code, offset, start, stop in zip(pieces, first_byte[begins].tolist(), bounds, bounds[1:], strict=False):
            if os.preadv(self._open_bases(code), [view[start:stop]], HEADER_BYTES + offset) != stop - start:
                raise self.damaged(_BASES, "ends before the bases of a window")
        return found

    def view(self, holdout: str | None, *, frozen_only: bool) -> ViewIndex:
        """Return the index of the windows of a holdout; None: those of train. A holdout without windows is an error."""
        for view in self.index.views:
            if (view.holdout, view.frozen_only) == (holdout or "", frozen_only) and (view.n_windows or not holdout):
                return view
        raise ConfigurationError(
            f"{self.folder.name} windows of holdout {holdout!r}",
            "the holdout has none",
            expected=f"one of {sorted({view.holdout for view in self.index.views if view.n_windows})}",
            got=repr(holdout),
        )

    def view_rows(self, view: ViewIndex) -> NDArray[np.int64] | None:
        """Return the rows of a view, ascending: int64, shape (n_windows,); None: all rows of the split."""
        return None if view.rows is None else self.column(_VIEW_ROWS)[slice(*view.rows)]

    def real_alleles(self, source: VariantSource, holdout: str | None) -> AlleleIndex:
        """Return the alleles that edits of a holdout or, None, of train are drawn from; rows are those of the files."""
        return self._alleles(source, holdout or "")

    def held_out(self) -> AlleleIndex:
        """Return the alleles that no edit of the split may make."""
        return self._alleles(HELD_OUT, "")

    def held_sequences(self) -> HeldSequences | None:
        """Return what held-out alleles make, by their bases; None if every window has an exact placement."""
        if self.index.n_kmers is None:
            return None
        return HeldSequences.of_table(
            HeldKmers.of(*(self.column(f"{HELD_SEQUENCES}/{name}") for name in ("keys", "seeds")))
        )

    def spells_held(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which windows, of those without an exact placement, spell one of :meth:`held_sequences`."""
        if self.index.n_kmers is None:
            return np.zeros(len(rows), dtype=np.bool_)
        spells: NDArray[np.bool_] = self.column(f"{HELD_SEQUENCES}/spells_held")[rows]
        return spells

    def damaged(self, name: str, problem: str) -> CorruptResourceError:
        """Return the error of a column, by its path without ending, that holds what no split can hold."""
        return CorruptResourceError(str(self._path(name)), problem, remedy=REBUILD)

    def _alleles(self, folder: str, holdout: str) -> AlleleIndex:
        names, contigs, longest_bp = self.index.alleles[folder], dict[str, tuple[int, int]](), 0
        if holdout in names.holdouts:
            at = names.holdouts.index(holdout)
            rows, longest_bp = self.column(f"{folder}/rows")[at].tolist(), names.longest_bp[at]
            if any(not 0 <= first <= stop <= names.n_alleles for first, stop in rows):
                raise self.damaged(f"{folder}/rows", "names rows that there are not")
            contigs = {contig: (first, stop) for contig, (first, stop) in zip(names.contigs, rows, strict=True)}
        pos, bounds, text = (self.column(f"{folder}/{name}") for name in ("pos", "at", "text"))
        stated = None
        if folder == VariantSource.CLINVAR:
            stated = Classification(*(self.column(f"{folder}/{name}") for name in CLASS_COLUMNS))
        return AlleleIndex(pos, bounds, text, contigs, longest_bp, stated)

    def _open_bases(self, piece: int) -> int:
        """Return a descriptor of a file of bases; it has no position that processes could share."""
        found = self._descriptors.pop(piece, None)
        if found is None:
            path = self._path(_BASES) if piece < 0 else self._piece_path(self.index.pieces[piece])
            found = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if len(self._descriptors) >= _MOST_OPEN:
                os.close(self._descriptors.pop(next(iter(self._descriptors))))
        # The last one used is the last one closed.
        self._descriptors[piece] = found
        return found

    def _piece_path(self, name: str) -> Path:
        return self.folder.parents[1] / piece_path(name, PIECE_BASES)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"


_BASES: Final = f"{WINDOWS}/bases"
#: Files of bases that a process has open at most.
_MOST_OPEN: Final = 128
_VIEW_ROWS: Final = f"{WINDOWS}/{VIEW_ROWS}"


def _close_all(descriptors: dict[int, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)


def _kinds(index: SplitIndex) -> list[tuple[str, tuple[np.dtype[Any], tuple[int, ...]]]]:
    """Return type and shape of every array whose shape the index states, by path without ending."""
    n = index.n_windows
    shapes: dict[str, tuple[int, ...]] = {"bases": (index.n_bytes,), "sizes": (n, 3)}
    found = [(f"{WINDOWS}/{name}", (column.dtype, shapes.get(name, (n,)))) for name, column in WINDOW_COLUMNS.items()]
    n_view_rows = sum(view.n_windows for view in index.views if view.rows is not None)
    found.append((_VIEW_ROWS, (VIEW_ROWS_COLUMN.dtype, (n_view_rows,))))
    if set(index.alleles) != {*VariantSource, HELD_OUT}:
        raise ValueError(f"it has alleles of {sorted(index.alleles)}")
    for folder, names in index.alleles.items():
        n = names.n_alleles
        if len(names.longest_bp) != len(names.holdouts):
            raise ValueError(
                f"{folder} has {len(names.holdouts)} holdouts, but longest alts of {len(names.longest_bp)}"
            )
        columns = {**ALLELE_COLUMNS, **(CLASS_COLUMNS if folder == VariantSource.CLINVAR else {})}
        lengths: dict[str, tuple[int, ...]] = {
            "at": (2 * n + 1,),
            "text": (names.n_text_bytes,),
            "rows": (len(names.holdouts), len(names.contigs), 2),
            "gene_at": (n + 1,),
            "gene_ids": (names.n_genes,),
        }
        found += [(f"{folder}/{name}", (column.dtype, lengths.get(name, (n,)))) for name, column in columns.items()]
    if index.n_kmers is not None:
        if index.n_seed_words < LEAST_WORDS or index.n_seed_words.bit_count() != 1:
            raise ValueError(f"n_seed_words is no power of two from {LEAST_WORDS}: {index.n_seed_words}")
        lengths = {"keys": (index.n_kmers,), "seeds": (index.n_seed_words,), "spells_held": (index.n_windows,)}
        found += [(f"{HELD_SEQUENCES}/{name}", (column.dtype, lengths[name])) for name, column in KMER_COLUMNS.items()]
    return found
