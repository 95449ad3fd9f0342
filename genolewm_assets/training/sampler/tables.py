"""Windows and drawn edits as arrays. Not here: sampling (``batch_sampler``), files (``packages``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import PackedWindows
from genolewm_assets.genome import NO_KMER

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class WindowArrays(PackedWindows):
    """A batch of windows with their bases unpacked too."""

    #: uint8: left flank, window and right flank of each window on the window's strand; A 0, C 1, G 2, T 3.
    codes: NDArray[np.uint8]
    #: int64, shape (n + 1,): first base of each window's left flank in ``codes``, and the end.
    at: Integers

    @classmethod
    def unpack(cls, windows: PackedWindows) -> Self:
        """Unpack the bases of windows."""
        from genolewm_assets.training.sampler.entry_kernels import entries

        at = np.concatenate(([0], np.cumsum(windows.sizes.sum(axis=1, dtype=np.int64))))
        codes = np.empty(int(at[-1]), dtype=np.uint8)
        entries().unpack_windows(read_only(windows.packed), read_only(windows.first), at, codes)
        return cls(**{each.name: getattr(windows, each.name) for each in fields(windows)}, codes=codes, at=at)


@dataclass(frozen=True, slots=True, eq=False)
class EditBatch:
    """The edits and edited tokens of n tuples, window by window, slot by slot; shape (n,) where no other is stated."""

    #: Index of the unedited window, not falling.
    window: Integers
    #: Edits of the tuple, 1 to 3.
    n_edits: Integers
    #: ``planned_source``, ``edit_source``: index in ``EditSource`` of the source planned, and of the first edit's.
    planned_source: NDArray[np.int8]
    edit_source: NDArray[np.int8]
    #: Row of a single real allele in the table of its source, else -1.
    allele_row: Integers
    #: Base of the unedited window at which the haplotypes first differ, 0-based.
    locus_bp: Integers
    #: Whether phased genotypes show all the edits on one haplotype.
    phased: NDArray[np.bool_]
    #: ``length_change``, ``origin_shift``: bases gained, and shift of the bases left of the edits.
    length_change: Integers
    origin_shift: Integers
    #: ``block_start`` to ``n_changed_blocks``: as in ``training.TrainingTuple``.
    block_start: Integers
    block_stop: Integers
    n_pooled: Integers
    n_changed: Integers
    n_changed_blocks: Integers
    #: Shape (n, 3): SNV 0, insertion 1, deletion 2, MNV 3, deletion with insertion 4; -1 behind the last edit.
    edit_type: NDArray[np.int8]
    #: ``edit_rel_pos``, ``edit_pos``: shape (n, 3): first base of ref in the window, 0-based; position in the
    #: reference's normal form, 1-based, -1 in a window without an exact placement. -1 behind the last edit.
    edit_rel_pos: Integers
    edit_pos: Integers
    #: ``edit_ref_length``, ``edit_alt_length``: shape (n, 3): bases of the alleles, in the window as on the reference;
    #: 0 behind the last edit.
    edit_ref_length: Integers
    edit_alt_length: Integers
    #: ``edit_ref``, ``edit_alt``: shape (n, 3, 16): first bases on the window's strand, as codes; -1 behind the end.
    edit_ref: NDArray[np.int8]
    edit_alt: NDArray[np.int8]
    #: ``alt_at``, ``allele_alt_at``: shape (n, 3): where the whole alt begins in ``pool``, on the window's strand and
    #: on the reference.
    alt_at: Integers
    allele_alt_at: Integers
    #: Bases of whole alts, as codes. Whole refs are bases of the window.
    pool: NDArray[np.uint8]
    #: Shape (n_windows, 8): refused proposals, in the order of ``Redraw``.
    redraws: Integers
    #: ``source_tokens``, ``target_tokens``: shapes (n_windows, width) and (n, width): 6-mers of the windows and of the
    #: edited windows as lexicographic indices; -1 past the end of a shorter window.
    source_tokens: NDArray[np.int16]
    target_tokens: NDArray[np.int16]

    def __len__(self) -> int:
        """Return the number of tuples."""
        return len(self.n_edits)

    @property
    def slot(self) -> Integers:
        """Number of the tuple among those of its window, from 0: int64, shape (n,)."""
        return np.arange(len(self)) - np.searchsorted(self.window, self.window)

    @property
    def frame_shift(self) -> NDArray[np.int8]:
        """Change of length modulo 6: int8, shape (n,)."""
        return (self.length_change % 6).astype(np.int8)

    @property
    def fell_back(self) -> NDArray[np.bool_]:
        """Whether a slot was planned for another source, which had no edit left for it: bool, shape (n,)."""
        fell: NDArray[np.bool_] = self.planned_source != self.edit_source
        return fell

    def take(self, rows: Integers) -> EditBatch:
        """Return some of the tuples with all windows; ``rows`` are ascending, so that slots stay in order."""
        # The other arrays do not have one row per tuple.
        per_tuple = {field.name for field in fields(self)} - {"pool", "redraws", "source_tokens"}
        return replace(self, **{name: getattr(self, name)[rows] for name in per_tuple})

    def edited_windows(self, windows: WindowArrays) -> NDArray[np.uint8]:
        """Return the edited windows as upper-case ASCII: uint8, shape (n, longest window), 0 past a shorter one's end.

        ``windows`` are those for which the edits were drawn.
        """
        from genolewm_assets.training.sampler.entry_kernels import entries

        text = np.zeros((len(self), int(windows.sizes[:, 1].max(initial=0))), dtype=np.uint8)
        edits = np.stack((self.edit_rel_pos, self.edit_ref_length, self.edit_alt_length, self.alt_at), axis=-1)
        own = self.window, self.n_edits, self.origin_shift, edits, self.pool
        tables = map(read_only, (windows.codes, windows.at, windows.sizes, *own))
        letters = np.empty(len(self.pool), dtype=np.uint8)
        spelt = np.empty(int(windows.sizes.sum(axis=1).max(initial=0)), dtype=np.uint8)
        entries().write_edited_windows(*tables, letters, spelt, text)
        return text

    @classmethod
    def concatenate(cls, parts: Sequence[EditBatch]) -> EditBatch:
        """Return the edits of several batches, whose windows are numbered one batch after the other."""
        width = max((part.target_tokens.shape[1] for part in parts), default=0)
        joined: dict[str, Any] = {}
        for name in (field.name for field in fields(cls)):
            columns = [getattr(part, name) for part in parts]
            if name in _TOKENS:
                columns = [widen(column, width) for column in columns]
            elif name in _NUMBERED:
                sizes = [len(part.pool if name != "window" else part.redraws) for part in parts]
                offsets = np.cumsum([0, *sizes[:-1]])
                columns = [np.where(own < 0, own, own + first) for own, first in zip(columns, offsets, strict=True)]
            joined[name] = np.concatenate(columns)
        return cls(**joined)


#: Arrays of tokens, and of numbers of windows and bytes of the pool, which count on from one batch to the next.
_TOKENS: Final = frozenset({"source_tokens", "target_tokens"})
_NUMBERED: Final = frozenset({"window", "alt_at", "allele_alt_at"})


def widen(tokens: NDArray[np.int16], width: int) -> NDArray[np.int16]:
    """Return tokens with -1 behind them: int16, shape (n, width)."""
    wider = no_tokens(len(tokens), width)
    wider[:, : tokens.shape[1]] = tokens
    return wider


def read_only(array: Any) -> NDArray[Any]:
    """Return a contiguous view that cannot be written; a kernel is compiled once for it, wherever the memory is."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def no_tokens(n: int, width: int) -> NDArray[np.int16]:
    """Return room for the tokens of n windows: int16, shape (n, width)."""
    return np.full((n, width), NO_KMER, dtype=np.int16)
