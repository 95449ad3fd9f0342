"""Batches of training tuples as arrays, and their tables of codes. Not here: the order of windows (``schedule``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import Classification, EditSource, PackedWindows, Redraw
from genolewm_assets.errors import InputError
from genolewm_assets.genome import (
    CLASSES,
    GRCH38,
    TOKEN_BP,
    EditSpec,
    EditType,
    decode_sequence,
    reverse_complement,
    start_from_pos,
)
from genolewm_assets.states import TupleKind, WindowEncoder, encode_edited_windows, pool_blocks
from genolewm_assets.training.sampler import EditBatch, WindowArrays
from genolewm_assets.training.tuples import Phase, TrainingTuple, pooled_share, read_alt, read_edits

Integers = NDArray[np.int64]

#: Code of a missing value in every array: no label, no placement, padding of edits and of bases.
MISSING: Final = -1

#: Places for the edits of a tuple.
EDIT_PLACES: Final = 3

#: Bases of an allele that are stored: the longest synthetic allele, an anchor base and 15 others (RFC-0006 §3.4).
ALLELE_BP: Final = 16

#: Code by type of edit: SNV 0, insertion 1, deletion 2, MNV 3, deletion with insertion 4.
EDIT_TYPE_CODES: Final[Mapping[EditType, int]] = {
    kind: code for code, kind in enumerate((EditType.SNV, EditType.INS, EditType.DEL, EditType.MNV, EditType.DELINS))
}
#: Code by contig, in the order of GRCh38: chr1 0 to chr22 21, chrX 22, chrY 23, chrM 24.
CONTIG_CODES: Final[Mapping[str, int]] = {contig.name: code for code, contig in enumerate(GRCH38)}
#: Arrays that the edits of a batch hold under the same name.
_SAME_NAME: Final = (
    "edit_type", "edit_rel_pos", "edit_pos", "edit_ref_length", "edit_alt_length", "edit_ref", "edit_alt", "n_edits",
    "edit_source", "planned_source", "frame_shift", "length_change",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """Tuples as arrays, window by window, slot by slot; row i of every array belongs to tuple i of n."""

    epoch: int
    #: Number of the batch in the epoch; a run that stopped after it resumes at ``position + 1``.
    position: int
    #: The same for all tuples, and for unedited and edited windows.
    kind: TupleKind
    #: DNA tokens per block.
    block_tokens: int
    #: The unedited windows; a window that is visited twice is there twice.
    windows: PackedWindows
    #: int64, shape (n_windows, 2): epoch and number of the batch of each window's visit.
    visits: Integers
    edits: EditBatch
    #: What ClinVar states of the single ClinVar alleles.
    stated: Classification
    #: float32, shape (n, hidden): pooled states of the unedited windows; None if the stream reads no cache.
    source_states: NDArray[np.float32] | None = None
    #: float32, shape (n, hidden): pooled states of the edited windows, of a frozen epoch; else None, and
    #: :func:`encode_targets` computes them. Source and target states of a frozen epoch cannot be written.
    target_states: NDArray[np.float32] | None = None
    #: Slots planned for each source (``planned_*``), tuples of each source (``served_*``), slots planned for a source
    #: that had no edit left, so that a synthetic SNV fills them (``fallback_*``), tuples with several edits
    #: (``multi_edit``), slots without an edit (``unfilled``), rejected proposals by reason (``redrawn_*``), and windows
    #: whose states were computed because no cache holds them (``encoded_windows``).
    counts: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of tuples."""
        return len(self.edits)

    def __getstate__(self) -> dict[str, Any]:
        # What is computed on demand is left out of a pickle.
        return {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}

    @property
    def target_tokens(self) -> NDArray[np.int16]:
        """The edited windows' 6-mers as lexicographic indices 0 to 4095, -1 past the end: int16, shape (n, longest)."""
        return self.edits.target_tokens

    @property
    def n_tokens(self) -> Integers:
        """DNA tokens (6-mers) of each tuple's window: int64, shape (n,)."""
        tokens: Integers = self.windows.sizes[self.edits.window, 1].astype(np.int64) // TOKEN_BP
        return tokens

    @property
    def block_start(self) -> Integers:
        """First block that both states are pooled over: int64, shape (n,)."""
        return self.edits.block_start

    @property
    def block_stop(self) -> Integers:
        """Block behind the last that both states are pooled over: int64, shape (n,)."""
        return self.edits.block_stop

    @property
    def locus_token(self) -> Integers:
        """Token at which the windows first differ: int64, shape (n,)."""
        return self.edits.locus_bp // TOKEN_BP

    @cached_property
    def unpacked(self) -> WindowArrays:
        """The unedited windows with their bases, one byte each."""
        return WindowArrays.unpack(self.windows)

    @cached_property
    def source_windows(self) -> tuple[str, ...]:
        """Bases of the unedited windows, one text per window: upper-case ACGT."""
        arrays = self.unpacked
        first = arrays.at[:-1] + arrays.sizes[:, 0]
        return tuple(
            decode_sequence(arrays.codes[at : at + size])
            for at, size in zip(first.tolist(), arrays.sizes[:, 1].tolist(), strict=True)
        )

    @cached_property
    def target_windows(self) -> tuple[str, ...]:
        """Bases of the edited windows, one text per tuple: upper-case ACGT."""
        text = self.edits.edited_windows(self.unpacked)
        sizes = self.windows.sizes[self.edits.window, 1].tolist()
        return tuple(row[:size].tobytes().decode("ascii") for row, size in zip(text, sizes, strict=True))

    @cached_property
    def tuples(self) -> tuple[TrainingTuple, ...]:
        """The tuples as objects, made when this is first read."""
        return make_tuples(self)


def make_tuples(batch: TrainingBatch) -> tuple[TrainingTuple, ...]:
    """Make the tuples of a batch as objects; raise EditError if an edit lies outside of its pooled blocks."""
    edits, windows, stated = batch.edits, batch.windows, batch.stated
    ids, origins = [name.decode() for name in windows.window_ids.tolist()], windows.origins.tolist()
    slots, visits, codes = edits.slot.tolist(), batch.visits.tolist(), list(EditSource)
    ends, rights = batch.unpacked.at[1:].tolist(), windows.sizes[:, 2].tolist()
    flanks = [decode_sequence(batch.unpacked.codes[end - n : end]) for end, n in zip(ends, rights, strict=True)]
    wider = [window + flank for window, flank in zip(batch.source_windows, flanks, strict=True)]
    reverse, pool = windows.is_reverse.tolist(), decode_sequence(edits.pool)
    # Bases from the window's start on the reference, upwards.
    upwards = [reverse_complement(batch.source_windows[at]) if reverse[at] else wider[at] for at in range(len(windows))]
    tuples = []
    for row, window in enumerate(edits.window.tolist()):
        source, is_placed = batch.source_windows[window], bool(windows.contig[window] >= 0)
        rel_edits = read_edits(edits, row, source, pool)
        blocks = range(int(edits.block_start[row]), int(edits.block_stop[row]))
        genes = slice(int(stated.gene_at[row]), int(stated.gene_at[row + 1]))
        several = Phase.PHASED if edits.phased[row] else Phase.UNPHASED
        # A value that is not known is -1.
        facts = (int(column[row]) for column in (stated.label, stated.stars, stated.clinvar_id))
        label, stars, clinvar_id = (None if fact < 0 else fact for fact in facts)
        tuples.append(
            TrainingTuple(
                window_id=ids[window],
                rel_edits=rel_edits,
                source_window=source,
                target_window=batch.target_windows[row],
                edit_source=codes[edits.edit_source[row]],
                planned_source=codes[edits.planned_source[row]],
                frame_shift=int(edits.length_change[row]) % TOKEN_BP,
                length_change=int(edits.length_change[row]),
                left_context_bp=int(edits.locus_bp[row]),
                locus_token=int(edits.locus_bp[row]) // TOKEN_BP,
                block_start=blocks.start,
                block_stop=blocks.stop,
                n_pooled=int(edits.n_pooled[row]),
                n_changed=int(edits.n_changed[row]),
                n_changed_blocks=int(edits.n_changed_blocks[row]),
                pooled_edits=pooled_share(ids[window], wider[window], rel_edits, blocks, batch.block_tokens),
                kind=batch.kind,
                phase=Phase.SINGLE if len(rel_edits) == 1 else several,
                label=None if label is None else CLASSES[label],
                stars=stars,
                clinvar_id=clinvar_id,
                gene_ids=tuple(stated.gene_ids[genes].tolist()),
                origin=origins[window],
                contig=windows.contigs[windows.contig[window]] if is_placed else None,
                window_start=int(windows.start[window]) if is_placed else None,
                strand="+-"[int(windows.is_reverse[window])] if is_placed else None,
                alleles=_alleles(batch, row, upwards[window], pool) if is_placed else (),
                epoch=visits[window][0],
                position=visits[window][1],
                slot=slots[row],
            )
        )
    return tuple(tuples)


def _alleles(batch: TrainingBatch, row: int, bases: str, pool: str) -> tuple[EditSpec, ...]:
    """Return the edits of a tuple as reference alleles; ``bases``: of the reference from the window's start."""
    edits, windows, found = batch.edits, batch.windows, []
    window = edits.window[row]
    for place in range(edits.n_edits[row]):
        pos, ref_bp = int(edits.edit_pos[row, place]), int(edits.edit_ref_length[row, place])
        at = start_from_pos(pos) - int(windows.start[window])
        alt = read_alt(edits, row, place, edits.allele_alt_at, pool)
        found.append(EditSpec(windows.contigs[windows.contig[window]], pos, bases[at : at + ref_bp], alt))
    return tuple(found)


def count_slots(
    edits: EditBatch, *, kept: EditBatch | None = None, unfilled: int = 0, encoded_windows: int = 0
) -> dict[str, int]:
    """Return the counts of a batch that are not 0, from the edits of all slots and those ``kept`` (None: all)."""
    counts: Counter[str] = Counter({"unfilled": unfilled, "encoded_windows": encoded_windows})
    tuples = edits if kept is None else kept
    fallbacks = edits.planned_source[edits.fell_back]
    for word, codes in (("planned", edits.planned_source), ("served", tuples.edit_source), ("fallback", fallbacks)):
        sizes = np.bincount(codes, minlength=len(EditSource)).tolist()
        counts.update({f"{word}_{source}": n for source, n in zip(EditSource, sizes, strict=True)})
    counts["multi_edit"] = int((tuples.n_edits > 1).sum())
    refused = edits.redraws.sum(axis=0).tolist()
    counts.update({f"redrawn_{reason}": n for reason, n in zip(Redraw, refused, strict=True)})
    return {name: n for name, n in sorted(counts.items()) if n}


def pool_states(states: NDArray[Any], blocks: Integers, n_tokens: Integers, block_tokens: int) -> NDArray[np.float32]:
    """Average states, (n, n_blocks, hidden), over blocks, int64 (n, 2), 0-based half-open: float32, (n, hidden)."""
    if states.ndim != 3 or len(states) != len(blocks):
        raise InputError("states", "wrong shape", expected=f"({len(blocks)}, n_blocks, hidden)", got=f"{states.shape}")
    pooled = np.empty((len(blocks), states.shape[-1]), dtype=np.float32)
    for row, ((start, stop), size) in enumerate(zip(blocks.tolist(), n_tokens.tolist(), strict=True)):
        pooled[row] = pool_blocks(states[row], start, stop, size, block_tokens)
    return pooled


def encode_targets(batch: TrainingBatch, encoder: WindowEncoder) -> NDArray[np.float32]:
    """Encode the edited windows of a batch and pool over the same blocks as the source.

    Parameters
    ----------
    batch
        The batch, of n tuples.
    encoder
        Encoder of the caches. One with ``encode_edits`` computes only what the edits change: per visit one
        pass, and per tuple the tokens from the first that differs to the end of the pooled blocks.

    Returns
    -------
    ndarray
        float32, shape (n, hidden), in the order of the tuples.
    """
    blocks = np.stack((batch.block_start, batch.block_stop), axis=1)
    # Visits of one window stay apart: on a CPU the states of a visit then have the same bits in every batch.
    states = encode_edited_windows(
        encoder, batch.source_windows, batch.target_windows, blocks, source_of=batch.edits.window
    )
    return pool_states(states, blocks, batch.n_tokens, batch.block_tokens)


def merge_batches(batches: Sequence[TrainingBatch]) -> TrainingBatch:
    """Concatenate batches of one kind and block size; the result has the epoch and position of the latest one."""
    if not batches:
        raise InputError("batches", "cannot be merged", expected="at least one")
    kinds = {(batch.kind, batch.block_tokens) for batch in batches}
    if len(kinds) != 1:
        raise InputError(
            "batches", "are not of one kind", expected="all local or all global", got=str(sorted(map(str, kinds)))
        )
    last = max(batches, key=lambda batch: (batch.epoch, batch.position))
    counts: Counter[str] = Counter()
    for batch in batches:
        counts.update(batch.counts)
    return TrainingBatch(
        epoch=last.epoch,
        position=last.position,
        kind=last.kind,
        block_tokens=last.block_tokens,
        windows=PackedWindows.concatenate([batch.windows for batch in batches]),
        visits=np.concatenate([batch.visits for batch in batches]),
        edits=EditBatch.concatenate([batch.edits for batch in batches]),
        stated=Classification.concatenate([batch.stated for batch in batches]),
        source_states=_merge_states("source", [batch.source_states for batch in batches]),
        target_states=_merge_states("target", [batch.target_states for batch in batches]),
        counts=dict(sorted(counts.items())),
    )


def _merge_states(side: str, states: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float32] | None:
    known = [each for each in states if each is not None]
    if len(known) not in {0, len(states)}:
        raise InputError("batches", "cannot be merged", expected=f"batches that all have {side} states, or none")
    return np.concatenate(known) if known else None


def edit_arrays(batch: TrainingBatch) -> dict[str, NDArray[np.generic]]:
    """Return what is known of the edits of a batch of n tuples, as arrays by name.

    Edits are in the order of ``TrainingTuple.rel_edits``; places behind the last edit hold -1, lengths 0.

    Of shape (n, 3): ``edit_mask`` bool, True where there is an edit; ``edit_type`` int8, see ``EDIT_TYPE_CODES``;
    ``edit_rel_pos`` int64, first base of ``ref`` in the unedited window, 0-based; ``edit_pos`` int64, the same edit in
    the reference's normal form, 1-based as in VCF, -1 in a window without an exact placement; ``edit_ref_length``,
    ``edit_alt_length`` int64, bases of the alleles; ``edit_truncated`` bool, True if an allele is longer than 16 bases.

    Of shape (n, 3, 16): ``edit_ref``, ``edit_alt`` int8, the alleles in the window's normal form and on its strand: A
    0, C 1, G 2, T 3, another base 4; -1 behind the end. Of a longer allele the first 16 bases are given.

    Of shape (n,): ``n_edits`` int64; ``label`` int8, place in ``genome.CLASSES``, -1 without; ``edit_source``,
    ``planned_source`` int8, see ``edits.EDIT_SOURCE_CODES``; ``frame_shift`` int8, 0 to 5; ``length_change`` int64, in
    bases; ``contig`` int8, see ``CONTIG_CODES``, -1 without an exact placement or on a contig not listed.
    """
    edits, windows = batch.edits, batch.windows
    lengths = edits.edit_ref_length, edits.edit_alt_length
    codes = np.array([*(CONTIG_CODES.get(name, MISSING) for name in windows.contigs), MISSING], dtype=np.int8)
    return {
        **{name: getattr(edits, name) for name in _SAME_NAME},
        "edit_mask": edits.edit_type != MISSING,
        "edit_truncated": np.maximum(*lengths) > ALLELE_BP,
        "label": batch.stated.label,
        "contig": codes[windows.contig[edits.window]],
    }
