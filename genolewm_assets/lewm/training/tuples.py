"""Training tuples: an unedited window, what is done to it, the edited window, and where their states are compared.

Not here: drawing edits (``edit_sampling``), arrays for a trainer (``batches``).
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
    """What a tuple's states are means of: the blocks round the edit, or all blocks."""

    LOCAL = "local"
    GLOBAL = "global"


class Phase(StrEnum):
    """What is known of a tuple's edits lying on one haplotype.

    There is no phased source yet, so several edits together are never called a haplotype.
    """

    SINGLE = "single"
    UNPHASED = "unphased"


@dataclass(frozen=True, slots=True)
class Pooling:
    """Which blocks a tuple's states are the mean of, on both sides.

    Parameters
    ----------
    kind
        ``local`` or ``global``.
    radius_tokens, side
        Neighbourhood of a local state; see :func:`~genolewm_assets.lewm.states.pooling.locus_blocks`.
    block_tokens
        DNA tokens per block, as in the cache.
    """

    kind: TupleKind = TupleKind.LOCAL
    radius_tokens: int = RADIUS_TOKENS
    side: PoolSide = "both"
    block_tokens: int = BLOCK_TOKENS

    def __post_init__(self) -> None:
        # A window of one token has a neighbourhood exactly when radius, side and block size are possible.
        locus_blocks(0, 1, self.radius_tokens, self.block_tokens, self.side)

    @classmethod
    def named(cls, kind: str, radius_tokens: int, side: PoolSide) -> Pooling:
        """Return the pooling of a kind that is spelt as text.

        Raises
        ------
        ConfigurationError
            If there is no such kind.
        InputError
            If the radius or the side is impossible.
        """
        if kind not in set(TupleKind):
            raise ConfigurationError(
                "kind", "no such kind of tuple", expected=f"one of {sorted(TupleKind)}", got=repr(kind)
            )
        return cls(TupleKind(kind), radius_tokens, side)

    def blocks(self, locus_token: int, n_tokens: int) -> tuple[int, int]:
        """Return the blocks of a tuple, 0-based half-open."""
        if self.kind is TupleKind.GLOBAL:
            return 0, block_count(n_tokens, self.block_tokens)
        return locus_blocks(locus_token, n_tokens, self.radius_tokens, self.block_tokens, self.side)


@dataclass(frozen=True, slots=True)
class TrainingTuple:
    """One (window, edits, edited window).

    Attributes
    ----------
    window_id
        First 32 hex digits of the SHA-256 of the unedited window; not unique.
    rel_edits
        One edit, or 2 to 3, sorted, in normal form, in the coordinates of the unedited window.
    source_window, target_window
        Unedited and edited sequence, of one length, upper-case ACGT.
    edit_source, planned_source
        Where the (first) edit comes from, and where the mix asked for; they differ where the planned source had none.
    frame_shift
        Change of length modulo 6: where not 0, every token right of the edit is re-framed.
    length_change
        Bases gained; negative: lost.
    left_context_bp
        Bases of the window left of the first base at which the haplotypes differ.
    locus_token
        0-based index of the DNA token of that base.
    block_start, block_stop
        Blocks that both states are pooled over, 0-based half-open.
    n_pooled, n_changed
        DNA tokens in those blocks, and how many of them differ between the two windows; at least one does.
    kind
        ``local`` or ``global``.
    phase
        ``single``, or ``unphased`` for several edits.
    label
        ClinVar class of a single ClinVar allele, else null.
    origin, contig, window_start, strand
        ``reference`` or the corpus source; where the window stands on the reference, 0-based, null where not known.
    alleles
        The edits on the reference, in its normal form; empty where the window's place is not known.
    epoch, position, slot
        Where the stream emits it: batch ``position`` of the epoch; slot of the window.
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
        """The edit of a single-edit tuple.

        Raises
        ------
        EditError
            If there are several.
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
        """DNA tokens of the window."""
        return len(self.target_window) // TOKEN_BP


def encode_tokens(sequence: str) -> Tokens:
    """Return the 6-mers of a window as lexicographic indices: int16, shape (n_bases // 6,), -1 beside other bases."""
    codes = encode_sequence(sequence)
    return encode_kmers(codes, k=TOKEN_BP, stride=TOKEN_BP).astype(np.int16)


def build_tuples(
    window: WindowRecord, haplotypes: Sequence[SampledHaplotype], pooling: Pooling, *, epoch: int, position: int
) -> tuple[tuple[TrainingTuple, ...], Tokens]:
    """Make the tuples of a window.

    Returns
    -------
    tuple[TrainingTuple, ...]
        One per haplotype.
    ndarray
        int16, shape (n_haplotypes, n_tokens): the tokens of every edited window.

    Raises
    ------
    EditError
        If a haplotype's pooled tokens are the window's own.
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
    """Bring a copy of the unedited window's tokens to the edited one, reading only what may differ."""
    edited = haplotype.edited
    # The flank that absorbs a change of length decides which side of the edits moves.
    first = 0 if edited.origin_shift else haplotype.locus_bp // TOKEN_BP
    moves_right = edited.length_change and not edited.origin_shift
    last = len(tokens) if moves_right else -(-edited.edits[-1].rel_end // TOKEN_BP)
    tokens[first:last] = encode_tokens(edited.sequence[first * TOKEN_BP : last * TOKEN_BP])
