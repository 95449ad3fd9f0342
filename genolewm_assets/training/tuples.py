"""Training tuples as objects. Not here: the arrays that they are made from (``batches``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import EditSource
from genolewm_assets.errors import EditError
from genolewm_assets.genome import TOKEN_BP, EditSpec, RelEdit, encode_kmers, encode_sequence
from genolewm_assets.states import TupleKind
from genolewm_assets.training.sampler import EditBatch

Tokens = NDArray[np.int16]


class Phase(StrEnum):
    """Whether a tuple has one edit, several that phased genotypes show on one haplotype, or others of unknown phase."""

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
        a difference; of several edits, every base that one deletes lies in the blocks too.
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
    # A window has 12,288 bases, which nobody reads in an error or a log.
    source_window: str = field(repr=False)
    target_window: str = field(repr=False)
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
        """The edit of a tuple with one edit; several raise EditError."""
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
    """Return the 6-mers of a window as lexicographic indices: int16, (n_bases // 6,); -1 with other bases than ACGT."""
    codes = encode_sequence(sequence)
    return encode_kmers(codes, k=TOKEN_BP, stride=TOKEN_BP).astype(np.int16)


def read_edits(edits: EditBatch, row: int, window: str, pool: str) -> tuple[RelEdit, ...]:
    """Return the edits of a tuple with whole alleles, in the window's normal form; ``pool``: bases of all alts."""
    found = []
    for place in range(edits.n_edits[row]):
        pos, ref_bp = int(edits.edit_rel_pos[row, place]), int(edits.edit_ref_length[row, place])
        found.append(RelEdit(pos, window[pos : pos + ref_bp], read_alt(edits, row, place, edits.alt_at, pool)))
    return tuple(found)


def read_alt(edits: EditBatch, row: int, place: int, first: NDArray[np.int64], pool: str) -> str:
    """Return the whole alt of an edit; ``first`` says where alts begin in the pool: int64, shape (n, 3)."""
    at = int(first[row, place])
    return pool[at : at + int(edits.edit_alt_length[row, place])]


def pooled_share(window_id: str, bases: str, edits: Sequence[RelEdit], blocks: range, block_tokens: int) -> float:
    """Return the share of edits in the pooled blocks, by other arithmetic than the sampler; raise unless it is 1.0."""
    end = blocks.stop * block_tokens * TOKEN_BP if len(edits) > 1 else len(bases)
    inside = [
        _first_difference(bases, edit) // TOKEN_BP // block_tokens in blocks and edit.rel_end <= end for edit in edits
    ]
    if not all(inside):
        raise EditError(
            f"window {window_id}",
            "edit lies outside of the blocks that its tuple is pooled over",
            expected=f"edits in blocks {blocks.start} to {blocks.stop - 1}",
            got=", ".join(str(edit) for edit, is_in in zip(edits, inside, strict=True) if not is_in),
            remedy="Sample edits with the pooling of the tuples",
        )
    return sum(inside) / len(edits)


def _first_difference(bases: str, edit: RelEdit) -> int:
    """Return the first base, 0-based in the window, at which an edit alone makes a difference."""
    pairs = zip(bases[edit.rel_pos :], edit.alt + bases[edit.rel_end :], strict=False)
    return edit.rel_pos + next((at for at, (before, after) in enumerate(pairs) if before != after), len(bases))
