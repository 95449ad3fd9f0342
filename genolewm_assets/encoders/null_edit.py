"""The null edit: how much of an edit's effect is an artefact of how source and target were computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.identity import StateEncoder
from genolewm_assets.errors import EditError
from genolewm_assets.genome import TOKEN_BP, RelEdit, apply_edit
from genolewm_assets.lewm.state_pooling import RADIUS_TOKENS, PoolSide, locus_blocks, pool_blocks

#: A null edit may move the pooled state by this share of what a SNV moves it by.
NULL_EDIT_BOUND = 0.02


def null_edit_ratio(
    encoder: StateEncoder,
    windows: Sequence[str],
    snvs: Sequence[RelEdit],
    *,
    cached: NDArray[Any] | None = None,
    radius_tokens: int = RADIUS_TOKENS,
    side: PoolSide = "both",
) -> float:
    """Compare null edits with SNVs at the same places.

    Every null edit (ALT = REF) takes the whole path of an edit: it is applied to its window, encoded among the edited
    windows, pooled round its locus, and compared with the source state.

    Parameters
    ----------
    windows
        Unedited windows, upper-case, of one length.
    snvs
        One single-base edit per window.
    cached
        The windows' block states as a cache holds them, shape (n_windows, n_blocks, hidden); encoded here if absent.

    Returns
    -------
    float
        Largest difference that a null edit makes, over the median difference that the SNVs make (Euclidean norms of
        pooled states). To stay under :data:`NULL_EDIT_BOUND`; infinite where half of the SNVs make no difference.

    Raises
    ------
    EditError
        If there is no window, not one SNV per window, or an edit is no SNV.
    """
    _check_snvs(windows, snvs)
    source = encoder.encode_windows(windows) if cached is None else cached
    edited = [
        apply_edit(window, edit, right_flank="").sequence
        for window, snv in zip(windows, snvs, strict=True)
        for edit in (RelEdit(snv.rel_pos, snv.ref, snv.ref), snv)
    ]
    target = encoder.encode_edited(edited)
    block_tokens = encoder.identity.block_tokens
    differences = np.empty((len(windows), 2))
    for row, (window, snv) in enumerate(zip(windows, snvs, strict=True)):
        n_tokens = len(window) // TOKEN_BP
        start, stop = locus_blocks(snv.rel_pos // TOKEN_BP, n_tokens, radius_tokens, block_tokens, side)
        before = pool_blocks(source[row], start, stop, n_tokens, block_tokens)
        after = pool_blocks(target[2 * row : 2 * row + 2], start, stop, n_tokens, block_tokens)
        differences[row] = np.linalg.norm((after - before).astype(np.float64), axis=-1)
    typical = float(np.median(differences[:, 1]))
    return float(differences[:, 0].max()) / typical if typical > 0 else float("inf")


def _check_snvs(windows: Sequence[str], snvs: Sequence[RelEdit]) -> None:
    if not windows or len(windows) != len(snvs):
        raise EditError(
            "null edit", "needs one SNV per window", expected=f"{max(1, len(windows))}", got=f"{len(snvs)} SNVs"
        )
    for snv in snvs:
        if len(snv.ref) != 1 or len(snv.alt) != 1 or snv.ref == snv.alt:
            raise EditError(f"edit {snv}", "is no SNV", expected="one base for another")
