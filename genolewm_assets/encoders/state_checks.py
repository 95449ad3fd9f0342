"""Checks of cached states: row count, finite values, norms, comparison with newly encoded states, null edits.

A null edit (ALT = REF) measures how much of an edit's effect comes from differences in how source and target states
are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.identity import Compute, StateEncoder
from genolewm_assets.encoders.precision_check import PRECISION_SUFFICIENT, check_precision, choose_rows
from genolewm_assets.errors import EditError
from genolewm_assets.genome import TOKEN_BP, RelEdit, apply_edit
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.states import (
    RADIUS_TOKENS,
    PoolSide,
    block_count,
    encode_edited_windows,
    locus_blocks,
    pool_blocks,
)
from genolewm_assets.store.artefacts import NOT_RUN, SHOWN_ROWS, Check, CheckResult, RowsAtFault, stating_compared

#: The checks, in the order of :func:`check_states`.
STATE_CHECKS = (
    Check(
        "rows_equal_windows",
        "The cache has exactly one row of states per window.",
        "The window table changed meanwhile: materialise the windows, then these states.",
    ),
    Check(
        "states_finite",
        "All blocks of a window are finite, and blocks past the end of a shorter window are NaN.",
        "Numbers overflowed or a write was cut. Materialise again; if the same rows come back, state encoder.dtype: "
        "float32 in the catalogue, or report them.",
    ),
    Check(
        "norms_plausible",
        "The norm of every block is within a factor of 100 of the median norm.",
        "The model is damaged, or of a precision that overflows. Compare the MD5 of its files, and encode the windows "
        "of the rows with encoder.dtype: float32 in the catalogue.",
    ),
    Check(
        "states_reproducible",
        "Up to 32 sampled windows, encoded again in another order, give the stored states within 1 % of the largest "
        "absolute value.",
        "The encoder gives other states now than when they were stored: another device, library or model. Compare "
        "provenance.json of the cache with this machine, and materialise again on one kind of device.",
    ),
    Check(
        "null_edit_bounded",
        "In up to 8 sampled windows, an edit with ALT = REF moves the pooled state by less than 2 % of the median "
        "shift that SNVs at the same places cause.",
        "Sources and targets are computed differently, so that the effect of an edit drowns. Use one encoder, one "
        "dtype and one device for both; on a GPU turn off TF32 and other reduced precision.",
    ),
)

#: Number of rows that are encoded again.
REENCODED_ROWS = 32
#: Number of windows that get a null edit and an SNV.
NULL_EDIT_ROWS = 8
#: A null edit must change the pooled state by less than this share of the change made by an SNV.
NULL_EDIT_BOUND = 0.02
#: The norm of a block must be within this factor of the median norm.
_NORM_FACTOR = 100.0
#: Rows read at a time when all are.
_SWEPT_ROWS = 256
_NOT_RUN = {NOT_RUN: "not run: the cache does not have one row per window"}

#: Returns the states of rows, shape (n_rows, n_blocks, hidden), by row numbers.
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
    """Run all checks of a cache; if the row count is wrong, all others fail and no row is read.

    One result per name in :data:`STATE_CHECKS` and, unless states are computed in float32, that of
    :mod:`~genolewm_assets.encoders.precision_check`.
    """
    lengths = [block_count(len(sequence) // TOKEN_BP, encoder.identity.block_tokens) for sequence in sequences]
    counted = CheckResult(
        "rows_equal_windows",
        passed=n_rows == len(sequences),
        figures={"rows": n_rows, "windows": len(sequences)},
        rows=[{"what": "rows of states", "expected": f"{len(sequences)}, one per window", "got": n_rows}],
    )
    rounded = encoder.identity.compute is not Compute.FLOAT32
    if not counted.passed:
        names = (*STATE_CHECKS[1:], *([PRECISION_SUFFICIENT] if rounded else []))
        return (counted, *(CheckResult(name, passed=False, figures=_NOT_RUN) for name in names))
    finite, plausible = _sweep(read, lengths, progress)
    sample, edited = spread(n_rows, REENCODED_ROWS), spread(n_rows, NULL_EDIT_ROWS)
    null_edit, n_edited = _null_edit(read, encoder, sequences, edited)
    results = [
        (finite, n_rows),
        (plausible, n_rows),
        (_reencode(read, encoder, sequences, sample, n_blocks), len(sample)),
        (null_edit, n_edited),
    ]
    if rounded and n_rows:
        exact = encoder.in_float32()
        precise = check_precision(read, encoder, exact, sequences, n_blocks=n_blocks, progress=progress)
        results.append((precise, len(choose_rows(n_rows))))
    elif rounded:
        results.append((CheckResult(PRECISION_SUFFICIENT, passed=True), 0))
    # The checks of the window table have shown that it has no row.
    nothing = "the window table has no row"
    return (counted, *(stating_compared(check, n, nothing, declared=not sequences) for check, n in results))


def null_edit_ratio(
    encoder: StateEncoder,
    windows: Sequence[str],
    snvs: Sequence[RelEdit],
    *,
    cached: NDArray[Any] | None = None,
    radius_tokens: int = RADIUS_TOKENS,
    side: PoolSide = "both",
) -> float:
    """Return the largest shift by a null edit, divided by the median shift by the SNVs at the same positions.

    A null edit (ALT = REF) is processed as any edit: it is applied to its window, encoded with the edited windows by
    the path that targets take in training, pooled around its locus, and compared with the source state. Infinite if the
    median is 0. ``cached``: block states of the windows, shape (n_windows, n_blocks, hidden); None: they are encoded
    here.
    """
    _check_snvs(windows, snvs)
    source = encoder.encode_windows(windows) if cached is None else cached
    edited = [
        apply_edit(window, edit, right_flank="").sequence
        for window, snv in zip(windows, snvs, strict=True)
        for edit in (RelEdit(snv.rel_pos, snv.ref, snv.ref), snv)
    ]
    block_tokens = encoder.identity.block_tokens
    sizes = [len(window) // TOKEN_BP for window in windows]
    spans = [
        locus_blocks(snv.rel_pos // TOKEN_BP, n_tokens, radius_tokens, block_tokens, side)
        for snv, n_tokens in zip(snvs, sizes, strict=True)
    ]
    originals = [window for window in windows for _ in range(2)]
    target = encode_edited_windows(encoder, originals, edited, np.repeat(spans, 2, axis=0))
    differences = np.empty((len(windows), 2))
    for row, ((start, stop), n_tokens) in enumerate(zip(spans, sizes, strict=True)):
        before = pool_blocks(source[row], start, stop, n_tokens, block_tokens)
        after = pool_blocks(target[2 * row : 2 * row + 2], start, stop, n_tokens, block_tokens)
        differences[row] = np.linalg.norm((after - before).astype(np.float64), axis=-1)
    typical = float(np.median(differences[:, 1]))
    return float(differences[:, 0].max()) / typical if typical > 0 else float("inf")


def spread(n_rows: int, wanted: int) -> list[int]:
    """Return up to ``wanted`` row numbers, evenly spaced over all rows and sorted."""
    return np.unique(np.linspace(0, n_rows - 1, min(wanted, n_rows)).round().astype(int)).tolist() if n_rows else []


def _sweep(read: ReadRows, lengths: Sequence[int], progress: Progress) -> tuple[CheckResult, CheckResult]:
    """Check every block: finite inside the window, NaN after it, and with a norm near the median norm."""
    wrong, norms, wrong_blocks = RowsAtFault(), [np.zeros(0)], 0
    for first in range(0, len(lengths), _SWEPT_ROWS):
        rows = range(first, min(first + _SWEPT_ROWS, len(lengths)))
        states = read(rows).astype(np.float64)
        real = np.arange(states.shape[1]) < np.array([lengths[row] for row in rows])[:, None]
        found = np.argwhere(np.isfinite(states).all(axis=2) != real)
        wrong_blocks += len(found)
        for row, block in found[: SHOWN_ROWS - min(len(wrong), SHOWN_ROWS)].tolist():
            expected = "finite numbers" if real[row, block] else "NaN, past the end of the window"
            wrong.add(row=first + row, block=block, expected=expected, got=str(states[row, block, :3]))
        norms.append(np.linalg.norm(states, axis=2)[real])
        progress.advance(rows.stop, len(lengths), "windows checked")
    norm_of = np.concatenate(norms)
    every = norm_of[np.isfinite(norm_of)]
    low, middle, high = (float(value) for value in np.quantile(every, [0, 0.5, 1])) if every.size else (0.0, 0.0, 0.0)
    plausible = not every.size or (low > middle / _NORM_FACTOR and high < middle * _NORM_FACTOR)
    figures = {"norm_min": low, "norm_median": middle, "norm_max": high}
    allowed = f"more than {middle / _NORM_FACTOR:.3g}, less than {middle * _NORM_FACTOR:.3g}"
    outside = (norm_of <= middle / _NORM_FACTOR) | (norm_of >= middle * _NORM_FACTOR)
    ends = np.cumsum(lengths)
    odd = RowsAtFault()
    for at in np.flatnonzero(outside & np.isfinite(norm_of))[:SHOWN_ROWS].tolist():
        row = int(np.searchsorted(ends, at, side="right"))
        odd.add(row=row, block=at - int(ends[row]) + lengths[row], expected_norm=allowed, norm=norm_of[at])
    return (
        CheckResult(
            "states_finite", not wrong, {"blocks": int(every.size), "blocks_wrong": wrong_blocks}, tuple(wrong)
        ),
        CheckResult("norms_plausible", passed=plausible, figures=figures, rows=tuple(odd)),
    )


def _reencode(
    read: ReadRows, encoder: StateEncoder, sequences: Sequence[str], rows: Sequence[int], n_blocks: int
) -> CheckResult:
    """Encode some rows again, in reverse order, and compare: equal bits on a CPU, close values on an accelerator."""
    backwards = list(reversed(rows))
    encoded = encoder.encode_windows([sequences[row] for row in backwards], n_blocks=n_blocks) if rows else np.zeros(0)
    stored = read(backwards) if rows else np.zeros(0)
    difference = np.abs(encoded.astype(np.float64) - stored.astype(np.float64))
    largest = float(np.nanmax(difference, initial=0.0))
    scale = float(np.nanmax(np.abs(stored.astype(np.float64)), initial=0.0))
    passed = bool((np.isnan(encoded) == np.isnan(stored)).all()) and largest <= 0.01 * scale
    figures = {"rows": len(rows), "largest_difference": largest, "scale": scale}
    off = RowsAtFault()
    for at, row in sorted(enumerate(backwards), key=lambda pair: pair[1]):
        here = float(np.nanmax(difference[at], initial=0.0))
        same = bool((np.isnan(encoded[at]) == np.isnan(stored[at])).all())
        if here > 0.01 * scale or not same:
            expected = f"at most {0.01 * scale:.3g} from the stored states, NaN in the same blocks"
            off.add(row=row, expected=expected, largest_difference=here, nan_in_the_same_blocks=same)
    return CheckResult("states_reproducible", passed=passed, figures=figures, rows=tuple(off))


def _null_edit(
    read: ReadRows, encoder: StateEncoder, sequences: Sequence[str], rows: Sequence[int]
) -> tuple[CheckResult, int]:
    """Compare a null edit and an SNV in the middle of the longest windows with the cached states; count the windows."""
    longest = max((len(sequences[row]) for row in rows), default=0)
    rows = [row for row in rows if len(sequences[row]) == longest]
    if not rows:
        return CheckResult("null_edit_bounded", passed=True, figures={"windows": 0}), 0
    windows = [sequences[row] for row in rows]
    middle = longest // 2
    snvs = [RelEdit(middle, window[middle], "ACGT"["ACGT".index(window[middle]) - 1]) for window in windows]
    ratio = null_edit_ratio(encoder, windows, snvs, cached=read(rows))
    result = CheckResult(
        "null_edit_bounded",
        passed=ratio < NULL_EDIT_BOUND,
        figures={"windows": len(rows), "ratio": ratio if np.isfinite(ratio) else None, "bound": NULL_EDIT_BOUND},
        rows=[
            {
                "what": "largest shift by a null edit / median shift by an SNV",
                "windows": ", ".join(map(str, rows)),
                "expected": f"less than {NULL_EDIT_BOUND}",
                "got": ratio,
            }
        ],
    )
    return result, len(rows)


def _check_snvs(windows: Sequence[str], snvs: Sequence[RelEdit]) -> None:
    if not windows or len(windows) != len(snvs):
        raise EditError(
            "null edit",
            "one SNV per window is required",
            expected=f"{max(1, len(windows))} SNVs",
            got=f"{len(snvs)} SNVs",
        )
    for snv in snvs:
        if len(snv.ref) != 1 or len(snv.alt) != 1 or snv.ref == snv.alt:
            raise EditError(f"edit {snv}", "is not an SNV", expected="one base replaced by another")
