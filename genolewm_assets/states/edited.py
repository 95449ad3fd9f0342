"""The encoder that computes only what an edit changes, and the choice of it. Not here: encoders (``encoders``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.errors import InputError


class WindowEncoder(Protocol):
    """Interface of an encoder of windows, such as ``encoders.CausalLMStateEncoder``."""

    def encode_windows(self, sequences: Sequence[str]) -> NDArray[Any]:
        """Return the mean state of every block: floating, shape (n_windows, blocks of the longest window, hidden)."""
        ...


@runtime_checkable
class EditEncoder(Protocol):
    """Interface of an encoder that shares the work on a window among its edits."""

    def encode_edits(
        self, sources: Sequence[str], edited: Sequence[str], source_of: NDArray[np.int64], spans: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Return states of the blocks in spans, int64 (n_edits, 2): floating, (n_edits, n_blocks, hidden); others NaN.

        ``source_of``: int64, shape (n_edits,): index in ``sources`` of the window that each was made from, or of any
        other: the more tokens both begin with, the less is computed.
        """
        ...


def encode_edited_windows(
    encoder: WindowEncoder,
    sources: Sequence[str],
    edited: Sequence[str],
    spans: ArrayLike,
    *,
    source_of: NDArray[np.int64] | None = None,
) -> NDArray[Any]:
    """Encode edited windows, by the edits' own path if the encoder has one, else as whole windows.

    Parameters
    ----------
    encoder
        The encoder; an :class:`EditEncoder` gets every unedited window once, with all of its edits.
    sources, edited
        Bases of the unedited windows and of the n edited ones.
    spans
        int64, shape (n, 2): blocks that will be pooled, 0-based half-open.
    source_of
        int64, shape (n,): index in ``sources`` of the window that each was made from; equal windows may stand there
        several times. None: ``sources`` has n windows, of which equal ones count as one.

    Returns
    -------
    ndarray
        Floating, shape (n, n_blocks of the longest edited window, hidden), in the order given; see
        :func:`~genolewm_assets.states.pooling.pool_blocks`. Blocks outside of the spans may be NaN.
    """
    if not isinstance(encoder, EditEncoder):
        whole: Callable[[Sequence[str]], NDArray[Any]] = getattr(encoder, "encode_edited", encoder.encode_windows)
        return whole(edited)
    if source_of is None:
        unique = {sequence: number for number, sequence in enumerate(dict.fromkeys(sources))}
        source_of = np.array([unique[sequence] for sequence in sources], dtype=np.int64)
        sources = list(unique)
    return encoder.encode_edits(sources, edited, source_of, np.asarray(spans, dtype=np.int64).reshape(-1, 2))


def check_spans(
    n_blocks: Sequence[int], n_sources: int, source_of: NDArray[np.int64], spans: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which blocks lie in the span of each edited window.

    Parameters
    ----------
    n_blocks
        Blocks of every edited window.
    n_sources
        Number of unedited windows.
    source_of, spans
        As for :class:`EditEncoder`.

    Returns
    -------
    ndarray
        bool, shape (n_edits, n_blocks of the longest window).

    Raises
    ------
    InputError
        As :class:`EditEncoder`.
    """
    n_edits = len(n_blocks)
    if source_of.shape != (n_edits,) or spans.shape != (n_edits, 2):
        raise InputError(
            "edited windows",
            "sources or spans do not match",
            expected=f"source_of ({n_edits},) and spans ({n_edits}, 2)",
            got=f"{source_of.shape} and {spans.shape}",
        )
    stops = np.asarray(n_blocks, dtype=np.int64)
    wrong = (source_of < 0) | (source_of >= n_sources)
    wrong |= (spans[:, 0] < 0) | (spans[:, 0] >= spans[:, 1]) | (spans[:, 1] > stops)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"edited window {row}",
            "its source or span does not exist",
            expected=f"one of {n_sources} sources and blocks from 0 to {stops[row]}",
            got=f"source {source_of[row]}, blocks {spans[row].tolist()}",
        )
    blocks = np.arange(max(n_blocks, default=0))
    inside: NDArray[np.bool_] = (blocks >= spans[:, :1]) & (blocks < spans[:, 1:])
    return inside
