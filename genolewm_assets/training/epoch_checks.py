"""Checks of frozen epochs. Not here: writing them (``epoch_writer``)."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.states import WindowEncoder
from genolewm_assets.store.artefacts import NOT_RUN, Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.training.batches import TrainingBatch, encode_targets
from genolewm_assets.training.precomputed_epochs import FrozenEpochs, Thawed
from genolewm_assets.training.window_states import LiveEncoder

if TYPE_CHECKING:
    from genolewm_assets.training.dataset import GenoLeWMDataset

#: The checks, in the order of :func:`check_frozen`.
FROZEN_CHECKS: Final = (
    Check(
        "every_visit_frozen",
        "The store has exactly one row per visit of every frozen epoch, in the order of the visits.",
    ),
    Check(
        "frozen_states_finite",
        "Every state of every frozen tuple, of the window and of the edited window, is finite.",
        "Numbers overflowed in edited windows, or a write was cut. Materialise again; if the rows come back, state "
        "encoder.compute: float32 in the catalogue, or report them.",
    ),
    Check(
        "frozen_tuples_recomputed",
        "Up to 4 batches, drawn again, have the stored edits, tokens and states of windows, bit for bit; their edited "
        "windows, encoded again, give the stored states within 1 % of the largest absolute value.",
        "Of target_states: another device, library or model than that which wrote the rows; materialise again on one "
        "kind of device. Of other arrays: the code is wrong; report the rows.",
    ),
)

#: Batches that are drawn and encoded again.
RECOMPUTED_BATCHES: Final = 4
#: Largest difference of a state encoded again, as a share of the largest absolute value.
_TOLERANCE: Final = 0.01
#: Rows of states that are read at once.
_SWEPT_ROWS: Final = 256
_STATES: Final = ("source_states", "target_states")
_NOT_RUN: Final = {NOT_RUN: "not run: the store does not have one row per visit"}


class FreezingEncoder(LiveEncoder, WindowEncoder, Protocol):
    """Interface of an encoder of unedited and edited windows, such as ``encoders.CausalLMStateEncoder``."""


def check_frozen(
    frozen: FrozenEpochs,
    dataset: GenoLeWMDataset,
    encoder: FreezingEncoder,
    *,
    n_rows: int,
    batch_rows: int,
    progress: Progress = NO_PROGRESS,
) -> tuple[CheckResult, ...]:
    """Run all checks of frozen epochs."""
    keys = [f"{row // frozen.n_visits}:{row % frozen.n_visits}" for row in range(n_rows)]
    found = frozen.keys()
    complete = CheckResult(
        FROZEN_CHECKS[0],
        passed=found == keys,
        figures={"rows": len(found), "visits": n_rows, "epochs": frozen.n_epochs},
        rows=[{"what": "rows", "expected": f"{n_rows}, one per visit, in order", "got": len(found)}],
    )
    if not complete.passed:
        return (complete, *(CheckResult(name, passed=False, figures=_NOT_RUN) for name in FROZEN_CHECKS[1:]))
    recomputed, n_tuples = _recompute(frozen, dataset, encoder, batch_rows)
    nothing = "an epoch has no visit"
    return (
        complete,
        stating_compared(_sweep(frozen, n_rows, progress), n_rows, nothing),
        stating_compared(recomputed, n_tuples, nothing),
    )


def _sweep(frozen: FrozenEpochs, n_rows: int, progress: Progress) -> CheckResult:
    """Check that every state is finite."""
    wrong = RowsAtFault()
    for first in range(0, n_rows, _SWEPT_ROWS):
        stop = min(first + _SWEPT_ROWS, n_rows)
        for name in _STATES:
            states = frozen.rows(name, first, stop)
            for row, slot in np.argwhere(~np.isfinite(states).all(axis=-1)).tolist():
                wrong.add(row=first + row, slot=slot, array=name, expected="finite numbers")
        progress.advance(stop, n_rows, "visits checked")
    return CheckResult(
        FROZEN_CHECKS[1], passed=not wrong, figures={"rows": n_rows, "states_wrong": len(wrong)}, rows=tuple(wrong)
    )


def _recompute(
    frozen: FrozenEpochs, dataset: GenoLeWMDataset, encoder: FreezingEncoder, batch_rows: int
) -> tuple[CheckResult, int]:
    """Draw and encode some batches again, the last one first; return the result and the number of their tuples."""
    n_batches = dataset.n_batches
    last = frozen.n_epochs * n_batches - 1
    chosen = np.unique(np.linspace(0, last, RECOMPUTED_BATCHES).round().astype(int)).tolist() if last >= 0 else []
    off, n_tuples, largest = RowsAtFault(), 0, 0.0
    for number in reversed(chosen):
        dataset.resume(number // n_batches, number % n_batches)
        batch = next(iter(dataset))
        stored = frozen.read(batch.epoch, batch.position * batch_rows, batch.windows)
        for name in _differing(batch, stored):
            off.add(epoch=batch.epoch, batch=batch.position, array=name, expected="the values drawn again")
        targets = encode_targets(batch, encoder)
        difference = float(np.abs(targets.astype(np.float64) - stored.target_states).max(initial=0.0))
        bound = _TOLERANCE * float(np.abs(targets).max(initial=0.0))
        if not difference <= bound:
            expected = f"at most {bound:.3g} from the states encoded again"
            off.add(epoch=batch.epoch, batch=batch.position, array=_STATES[1], expected=expected, got=difference)
        largest, n_tuples = max(largest, difference), n_tuples + len(batch)
    figures = {"batches": len(chosen), "largest_difference": largest if np.isfinite(largest) else None}
    return CheckResult(FROZEN_CHECKS[2], passed=not off, figures=figures, rows=tuple(off)), n_tuples


def _differing(batch: TrainingBatch, stored: Thawed) -> list[str]:
    """Return the names of the arrays that differ between a batch and what is stored of it, targets left out."""
    pairs: list[tuple[str, Any, NDArray[Any]]] = [
        (field.name, getattr(mine, field.name), getattr(theirs, field.name))
        for mine, theirs in ((batch.edits, stored.edits), (batch.stated, stored.stated))
        for field in fields(mine)
    ]
    pairs.append((_STATES[0], batch.source_states, stored.source_states))
    return [name for name, mine, theirs in pairs if mine.dtype != theirs.dtype or not np.array_equal(mine, theirs)]
