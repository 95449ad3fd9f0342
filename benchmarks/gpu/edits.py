"""Edited windows: from the first changed token and whole, how equal both are, and what a null edit changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu.turns import Record, Setting, Work, failure, in_turns
from benchmarks.gpu.windows import COMPILER, WINDOW_BP, open_encoder, random_windows
from genolewm_assets.encoders import CausalLMStateEncoder
from genolewm_assets.encoders.state_checks import null_edit_ratio
from genolewm_assets.genome import TOKEN_BP, RelEdit
from genolewm_assets.states import locus_blocks

#: SNVs of each window, as in training.
EDITS = 8


def measure_edits(setting: Setting) -> Iterator[Record]:
    """Measure eight SNVs of each window, pooled around them; then compare the states of both ways, and null edits."""
    kinds: list[tuple[str, str | None]] = [("bfloat16", None), ("float32", None)]
    if setting.device == "cuda":
        kinds.append(("bfloat16", COMPILER))
    for compute, compiler in kinds:
        words = compute if compiler is None else f"{compute}, {compiler}"
        try:
            encoder = open_encoder(setting, compute, compiler)
        except Exception as err:  # noqa: BLE001 - a model that does not fit leaves the others their time
            yield f"edits, {words}", failure(err)
            continue
        windows = random_windows(setting.shape.edited)
        jobs = {
            f"edits, whole windows, {words}": partial(_whole, encoder, windows),
            f"edits, from the first changed token, {words}": partial(_from_prefix, encoder, windows),
        }
        yield from in_turns(setting, jobs)
        for name, compare in (("equality of edits", _equality), ("null edit", _null_edit)):
            try:
                yield f"{name}, {words}", compare(encoder, windows)
            except Exception as err:  # noqa: BLE001
                yield f"{name}, {words}", failure(err)


def make_edits(windows: Sequence[str]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return windows with one SNV each, the index of the unedited window, and the blocks that are pooled."""
    rng, edited, spans = np.random.default_rng(1), [], []
    for window in windows:
        for at in rng.integers(64, WINDOW_BP - 64, EDITS).tolist():
            edited.append(window[:at] + _other(window[at]) + window[at + 1 :])
            spans.append(locus_blocks(at // TOKEN_BP, WINDOW_BP // TOKEN_BP))
    return edited, np.repeat(np.arange(len(windows)), EDITS), np.array(spans, dtype=np.int64)


def _other(base: str) -> str:
    return "ACGT"["ACGT".index(base) - 1]


def _whole(encoder: CausalLMStateEncoder, windows: Sequence[str]) -> Work:
    edited, _, _ = make_edits(windows)
    return Work(lambda: len(encoder.encode_windows(edited)))


def _from_prefix(encoder: CausalLMStateEncoder, windows: Sequence[str]) -> Work:
    edited, source_of, spans = make_edits(windows)
    return Work(
        lambda: len(encoder.encode_edits(windows, edited, source_of, spans)),
        lambda: {"full_path_reason": encoder.full_path_reason},
    )


def _equality(encoder: CausalLMStateEncoder, windows: Sequence[str]) -> dict[str, Any]:
    """Return the share of blocks with equal bits, and the largest difference as a share of a block's norm."""
    edited, source_of, spans = make_edits(windows)
    found, whole = encoder.encode_edits(windows, edited, source_of, spans), encoder.encode_windows(edited)
    inside = np.isfinite(found).all(axis=-1)
    some, same = found[inside].astype(np.float64), whole[inside].astype(np.float64)
    difference = np.linalg.norm(some - same, axis=-1) / np.linalg.norm(same, axis=-1)
    return {
        "blocks": len(some),
        "equal": float((some == same).all(axis=-1).mean()),
        "largest": float(difference.max()),
    }


def _null_edit(encoder: CausalLMStateEncoder, windows: Sequence[str]) -> dict[str, Any]:
    """Return the largest change by a null edit as a share of the median change by an SNV."""
    rng = np.random.default_rng(2)
    places = rng.integers(64, WINDOW_BP - 64, len(windows)).tolist()
    snvs = [RelEdit(at, window[at], _other(window[at])) for window, at in zip(windows, places, strict=True)]
    return {"windows": len(windows), "ratio": null_edit_ratio(encoder, windows, snvs)}
