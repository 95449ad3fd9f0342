"""Batches of training tuples as arrays, and pooling of the states of unedited and edited windows.

Not here: the order of windows (``schedule``), PyTorch (``dataset``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import InputError
from genolewm_assets.genome import NO_KMER
from genolewm_assets.lewm.states import BLOCK_TOKENS, TupleKind, WindowEncoder, encode_edited_windows, pool_blocks
from genolewm_assets.lewm.training.tuples import Tokens, TrainingTuple


@dataclass(frozen=True, slots=True, eq=False)
class TrainingBatch:
    """Tuples and their arrays; row i of every array belongs to tuple i.

    Attributes
    ----------
    epoch, position
        Epoch, and number of the batch in it. A run that stopped after this batch resumes at ``position + 1``.
    tuples
        The n tuples.
    kind
        ``local`` or ``global``; the same for all tuples, and for unedited and edited windows.
    block_tokens
        DNA tokens per block.
    target_tokens
        int16, shape (n, tokens of the longest window): 6-mers of the edited windows as lexicographic indices 0 to 4095;
        -1 past the end of a shorter window. These are not ids of the encoder's vocabulary: they are the same for every
        model, also one of single bases.
    n_tokens, block_start, block_stop, locus_token
        int64, shape (n,): DNA tokens of the window; blocks that both states are pooled over (0-based half-open); token
        at which the windows first differ.
    source_states
        float32, shape (n, hidden): pooled states of the unedited windows; None if the stream reads no cache.
    counts
        Slots planned for and filled by each source (``planned_*``, ``served_*``), tuples with several edits
        (``multi_edit``), slots without a tuple (``unfilled``), rejected proposals by reason (``redrawn_*``), and
        windows whose states were computed because no cache holds them (``encoded_windows``).
    """

    epoch: int
    position: int
    tuples: tuple[TrainingTuple, ...]
    kind: TupleKind
    block_tokens: int
    target_tokens: Tokens
    n_tokens: NDArray[np.int64]
    block_start: NDArray[np.int64]
    block_stop: NDArray[np.int64]
    locus_token: NDArray[np.int64]
    source_states: NDArray[np.float32] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of tuples."""
        return len(self.tuples)


def make_batch(
    tuples: Sequence[TrainingTuple],
    target_tokens: Sequence[Tokens],
    *,
    epoch: int,
    position: int,
    block_tokens: int = BLOCK_TOKENS,
    source_states: NDArray[np.float32] | None = None,
    redraws: Mapping[str, int] | None = None,
    unfilled: int = 0,
    kind: TupleKind | None = None,
    encoded_windows: int = 0,
) -> TrainingBatch:
    """Make a batch of tuples of one kind.

    Parameters
    ----------
    tuples
        Tuples; at least one if ``kind`` is None.
    target_tokens
        int16 arrays of shape (n_tokens,), one per tuple: 6-mer indices of the edited windows.
    epoch, position
        Epoch, and number of the batch in it.
    block_tokens
        DNA tokens per block.
    source_states
        float32, shape (n, hidden), row i for tuple i: pooled states of the unedited windows; None: no states.
    redraws
        Number of rejected proposals by reason.
    unfilled
        Number of slots without a tuple, because the window has no further haplotype.
    kind
        Kind of the tuples; None: that of the first.
    encoded_windows
        Number of windows whose states were computed because no cache holds them.

    Raises
    ------
    InputError
        If there is no tuple and no kind, the tuples differ in kind, or the states do not have one row per tuple.
    """
    kinds = {one.kind for one in tuples} | ({kind} if kind is not None else set())
    if len(kinds) != 1:
        raise InputError(
            f"batch {position} of epoch {epoch}",
            "tuples are not of one kind",
            expected="all local or all global",
            got=str(sorted(kinds)),
            remedy="Put local and global tuples into separate batches",
        )
    if source_states is not None and len(source_states) != len(tuples):
        raise InputError(
            f"batch {position} of epoch {epoch}",
            "source states do not match the tuples",
            expected=f"{len(tuples)} rows",
            got=f"{len(source_states)}",
        )
    width = max((one.n_tokens for one in tuples), default=0)
    tokens = np.full((len(tuples), width), NO_KMER, dtype=np.int16)
    for row, values in zip(tokens, target_tokens, strict=True):
        row[: len(values)] = values
    slots = Counter(f"planned_{one.planned_source}" for one in tuples)
    slots.update(f"served_{one.edit_source}" for one in tuples)
    slots.update("multi_edit" for one in tuples if len(one.rel_edits) > 1)
    if unfilled:
        slots["unfilled"] = unfilled
    slots.update({f"redrawn_{reason}": n for reason, n in (redraws or {}).items()})
    if encoded_windows:
        slots["encoded_windows"] = encoded_windows
    return TrainingBatch(
        epoch=epoch,
        position=position,
        tuples=tuple(tuples),
        kind=kinds.pop(),
        block_tokens=block_tokens,
        target_tokens=tokens,
        n_tokens=_column(tuples, "n_tokens"),
        block_start=_column(tuples, "block_start"),
        block_stop=_column(tuples, "block_stop"),
        locus_token=_column(tuples, "locus_token"),
        source_states=source_states,
        counts=dict(sorted(slots.items())),
    )


def pool_states(tuples: Sequence[TrainingTuple], states: NDArray[Any], block_tokens: int) -> NDArray[np.float32]:
    """Average the block states of unedited or edited windows over the blocks of every tuple.

    Parameters
    ----------
    tuples
        The n tuples.
    states
        Floating, shape (n, n_blocks, hidden), row i for tuple i.
    block_tokens
        DNA tokens per block.

    Returns
    -------
    ndarray
        float32, shape (n, hidden).

    Raises
    ------
    InputError
        If the states do not have one row per tuple, or fewer blocks than a window.
    """
    if states.ndim != 3 or len(states) != len(tuples):
        raise InputError("states", "wrong shape", expected=f"({len(tuples)}, n_blocks, hidden)", got=f"{states.shape}")
    pooled = np.empty((len(tuples), states.shape[-1]), dtype=np.float32)
    for row, one in enumerate(tuples):
        pooled[row] = pool_blocks(states[row], one.block_start, one.block_stop, one.n_tokens, block_tokens)
    return pooled


def encode_targets(batch: TrainingBatch, encoder: WindowEncoder) -> NDArray[np.float32]:
    """Encode the edited windows of a batch and pool over the same blocks as the source.

    Parameters
    ----------
    batch
        The batch, of n tuples.
    encoder
        Encoder of the caches. One with ``encode_edits`` computes only what the edits change: per unedited window one
        pass, and per tuple the tokens from the first that differs to the end of the pooled blocks.

    Returns
    -------
    ndarray
        float32, shape (n, hidden), in the order of the tuples.
    """
    tuples = batch.tuples
    spans = np.stack((batch.block_start, batch.block_stop), axis=1)
    sources, targets = [one.source_window for one in tuples], [one.target_window for one in tuples]
    return pool_states(tuples, encode_edited_windows(encoder, sources, targets, spans), batch.block_tokens)


def merge_batches(batches: Sequence[TrainingBatch]) -> TrainingBatch:
    """Concatenate batches in the order given; the result has the epoch and position of the latest batch.

    Raises
    ------
    InputError
        If there is no batch, the batches differ in kind, or only some have source states.
    """
    have_states = {batch.source_states is not None for batch in batches}
    if len(have_states) != 1:
        raise InputError("batches", "cannot be merged", expected="batches that all have source states, or none")
    kinds = {batch.kind for batch in batches}
    if len(kinds) != 1:
        raise InputError("batches", "are not of one kind", expected="all local or all global", got=str(sorted(kinds)))
    last = max(batches, key=lambda batch: (batch.epoch, batch.position))
    counts: Counter[str] = Counter()
    for batch in batches:
        counts.update(batch.counts)
    merged = make_batch(
        [one for batch in batches for one in batch.tuples],
        [row[:size] for batch in batches for row, size in zip(batch.target_tokens, batch.n_tokens, strict=True)],
        epoch=last.epoch,
        position=last.position,
        block_tokens=last.block_tokens,
        source_states=np.concatenate([b.source_states for b in batches if b.source_states is not None])
        if have_states == {True}
        else None,
        kind=last.kind,
    )
    return replace(merged, counts=dict(sorted(counts.items())))


def _column(tuples: Sequence[TrainingTuple], name: str) -> NDArray[np.int64]:
    """Return one integer attribute of every tuple: int64, shape (n,)."""
    return np.array([getattr(one, name) for one in tuples], dtype=np.int64)
