"""Training tuples: an unedited window, its edits, the edited window, and the blocks over which states are compared.

Not here: sampling of edits (``sampling``), arrays for a trainer (``batches``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError, EditError
from genolewm_assets.genome import TOKEN_BP, EditSpec, RelEdit, encode_kmers, encode_sequence
from genolewm_assets.lewm.states import BLOCK_TOKENS, RADIUS_TOKENS, PoolSide, block_count, locus_blocks
from genolewm_assets.lewm.training.sampling import SampledHaplotype
from genolewm_assets.lewm.training.schedule import EditSource
from genolewm_assets.lewm.training.windows import WindowRecord

Tokens = NDArray[np.int16]


class TupleKind(StrEnum):
    """Blocks over which a tuple's states are averaged: those around the edit (``local``), or all (``global``)."""

    LOCAL = "local"
    GLOBAL = "global"


class Phase(StrEnum):
    """Phase of a tuple's edits: a single edit, or several edits of unknown phase.

    No source is phased yet, so a tuple with several edits is not known to be a natural haplotype.
    """

    SINGLE = "single"
    UNPHASED = "unphased"


@dataclass(frozen=True, slots=True)
class Pooling:
    """The blocks over which the states of both windows of a tuple are averaged.

    Parameters
    ----------
    kind
        ``local`` or ``global``.
    radius_tokens, side
        Neighbourhood of a local state; see :func:`~genolewm_assets.lewm.states.pooling.locus_blocks`.
    block_tokens
        DNA tokens per block, as in the state cache.

    Raises
    ------
    InputError
        If radius, side or block size is out of range.
    """

    kind: TupleKind = TupleKind.LOCAL
    radius_tokens: int = RADIUS_TOKENS
    side: PoolSide = "both"
    block_tokens: int = BLOCK_TOKENS

    def __post_init__(self) -> None:
        # This call raises if radius, side or block size is out of range.
        locus_blocks(0, 1, self.radius_tokens, self.block_tokens, self.side)

    @classmethod
    def named(cls, kind: str, radius_tokens: int, side: PoolSide) -> Pooling:
        """Return the pooling of a kind given by name.

        Raises
        ------
        ConfigurationError
            If ``kind`` is unknown.
        InputError
            If the radius or the side is out of range.
        """
        if kind not in set(TupleKind):
            raise ConfigurationError(
                "kind", "unknown kind of tuple", expected=f"one of {sorted(TupleKind)}", got=repr(kind)
            )
        return cls(TupleKind(kind), radius_tokens, side)

    def blocks(self, locus_token: int, n_tokens: int) -> tuple[int, int]:
        """Return the first block and the block after the last one (0-based half-open) that a tuple is pooled over."""
        if self.kind is TupleKind.GLOBAL:
            return 0, block_count(n_tokens, self.block_tokens)
        return locus_blocks(locus_token, n_tokens, self.radius_tokens, self.block_tokens, self.side)


@dataclass(frozen=True, slots=True)
class TrainingTuple:
    """One training example: an unedited window, its edits and the edited window.

    Attributes
    ----------
    window_id
        First 32 hex digits of the SHA-256 of the unedited window; not unique.
    rel_edits
        One to three edits, sorted, in normal form, 0-based in the unedited window.
    source_window, target_window
        Unedited and edited sequence, of equal length, upper-case ACGT.
    edit_source, planned_source
        Source of the first edit, and source planned by the mix. They differ if the planned source had no allowed edit.
    frame_shift
        Change of length modulo 6; if not 0, the tokens on the side of the edit that moves have another frame.
    length_change
        Bases gained; negative if bases are lost.
    left_context_bp
        Bases of the window left of the first base at which the haplotypes differ.
    locus_token
        0-based index of the DNA token of that base.
    block_start, block_stop
        Blocks that both states are pooled over, 0-based half-open.
    n_pooled, n_changed
        Number of DNA tokens in those blocks, and how many of them differ between the two windows (at least 1).
    kind
        ``local`` or ``global``.
    phase
        ``single``, or ``unphased`` for several edits.
    label
        ClinVar class of a single ClinVar allele, else None.
    origin
        ``reference`` or the corpus source.
    contig, window_start, strand
        Placement of the window on the reference, start 0-based; None if the window has no exact placement.
    alleles
        The edits as reference alleles in the reference's normal form; empty if the window has no exact placement.
    epoch, position, slot
        Epoch, number of the batch in the epoch, and slot of the window, each from 0.
    """

    window_id: str
    rel_edits: tuple[RelEdit, ...]
    source_window: str
    target_window: str
    edit_source: EditSource
    planned_source: EditSource
    frame_shift: int
    length_change: int
    left_context_bp: int
    locus_token: int
    block_start: int
    block_stop: int
    n_pooled: int
    n_changed: int
    kind: TupleKind
    phase: Phase
    label: str | None
    origin: str
    contig: str | None
    window_start: int | None
    strand: str | None
    alleles: tuple[EditSpec, ...]
    epoch: int
    position: int
    slot: int

    @property
    def rel_edit(self) -> RelEdit:
        """The edit of a tuple with one edit.

        Raises
        ------
        EditError
            If the tuple has several edits.
        """
        if len(self.rel_edits) > 1:
            raise EditError(
                f"window {self.window_id}",
                "tuple holds several edits",
                expected="1",
                got=f"{len(self.rel_edits)}",
                remedy="Read rel_edits",
            )
        return self.rel_edits[0]

    @property
    def n_tokens(self) -> int:
        """Number of DNA tokens (6-mers) of the window."""
        return len(self.target_window) // TOKEN_BP


def encode_tokens(sequence: str) -> Tokens:
    """Return the 6-mers of a window as lexicographic indices 0 to 4095: int16, shape (n_bases // 6,).

    A 6-mer that contains a base other than A, C, G and T has index -1.
    """
    codes = encode_sequence(sequence)
    return encode_kmers(codes, k=TOKEN_BP, stride=TOKEN_BP).astype(np.int16)


def build_tuples(
    window: WindowRecord, haplotypes: Sequence[SampledHaplotype], pooling: Pooling, *, epoch: int, position: int
) -> tuple[tuple[TrainingTuple, ...], Tokens]:
    """Make the tuples of a window, one per haplotype.

    Parameters
    ----------
    window
        The unedited window.
    haplotypes
        Sampled haplotypes of the window, by slot.
    pooling
        Blocks over which states are averaged.
    epoch, position
        Epoch, and number of the batch in it; copied to the tuples.

    Returns
    -------
    tuple[TrainingTuple, ...]
        One per haplotype.
    ndarray
        int16, shape (n_haplotypes, n_tokens): 6-mer indices of every edited window.

    Raises
    ------
    EditError
        If the pooled tokens of a haplotype equal those of the unedited window.
    """
    source = encode_tokens(window.sequence)
    targets = np.repeat(source[None], len(haplotypes), axis=0)
    tuples = []
    for slot, haplotype in enumerate(haplotypes):
        edited, locus_token = haplotype.edited, haplotype.locus_bp // TOKEN_BP
        _encode_changes(targets[slot], haplotype)
        block_start, block_stop = pooling.blocks(locus_token, len(source))
        pooled = slice(block_start * pooling.block_tokens, min(len(source), block_stop * pooling.block_tokens))
        n_changed = int(np.count_nonzero(targets[slot, pooled] != source[pooled]))
        if not n_changed:
            raise EditError(f"window {window.window_id}", "edit changes no pooled token", got=str(edited.edits))
        tuples.append(
            TrainingTuple(
                window_id=window.window_id,
                rel_edits=edited.edits,
                source_window=window.sequence,
                target_window=edited.sequence,
                edit_source=haplotype.source,
                planned_source=haplotype.planned,
                frame_shift=edited.frame_shift,
                length_change=edited.length_change,
                left_context_bp=haplotype.locus_bp,
                locus_token=locus_token,
                block_start=block_start,
                block_stop=block_stop,
                n_pooled=pooled.stop - pooled.start,
                n_changed=n_changed,
                kind=pooling.kind,
                phase=Phase.SINGLE if len(edited.edits) == 1 else Phase.UNPHASED,
                label=haplotype.label,
                origin=window.origin,
                contig=window.contig,
                window_start=window.start,
                strand=window.strand,
                alleles=haplotype.alleles,
                epoch=epoch,
                position=position,
                slot=slot,
            )
        )
    return tuple(tuples), targets


def _encode_changes(tokens: Tokens, haplotype: SampledHaplotype) -> None:
    """Update the unedited window's tokens in place to the edited window's; encode only tokens that can differ."""
    edited = haplotype.edited
    # A change of length moves either the bases left of the edits (the origin shifts) or those right of them.
    first = 0 if edited.origin_shift else haplotype.locus_bp // TOKEN_BP
    moves_right = edited.length_change and not edited.origin_shift
    last = len(tokens) if moves_right else -(-edited.edits[-1].rel_end // TOKEN_BP)
    tokens[first:last] = encode_tokens(edited.sequence[first * TOKEN_BP : last * TOKEN_BP])
