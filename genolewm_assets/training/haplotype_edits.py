"""Edits of phased haplotypes as arrays. Not here: other edits, which are drawn (``sampler``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.edits import EDIT_SOURCE_CODES, Haplotype, Redraw, WindowRecord
from genolewm_assets.errors import EditError
from genolewm_assets.genome import TOKEN_BP, encode_sequence
from genolewm_assets.states import Pooling
from genolewm_assets.training.batches import ALLELE_BP, EDIT_PLACES, EDIT_TYPE_CODES, MISSING
from genolewm_assets.training.sampler import EditBatch
from genolewm_assets.training.tuples import Tokens, encode_tokens

#: Windows with their haplotypes, and the rejected proposals of each window by reason.
Filled = Sequence[tuple[WindowRecord, Sequence[Haplotype], Mapping[str, int]]]


def edits_of(filled: Filled, pooling: Pooling) -> EditBatch:
    """Return edits and edited tokens of haplotypes, one tuple each; raise EditError if one changes no pooled token."""
    window = np.repeat(np.arange(len(filled)), [len(own) for _, own, _ in filled])
    haplotypes = [one for _, own, _ in filled for one in own]
    sources = [encode_tokens(record.sequence) for record, _, _ in filled]
    targets = [_edited_tokens(source, one) for source, (_, own, _) in zip(sources, filled, strict=True) for one in own]
    facts = np.array(
        [_facts(one, sources[at], own, pooling) for at, one, own in zip(window, haplotypes, targets, strict=True)],
        dtype=np.int64,
    ).reshape(-1, 10)
    served = np.array([EDIT_SOURCE_CODES[one.source] for one in haplotypes], dtype=np.int8)
    width = max(map(len, sources), default=0)
    return EditBatch(
        window=window,
        n_edits=facts[:, 0],
        planned_source=served,
        edit_source=served,
        allele_row=facts[:, 1],
        locus_bp=facts[:, 2],
        phased=np.array([one.phased for one in haplotypes], dtype=np.bool_),
        length_change=facts[:, 3],
        origin_shift=facts[:, 4],
        **dict(zip(_BLOCK_FACTS, facts[:, 5:10].T, strict=True)),
        **_edit_places(haplotypes),
        redraws=np.array(
            [[refused.get(reason, 0) for reason in Redraw] for _, _, refused in filled], dtype=np.int64
        ).reshape(-1, len(Redraw)),
        source_tokens=_stacked(sources, width),
        target_tokens=_stacked(targets, width),
    )


#: Facts of a tuple's blocks, in the order of ``_facts``.
_BLOCK_FACTS = ("block_start", "block_stop", "n_pooled", "n_changed", "n_changed_blocks")


def _facts(one: Haplotype, source: Tokens, target: Tokens, pooling: Pooling) -> tuple[int, ...]:
    start, stop = pooling.blocks(one.locus_bp // TOKEN_BP, len(source))
    pooled = slice(start * pooling.block_tokens, min(len(source), stop * pooling.block_tokens))
    changed = np.flatnonzero(target[pooled] != source[pooled])
    if not changed.size:
        raise EditError("haplotype", "edit changes no pooled token", got=str(one.edited.edits))
    edited, n_blocks = one.edited, len(np.unique(changed // pooling.block_tokens))
    own = len(edited.edits), one.allele_row, one.locus_bp, edited.length_change, edited.origin_shift
    return (*own, start, stop, pooled.stop - pooled.start, len(changed), n_blocks)


def _edit_places(haplotypes: Sequence[Haplotype]) -> dict[str, Any]:
    """Return the arrays of single edits, and the pool of alts."""
    n, pool = len(haplotypes), bytearray()
    arrays: dict[str, NDArray[Any]] = {"edit_type": np.full((n, EDIT_PLACES), MISSING, dtype=np.int8)}
    for name in ("edit_rel_pos", "edit_pos", "alt_at", "allele_alt_at"):
        arrays[name] = np.full((n, EDIT_PLACES), MISSING, dtype=np.int64)
    for name in ("edit_ref", "edit_alt"):
        arrays[f"{name}_length"] = np.zeros((n, EDIT_PLACES), dtype=np.int64)
        arrays[name] = np.full((n, EDIT_PLACES, ALLELE_BP), MISSING, dtype=np.int8)
    for row, one in enumerate(haplotypes):
        for place, edit in enumerate(one.edited.edits):
            at = row, place
            arrays["edit_type"][at] = EDIT_TYPE_CODES[edit.kind]
            arrays["edit_rel_pos"][at] = edit.rel_pos
            for name, allele in (("edit_ref", edit.ref), ("edit_alt", edit.alt)):
                arrays[name][at][: len(allele)] = encode_sequence(allele[:ALLELE_BP])
                arrays[f"{name}_length"][at] = len(allele)
            arrays["alt_at"][at] = arrays["allele_alt_at"][at] = len(pool)
            pool += encode_sequence(edit.alt).tobytes()
            if one.alleles:
                arrays["edit_pos"][at] = one.alleles[place].pos
                arrays["allele_alt_at"][at] = len(pool)
                pool += encode_sequence(one.alleles[place].alt).tobytes()
    return arrays | {"pool": np.frombuffer(bytes(pool), dtype=np.uint8)}


def _edited_tokens(source: Tokens, one: Haplotype) -> Tokens:
    """Return the edited window's tokens; only tokens that can differ are encoded."""
    tokens, edited = source.copy(), one.edited
    # A change of length moves either the bases left of the edits (the origin shifts) or those right of them.
    first = 0 if edited.origin_shift else one.locus_bp // TOKEN_BP
    moves_right = edited.length_change and not edited.origin_shift
    last = len(tokens) if moves_right else -(-edited.edits[-1].rel_end // TOKEN_BP)
    tokens[first:last] = encode_tokens(edited.sequence[first * TOKEN_BP : last * TOKEN_BP])
    return tokens


def _stacked(rows: Sequence[Tokens], width: int) -> Tokens:
    stacked = np.full((len(rows), width), MISSING, dtype=np.int16)
    for row, own in zip(stacked, rows, strict=True):
        row[: len(own)] = own
    return stacked
