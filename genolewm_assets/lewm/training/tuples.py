"""Training tuples: an unedited window, its edits, the edited window, and the blocks over which states are compared.

Not here: sampling of edits (``sampling``), arrays for a trainer (``batches``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import EditError
from genolewm_assets.genome import TOKEN_BP, EditSpec, RelEdit, encode_kmers, encode_sequence
from genolewm_assets.lewm.edits import EditSource, SampledHaplotype, WindowRecord
from genolewm_assets.lewm.states import Pooling, TupleKind

Tokens = NDArray[np.int16]


class Phase(StrEnum):
    """Phase of a tuple's edits: a single edit, several edits that one haplotype carries, or several of unknown phase.

    ``phased``: phased genotypes show all edits on one haplotype of a person. ``unphased``: the edits are not known to
    occur together.
    """

    SINGLE = "single"
    PHASED = "phased"
    UNPHASED = "unphased"


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
    n_changed_blocks
        Number of those blocks with a token that differs (at least 1).
    pooled_edits
        Share of the edits that lie in those blocks; always 1.0. An edit lies at the first base at which it alone makes
        a difference.
    kind
        ``local`` or ``global``.
    phase
        ``single``; for several edits ``phased`` or ``unphased``.
    label, stars, clinvar_id, gene_ids
        ClinVar class, review stars (0 to 4), VariationID and NCBI GeneIDs of a single ClinVar allele; else None, and no
        GeneID.
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
    n_changed_blocks: int
    pooled_edits: float
    kind: TupleKind
    phase: Phase
    label: str | None
    stars: int | None
    clinvar_id: int | None
    gene_ids: tuple[int, ...]
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

    A 6-mer that contains a base other than A, C, G and T has index -1. The indices do not depend on a model; a model's
    own ids are those of ``encoders``.
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
        If the pooled tokens of a haplotype equal those of the unedited window, or an edit lies outside of them.
    """
    source = encode_tokens(window.sequence)
    targets = np.repeat(source[None], len(haplotypes), axis=0)
    tuples = []
    for slot, haplotype in enumerate(haplotypes):
        edited, locus_token = haplotype.edited, haplotype.locus_bp // TOKEN_BP
        stated = haplotype.classification
        _encode_changes(targets[slot], haplotype)
        block_start, block_stop = pooling.blocks(locus_token, len(source))
        pooled = slice(block_start * pooling.block_tokens, min(len(source), block_stop * pooling.block_tokens))
        changed = np.flatnonzero(targets[slot, pooled] != source[pooled])
        if not changed.size:
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
                n_changed=len(changed),
                n_changed_blocks=len(np.unique(changed // pooling.block_tokens)),
                pooled_edits=_pooled_share(window, edited.edits, range(block_start, block_stop), pooling),
                kind=pooling.kind,
                phase=_phase(haplotype),
                label=stated.label if stated else None,
                stars=stated.stars if stated else None,
                clinvar_id=stated.clinvar_id if stated else None,
                gene_ids=stated.gene_ids if stated else (),
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


def _phase(haplotype: SampledHaplotype) -> Phase:
    if len(haplotype.edited.edits) == 1:
        return Phase.SINGLE
    return Phase.PHASED if haplotype.phased else Phase.UNPHASED


def _pooled_share(window: WindowRecord, edits: Sequence[RelEdit], blocks: range, pooling: Pooling) -> float:
    """Return the share of edits that lie in the pooled blocks, 1.0; raise EditError if it is less.

    The sampler rejects such haplotypes by arrays and token numbers; this compares texts and block numbers.
    """
    inside = [_first_difference(window, edit) // TOKEN_BP // pooling.block_tokens in blocks for edit in edits]
    if not all(inside):
        raise EditError(
            f"window {window.window_id}",
            "edit lies outside of the blocks that its tuple is pooled over",
            expected=f"edits in blocks {blocks.start} to {blocks.stop - 1}",
            got=", ".join(str(edit) for edit, is_in in zip(edits, inside, strict=True) if not is_in),
            remedy="Sample edits with the pooling of the tuples",
        )
    return sum(inside) / len(edits)


def _first_difference(window: WindowRecord, edit: RelEdit) -> int:
    """Return the first base, 0-based in the window, at which an edit alone makes a difference."""
    bases = window.sequence + window.right_flank
    pairs = zip(bases[edit.rel_pos :], edit.alt + bases[edit.rel_end :], strict=False)
    return edit.rel_pos + next((at for at, (before, after) in enumerate(pairs) if before != after), len(bases))


def _encode_changes(tokens: Tokens, haplotype: SampledHaplotype) -> None:
    """Update the unedited window's tokens in place to the edited window's; encode only tokens that can differ."""
    edited = haplotype.edited
    # A change of length moves either the bases left of the edits (the origin shifts) or those right of them.
    first = 0 if edited.origin_shift else haplotype.locus_bp // TOKEN_BP
    moves_right = edited.length_change and not edited.origin_shift
    last = len(tokens) if moves_right else -(-edited.edits[-1].rel_end // TOKEN_BP)
    tokens[first:last] = encode_tokens(edited.sequence[first * TOKEN_BP : last * TOKEN_BP])
