"""Checks of cached states: row count, finite values, norms, comparison with newly encoded states, null edits.

A null edit (ALT = REF) measures how much of an edit's effect comes from differences in how source and target states
are computed.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.identity import Compute, StateEncoder
from genolewm_assets.encoders.precision_check import PRECISION_SUFFICIENT, check_precision, choose_rows, middle_snv
from genolewm_assets.errors import EditError
from genolewm_assets.genome import TOKEN_BP, RelEdit, apply_edit
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.states import (
    RADIUS_TOKENS,
    PoolSide,
    WindowSource,
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
    windows: WindowSource,
    *,
    n_blocks: int,
    folder: Path | None = None,
    progress: Progress = NO_PROGRESS,
) -> tuple[CheckResult, ...]:
    """Run all checks of a cache; if the row count is wrong, all others fail and no row is read.

    One result per name in :data:`STATE_CHECKS` and, unless states are computed in float32, that of
    :mod:`~genolewm_assets.encoders.precision_check`. Norms, 8 bytes a block, wait in a file without a name in
    ``folder``.
    """
    n_windows = len(windows.lengths)
    counted = CheckResult(
        "rows_equal_windows",
        passed=n_rows == n_windows,
        figures={"rows": n_rows, "windows": n_windows},
        rows=[{"what": "rows of states", "expected": f"{n_windows}, one per window", "got": n_rows}],
    )
    rounded = encoder.identity.compute is not Compute.FLOAT32
    if not counted.passed:
        names = (*STATE_CHECKS[1:], *([PRECISION_SUFFICIENT] if rounded else []))
        return (counted, *(CheckResult(name, passed=False, figures=_NOT_RUN) for name in names))
    lengths = -(-(windows.lengths // TOKEN_BP) // encoder.identity.block_tokens)
    finite, plausible = _sweep(read, lengths, folder, progress)
    sample, edited = spread(n_rows, REENCODED_ROWS), spread(n_rows, NULL_EDIT_ROWS)
    null_edit, n_edited = _null_edit(read, encoder, windows, edited)
    results = [
        (finite, n_rows),
        (plausible, n_rows),
        (_reencode(read, encoder, windows, sample, n_blocks), len(sample)),
        (null_edit, n_edited),
    ]
    if rounded and n_rows:
        exact = encoder.in_float32()
        precise = check_precision(read, encoder, exact, windows.take, n_rows, n_blocks=n_blocks, progress=progress)
        results.append((precise, len(choose_rows(n_rows))))
    elif rounded:
        results.append((CheckResult(PRECISION_SUFFICIENT, passed=True), 0))
    # The checks of the window table have shown that it has no row.
    nothing = "the window table has no row"
    return (counted, *(stating_compared(check, n, nothing, declared=not n_windows) for check, n in results))


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
    if not windows or len(windows) != len(snvs):
        expected = f"{max(1, len(windows))} SNVs"
        raise EditError("null edit", "one SNV per window is required", expected=expected, got=f"{len(snvs)} SNVs")
    for snv in snvs:
        if len(snv.ref) != 1 or len(snv.alt) != 1 or snv.ref == snv.alt:
            raise EditError(f"edit {snv}", "is not an SNV", expected="one base replaced by another")
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


def _sweep(
    read: ReadRows, lengths: NDArray[np.int64], folder: Path | None, progress: Progress
) -> tuple[CheckResult, CheckResult]:
    """Check every block: finite inside the window, NaN after it, and with a norm near the median norm.

    ``lengths``: blocks of every window.
    """
    wrong, wrong_blocks, blocks, bounds = RowsAtFault(), 0, 0, [np.inf, 0.0]
    with TemporaryFile(dir=folder) as file:
        for first, states in _swept(read, len(lengths)):
            real = np.arange(states.shape[1]) < lengths[first : first + len(states), None]
            found = np.argwhere(np.isfinite(states).all(axis=2) != real)
            wrong_blocks += len(found)
            for row, block in found[: SHOWN_ROWS - min(len(wrong), SHOWN_ROWS)].tolist():
                expected = "finite numbers" if real[row, block] else "NaN, past the end of the window"
                wrong.add(row=first + row, block=block, expected=expected, got=str(states[row, block, :3]))
            norms = np.linalg.norm(states, axis=2)[real]
            norms = norms[np.isfinite(norms)]
            blocks += norms.size
            bounds = [min(bounds[0], norms.min(initial=np.inf)), max(bounds[1], norms.max(initial=0.0))]
            file.write(norms.tobytes())
            progress.advance(first + len(states), len(lengths), "windows checked")
        middle = _median(file, blocks)
    low, high = map(float, bounds) if blocks else (0.0, 0.0)
    plausible = not blocks or (low > middle / _NORM_FACTOR and high < middle * _NORM_FACTOR)
    figures = {"norm_min": low, "norm_median": middle, "norm_max": high}
    odd = RowsAtFault() if plausible else _odd_norms(read, lengths, middle)
    return (
        CheckResult("states_finite", not wrong, {"blocks": blocks, "blocks_wrong": wrong_blocks}, tuple(wrong)),
        CheckResult("norms_plausible", passed=plausible, figures=figures, rows=tuple(odd)),
    )


def _swept(read: ReadRows, n_rows: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the states of all rows, float64, with the number of their first row."""
    for first in range(0, n_rows, _SWEPT_ROWS):
        yield first, read(range(first, min(first + _SWEPT_ROWS, n_rows))).astype(np.float64)


def _median(file: BinaryIO, n: int) -> float:
    """Return the median of n numbers, float64, which are put in another order where they lie in the file."""
    if not n:
        return 0.0
    file.flush()
    with mmap.mmap(file.fileno(), 0) as mapped:
        numbers = np.frombuffer(mapped)
        middle = [(n - 1) // 2, n // 2]
        numbers.partition(middle)
        found = float(np.quantile(numbers[middle], 0.5))
        del numbers
    return found


def _odd_norms(read: ReadRows, lengths: NDArray[np.int64], middle: float) -> RowsAtFault:
    """Read the states again for the first blocks whose norm is too far from the median."""
    odd = RowsAtFault()
    allowed = f"more than {middle / _NORM_FACTOR:.3g}, less than {middle * _NORM_FACTOR:.3g}"
    for first, states in _swept(read, len(lengths)):
        norms = np.linalg.norm(states, axis=2)
        outside = (norms <= middle / _NORM_FACTOR) | (norms >= middle * _NORM_FACTOR)
        outside &= np.isfinite(norms) & (np.arange(states.shape[1]) < lengths[first : first + len(states), None])
        for row, block in np.argwhere(outside)[: SHOWN_ROWS - len(odd)].tolist():
            odd.add(row=first + row, block=block, expected_norm=allowed, norm=norms[row, block])
        if len(odd) >= SHOWN_ROWS:
            break
    return odd


def _reencode(
    read: ReadRows, encoder: StateEncoder, windows: WindowSource, rows: Sequence[int], n_blocks: int
) -> CheckResult:
    """Encode some rows again, in reverse order, and compare: equal bits on a CPU, close values on an accelerator."""
    backwards = list(reversed(rows))
    encoded = encoder.encode_windows(windows.take(backwards), n_blocks=n_blocks) if rows else np.zeros(0)
    stored = (read(backwards) if rows else np.zeros(0)).astype(np.float64)
    difference = np.abs(encoded.astype(np.float64) - stored)
    largest, scale = (float(np.nanmax(each, initial=0.0)) for each in (difference, np.abs(stored)))
    figures = {"rows": len(rows), "largest_difference": largest, "scale": scale}
    off = RowsAtFault()
    for at, row in sorted(enumerate(backwards), key=lambda pair: pair[1]):
        here = float(np.nanmax(difference[at], initial=0.0))
        same = bool((np.isnan(encoded[at]) == np.isnan(stored[at])).all())
        if here > 0.01 * scale or not same:
            expected = f"at most {0.01 * scale:.3g} from the stored states, NaN in the same blocks"
            off.add(row=row, expected=expected, largest_difference=here, nan_in_the_same_blocks=same)
    return CheckResult("states_reproducible", passed=not off, figures=figures, rows=tuple(off))


def _null_edit(
    read: ReadRows, encoder: StateEncoder, source: WindowSource, rows: Sequence[int]
) -> tuple[CheckResult, int]:
    """Compare a null edit and an SNV in the middle of the longest windows with the cached states; count the windows."""
    longest = max((int(source.lengths[row]) for row in rows), default=0)
    rows = [row for row in rows if source.lengths[row] == longest]
    if not rows:
        return CheckResult("null_edit_bounded", passed=True, figures={"windows": 0}), 0
    windows = source.take(rows)
    ratio = null_edit_ratio(encoder, windows, [middle_snv(window) for window in windows], cached=read(rows))
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
