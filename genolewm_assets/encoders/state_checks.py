"""Checks of cached states: what any cache must satisfy, and a second opinion from the encoder itself.

The null edit tells how much of an edit's effect is an artefact of how source and target were computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.identity import StateEncoder
from genolewm_assets.errors import EditError
from genolewm_assets.genome import TOKEN_BP, RelEdit, apply_edit
from genolewm_assets.lewm.states import RADIUS_TOKENS, PoolSide, block_count, locus_blocks, pool_blocks
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import CheckResult

#: Names of the checks, in the order of :func:`check_states`.
STATE_CHECKS = ("rows_equal_windows", "states_finite", "norms_plausible", "states_reproducible", "null_edit_bounded")

#: Rows that are encoded again.
REENCODED_ROWS = 32
#: Windows that get a null edit and a SNV.
NULL_EDIT_ROWS = 8
#: A null edit may move the pooled state by this share of what a SNV moves it by.
NULL_EDIT_BOUND = 0.02
#: A block's norm may be so many times above or below the median one.
_NORM_FACTOR = 100.0

#: From row numbers to states, shape (n, n_blocks, hidden).
ReadRows = Callable[[Sequence[int]], NDArray[np.floating]]


def check_states(
    read: ReadRows,
    n_rows: int,
    encoder: StateEncoder,
    sequences: Sequence[str],
    *,
    n_blocks: int,
    progress: Progress = NO_PROGRESS,
) -> tuple[CheckResult, ...]:
    """Run every check of a cache.

    Parameters
    ----------
    read
        Gives rows of the finished cache.
    sequences
        The windows, in the order of the rows.
    n_blocks
        Blocks of every row; those behind a shorter window's last one are NaN.
    """
    lengths = [block_count(len(sequence) // TOKEN_BP, encoder.identity.block_tokens) for sequence in sequences]
    counted = CheckResult(
        "rows_equal_windows", passed=n_rows == len(sequences), figures={"rows": n_rows, "windows": len(sequences)}
    )
    if not counted.passed:
        return (counted, *(CheckResult(name, passed=False, figures={}) for name in STATE_CHECKS[1:]))
    finite, plausible = _sweep(read, lengths, progress)
    sample = spread(n_rows, REENCODED_ROWS)
    return (
        counted,
        finite,
        plausible,
        _reencode(read, encoder, sequences, sample, n_blocks),
        _null_edit(read, encoder, sequences, spread(n_rows, NULL_EDIT_ROWS)),
    )


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


def spread(n_rows: int, wanted: int) -> list[int]:
    """Return up to ``wanted`` row numbers, evenly over all rows."""
    return np.unique(np.linspace(0, n_rows - 1, min(wanted, n_rows)).round().astype(int)).tolist() if n_rows else []


def _sweep(
    read: ReadRows, lengths: Sequence[int], progress: Progress, *, step: int = 256
) -> tuple[CheckResult, CheckResult]:
    """Look at every block once: all finite but for the padding, and no norm far from the others."""
    wrong, norms = 0, [np.zeros(0)]
    for first in range(0, len(lengths), step):
        rows = range(first, min(first + step, len(lengths)))
        states = read(rows).astype(np.float64)
        real = np.arange(states.shape[1]) < np.array([lengths[row] for row in rows])[:, None]
        wrong += int(np.count_nonzero(np.isfinite(states).all(axis=2) != real))
        norms.append(np.linalg.norm(states, axis=2)[real])
        progress.advance(rows.stop, len(lengths), "windows checked")
    every = np.concatenate(norms)
    every = every[np.isfinite(every)]
    low, middle, high = (float(value) for value in np.quantile(every, [0, 0.5, 1])) if every.size else (0.0, 0.0, 0.0)
    plausible = not every.size or (low > middle / _NORM_FACTOR and high < middle * _NORM_FACTOR)
    figures = {"norm_min": low, "norm_median": middle, "norm_max": high}
    return (
        CheckResult("states_finite", passed=not wrong, figures={"blocks": int(every.size), "blocks_wrong": wrong}),
        CheckResult("norms_plausible", passed=plausible, figures=figures),
    )


def _reencode(
    read: ReadRows, encoder: StateEncoder, sequences: Sequence[str], rows: Sequence[int], n_blocks: int
) -> CheckResult:
    """Encode some rows again, in another order; bits are equal on a CPU, and close on an accelerator."""
    backwards = list(reversed(rows))
    again = encoder.encode_windows([sequences[row] for row in backwards], n_blocks=n_blocks) if rows else np.zeros(0)
    stored = read(backwards) if rows else np.zeros(0)
    difference = np.abs(again.astype(np.float64) - stored.astype(np.float64))
    largest = float(np.nanmax(difference, initial=0.0))
    scale = float(np.nanmax(np.abs(stored.astype(np.float64)), initial=0.0))
    passed = bool((np.isnan(again) == np.isnan(stored)).all()) and largest <= 0.01 * scale
    return CheckResult(
        "states_reproducible", passed=passed, figures={"rows": len(rows), "largest_difference": largest, "scale": scale}
    )


def _null_edit(read: ReadRows, encoder: StateEncoder, sequences: Sequence[str], rows: Sequence[int]) -> CheckResult:
    """Compare a null edit through the whole edit path with a SNV at the same place, against the cached source."""
    longest = max((len(sequences[row]) for row in rows), default=0)
    rows = [row for row in rows if len(sequences[row]) == longest]
    if not rows:
        return CheckResult("null_edit_bounded", passed=True, figures={"windows": 0})
    windows = [sequences[row] for row in rows]
    middle = longest // 2
    snvs = [RelEdit(middle, window[middle], "ACGT"["ACGT".index(window[middle]) - 1]) for window in windows]
    ratio = null_edit_ratio(encoder, windows, snvs, cached=read(rows))
    return CheckResult(
        "null_edit_bounded",
        passed=ratio < NULL_EDIT_BOUND,
        figures={"windows": len(rows), "ratio": ratio if np.isfinite(ratio) else None, "bound": NULL_EDIT_BOUND},
    )


def _check_snvs(windows: Sequence[str], snvs: Sequence[RelEdit]) -> None:
    if not windows or len(windows) != len(snvs):
        raise EditError(
            "null edit", "needs one SNV per window", expected=f"{max(1, len(windows))}", got=f"{len(snvs)} SNVs"
        )
    for snv in snvs:
        if len(snv.ref) != 1 or len(snv.alt) != 1 or snv.ref == snv.alt:
            raise EditError(f"edit {snv}", "is no SNV", expected="one base for another")
