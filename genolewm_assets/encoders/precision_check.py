"""Check of the precision of the forward pass: states computed in bfloat16 against the same states in float32.

Rounding that source and target share does not reach a trainer, which learns from their difference. So the check
compares, besides the states, what an SNV changes in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.identity import StateEncoder
from genolewm_assets.genome import TOKEN_BP, RelEdit, apply_edit
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.states import locus_blocks, pool_blocks
from genolewm_assets.store.artefacts import Check, CheckResult

#: Only caches with another precision than float32 have it.
PRECISION_SUFFICIENT = Check(
    "precision_sufficient",
    "States of up to 256 random windows that are not computed in float32 are close to those in float32 (cosine of "
    "every block at least 0.999), and rounding makes up at most a quarter of the median shift that SNVs cause. States "
    "that fail are not published.",
    "With this model the rounding of bfloat16 hides what edits change. State encoder.compute: float32 in the "
    "catalogue, or another encoder.layer, and materialise again.",
)

#: Why the check of a cache in float32 compares nothing.
NOTHING_ROUNDED = "the states are computed in float32"

#: Number of rows that are compared.
COMPARED_ROWS = 256
#: Largest share of the difference made by an SNV that rounding may make up. Independent noise of a quarter of the norm
#: of a difference adds 3 % to it.
ROUNDING_BOUND = 0.25
#: Least cosine of a block and the same block in float32.
COSINE_BOUND = 0.999

#: Windows that are encoded at once.
_AT_ONCE = 64
#: Seed of the choice of rows.
_SEED = 18


def check_precision(
    read: Callable[[Sequence[int]], NDArray[np.floating]],
    encoder: StateEncoder,
    exact: StateEncoder,
    windows_of: Callable[[Sequence[int]], list[str]],
    n_rows: int,
    *,
    n_blocks: int,
    progress: Progress = NO_PROGRESS,
) -> CheckResult:
    """Compare states of random windows, and the differences that SNVs in their middle make, with those in float32.

    ``read`` returns rows of the cache, shape (n_rows, n_blocks, hidden), ``windows_of`` their bases.
    ``rounding_share`` is the median norm of the error of an SNV's difference (target pooled around the locus minus
    source) divided by the median norm of the difference in float32.
    """
    rows = choose_rows(n_rows)
    parts = list[tuple[NDArray[np.float64], ...]]()
    for first in range(0, len(rows), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        windows = windows_of(some)
        edited = [apply_edit(window, middle_snv(window), right_flank="").sequence for window in windows]
        found, wanted = read(some), exact.encode_windows(windows, n_blocks=n_blocks)
        changed = _differences(encoder, windows, edited, found, n_blocks)
        meant = _differences(exact, windows, edited, wanted, n_blocks)
        norms = np.linalg.norm(changed - meant, axis=-1), np.linalg.norm(meant, axis=-1)
        parts.append((*_compare_blocks(found, wanted), *norms))
        progress.advance(first + len(some), len(rows), "windows compared with float32")
    figures = _figures(*map(np.concatenate, zip(*parts, strict=True)))
    share, cosine_min = figures["rounding_share"], figures["cosine_min"]
    passed = share is not None and share <= ROUNDING_BOUND and cosine_min is not None and cosine_min >= COSINE_BOUND
    bounds = {"rounding_share_bound": ROUNDING_BOUND, "cosine_bound": COSINE_BOUND}
    faults = [
        {"what": "rounding / median shift by an SNV", "expected": f"at most {ROUNDING_BOUND}", "got": share},
        {"what": "smallest cosine with float32", "expected": f"at least {COSINE_BOUND}", "got": cosine_min},
    ]
    return CheckResult(
        PRECISION_SUFFICIENT, passed=passed, figures={"rows": len(rows), **figures, **bounds}, rows=faults
    )


def choose_rows(n_rows: int) -> list[int]:
    """Return the rows that are compared, in order; the same for the same number of rows."""
    chosen = np.random.default_rng(_SEED).choice(n_rows, min(n_rows, COMPARED_ROWS), replace=False)
    rows: list[int] = np.sort(chosen).tolist()
    return rows


def middle_snv(window: str) -> RelEdit:
    """Return an edit that puts another base in the middle of a window."""
    middle = len(window) // 2
    return RelEdit(middle, window[middle], "ACGT"["ACGT".index(window[middle]) - 1])


def _compare_blocks(found: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cosine and the relative error of every block that neither side lacks."""
    there = np.isfinite(wanted).all(axis=-1)
    a, b = found[there].astype(np.float64), wanted[there].astype(np.float64)
    norm = np.linalg.norm(b, axis=-1)
    cosine = (a * b).sum(axis=-1) / (np.linalg.norm(a, axis=-1) * norm)
    return cosine, np.linalg.norm(a - b, axis=-1) / norm


def _differences(
    encoder: StateEncoder, windows: Sequence[str], edited: Sequence[str], source: NDArray[Any], n_blocks: int
) -> NDArray[np.float64]:
    """Return pooled target minus pooled source of SNVs in the middle of windows: shape (n_windows, hidden)."""
    target, block_tokens = encoder.encode_edited(edited, n_blocks=n_blocks), encoder.identity.block_tokens
    differences = np.empty((len(windows), target.shape[-1]))
    for row, window in enumerate(windows):
        n_tokens = len(window) // TOKEN_BP
        start, stop = locus_blocks(len(window) // 2 // TOKEN_BP, n_tokens, block_tokens=block_tokens)
        before, after = (pool_blocks(side[row], start, stop, n_tokens, block_tokens) for side in (source, target))
        differences[row] = after.astype(np.float64) - before
    return differences


def _figures(
    cosine: NDArray[np.float64], error: NDArray[np.float64], rounding: NDArray[np.float64], effects: NDArray[np.float64]
) -> dict[str, float | None]:
    """Return the figures of all rows; None where one is not finite, as with states of zeros."""
    effect = float(np.median(effects))
    values = {
        "cosine_min": float(cosine.min()),
        "cosine_median": float(np.median(cosine)),
        "relative_error_median": float(np.median(error)),
        "relative_error_max": float(error.max()),
        "snv_difference_median": effect,
        "rounding_share": float(np.median(rounding)) / effect if effect else float("inf"),
    }
    return {name: value if np.isfinite(value) else None for name, value in values.items()}
